"""Bodies of responses: bytes in, frozen values out.

Unknown keys are ignored, as in RocketMQ itself; a missing value or one of the wrong type raises RemoteProtocolError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from math import isfinite
from typing import Any, TypeVar

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.group import (
    GroupConfig,
    GroupConnections,
    Member,
    ProcessQueueInfo,
    RunningInfo,
    Subscription,
    TopicConsumeStatus,
)
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from rmqctl.model.stats import ConsumeStats, ConsumeTimeSpan, OffsetWrapper, StoredOffsets, TopicOffset
from rmqctl.model.topic import StaticMapping, TopicConfig

from .flags import Permission
from .java_json import ObjectMap, loads

_Decoder = TypeVar("_Decoder", bound=Callable[..., Any])

_MAX_QUEUE_COUNT = 1 << 16

# QUERY_CONSUME_TIME_SPAN answers "now + 1" as an age when no message has a time to subtract (it subtracts -1). Real
# messages are younger than 30 years, so a larger age has this meaning, and reveals the broker's clock.
_NO_MESSAGE_AGE_MS = 10**12


def _body(decode: _Decoder) -> _Decoder:
    """Turn errors of reading values from parsed JSON into RemoteProtocolError."""

    @wraps(decode)
    def guarded(*args: Any) -> Any:
        try:
            return decode(*args)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            what = decode.__name__.removeprefix("decode_").replace("_", " ")
            raise RemoteProtocolError(
                f"The peer's answer about {what} does not have RocketMQ's format: {_wrong(error)}."
            ) from None

    return guarded  # type: ignore[return-value]


def _wrong(error: Exception) -> str:
    """Return in words what is wrong with a value, because Python's own errors describe this program."""
    if isinstance(error, _UnfitError):
        return str(error)
    if isinstance(error, KeyError) and isinstance(error.args[0], str):
        return f"{error.args[0]:.100} is missing"
    return "a value has the wrong format"


class _UnfitError(ValueError):
    """A value that RocketMQ does not send, in words."""


_KINDS = {str: "a text", int: "a number", float: "a number", bool: "a boolean", list: "a list", dict: "a map"}


def _unfit(value: Any, wanted: str) -> _UnfitError:
    kind = "nothing" if value is None else _KINDS.get(type(value), "a map")
    return _UnfitError(f"{kind} in place of {wanted}")


def _int(value: Any) -> int:
    # bool is an int in Python; a float or a text instead of an offset must not be rounded or guessed.
    # Errors name the kind, never the value: it may be a tree that grows to gigabytes when it is written out.
    if type(value) is not int:
        raise _unfit(value, "an integer")
    if not -(2**63) <= value < 2**63:
        raise _UnfitError("an integer of more than 64 bits")
    return value


def _int_text(text: Any) -> int:
    return _int(int(_str(text)))


def _float(value: Any) -> float:
    number = float(_int(value)) if type(value) is int else value
    if type(number) is not float or not isfinite(number):
        raise _unfit(value, "a finite number")
    return number


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _unfit(value, "true or false")
    return value


def _list(value: Any) -> list[Any]:
    # Texts and maps are iterable too, and would yield their letters or their keys.
    if type(value) is not list:
        raise _unfit(value, "a list")
    return value


def _text(value: Any) -> str:
    """Return a table's value as text: Java writes texts, other clients also numbers."""
    if not isinstance(value, str | int | float):
        raise _unfit(value, "a text")
    return str(value)


def _time(value: Any) -> int | None:
    """Return a time in ms; RocketMQ writes 0 or -1 for "none"."""
    return _int(value) if value is not None and _int(value) > 0 else None


def _queue(key: Any) -> MessageQueue:
    return MessageQueue(_str(key["topic"]), _str(key["brokerName"]), _int(key["queueId"]))


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise _unfit(value, "a text")
    return value


def _queue_count(value: Any) -> int:
    """Return a number of queues, limited so that they can be iterated; real topics have tens, BenchmarkTest 1024."""
    if not 0 <= _int(value) <= _MAX_QUEUE_COUNT:
        raise _UnfitError(f"{value} queues on one broker")
    return _int(value)


def _broker(data: Mapping[str, Any]) -> BrokerData:
    addresses = {_int_text(broker_id): _str(address) for broker_id, address in (data.get("brokerAddrs") or {}).items()}
    return BrokerData(_str(data.get("cluster") or ""), _str(data["brokerName"]), addresses)


@_body
def decode_cluster_info(body: bytes) -> ClusterInfo:
    """Read the answer of GET_BROKER_CLUSTER_INFO (ClusterInfo)."""
    table = loads(body)["brokerAddrTable"]
    brokers = [_broker(data) for data in table.values()]
    return ClusterInfo(tuple(sorted(brokers, key=lambda broker: (broker.cluster, broker.broker_name))))


@_body
def decode_route(topic: str, body: bytes) -> TopicRoute:
    """Read the answer of GET_ROUTEINFO_BY_TOPIC (TopicRouteData)."""
    data = loads(body)
    queue_data = [
        QueueData(
            broker_name=_str(item["brokerName"]),
            read_queue_count=_queue_count(item["readQueueNums"]),
            write_queue_count=_queue_count(item["writeQueueNums"]),
            is_readable=bool(_int(item["perm"]) & Permission.READ),
            is_writable=bool(_int(item["perm"]) & Permission.WRITE),
            perm=_int(item["perm"]),
        )
        for item in _list(data["queueDatas"])
    ]
    brokers = sorted((_broker(item) for item in _list(data["brokerDatas"])), key=lambda broker: broker.broker_name)
    mappings = [_static_mapping(name, item) for name, item in (data.get("topicQueueMappingByBroker") or {}).items()]
    return TopicRoute(
        topic,
        tuple(sorted(queue_data, key=lambda item: item.broker_name)),
        tuple(brokers),
        is_static=bool(mappings),
        order_conf=_str(data["orderTopicConf"]) if data.get("orderTopicConf") else None,
        mappings=tuple(sorted(mappings, key=lambda mapping: mapping.broker_name)),
    )


def _static_mapping(broker_name: str, item: Mapping[str, Any]) -> StaticMapping:
    queue_ids = (item.get("currIdMap") or {}).items()
    return StaticMapping(
        broker_name=_str(broker_name),
        logical_queue_count=_queue_count(item["totalQueues"]),
        epoch=_int(item.get("epoch", 0)),
        queue_ids={_int_text(logical): _int(physical) for logical, physical in queue_ids},
    )


@_body
def decode_topic_names(body: bytes) -> tuple[str, ...]:
    """Read the answer of GET_ALL_TOPIC_LIST_FROM_NAMESERVER (TopicList), sorted."""
    return tuple(sorted(_str(name) for name in _list(loads(body)["topicList"])))


@_body
def decode_topic_configs(body: bytes) -> dict[str, TopicConfig]:
    """Read the answer of GET_ALL_TOPIC_CONFIG (TopicConfigSerializeWrapper)."""
    return {_str(topic): _topic_config(item) for topic, item in loads(body)["topicConfigTable"].items()}


@_body
def decode_topic_config(topic: str, body: bytes) -> TopicConfig | None:
    """Read one topic from the answer of GET_TOPIC_CONFIG or GET_ALL_TOPIC_CONFIG; None if it is missing."""
    item = _topic_item(topic, body)
    return None if item is None else _topic_config(item)


@_body
def decode_topic_fields(topic: str, body: bytes) -> dict[str, Any] | None:
    """Read the topic that decode_topic_config() reads, as all fields of TopicConfig under RocketMQ's names.

    Fields that are unknown to this version are kept; a static topic's queue mapping (mappingDetail) is not kept.
    """
    item = _topic_item(topic, body)
    if item is None:
        return None
    _topic_config(item)  # raises for an invalid one
    return {_str(name): value for name, value in item.items() if name != "mappingDetail"}


def _topic_item(topic: str, body: bytes) -> Mapping[str, Any] | None:
    data = loads(body)
    # TopicConfigSerializeWrapper has all topics, TopicConfigAndQueueMapping is one.
    item: Mapping[str, Any] | None = data["topicConfigTable"].get(topic) if "topicConfigTable" in data else data
    return item


def _topic_config(item: Mapping[str, Any]) -> TopicConfig:
    return TopicConfig(
        topic=_str(item["topicName"]),
        read_queue_count=_queue_count(item["readQueueNums"]),
        write_queue_count=_queue_count(item["writeQueueNums"]),
        perm=_int(item["perm"]),
        is_ordered=_bool(item.get("order", False)),
        attributes={_str(name): _text(value) for name, value in (item.get("attributes") or {}).items()},
    )


@_body
def decode_group_names(body: bytes) -> tuple[str, ...]:
    """Read the answer of QUERY_TOPIC_CONSUME_BY_WHO (GroupList), sorted."""
    return tuple(sorted(_str(name) for name in _list(loads(body)["groupList"])))


@_body
def decode_topic_put_tps(body: bytes) -> float | None:
    """Read a topic's messages per second from GET_TOPIC_STATS_INFO; None from brokers before 5.0."""
    rate = loads(body).get("topicPutTps")
    return _float(rate) if rate is not None else None


@_body
def decode_consume_stats(body: bytes) -> ConsumeStats:
    """Read the answer of GET_CONSUME_STATS (ConsumeStats)."""
    data = loads(body)
    return ConsumeStats(_float(data.get("consumeTps", 0.0)), _wrappers(data["offsetTable"]))


def _wrappers(table: Any) -> dict[MessageQueue, OffsetWrapper]:
    return {
        _queue(key): OffsetWrapper(
            broker_offset=_int(item["brokerOffset"]),
            consumer_offset=_int(item["consumerOffset"]),
            pull_offset=_int(item["pullOffset"]) if "pullOffset" in item else None,
            last_timestamp_ms=_time(item.get("lastTimestamp")),
        )
        for key, item in table.items()
    }


@_body
def decode_broker_consume_stats(
    is_wanted: Callable[[str], bool], body: bytes
) -> dict[str, dict[MessageQueue, OffsetWrapper]]:
    """Read the answer of GET_BROKER_CONSUME_STATS (ConsumeStatsList): the queues of the wanted groups, by group."""
    found: dict[str, dict[MessageQueue, OffsetWrapper]] = {}
    for item in _list(loads(body)["consumeStatsList"]):
        for group, topics in item.items():
            if is_wanted(_str(group)):
                queues = found.setdefault(group, {})
                for each in _list(topics):
                    queues.update(_wrappers(each["offsetTable"]))
    return found


@_body
def decode_reset_offsets(body: bytes) -> dict[MessageQueue, int]:
    """Read the answer of INVOKE_BROKER_TO_RESET_OFFSET (ResetOffsetBody): the new offset of each queue."""
    return {_queue(key): _int(offset) for key, offset in loads(body)["offsetTable"].items()}


@_body
def decode_pushed_reset(body: bytes) -> dict[MessageQueue, int]:
    """Read the body of RESET_CONSUMER_CLIENT_OFFSET (ResetOffsetBody, ResetOffsetBodyForC): new offsets by queue.

    When a request in C++'s name asks for the reset, brokers push a list to all clients, whatever their language.
    """
    table = loads(body).get("offsetTable") or {}
    if isinstance(table, list) and not isinstance(table, ObjectMap):
        return {_queue(item): _number(item["offset"]) for item in table}
    return {_queue(key): _int(offset) for key, offset in table.items()}


@_body
def decode_topic_stats(body: bytes) -> dict[MessageQueue, TopicOffset]:
    """Read the answer of GET_TOPIC_STATS_INFO (TopicStatsTable)."""
    return {
        _queue(key): TopicOffset(
            _int(item["minOffset"]), _int(item["maxOffset"]), _time(item.get("lastUpdateTimestamp"))
        )
        for key, item in loads(body)["offsetTable"].items()
    }


@_body
def decode_tag_codes(body: bytes) -> tuple[int, ...]:
    """Read the answer of QUERY_CONSUME_QUEUE (QueryConsumeQueueResponseBody): the tag hash of each message."""
    return tuple(_int(item["tagsCode"]) for item in _list(loads(body).get("queueData") or []))


@_body
def decode_consume_time_span(body: bytes) -> dict[MessageQueue, ConsumeTimeSpan]:
    """Read the answer of QUERY_CONSUME_TIME_SPAN (QueryConsumeTimeSpanBody); ages by the broker's own clock."""
    spans = {}
    for item in _list(loads(body)["consumeTimeSpanSet"]):
        times = [_time(item.get(name)) for name in ("minTimeStamp", "consumeTimeStamp", "maxTimeStamp")]
        age_ms, oldest_at_ms = _int(item["delayTime"]), times[0]
        known = [at_ms for at_ms in times if at_ms is not None]
        is_rising = known == sorted(known)
        if age_ms > _NO_MESSAGE_AGE_MS:
            broker_now_ms = age_ms - 1
            oldest_age_ms = broker_now_ms - oldest_at_ms if oldest_at_ms is not None else None
            spans[_queue(item["messageQueue"])] = ConsumeTimeSpan(None, oldest_age_ms, is_rising)
        else:
            spans[_queue(item["messageQueue"])] = ConsumeTimeSpan(age_ms, None, is_rising)
    return spans


@_body
def decode_broker_clock(body: bytes) -> int | None:
    """Read a broker's own time in ms from an answer of QUERY_CONSUME_TIME_SPAN.

    The broker answers now - (-1) as the age for a queue without a next message. None when every queue has one
    (AdminBrokerProcessor.queryConsumeTimeSpan).
    """
    for item in _list(loads(body)["consumeTimeSpanSet"]):
        age_ms = _int(item["delayTime"])
        if age_ms > _NO_MESSAGE_AGE_MS:
            return age_ms - 1
    return None


@_body
def decode_connections(body: bytes) -> GroupConnections:
    """Read the answer of GET_CONSUMER_CONNECTION_LIST (ConsumerConnection), members sorted by client id."""
    data = loads(body)
    members = [
        Member(
            client_id=_str(item["clientId"]),
            client_address=_str(item.get("clientAddr") or ""),
            language=_str(item.get("language") or "OTHER"),
            version=_int(item.get("version", 0)),
        )
        for item in _list(data.get("connectionSet") or [])
    ]
    subscriptions = {
        _str(topic): _subscription(topic, item) for topic, item in (data.get("subscriptionTable") or {}).items()
    }
    return GroupConnections(
        members=tuple(sorted(members, key=lambda member: (member.client_id, member.client_address))),
        consume_type=_str(data.get("consumeType") or ""),
        message_model=_str(data.get("messageModel") or ""),
        consume_from_where=_str(data.get("consumeFromWhere") or ""),
        subscriptions=subscriptions,
    )


def _subscription(topic: str, item: Mapping[str, Any]) -> Subscription:
    return Subscription(
        topic=topic,
        expression=_str(item.get("subString") or ""),
        expression_type=_str(item.get("expressionType") or "TAG"),
        version_ms=_number(item.get("subVersion", 0)),
        tags=frozenset(_str(tag) for tag in _list(item.get("tagsSet") or [])),
    )


@_body
def decode_consumer_ids(body: bytes) -> tuple[str, ...]:
    """Read the answer of GET_CONSUMER_LIST_BY_GROUP (GetConsumerListByGroupResponseBody).

    The ids are in the broker's order; one that uses two connections appears twice.
    """
    return tuple(_str(client_id) for client_id in _list(loads(body).get("consumerIdList") or []))


@_body
def decode_running_info(body: bytes) -> RunningInfo:
    """Read the answer of GET_CONSUMER_RUNNING_INFO (ConsumerRunningInfo).

    The client writes it, not a broker. Clients other than Java's omit parts; C++ writes offsets and versions as texts,
    and Go spells `dropped` correctly.
    """
    data = loads(body)
    queues = {_queue(key): _process_queue(item) for key, item in (data.get("mqTable") or {}).items()}
    popped = {_queue(key): item for key, item in (data.get("mqPopTable") or {}).items()}
    popped_at_ms = {mq: _time(_int(item.get("lastPopTimestamp", 0))) for mq, item in popped.items()}
    properties = {_str(key): _text(value) for key, value in (data.get("properties") or {}).items()}
    statuses = {_str(topic): _consume_status(item) for topic, item in (data.get("statusTable") or {}).items()}
    subscriptions = [_subscription(_str(item["topic"]), item) for item in _list(data.get("subscriptionSet") or [])]
    return RunningInfo(
        properties,
        queues,
        {mq: _int(item.get("waitAckCount", 0)) for mq, item in popped.items()},
        statuses,
        tuple(sorted(subscriptions, key=lambda s: s.topic)),
        stacks=_text(data["jstack"]) if data.get("jstack") else None,
        notes={_str(key): _text(value) for key, value in (data.get("userConsumerInfo") or {}).items()},
        popped_at_ms={mq: at_ms for mq, at_ms in popped_at_ms.items() if at_ms is not None},
    )


def _consume_status(item: Mapping[str, Any]) -> TopicConsumeStatus:
    return TopicConsumeStatus(
        pull_rt_ms=_float(item.get("pullRT", 0.0)),
        pull_tps=_float(item.get("pullTPS", 0.0)),
        consume_rt_ms=_float(item.get("consumeRT", 0.0)),
        consume_ok_tps=_float(item.get("consumeOKTPS", 0.0)),
        consume_failed_tps=_float(item.get("consumeFailedTPS", 0.0)),
        consume_failed_count=_int(item.get("consumeFailedMsgs", 0)),
    )


def _number(value: Any) -> int:
    """Return an integer that C++ clients write as a text; their offsets are unsigned, so -1 is the largest."""
    if not isinstance(value, str):
        return _int(value)
    return _int(int(value) - 2**64 if int(value) >= 2**63 else int(value))


def _process_queue(item: Mapping[str, Any]) -> ProcessQueueInfo:
    def number(name: str, absent: int) -> int:
        return _number(item.get(name, absent))

    commit_offset = number("commitOffset", -1)
    return ProcessQueueInfo(
        cached_count=number("cachedMsgCount", 0),
        cached_min_offset=number("cachedMsgMinOffset", 0),
        cached_max_offset=number("cachedMsgMaxOffset", 0),
        commit_offset=commit_offset if commit_offset >= 0 else None,
        dropped=_bool(item.get("droped", item.get("dropped", False))),
        cached_size_mib=number("cachedMsgSizeInMiB", 0),
        locked=_bool(item.get("locked", False)),
        last_pull_at_ms=_time(number("lastPullTimestamp", 0)),
        last_consume_at_ms=_time(number("lastConsumeTimestamp", 0)),
        locked_at_ms=_time(number("lastLockTimestamp", 0)),
        in_order_count=number("transactionMsgCount", 0),
        in_order_min_offset=number("transactionMsgMinOffset", 0),
        unlock_tries=number("tryUnlockTimes", 0),
    )


@_body
def decode_groups(body: bytes) -> dict[str, GroupConfig]:
    """Read the answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG (SubscriptionGroupWrapper)."""
    data = loads(body)
    forbidden = data.get("forbiddenTable") or {}
    return {
        group: GroupConfig(
            group=_str(group),
            consume_enable=_bool(item.get("consumeEnable", True)),
            consume_broadcast_enable=_bool(item.get("consumeBroadcastEnable", True)),
            retry_queue_count=_int(item.get("retryQueueNums", 1)),
            retry_max_times=_int(item.get("retryMaxTimes", 16)),
            fields={_str(name): value for name, value in item.items() if name != "groupName"},
            forbidden_topics=tuple(sorted(_str(topic) for topic, bits in forbidden.get(group, {}).items() if bits)),
        )
        for group, item in data["subscriptionGroupTable"].items()
    }


@_body
def decode_pop_shares(group: str, body: bytes) -> dict[str, int]:
    """Read a group's popShareQueueNum for each topic that it pops from the answer of GET_ALL_MESSAGE_REQUEST_MODE."""
    table = loads(body).get("messageRequestModeMap") or {}
    return {
        _str(topic): _int(groups[group].get("popShareQueueNum", 0))
        for topic, groups in table.items()
        if group in groups and groups[group].get("mode") == "POP"
    }


@_body
def decode_consumer_offsets(body: bytes) -> StoredOffsets:
    """Read the answer of GET_ALL_CONSUMER_OFFSET (ConsumerOffsetSerializeWrapper).

    Keys are topic@group; names cannot contain an @. Broadcasting clients of a proxy add a third part: such keys are
    skipped. Offsets below 0 mean none, as in clients (RemoteBrokerOffsetStore), although brokers store them.
    """
    groups: dict[str, dict[str, dict[int, int]]] = {}
    emptied = set()
    for key, offsets in (loads(body).get("offsetTable") or {}).items():
        topic, _, group = _str(key).partition("@")
        if "@" in group:
            continue
        every = {_int_text(queue_id): _int(offset) for queue_id, offset in offsets.items()}
        stored = {queue_id: offset for queue_id, offset in every.items() if offset >= 0}
        if stored:
            groups.setdefault(group, {})[topic] = stored
        if not stored or len(stored) < len(every):
            emptied.add(group)
    return StoredOffsets(groups, frozenset(emptied))


@_body
def decode_delay_offsets(body: bytes) -> dict[int, int]:
    """Read the answer of GET_ALL_DELAY_OFFSET (DelayOffsetSerializeWrapper): by level, from 1."""
    return {_int_text(level): _int(offset) for level, offset in (loads(body).get("offsetTable") or {}).items()}


@_body
def decode_key_values(body: bytes) -> dict[str, str]:
    """Read the answer of GET_BROKER_RUNTIME_INFO (KVTable)."""
    return {_str(key): _text(value) for key, value in loads(body)["table"].items()}


def decode_properties_text(body: bytes) -> dict[str, str]:
    """Read a body of Java properties, one name=value per line, as GET_BROKER_CONFIG answers."""
    # Not splitlines(): it also splits at characters that Java allows in values.
    pairs = (line.rstrip("\r").partition("=") for line in body.decode(errors="replace").split("\n"))
    return {name: value for name, separator, value in pairs if separator}
