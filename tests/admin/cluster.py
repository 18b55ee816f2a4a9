"""A small cluster of scripted servers: their state, and answers that follow from it in the shapes of real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqctl.client.core import Client
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.protocol.versions import V5_0_0
from tests.scripted_peer import V5_4_0, Reply, ScriptedNetwork, ScriptedServer, ok, refused

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000  # when virtual clocks start
CONSUMED_MS = 1_795_238_122_995  # when the last message was stored that a group has consumed
# Of a client whose clock is right: it has consumed that message at once, and pulled a moment ago.
ON_TIME = {"lastConsumeTimestamp": CONSUMED_MS + 5, "lastPullTimestamp": NOW_MS - 5_000, "locked": True}


def java_map(pairs: Iterable[tuple[str, object]]) -> str:
    """Return a Java map as fastjson writes it: keys that are already written, whatever they are."""
    return (
        "{" + ",".join(f"{key}:{value if isinstance(value, str) else json.dumps(value)}" for key, value in pairs) + "}"
    )


def mq_key(topic: str, broker_name: str, queue_id: int) -> str:
    """Return a queue as fastjson writes it, also in place of a key."""
    return json.dumps({"brokerName": broker_name, "queueId": queue_id, "topic": topic}, separators=(",", ":"))


@dataclass
class Queue:
    """One queue of one broker; `head_age_ms` is the age of the first unread message of whoever asks."""

    max_offset: int = 0
    min_offset: int = 0
    head_age_ms: int = 5_000
    oldest_age_ms: int = HOUR_MS
    last_update_ms: int = 1_795_238_122_995


def held(
    cached_count: int = 0, first: int = 0, last: int = 0, commit: int = -1, *, dropped: bool = False, **fields: int
) -> Any:
    """Return what a client says of one queue that it holds (ProcessQueueInfo); more fields by their own names."""
    return {
        **fields,
        "cachedMsgCount": cached_count,
        "cachedMsgMaxOffset": last,
        "cachedMsgMinOffset": first,
        "commitOffset": commit,
        "droped": dropped,
    }


def subscribed(topic: str, expression: str = "*", version_ms: int = 1_795_238_115_408, kind: str = "TAG") -> Any:
    """Return one subscription as brokers and clients write it (SubscriptionData); tags are in no order."""
    tags = [] if expression == "*" or kind != "TAG" else [tag.strip() for tag in expression.split("||")]
    return {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": kind,
        "subString": expression,
        "subVersion": version_ms,
        "tagsSet": tags,
        "topic": topic,
    }


def rates(ok_tps: float = 0.0, failed_tps: float = 0.0, rt_ms: float = 0.0, failed_count: int = 0) -> Any:
    """Return what a client counts in one topic (ConsumeStatus)."""
    return {
        "consumeFailedMsgs": failed_count,
        "consumeFailedTPS": failed_tps,
        "consumeOKTPS": ok_tps,
        "consumeRT": rt_ms,
        "pullRT": 10.0,
        "pullTPS": ok_tps,
    }


def running(
    holds: Mapping[Any, Any] | None = None,
    pops: Mapping[Any, int] | None = None,
    *,
    subscriptions: Iterable[Any] = (),
    statuses: Mapping[str, Any] | None = None,
    popped_at_ms: int = 0,
    **properties: str,
) -> Command:
    """Return a client's answer about itself (ConsumerRunningInfo); queues as (topic, broker name, queue id)."""
    tables = {
        "mqTable": java_map((mq_key(*mq), value) for mq, value in (holds or {}).items()),
        "properties": json.dumps(properties),
        "statusTable": json.dumps(statuses or {}),
        "subscriptionSet": json.dumps(list(subscriptions)),
    }
    if pops is not None:
        tables["mqPopTable"] = java_map(
            (mq_key(*mq), {"lastPopTimestamp": popped_at_ms, "waitAckCount": count}) for mq, count in pops.items()
        )
    return ok(java_map((json.dumps(key), value) for key, value in tables.items()).encode())


@dataclass
class Group:
    """A group's members by client id, each with the reply that it gives about itself, and what they subscribe to."""

    members: dict[str, Reply]
    topics: tuple[str, ...] = ("T",)
    message_model: str = "CLUSTERING"
    consume_type: str = "CONSUME_PASSIVELY"
    client_version: int = V5_4_0
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    # What is not as usual: subscriptions, languages and connections, by topic or client id.
    subscriptions: dict[str, Any] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class BrokerState:
    """What one broker knows. `offsets` are by group, topic and queue id; `pulls` beyond them by group and queue."""

    name: str
    version: int = V5_4_0
    topics: dict[str, list[Queue]] = field(default_factory=dict)
    offsets: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)
    pulls: dict[tuple[str, str, int], int] = field(default_factory=dict)
    configured: set[str] = field(default_factory=set)
    # Fields of a group's configuration that are not what they usually are; topics that it may not read.
    group_configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    forbidden: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    reserved_hours: int = 72
    disk_ratio: float = 0.5
    # Fields of a topic's configuration that are not what they usually are, by topic.
    topic_configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    # More lines of the configuration, more rows of the runtime table.
    settings: dict[str, str] = field(default_factory=dict)
    # popShareQueueNum by topic and group that pop.
    pop_shares: dict[str, dict[str, int]] = field(default_factory=dict)
    # Clients by producer group, each with the time of its last heartbeat.
    producers: dict[str, dict[str, int]] = field(default_factory=dict)
    runtime: dict[str, str] = field(default_factory=dict)
    # Tag hashes by topic, over and over; the record that a pull of a topic finds; where a master sends consumers to.
    tag_codes: dict[str, list[int]] = field(default_factory=dict)
    records: dict[str, bytes] = field(default_factory=dict)
    suggested_id: int = 0
    # Queues that topics do not have any more, by topic and queue id.
    cut_queues: dict[tuple[str, int], Queue] = field(default_factory=dict)
    # Resets that wait for a pull, by group, topic and queue id; what clients were told to go to, and in which language.
    marks: dict[tuple[str, str, int], int] = field(default_factory=dict)
    pushed: list[tuple[str, str, dict[int, int], str]] = field(default_factory=list)
    # Its own clock, how far that is off, and whether it tells.
    now_ms: Callable[[], int] = lambda: NOW_MS
    skew_ms: int = 0
    tells_time: bool = False
    tells_last_times: bool = True

    def table(self) -> dict[int, Reply]:
        """Return the answers by request code."""
        return {
            Q.GET_CONSUME_STATS: self._consume_stats,
            Q.GET_BROKER_CONSUME_STATS: self._broker_stats,
            Q.GET_CONSUMER_CONNECTION_LIST: self._connections,
            Q.GET_ALL_PRODUCER_INFO: self._all_producers,
            Q.GET_PRODUCER_CONNECTION_LIST: self._producers,
            Q.GET_TOPIC_STATS_INFO: self._topic_stats,
            Q.QUERY_CONSUME_TIME_SPAN: self._time_span,
            Q.GET_CONSUMER_RUNNING_INFO: self._running_info,
            Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all_groups,
            Q.GET_ALL_CONSUMER_OFFSET: self._all_offsets,
            Q.QUERY_CONSUMER_OFFSET: self._one_offset,
            Q.GET_BROKER_CONFIG: self._config,
            Q.GET_ALL_MESSAGE_REQUEST_MODE: self._request_modes,
            Q.GET_BROKER_RUNTIME_INFO: self._runtime,
            Q.GET_ALL_TOPIC_CONFIG: self._all_topics,
            Q.GET_TOPIC_CONFIG: self._one_topic,
            Q.QUERY_TOPIC_CONSUME_BY_WHO: self._topic_groups,
            Q.GET_MIN_OFFSET: lambda request: ok(offset=str(self._cut_queue(request).min_offset)),
            Q.GET_MAX_OFFSET: lambda request: ok(offset=str(self._cut_queue(request).max_offset)),
            Q.GET_EARLIEST_MSG_STORETIME: self._earliest,
            Q.PULL_MESSAGE: self._no_message,
            Q.QUERY_CONSUME_QUEUE: self._index,
            Q.UPDATE_CONSUMER_OFFSET: self._store_offset,
            Q.INVOKE_BROKER_TO_RESET_OFFSET: self._reset,
            Q.DELETE_SUBSCRIPTIONGROUP: self._delete_group,
            Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._write_group,
            Q.UPDATE_AND_CREATE_TOPIC: self._write_topic,
        }

    def topic_config(self, topic: str) -> dict[str, Any]:
        """Return a topic's configuration: as many queues as there are, unless `topic_configs` says otherwise."""
        count = len(self.topics[topic])
        config = {
            "order": False,
            "perm": 6,
            "readQueueNums": count,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": count,
        }
        if self.version >= V5_0_0:
            config["attributes"] = {}
        return config | self.topic_configs.get(topic, {})

    def _all_topics(self, request: Command) -> Command:
        table = {topic: self.topic_config(topic) for topic in self.topics}
        return _json({"dataVersion": {"counter": 1, "timestamp": 1_795_237_317_402}, "topicConfigTable": table})

    def _one_topic(self, request: Command) -> Command:
        topic = request.ext_fields["topic"]
        if self.version < V5_0_0:
            return refused(R.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")
        if topic not in self.topics:
            return refused(R.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
        return _json(self.topic_config(topic))

    def _topic_groups(self, request: Command) -> Command:
        topic = request.ext_fields["topic"]
        names = {name for name, group in self.groups.items() if topic in group.topics}
        names |= {name for name, topics in self.offsets.items() if topic in topics}
        return _json({"groupList": sorted(names)})

    def _earliest(self, request: Command) -> Command:
        queue = self.topics[request.ext_fields["topic"]][int(request.ext_fields["queueId"])]
        is_empty = queue.max_offset == queue.min_offset
        return ok(timestamp="-1" if is_empty else str(1_795_238_100_000 - queue.oldest_age_ms))

    def _no_message(self, request: Command) -> Command:
        """Answer a pull: queues have offsets and no messages here (tests.admin.message_store has some)."""
        fields = request.ext_fields
        if fields["topic"] not in self.topics:
            return refused(R.TOPIC_NOT_EXIST, f"the topic[{fields['topic']}] not exist")
        end = str(self.topics[fields["topic"]][int(fields["queueId"])].max_offset)
        told = {
            "minOffset": "0",
            "maxOffset": end,
            "nextBeginOffset": end,
            "suggestWhichBrokerId": str(self.suggested_id),
        }
        if record := self.records.get(fields["topic"]):
            return Command(R.SUCCESS, told, record)
        return Command(R.PULL_NOT_FOUND, told)

    def _index(self, request: Command) -> Command:
        fields = request.ext_fields
        codes = self.tag_codes.get(fields["topic"], [0])
        first, count = int(fields["index"]), int(fields["count"])
        end = min(first + count, self.topics[fields["topic"]][int(fields["queueId"])].max_offset)
        return _json({"queueData": [{"tagsCode": codes[offset % len(codes)]} for offset in range(first, end)]})

    def _consume_stats(self, request: Command) -> Command:
        group = request.ext_fields["consumerGroup"]
        stored = self.offsets.get(group, {})
        online = self.groups.get(group)
        rows = []
        wanted = request.ext_fields.get("topic")
        for topic in [wanted] if wanted else stored:
            if not wanted and online is not None and topic not in online.topics:
                continue
            readable_count = self.topic_config(topic)["readQueueNums"] if topic in self.topics else 0
            for queue_id, queue in enumerate(self.topics.get(topic, ())[:readable_count]):
                offset = max(0, stored.get(topic, {}).get(queue_id, 0))
                row = {
                    "brokerOffset": queue.max_offset,
                    "consumerOffset": offset,
                    "lastTimestamp": CONSUMED_MS if offset > queue.min_offset and self.tells_last_times else 0,
                }
                if self.version >= V5_0_0:
                    row["pullOffset"] = max(offset, self.pulls.get((group, topic, queue_id), 0))
                rows.append((mq_key(topic, self.name, queue_id), row))
        return ok(f'{{"consumeTps":1.5,"offsetTable":{java_map(rows)}}}'.encode())

    def _broker_stats(self, request: Command) -> Command:
        """Answer one table per group and topic, with as many queues as can be written, and no pull offsets."""
        groups = []
        for group in sorted(self.configured):
            tables = []
            for topic in self.offsets.get(group, {}):
                online = self.groups.get(group)
                if topic not in self.topics or (online is not None and topic not in online.topics):
                    continue
                fields = {"consumerGroup": group, "topic": topic}
                tables.append(self._consume_stats(Command(request.code, fields)).body.decode())
            groups.append(f"{{{json.dumps(group)}:[{','.join(tables)}]}}")
        return ok(f'{{"consumeStatsList":[{",".join(groups)}],"totalDiff":0}}'.encode())

    def _connections(self, request: Command) -> Command:
        group = self.groups.get(request.ext_fields["consumerGroup"])
        if group is None:
            return refused(R.CONSUMER_NOT_ONLINE, "the consumer group not online")
        members = [
            {
                "clientAddr": address,
                "clientId": name,
                "language": group.languages.get(name, "JAVA"),
                "version": group.client_version,
            }
            for name in group.members
            for address in group.addresses.get(name, ["192.0.2.2:50000"])
        ]
        subscriptions = {topic: group.subscriptions.get(topic, subscribed(topic)) for topic in group.topics}
        return _json(
            {
                "connectionSet": members,
                "consumeFromWhere": group.consume_from_where,
                "consumeType": group.consume_type,
                "messageModel": group.message_model,
                "subscriptionTable": subscriptions,
            }
        )

    def _all_producers(self, request: Command) -> Command:
        rows = {
            group: [
                {"clientId": name, "language": "JAVA", "lastUpdateTimestamp": heard_ms, "remoteIP": "/192.0.2.3:50000",
                 "version": self.version}
                for name, heard_ms in clients.items()
            ]
            for group, clients in self.producers.items()
        }  # fmt: skip
        return _json({"data": rows})

    def _producers(self, request: Command) -> Command:
        group = request.ext_fields["producerGroup"]
        if group not in self.producers:
            return refused(R.SYSTEM_ERROR, f"the producer group[{group}] not exist")
        rows = [
            {"clientAddr": "192.0.2.3:50000", "clientId": name, "language": "JAVA", "version": self.version}
            for name in self.producers[group]
        ]
        return _json({"connectionSet": rows})

    def _cut_queue(self, request: Command) -> Queue:
        topic, queue_id = request.ext_fields["topic"], int(request.ext_fields["queueId"])
        there = self.topics.get(topic, [])
        return there[queue_id] if queue_id < len(there) else self.cut_queues.get((topic, queue_id), Queue())

    def _topic_stats(self, request: Command) -> Command:
        topic = request.ext_fields["topic"]
        if topic not in self.topics:
            return refused(R.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        rows = [
            (
                mq_key(topic, self.name, queue_id),
                {
                    "lastUpdateTimestamp": queue.last_update_ms,
                    "maxOffset": queue.max_offset,
                    "minOffset": queue.min_offset,
                },
            )
            for queue_id, queue in enumerate(self.topics[topic])
        ]
        rate = ',"topicPutTps":0.0' if self.version >= V5_0_0 else ""
        return ok(f'{{"offsetTable":{java_map(rows)}{rate}}}'.encode())

    def _time_span(self, request: Command) -> Command:
        topic, group = request.ext_fields["topic"], request.ext_fields["group"]
        if topic == "SELF_TEST_TOPIC" and self.tells_time:
            queue = {"brokerName": self.name, "queueId": 0, "topic": topic}
            return _json(
                {"consumeTimeSpanSet": [{"delayTime": self.now_ms() + self.skew_ms + 1, "messageQueue": queue}]}
            )
        if topic not in self.topics:
            return refused(R.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        now_ms = NOW_MS
        spans = []
        for queue_id, queue in enumerate(self.topics[topic]):
            offset = self.offsets.get(group, {}).get(topic, {}).get(queue_id)
            if offset is None or offset < queue.min_offset:
                age_ms = now_ms + 1
            else:
                age_ms = queue.head_age_ms if offset < queue.max_offset else 0
            spans.append(
                {
                    "consumeTimeStamp": now_ms,
                    "delayTime": age_ms,
                    "maxTimeStamp": now_ms,
                    "messageQueue": {"brokerName": self.name, "queueId": queue_id, "topic": topic},
                    "minTimeStamp": now_ms - queue.oldest_age_ms,
                }
            )
        return _json({"consumeTimeSpanSet": spans})

    def _running_info(self, request: Command) -> Reply:
        group, client_id = request.ext_fields["consumerGroup"], request.ext_fields["clientId"]
        members = self.groups[group].members if group in self.groups else {}
        return members.get(client_id, refused(R.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online"))

    def _all_groups(self, request: Command) -> Command:
        groups = {
            name: {
                "brokerId": 0,
                "consumeBroadcastEnable": True,
                "consumeEnable": True,
                "consumeFromMinEnable": True,
                "groupName": name,
                "notifyConsumerIdsChangedEnable": True,
                "retryMaxTimes": 16,
                "retryQueueNums": 1,
                "whichBrokerWhenConsumeSlowly": 1,
                **(_SINCE_5 if self.version >= V5_0_0 else {}),
                **self.group_configs.get(name, {}),
            }
            for name in sorted(self.configured)
        }
        wrapper = {"dataVersion": {"counter": 2, "timestamp": 1_795_237_317_402}, "subscriptionGroupTable": groups}
        return _json({**wrapper, "forbiddenTable": self.forbidden} if self.version >= V5_0_0 else wrapper)

    def _all_offsets(self, request: Command) -> Command:
        rows = [
            (json.dumps(f"{topic}@{group}"), java_map((str(queue_id), offset) for queue_id, offset in queues.items()))
            for group, topics in self.offsets.items()
            for topic, queues in topics.items()
        ]
        return ok(f'{{"offsetTable":{java_map(rows)}}}'.encode())

    def _one_offset(self, request: Command) -> Command:
        fields = request.ext_fields
        offset = self.offsets.get(fields["consumerGroup"], {}).get(fields["topic"], {}).get(int(fields["queueId"]))
        if offset is not None and offset >= 0:
            return ok(offset=str(offset))
        if self.version < V5_0_0:
            return ok(offset="0")
        return refused(R.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")

    @property
    def is_server_side(self) -> bool:
        """Whether this broker sends clients to an offset by itself."""
        return self.settings.get("useServerSideResetOffset") == "true"

    def _store_offset(self, request: Command) -> Command:
        fields = request.ext_fields
        group, topic, queue_id = fields["consumerGroup"], fields["topic"], int(fields["queueId"])
        if self.version >= V5_0_0 and group not in self.configured:
            return refused(R.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        if self.version >= V5_0_0 and topic not in self.topics:
            return refused(R.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if self.is_server_side and (group, topic, queue_id) in self.marks:
            return Command(R.SUCCESS, remark="Offset has been previously reset")
        self.offsets.setdefault(group, {}).setdefault(topic, {})[queue_id] = int(fields["commitOffset"])
        return ok()

    def _reset(self, request: Command) -> Command:
        fields = request.ext_fields
        group, topic = fields["group"], fields["topic"]
        stored = self.offsets.setdefault(group, {}).setdefault(topic, {})
        if not self.is_server_side:
            return self._push(group, topic, int(fields["timestamp"]), fields["isForce"], request.language)
        if topic not in self.topics:
            return refused(R.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if group not in self.configured:
            return refused(R.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
        queue_id, offset = int(fields["queueId"]), int(fields["offset"])
        queue = self.topics[topic][queue_id]
        if not queue.min_offset <= offset <= queue.max_offset + 1:
            bounds = f"[{queue.min_offset}-{queue.max_offset}]"
            return refused(R.SYSTEM_ERROR, f"Target offset {offset} not in consume queue range {bounds}")
        stored[queue_id] = self.marks[group, topic, queue_id] = offset
        return ok(f'{{"offsetTable":{java_map([(mq_key(topic, self.name, queue_id), offset)])}}}'.encode())

    def _push(self, group: str, topic: str, at_ms: int, is_force: str, language: str) -> Command:
        """Tell the clients; only the way that rmqctl goes, to what is stored."""
        assert (at_ms, is_force) == (-1, "false"), "all queues would go to the end"
        if topic not in self.topics:
            return refused(
                R.SYSTEM_ERROR, f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            )
        stored = self.offsets[group][topic]
        if any(stored.get(queue_id, -1) < 0 for queue_id in range(len(self.topics[topic]))):
            return refused(R.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
        if group not in self.groups:
            remark = f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {at_ms}"
            return refused(R.CONSUMER_NOT_ONLINE, remark)
        told = {number: min(stored[number], queue.max_offset) for number, queue in enumerate(self.topics[topic])}
        self.pushed.append((group, topic, told, language))
        rows = [(mq_key(topic, self.name, queue_id), offset) for queue_id, offset in told.items()]
        return Command(
            R.SUCCESS, {}, f'{{"offsetTable":{java_map(rows)}}}'.encode(), remark="not set any response code"
        )

    def _write_group(self, request: Command) -> Command:
        """Take what is given, fall back to the default for the rest, but change attributes as their signs say."""
        config = json.loads(request.body)
        group, steps = config.pop("groupName"), config.pop("attributes", {})
        attributes = dict(self.group_configs.get(group, {}).get("attributes", {}))
        for name, value in steps.items():
            if name[0] not in "+-":
                return refused(R.SYSTEM_ERROR, f"java.lang.RuntimeException: wrong format key: {name[1:]}")
            attributes = {key: each for key, each in attributes.items() if key != name[1:]}
            attributes |= {name[1:]: value} if name[0] == "+" else {}
        self.configured.add(group)
        self.group_configs[group] = {**config, "attributes": attributes} if self.version >= V5_0_0 else config
        return ok()

    def _write_topic(self, request: Command) -> Command:
        """Take what is given, and keep the attributes; 4.9 does not look at the order flag."""
        given = request.ext_fields
        config: dict[str, Any] = {"topicFilterType": given["topicFilterType"]}
        config["order"] = self.version >= V5_0_0 and given["order"] == "true"
        for name in ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag"):
            config[name] = int(given[name])
        self.topics.setdefault(given["topic"], [])
        self.topic_configs[given["topic"]] = {**self.topic_configs.get(given["topic"], {}), **config}
        return ok()

    def _delete_group(self, request: Command) -> Command:
        group = request.ext_fields["groupName"]
        self.configured.discard(group)
        self.group_configs.pop(group, None)
        if request.ext_fields.get("cleanOffset" if self.version >= V5_0_0 else "removeOffset") == "true":
            self.offsets.pop(group, None)
            self.marks = {place: offset for place, offset in self.marks.items() if place[0] != group}
        return ok()

    def _config(self, request: Command) -> Command:
        return ok(
            f"brokerName={self.name}\nfileReservedTime={self.reserved_hours}\ndiskMaxUsedSpaceRatio=75\n".encode()
            + "".join(f"{name}={value}\n" for name, value in self.settings.items()).encode()
        )

    def _request_modes(self, request: Command) -> Command:
        modes = {
            topic: {group: {"mode": "POP", "popShareQueueNum": count} for group, count in groups.items()}
            for topic, groups in self.pop_shares.items()
        }
        return _json({"messageRequestModeMap": modes})

    def _runtime(self, request: Command) -> Command:
        return _json(
            {
                "table": {
                    "bootTimestamp": "1795238100000",
                    "brokerActive": "true",
                    "brokerVersionDesc": "V5_4_0",
                    "commitLogDiskRatio": str(self.disk_ratio),
                    "earliestMessageTimeStamp": "1795238110000",
                    "getTransferredTps": "2.0 1.0 1.0",
                    "msgGetTotalTodayMorning": "10",
                    "msgGetTotalTodayNow": "15",
                    "msgPutTotalTodayMorning": "100",
                    "msgPutTotalTodayNow": "140",
                    "putTps": "4.5 2.0 1.0",
                    **self.runtime,
                }
            }
        )


_SINCE_5 = {
    "attributes": {},
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
}


def _json(value: object) -> Command:
    return ok(json.dumps(value).encode())


# Nothing listens here.
_NOWHERE = "127.0.0.1:1"


class Cluster:
    """A name server `ns:1`, and brokers that are named after their addresses: broker-a at a:1, broker-b at b:1."""

    def __init__(self, *brokers: BrokerState, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.network = ScriptedNetwork(self.clock)
        self.network.refusing.add(_NOWHERE)
        self.brokers = {broker.name: broker for broker in brokers}
        for broker in brokers:
            broker.now_ms = self.clock.now_ms
        self.addresses: dict[str, str] = {}
        # Brokers whose master is silent: what answers is a slave.
        self.slaves: set[str] = set()
        self.kv_configs: dict[tuple[str, str], str] = {}
        self.servers: dict[str, ScriptedServer] = {
            broker.name: self.network.add(self.address(broker.name), broker.table(), version=broker.version)
            for broker in brokers
        }
        self.name_server = self.network.add(
            "ns:1",
            {
                Q.GET_BROKER_CLUSTER_INFO: self._cluster_info,
                Q.GET_ROUTEINFO_BY_TOPIC: self._route,
                Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topic_names,
                Q.GET_KV_CONFIG: self._kv_config,
            },
        )

    def address(self, broker_name: str) -> str:
        """Return where the name server says that a broker is."""
        return self.addresses.get(broker_name, f"{broker_name.removeprefix('broker-')}:1")

    def _replicas(self, broker_name: str) -> dict[str, str]:
        own = self.address(broker_name)
        return {"0": _NOWHERE, "1": own} if broker_name in self.slaves else {"0": own}

    def _replica_map(self, broker_name: str) -> str:
        return java_map((key, json.dumps(address)) for key, address in self._replicas(broker_name).items())

    def client(self, timeout_s: float = 10.0, *, open_ended: bool = False) -> Client:
        """Return a client of this cluster."""
        return self.network.client("ns:1", timeout_s=timeout_s, open_ended=open_ended)

    def stop(self, broker_name: str) -> None:
        """Let a broker refuse connections; the name server goes on to name it, as for the first two minutes."""
        self.network.refusing.add(self.address(broker_name))

    def _cluster_info(self, request: Command) -> Command:
        rows = [
            (
                json.dumps(name),
                f'{{"brokerAddrs":{self._replica_map(name)},"brokerName":"{name}","cluster":"C"'
                + (',"enableActingMaster":false}' if broker.version >= V5_0_0 else "}"),
            )
            for name, broker in self.brokers.items()
        ]
        return ok(f'{{"brokerAddrTable":{java_map(rows)},"clusterAddrTable":{{}}}}'.encode())

    def _route(self, request: Command) -> Command:
        topic = request.ext_fields["topic"]
        having = [broker for broker in self.brokers.values() if topic in broker.topics]
        if not having:
            remark = f"No topic route info in name server for the topic: {topic}\nSee https://example.org for details."
            return refused(R.TOPIC_NOT_EXIST, remark)
        return _json(
            {
                "brokerDatas": [
                    {"brokerAddrs": self._replicas(broker.name), "brokerName": broker.name, "cluster": "C"}
                    for broker in having
                ],
                "filterServerTable": {},
                "queueDatas": [
                    {
                        "brokerName": broker.name,
                        "perm": broker.topic_config(topic)["perm"],
                        "readQueueNums": broker.topic_config(topic)["readQueueNums"],
                        "topicSysFlag": 0,
                        "writeQueueNums": broker.topic_config(topic)["writeQueueNums"],
                    }
                    for broker in having
                ],
            }
        )

    def _kv_config(self, request: Command) -> Command:
        value = self.kv_configs.get((request.ext_fields["namespace"], request.ext_fields["key"]))
        return ok(value=value) if value is not None else refused(R.QUERY_NOT_FOUND, "No config item")

    def _topic_names(self, request: Command) -> Command:
        return _json({"topicList": sorted({topic for broker in self.brokers.values() for topic in broker.topics})})
