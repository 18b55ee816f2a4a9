"""Bodies of responses: bytes in, frozen values out.

Unknown keys are ignored, as in RocketMQ itself; a missing value or one of the wrong type raises RemoteProtocolError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from rmqctl.model.stats import ConsumeStats, ConsumeTimeSpan, OffsetWrapper, StoredOffsets, TopicOffset
from rmqctl.model.topic import StaticMapping, TopicConfig

from .body_values import (
    as_bool,
    as_float,
    as_int,
    as_int_of_text,
    as_list,
    as_number,
    as_queue,
    as_queue_count,
    as_str,
    as_text,
    as_time_ms,
    decoder,
)
from .flags import Permission
from .java_json import ObjectMap, loads
from .versions import V5_0_0

# QUERY_CONSUME_TIME_SPAN answers "now + 1" as an age when no message has a time to subtract (it subtracts -1). Real
# messages are younger than 30 years, so a larger age has this meaning, and reveals the broker's clock.
_NO_MESSAGE_AGE_MS = 10**12


def _broker(data: Mapping[str, Any]) -> BrokerData:
    addresses = {
        as_int_of_text(broker_id): as_str(address) for broker_id, address in (data.get("brokerAddrs") or {}).items()
    }
    return BrokerData(as_str(data.get("cluster") or ""), as_str(data["brokerName"]), addresses)


@decoder
def decode_cluster_info(body: bytes) -> ClusterInfo:
    """Read the answer of GET_BROKER_CLUSTER_INFO (ClusterInfo)."""
    data = loads(body)
    brokers = [_broker(item) for item in data["brokerAddrTable"].values()]
    clusters: dict[str, tuple[str, ...]] = {}
    for cluster, names in (data.get("clusterAddrTable") or {}).items():
        for name in as_list(names):
            clusters[as_str(name)] = (*clusters.get(as_str(name), ()), as_str(cluster))
    brokers.sort(key=lambda broker: (broker.cluster, broker.broker_name))
    return ClusterInfo(tuple(brokers), clusters)


@decoder
def decode_route(topic: str, body: bytes) -> TopicRoute:
    """Read the answer of GET_ROUTEINFO_BY_TOPIC (TopicRouteData)."""
    data = loads(body)
    queue_data = [
        QueueData(
            broker_name=as_str(item["brokerName"]),
            read_queue_count=as_queue_count(item["readQueueNums"]),
            write_queue_count=as_queue_count(item["writeQueueNums"]),
            is_readable=bool(as_int(item["perm"]) & Permission.READ),
            is_writable=bool(as_int(item["perm"]) & Permission.WRITE),
            perm=as_int(item["perm"]),
        )
        for item in as_list(data["queueDatas"])
    ]
    brokers = sorted((_broker(item) for item in as_list(data["brokerDatas"])), key=lambda broker: broker.broker_name)
    mappings = [_static_mapping(name, item) for name, item in (data.get("topicQueueMappingByBroker") or {}).items()]
    return TopicRoute(
        topic,
        tuple(sorted(queue_data, key=lambda item: item.broker_name)),
        tuple(brokers),
        is_static=bool(mappings),
        order_conf=as_str(data["orderTopicConf"]) if data.get("orderTopicConf") else None,
        mappings=tuple(sorted(mappings, key=lambda mapping: mapping.broker_name)),
    )


def _static_mapping(broker_name: str, item: Mapping[str, Any]) -> StaticMapping:
    queue_ids = (item.get("currIdMap") or {}).items()
    return StaticMapping(
        broker_name=as_str(broker_name),
        logical_queue_count=as_queue_count(item["totalQueues"]),
        epoch=as_int(item.get("epoch", 0)),
        queue_ids={as_int_of_text(logical): as_int(physical) for logical, physical in queue_ids},
    )


@decoder
def decode_topic_names(body: bytes) -> tuple[str, ...]:
    """Read the answer of GET_ALL_TOPIC_LIST_FROM_NAMESERVER (TopicList), sorted."""
    return tuple(sorted(as_str(name) for name in as_list(loads(body)["topicList"])))


@decoder
def decode_topic_configs(body: bytes) -> dict[str, TopicConfig]:
    """Read the answer of GET_ALL_TOPIC_CONFIG (TopicConfigSerializeWrapper)."""
    return {as_str(topic): _topic_config(item) for topic, item in loads(body)["topicConfigTable"].items()}


@decoder
def decode_topic_config(topic: str, body: bytes) -> TopicConfig | None:
    """Read one topic from the answer of GET_TOPIC_CONFIG or GET_ALL_TOPIC_CONFIG; None if it is missing."""
    item = _topic_item(topic, body)
    return None if item is None else _topic_config(item)


@decoder
def decode_topic_fields(topic: str, body: bytes) -> dict[str, Any] | None:
    """Read the topic that decode_topic_config() reads, as all fields of TopicConfig under RocketMQ's names.

    Fields that are unknown to this version are kept; a static topic's queue mapping (mappingDetail) is not kept.
    """
    item = _topic_item(topic, body)
    if item is None:
        return None
    _topic_config(item)  # raises for an invalid one
    return {as_str(name): value for name, value in item.items() if name != "mappingDetail"}


def _topic_item(topic: str, body: bytes) -> Mapping[str, Any] | None:
    data = loads(body)
    # TopicConfigSerializeWrapper has all topics, TopicConfigAndQueueMapping is one.
    item: Mapping[str, Any] | None = data["topicConfigTable"].get(topic) if "topicConfigTable" in data else data
    return item


def _topic_config(item: Mapping[str, Any]) -> TopicConfig:
    return TopicConfig(
        topic=as_str(item["topicName"]),
        read_queue_count=as_queue_count(item["readQueueNums"]),
        write_queue_count=as_queue_count(item["writeQueueNums"]),
        perm=as_int(item["perm"]),
        is_ordered=as_bool(item.get("order", False)),
        attributes={as_str(name): as_text(value) for name, value in (item.get("attributes") or {}).items()},
    )


@decoder
def decode_group_names(body: bytes) -> tuple[str, ...]:
    """Read the answer of QUERY_TOPIC_CONSUME_BY_WHO (GroupList), sorted."""
    return tuple(sorted(as_str(name) for name in as_list(loads(body)["groupList"])))


@decoder
def decode_topic_put_tps(body: bytes) -> float | None:
    """Read a topic's messages per second from GET_TOPIC_STATS_INFO; None from brokers before 5.0."""
    rate = loads(body).get("topicPutTps")
    return as_float(rate) if rate is not None else None


@decoder
def decode_consume_stats(body: bytes) -> ConsumeStats:
    """Read the answer of GET_CONSUME_STATS (ConsumeStats)."""
    data = loads(body)
    return ConsumeStats(as_float(data.get("consumeTps", 0.0)), _wrappers(data["offsetTable"]))


def _wrappers(table: Any) -> dict[MessageQueue, OffsetWrapper]:
    return {
        as_queue(key): OffsetWrapper(
            broker_offset=as_int(item["brokerOffset"]),
            consumer_offset=as_int(item["consumerOffset"]),
            pull_offset=as_int(item["pullOffset"]) if "pullOffset" in item else None,
            last_timestamp_ms=as_time_ms(item.get("lastTimestamp")),
        )
        for key, item in table.items()
    }


@decoder
def decode_broker_consume_stats(
    is_wanted: Callable[[str], bool], body: bytes
) -> dict[str, dict[MessageQueue, OffsetWrapper]]:
    """Read the answer of GET_BROKER_CONSUME_STATS (ConsumeStatsList): the queues of the wanted groups, by group."""
    found: dict[str, dict[MessageQueue, OffsetWrapper]] = {}
    for item in as_list(loads(body)["consumeStatsList"]):
        for group, topics in item.items():
            if is_wanted(as_str(group)):
                queues = found.setdefault(group, {})
                for each in as_list(topics):
                    queues.update(_wrappers(each["offsetTable"]))
    return found


@decoder
def decode_reset_offsets(body: bytes) -> dict[MessageQueue, int]:
    """Read the answer of INVOKE_BROKER_TO_RESET_OFFSET (ResetOffsetBody): the new offset of each queue."""
    return {as_queue(key): as_int(offset) for key, offset in loads(body)["offsetTable"].items()}


@decoder
def decode_pushed_reset(body: bytes) -> dict[MessageQueue, int]:
    """Read the body of RESET_CONSUMER_CLIENT_OFFSET (ResetOffsetBody, ResetOffsetBodyForC): new offsets by queue.

    When a request in C++'s name asks for the reset, brokers push a list to all clients, whatever their language.
    """
    table = loads(body).get("offsetTable") or {}
    if isinstance(table, list) and not isinstance(table, ObjectMap):
        return {as_queue(item): as_number(item["offset"]) for item in table}
    return {as_queue(key): as_int(offset) for key, offset in table.items()}


@decoder
def decode_topic_stats(version: int, body: bytes) -> dict[MessageQueue, TopicOffset]:
    """Read the answer of GET_TOPIC_STATS_INFO (TopicStatsTable) of a broker of this version.

    If all messages of a queue have expired, 4.9 keeps the min offset (ConsumeQueue.correctMinOffset); only the missing
    store time of the last message shows it. The queue then begins at its end, as 5.x reports it.
    """
    return {as_queue(key): _topic_offset(item, version) for key, item in loads(body)["offsetTable"].items()}


def _topic_offset(item: Mapping[str, Any], version: int) -> TopicOffset:
    max_offset, at_ms = as_int(item["maxOffset"]), as_time_ms(item.get("lastUpdateTimestamp"))
    is_expired = version < V5_0_0 and at_ms is None
    return TopicOffset(max_offset if is_expired else as_int(item["minOffset"]), max_offset, at_ms)


@decoder
def decode_tag_codes(body: bytes) -> tuple[int, ...]:
    """Read the answer of QUERY_CONSUME_QUEUE (QueryConsumeQueueResponseBody): the tag hash of each message."""
    return tuple(as_int(item["tagsCode"]) for item in as_list(loads(body).get("queueData") or []))


@decoder
def decode_consume_time_span(body: bytes) -> dict[MessageQueue, ConsumeTimeSpan]:
    """Read the answer of QUERY_CONSUME_TIME_SPAN (QueryConsumeTimeSpanBody); ages by the broker's own clock."""
    spans = {}
    for item in as_list(loads(body)["consumeTimeSpanSet"]):
        times = [as_time_ms(item.get(name)) for name in ("minTimeStamp", "consumeTimeStamp", "maxTimeStamp")]
        age_ms, oldest_at_ms = as_int(item["delayTime"]), times[0]
        known = [at_ms for at_ms in times if at_ms is not None]
        is_rising = known == sorted(known)
        if age_ms > _NO_MESSAGE_AGE_MS:
            broker_now_ms = age_ms - 1
            oldest_age_ms = broker_now_ms - oldest_at_ms if oldest_at_ms is not None else None
            spans[as_queue(item["messageQueue"])] = ConsumeTimeSpan(None, oldest_age_ms, is_rising)
        else:
            spans[as_queue(item["messageQueue"])] = ConsumeTimeSpan(age_ms, None, is_rising)
    return spans


@decoder
def decode_broker_clock(body: bytes) -> int | None:
    """Read a broker's own time in ms from an answer of QUERY_CONSUME_TIME_SPAN.

    The broker answers now - (-1) as the age for a queue without a next message. None when every queue has one
    (AdminBrokerProcessor.queryConsumeTimeSpan).
    """
    for item in as_list(loads(body)["consumeTimeSpanSet"]):
        age_ms = as_int(item["delayTime"])
        if age_ms > _NO_MESSAGE_AGE_MS:
            return age_ms - 1
    return None


@decoder
def decode_consumer_offsets(body: bytes) -> StoredOffsets:
    """Read the answer of GET_ALL_CONSUMER_OFFSET (ConsumerOffsetSerializeWrapper).

    Keys are topic@group; names cannot contain an @. Broadcasting clients of a proxy add a third part: such keys are
    skipped. Offsets below 0 mean none, as in clients (RemoteBrokerOffsetStore), although brokers store them.
    """
    groups: dict[str, dict[str, dict[int, int]]] = {}
    emptied = set()
    for key, offsets in (loads(body).get("offsetTable") or {}).items():
        topic, _, group = as_str(key).partition("@")
        if "@" in group:
            continue
        every = {as_int_of_text(queue_id): as_int(offset) for queue_id, offset in offsets.items()}
        stored = {queue_id: offset for queue_id, offset in every.items() if offset >= 0}
        if stored:
            groups.setdefault(group, {})[topic] = stored
        if not stored or len(stored) < len(every):
            emptied.add(group)
    return StoredOffsets(groups, frozenset(emptied))


@decoder
def decode_delay_offsets(body: bytes) -> dict[int, int]:
    """Read the answer of GET_ALL_DELAY_OFFSET (DelayOffsetSerializeWrapper): by level, from 1."""
    return {as_int_of_text(level): as_int(offset) for level, offset in (loads(body).get("offsetTable") or {}).items()}


@decoder
def decode_key_values(body: bytes) -> dict[str, str]:
    """Read the answer of GET_BROKER_RUNTIME_INFO (KVTable)."""
    return {as_str(key): as_text(value) for key, value in loads(body)["table"].items()}


def decode_properties_text(body: bytes) -> dict[str, str]:
    """Read a body of Java properties, one name=value per line, as GET_BROKER_CONFIG answers."""
    # Not splitlines(): it also splits at characters that Java allows in values.
    pairs = (line.rstrip("\r").partition("=") for line in body.decode(errors="replace").split("\n"))
    return {name: value for name, separator, value in pairs if separator}
