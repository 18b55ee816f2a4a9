from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.group import GroupConfig, Member, ProcessQueueInfo, ProducerInfo, Subscription, TopicConsumeStatus
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, ClusterInfo, QueueData
from rmqctl.model.stats import ConsumeTimeSpan, OffsetWrapper, TopicOffset
from rmqctl.model.topic import StaticMapping, TopicConfig
from rmqctl.protocol import bodies, group_bodies
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import ObjectMap, loads
from tests.protocol.golden import Exchange, answer, answers, decode
from tests.protocol.strategies import JSON_VALUES
from tests.scripted_peer import V4_9_7, V5_4_0

# Every decoder of JSON, with a body that it reads: recorded, or in the words of wire facts where no peer was recorded.
ENTRIES = (
    '{"filterData":"null","maxQueueIndex":4,"minQueueIndex":0,'
    '"queueData":[{"eval":false,"physicOffset":0,"physicSize":273,"tagsCode":2598919}]}'
)
SPAN = (
    '{"consumeTimeSpanSet":[{"consumeTimeStamp":1795237328540,"delayTime":%d,"maxTimeStamp":1795237330177,'
    '"messageQueue":{"brokerName":"b","queueId":2,"topic":"T"},"minTimeStamp":%d}]}'
)
OFFSETS = '{"dataVersion":{"counter":1},"offsetTable":{"T@G":{0:4,1:6},"%RETRY%G@G":{0:0},"a@b@G2":{7:-1}}}'
TOPIC = (
    '{"attributes":{"message.type":"FIFO"},"order":true,"perm":4,"readQueueNums":3,"topicFilterType":"SINGLE_TAG",'
    '"topicName":"T","topicSysFlag":0,"writeQueueNums":2}'
)
# As a 5.4.0 broker answered, two groups put together.
MODES = (
    '{"messageRequestModeMap":{"T":{"G":{"consumerGroup":"G","mode":"POP","popShareQueueNum":2,"topic":"T"},'
    '"H":{"consumerGroup":"H","mode":"POP","popShareQueueNum":0,"topic":"T"}},'
    '"U":{"G":{"consumerGroup":"G","mode":"PULL","popShareQueueNum":3,"topic":"U"}}}}'
)
BROKER_STATS = (
    '{"brokerAddr":"127.0.0.1:10911","consumeStatsList":[{"G":[{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a",'
    '"queueId":0,"topic":"T"}:{"brokerOffset":4,"consumerOffset":3,"lastTimestamp":1795238762325,"pullOffset":0}}},'
    '{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"U"}:{"brokerOffset":9,'
    '"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}]},{"idle":[]},{"other":[{"consumeTps":0.0,"offsetTable":{}}]}'
    '],"totalDiff":1,"totalInflightDiff":-3}'
)
# As a 5.4.0 broker answered.
PRODUCERS = (
    '{"data":{"P":[{"clientId":"192.0.2.2@21505#43","language":"JAVA","lastUpdateTimestamp":1795937034574,'
    '"remoteIP":"/127.0.0.1:48300","version":493}]}}'
)
PRODUCER_CONNECTIONS = (
    '{"connectionSet":[{"clientAddr":"127.0.0.1:48300","clientId":"192.0.2.2@21505#43","language":"JAVA",'
    '"version":493}]}'
)
DECODERS: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "cluster_info": (bodies.decode_cluster_info, answer(answers(106)[0]).body.decode()),
    "route": (partial(bodies.decode_route, "ship"), answer(answers(105)[0]).body.decode()),
    "topic_names": (bodies.decode_topic_names, answer(answers(206)[0]).body.decode()),
    "consume_stats": (bodies.decode_consume_stats, answer(answers(208)[-1]).body.decode()),
    "broker_consume_stats": (partial(bodies.decode_broker_consume_stats, bool), BROKER_STATS),
    "topic_stats": (partial(bodies.decode_topic_stats, V5_4_0), answer(answers(202)[0]).body.decode()),
    "consume_time_span": (bodies.decode_consume_time_span, SPAN % (500, 1795237328000)),
    "broker_clock": (bodies.decode_broker_clock, SPAN % (1795237330001, -1)),
    "connections": (group_bodies.decode_connections, answer(answers(203)[0]).body.decode()),
    "direct_result": (group_bodies.decode_direct_result, '{"consumeResult":"CR_SUCCESS","spentTimeMills":1}'),
    "producers": (group_bodies.decode_producers, PRODUCERS),
    "producer_connections": (group_bodies.decode_producer_connections, PRODUCER_CONNECTIONS),
    "consumer_ids": (group_bodies.decode_consumer_ids, '{"consumerIdList":["c2","c1"]}'),
    "locked_queues": (
        group_bodies.decode_locked_queues,
        '{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}',
    ),
    "running_info": (group_bodies.decode_running_info, answer(answers(307)[0]).body.decode()),
    "groups": (group_bodies.decode_groups, answer(answers(201)[0]).body.decode()),
    "pop_shares": (partial(group_bodies.decode_pop_shares, "G"), MODES),
    "pop_groups": (partial(group_bodies.decode_pop_groups, "T"), MODES),
    "consumer_offsets": (bodies.decode_consumer_offsets, OFFSETS),
    "delay_offsets": (bodies.decode_delay_offsets, '{"offsetTable":{1:2,18:0}}'),
    "tag_codes": (bodies.decode_tag_codes, ENTRIES),
    "topic_configs": (bodies.decode_topic_configs, f'{{"topicConfigTable":{{"T":{TOPIC}}}}}'),
    "topic_config": (partial(bodies.decode_topic_config, "T"), TOPIC),
    "topic_fields": (partial(bodies.decode_topic_fields, "T"), TOPIC),
    "pushed_reset": (
        bodies.decode_pushed_reset,
        '{"offsetTable":[{"brokerName":"broker-a","offset":3,"queueId":0,"topic":"T"}]}',
    ),
    "reset_offsets": (
        bodies.decode_reset_offsets,
        '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:3}}',
    ),
    "group_names": (bodies.decode_group_names, '{"groupList":["g2","g1"]}'),
    "topic_put_tps": (bodies.decode_topic_put_tps, '{"offsetTable":{},"topicPutTps":0.5}'),
    "key_values": (bodies.decode_key_values, '{"table":{"brokerVersionDesc":"V5_4_0","putTps":"0.1 0.2 0.3"}}'),
}
MQ_KEY = r'\{"brokerName":"([^"]+)","queueId":(\d+),"topic":"([^"]+)"\}:\{'


def body(exchange: Exchange) -> str:
    return answer(exchange).body.decode()


def recorded(*request_codes: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("exchange", answers(*request_codes), ids=str)


def mq(found: tuple[str, ...]) -> MessageQueue:
    return MessageQueue(found[2], found[0], int(found[1]))


def rows(pattern: str, text: str) -> list[tuple[str, ...]]:
    """Find rows in the text itself, with no help of the reader under test."""
    found = re.findall(pattern, text)
    assert found
    return found


def time(text: str) -> int | None:
    return int(text) if int(text) > 0 else None


@recorded(208)
def test_recorded_consume_stats(exchange: Exchange) -> None:
    text = body(exchange)
    stats = bodies.decode_consume_stats(text.encode())
    pattern = MQ_KEY + r'"brokerOffset":(\d+),"consumerOffset":(\d+),"lastTimestamp":(\d+)(?:,"pullOffset":(\d+))?\}'
    assert dict(stats.queues) == {
        mq(row): OffsetWrapper(int(row[3]), int(row[4]), int(row[6]) if row[6] else None, time(row[5]))
        for row in rows(pattern, text)
    }
    assert len(stats.queues) == text.count("brokerOffset") == 5
    assert [str(stats.consume_tps)] == re.findall(r'"consumeTps":([0-9.]+)', text)


def test_producers_of_both_answers_differ_only_in_the_heartbeat() -> None:
    (known,) = group_bodies.decode_producers(PRODUCERS.encode())["P"]
    assert known == ProducerInfo("192.0.2.2@21505#43", "127.0.0.1:48300", "JAVA", 493, 1795937034574)
    assert group_bodies.decode_producer_connections(PRODUCER_CONNECTIONS.encode()) == (
        replace(known, heard_at_ms=None),
    )


def test_stats_of_a_whole_broker_are_those_of_the_wanted_groups() -> None:
    found = bodies.decode_broker_consume_stats(lambda group: group != "other", BROKER_STATS.encode())
    assert found == {
        "G": {
            MessageQueue("T", "broker-a", 0): OffsetWrapper(4, 3, 0, 1795238762325),
            MessageQueue("U", "broker-a", 0): OffsetWrapper(9, 0, 0, None),
        },
        "idle": {},
    }


def test_consume_stats_of_both_releases_in_numbers() -> None:
    old, new = (bodies.decode_consume_stats(body(answers(208)[index]).encode()) for index in (0, 3))
    retry = MessageQueue("%RETRY%ship-workers", "broker-a", 0)
    assert old.queues[retry] == OffsetWrapper(20, 20, None, 1795237339297)
    assert old.queues[MessageQueue("ship", "broker-a", 3)] == OffsetWrapper(100, 6, None, 1795237328540)
    assert new.queues[retry] == OffsetWrapper(22, 22, 22, 1795238164027)
    assert new.queues[MessageQueue("ship", "broker-a", 2)] == OffsetWrapper(102, 6, 102, 1795238122976)
    assert (old.consume_tps, new.consume_tps) == (14.533333333333333, 11.641666666666666)
    unread = bodies.decode_consume_stats(body(answers(208)[2]).encode())
    assert unread.queues[MessageQueue("%RETRY%ship-orderly", "broker-a", 0)] == OffsetWrapper(0, 0, None, None)


@recorded(202)
def test_recorded_topic_stats(exchange: Exchange) -> None:
    text = body(exchange)
    pattern = MQ_KEY + r'"lastUpdateTimestamp":(\d+),"maxOffset":(\d+),"minOffset":(\d+)\}'
    assert bodies.decode_topic_stats(V5_4_0, text.encode()) == {
        mq(row): TopicOffset(int(row[5]), int(row[4]), time(row[3])) for row in rows(pattern, text)
    }


def test_topic_stats_in_numbers() -> None:
    stats = bodies.decode_topic_stats(V5_4_0, body(answers(202)[0]).encode())
    assert stats[MessageQueue("ship", "broker-a", 3)] == TopicOffset(0, 100, 1795237328540)
    assert {queue.queue_id for queue in stats} == {0, 1, 2, 3}
    # Recorded on 4.9.7, whose min offset stays where it was when all messages have expired.
    for first, last_ms, least in ((0, 1795237328540, 0), (0, -1, 100)):
        text = (
            '{"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"ship"}:'
            f'{{"lastUpdateTimestamp":{last_ms},"maxOffset":100,"minOffset":{first}}}}}}}'
        )
        (found,) = bodies.decode_topic_stats(V4_9_7, text.encode()).values()
        assert found.min_offset == least
        (found,) = bodies.decode_topic_stats(V5_4_0, text.encode()).values()
        assert found.min_offset == first


@recorded(106)
def test_recorded_cluster_info(exchange: Exchange) -> None:
    info = bodies.decode_cluster_info(body(exchange).encode())
    brokers = (BrokerData("DefaultCluster", "broker-a", {0: "127.0.0.1:10911"}),)
    assert info == ClusterInfo(brokers, {"broker-a": ("DefaultCluster",)})


@recorded(105)
def test_recorded_routes(exchange: Exchange) -> None:
    topic = decode(exchange.request).ext_fields["topic"]
    route = bodies.decode_route(topic, body(exchange).encode())
    pattern = r'"perm":(\d),"readQueueNums":(\d+),"topicSysFlag":0,"writeQueueNums":(\d+)'
    ((perm, reads, writes),) = rows(pattern, body(exchange))
    assert perm in "67"
    assert route.queue_data == (QueueData("broker-a", int(reads), int(writes), True, True, int(perm)),)
    assert route.brokers == (BrokerData("DefaultCluster", "broker-a", {0: "127.0.0.1:10911"}),)
    assert (route.topic, route.is_static) == (topic, False)
    assert route.readable_queues() == tuple(MessageQueue(topic, "broker-a", index) for index in range(int(reads)))


def test_a_static_topics_mapping_and_an_order_configuration_are_read() -> None:
    text = (
        '{"brokerDatas":[],"orderTopicConf":"b:4","queueDatas":[],"topicQueueMappingByBroker":{"b":{"bname":"b",'
        '"currIdMap":{0:2,3:1},"dirty":false,"epoch":7,"scope":"__global__","topic":"T","totalQueues":4}}}'
    )
    route = bodies.decode_route("T", text.encode())
    assert (route.is_static, route.order_conf) == (True, "b:4")
    assert route.mappings == (StaticMapping("b", 4, 7, {0: 2, 3: 1}),)


def test_a_topics_configuration() -> None:
    config = TopicConfig("T", 3, 2, 4, is_ordered=True, attributes={"message.type": "FIFO"})
    table = f'{{"topicConfigTable":{{"T":{TOPIC}}}}}'.encode()
    for body_text in (TOPIC.encode(), table):
        assert bodies.decode_topic_config("T", body_text) == config
        assert bodies.decode_topic_fields("T", body_text) == json.loads(TOPIC)
    assert bodies.decode_topic_config("U", table) is bodies.decode_topic_fields("U", table) is None
    assert (config.is_readable, config.is_writable) == (True, False)
    assert bodies.decode_topic_configs(table) == {"T": config}


def test_an_older_brokers_topic_has_no_attributes_and_no_rate() -> None:
    older = TOPIC.replace('"attributes":{"message.type":"FIFO"},', "")
    config = bodies.decode_topic_config("T", older.encode())
    assert config is not None
    assert config.attributes == {}
    assert bodies.decode_topic_put_tps(b'{"offsetTable":{}}') is None


@recorded(206)
def test_recorded_topic_names(exchange: Exchange) -> None:
    names = bodies.decode_topic_names(body(exchange).encode())
    assert list(names) == sorted(names)
    assert set(names) == set(json.loads(body(exchange))["topicList"])
    assert {"ship", "%RETRY%ship-workers", "TBW102"} <= set(names)


@recorded(203)
def test_recorded_connections(exchange: Exchange) -> None:
    told = json.loads(body(exchange))
    connections = group_bodies.decode_connections(body(exchange).encode())
    assert connections.members == tuple(
        Member(row["clientId"], row["clientAddr"], "JAVA", 407 if exchange.rocketmq == "4.9.7" else 493)
        for row in sorted(told["connectionSet"], key=lambda row: row["clientId"])
    )
    assert connections.subscriptions == {
        topic: Subscription(topic, row["subString"], "TAG", row["subVersion"])
        for topic, row in told["subscriptionTable"].items()
    }
    assert (connections.consume_type, connections.message_model, connections.consume_from_where) == (
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_FIRST_OFFSET",
    )


def test_connections_in_numbers() -> None:
    connections = group_bodies.decode_connections(body(answers(203)[0]).encode())
    assert connections.members[1] == Member("192.0.2.2@c2", "127.0.0.1:48742", "JAVA", 407)
    assert connections.subscriptions["ship"] == Subscription("ship", "*", "TAG", 1795237317376)


@pytest.mark.parametrize(
    ("fields", "batch", "uncommitted", "in_hand", "head", "position"),
    [
        ({"transactionMsgCount": 1}, "1", 0, 3, 5, 5),
        # Java's: a listener has no more than a batch.
        ({"transactionMsgCount": 9}, "4", 5, 6, 10, 10),
        ({"transactionMsgCount": 9}, "", 0, 11, 5, 5),
        # Ours counts them.
        ({"transactionMsgCount": 3, "uncommittedMsgCount": 3}, "4", 3, 2, 20, 8),
        ({"transactionMsgCount": 3, "uncommittedMsgCount": 0}, "1", 0, 5, 5, 5),
    ],
)
def test_what_an_orderly_listener_has_consumed_without_commit(
    fields: dict[str, int], batch: str, uncommitted: int, in_hand: int, head: int, position: int
) -> None:
    queue = {"cachedMsgCount": 2, "cachedMsgMinOffset": 20, "commitOffset": 5, "transactionMsgMinOffset": 5, **fields}
    table = {MessageQueue("T", "b", 0): queue}
    body = dumps({"mqTable": table, "properties": {"consumeMessageBatchMaxSize": batch}})
    (found,) = group_bodies.decode_running_info(body).process_queues.values()
    assert found.uncommitted_count == uncommitted
    assert (found.in_hand_count, found.head_offset, found.position) == (in_hand, head, position)


@recorded(307)
def test_recorded_running_info(exchange: Exchange) -> None:
    text = body(exchange)
    info = group_bodies.decode_running_info(text.encode())
    pattern = MQ_KEY + (
        r'"cachedMsgCount":(\d+),"cachedMsgMaxOffset":(\d+),"cachedMsgMinOffset":(\d+),"cachedMsgSizeInMiB":(\d+),'
        r'"commitOffset":(-?\d+),"droped":(true|false),"lastConsumeTimestamp":(\d+),"lastLockTimestamp":(\d+),'
        r'"lastPullTimestamp":(\d+),"locked":(true|false),"transactionMsgCount":(\d+),"transactionMsgMaxOffset":\d+,'
        r'"transactionMsgMinOffset":(\d+)'
    )
    assert info.process_queues == {
        mq(row): ProcessQueueInfo(
            cached_count=int(row[3]),
            cached_min_offset=int(row[5]),
            cached_max_offset=int(row[4]),
            commit_offset=int(row[7]) if int(row[7]) >= 0 else None,
            dropped=row[8] == "true",
            cached_size_mib=int(row[6]),
            locked=row[12] == "true",
            last_pull_at_ms=time(row[11]),
            last_consume_at_ms=time(row[9]),
            locked_at_ms=time(row[10]),
            in_order_count=int(row[13]),
            in_order_min_offset=int(row[14]),
        )
        for row in rows(pattern, text)
    }
    assert len(info.process_queues) == text.count("cachedMsgCount")
    assert info.pop_unacked == {}
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info.properties["PROP_CLIENT_VERSION"] == "V" + exchange.rocketmq.replace(".", "_")
    # What follows the queues has no objects for keys.
    told = json.loads("{" + text[text.index('"properties":') :])
    assert info.properties == told["properties"]
    assert info.statuses == {
        topic: TopicConsumeStatus(
            row["pullRT"],
            row["pullTPS"],
            row["consumeRT"],
            row["consumeOKTPS"],
            row["consumeFailedTPS"],
            row["consumeFailedMsgs"],
        )
        for topic, row in told["statusTable"].items()
    }
    assert info.subscriptions == tuple(
        Subscription(row["topic"], row["subString"], "TAG", row["subVersion"], frozenset(row["tagsSet"]))
        for row in sorted(told["subscriptionSet"], key=lambda row: row["topic"])
    )
    assert {item.topic for item in info.subscriptions} == set(info.statuses)


def test_running_info_in_numbers() -> None:
    info = group_bodies.decode_running_info(body(answers(307)[0]).encode())
    assert info.process_queues[MessageQueue("ship", "broker-a", 2)] == ProcessQueueInfo(
        12, 9, 100, 9, False, 0, True, 1795237369106, 1795237329101, 1795237317351
    )
    assert info.process_queues[MessageQueue("ship", "broker-a", 3)] == ProcessQueueInfo(
        9, 6, 93, 6, False, 0, True, 1795237364103, 1795237329018, 1795237317337
    )
    assert info.properties["PROP_CONSUMER_START_TIMESTAMP"] == "1795237316399"
    assert info.statuses["ship"] == TopicConsumeStatus(2709.5555555555557, 2.525, 0.0125, 2.0, 0.0, 0)
    assert info.subscriptions == (
        Subscription("%RETRY%ship-workers", "*", "TAG", 1795237316435),
        Subscription("ship", "T1 || T2", "TAG", 1795237317356, frozenset({"T1", "T2"})),
    )


def running_info(queue: dict[str, Any], **others: Any) -> Any:
    table = '{{"brokerName":"b","queueId":1,"topic":"T"}:' + json.dumps(queue) + "}"
    return group_bodies.decode_running_info(
        (json.dumps(others)[:-1] + (", " if others else "") + f'"mqTable":{table}}}').encode()
    )


def test_running_info_of_other_clients() -> None:
    queue = MessageQueue("T", "b", 1)
    # rocketmq-client-cpp: longs are texts, and unsigned.
    cpp = {
        "cachedMsgCount": 3,
        "cachedMsgMinOffset": "5",
        "cachedMsgMaxOffset": "7",
        "commitOffset": "5",
        "droped": True,
    }
    assert running_info(cpp).process_queues[queue] == ProcessQueueInfo(3, 5, 7, 5, True)
    unsigned = {**cpp, "commitOffset": "18446744073709551615"}
    assert running_info(unsigned).process_queues[queue].commit_offset is None
    subscription = {"subString": "B || A", "subVersion": "1795237317356", "topic": "T", "tagsSet": ["B", "A"]}
    (found,) = running_info(cpp, subscriptionSet=[subscription]).subscriptions
    assert found == Subscription("T", "B || A", "TAG", 1795237317356, frozenset({"A", "B"}))
    # rocketmq-client-go
    assert running_info({"dropped": True}).process_queues[queue] == ProcessQueueInfo(0, 0, 0, None, True)
    assert running_info({}, properties={"consumeThreadMin": 20}).properties == {"consumeThreadMin": "20"}
    assert group_bodies.decode_running_info(b'{"mqTable":null,"properties":null}').process_queues == {}
    assert group_bodies.decode_running_info(b"{}").process_queues == {}


def test_queues_shared_by_reference() -> None:
    # As fastjson 1 writes one ProcessQueueInfo under two keys.
    text = (
        '{"mqPopTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"waitAckCount":4}},"mqTable":{'
        '{"brokerName":"b","queueId":1,"topic":"T"}:{"cachedMsgCount":3},{"brokerName":"b","queueId":2,"topic":"T"}:'
        r'{"$ref":"$.mqTable.MessageQueue\\ \\[topic\\=T\\,\\ brokerName\\=b\\,\\ queueId\\=1\\]"}}}'
    )
    info = group_bodies.decode_running_info(text.encode())
    assert {queue.queue_id: item.cached_count for queue, item in info.process_queues.items()} == {1: 3, 2: 3}
    assert info.pop_unacked == {MessageQueue("T", "b", 0): 4}


@recorded(201)
def test_recorded_groups(exchange: Exchange) -> None:
    told = json.loads(body(exchange))["subscriptionGroupTable"]
    assert group_bodies.decode_groups(body(exchange).encode()) == {
        group: GroupConfig(
            group,
            row["consumeEnable"],
            row["consumeBroadcastEnable"],
            row["retryQueueNums"],
            row["retryMaxTimes"],
            {name: value for name, value in row.items() if name != "groupName"},
        )
        for group, row in told.items()
    }
    workers = group_bodies.decode_groups(body(exchange).encode())["ship-workers"]
    assert (workers.consume_enable, workers.consume_broadcast_enable) == (True, False)
    assert (workers.retry_queue_count, workers.retry_max_times) == (1, 16)
    assert workers.fields["consumeFromMinEnable"] is False
    assert ("groupRetryPolicy" in workers.fields) == (exchange.rocketmq == "5.4.0")


def test_topics_that_a_group_may_not_read() -> None:
    # SubscriptionGroupManager.setForbidden: bit 2 is the right to read (PermName.INDEX_PERM_READ), the only one used.
    text = '{"forbiddenTable":{"g":{"T":4,"U":0,"A":4},"h":{"T":4}},"subscriptionGroupTable":{"g":{},"i":{}}}'
    groups = group_bodies.decode_groups(text.encode())
    assert groups["g"].forbidden_topics == ("A", "T")
    assert groups["i"].forbidden_topics == ()
    assert group_bodies.decode_groups(b'{"forbiddenTable":null,"subscriptionGroupTable":{}}') == {}


def test_consumer_offsets() -> None:
    stored = bodies.decode_consumer_offsets(OFFSETS.encode())
    # The third is of a broadcasting client behind a proxy: topic@group@client.
    assert stored.groups == {"G": {"T": {0: 4, 1: 6}, "%RETRY%G": {0: 0}}}
    assert bodies.decode_consumer_offsets(b"{}").groups == {}
    below = bodies.decode_consumer_offsets(b'{"offsetTable":{"T@G":{0:-1,1:4},"U@G":{0:-9},"T@H":{0:-1},"T@I":{}}}')
    assert (below.groups, below.emptied) == ({"G": {"T": {1: 4}}}, {"G", "H", "I"})


def test_delay_offsets() -> None:
    """As 5.4.0 and 4.9.7 answered."""
    of_5 = b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1795387027090},"offsetTable":{1:2}}'
    assert bodies.decode_delay_offsets(of_5) == {1: 2}
    assert bodies.decode_delay_offsets(b'{"offsetTable":{}}') == {}


def test_tag_codes() -> None:
    """As 5.4.0 answered."""
    assert bodies.decode_tag_codes(ENTRIES.encode()) == (2598919,)
    assert bodies.decode_tag_codes(b'{"maxQueueIndex":4,"minQueueIndex":0}') == ()


def test_consume_time_span() -> None:
    queue = MessageQueue("T", "b", 2)
    known = bodies.decode_consume_time_span((SPAN % (500, 1795237328000)).encode())
    assert known == {queue: ConsumeTimeSpan(500, None)}
    nothing_unread = bodies.decode_consume_time_span((SPAN % (0, 1795237328000)).encode())
    assert nothing_unread == {queue: ConsumeTimeSpan(0, None)}
    # The broker's clock and one, when there is no message to take a time from.
    unknown = bodies.decode_consume_time_span((SPAN % (1795237330001, 1795237328000)).encode())
    assert unknown == {queue: ConsumeTimeSpan(None, 2000)}
    empty_queue = bodies.decode_consume_time_span((SPAN % (1795237330001, -1)).encode())
    assert empty_queue == {queue: ConsumeTimeSpan(None, None)}
    # The oldest message is younger than the last consumed one.
    set_back = bodies.decode_consume_time_span((SPAN % (500, 1795237328541)).encode())
    assert set_back == {queue: ConsumeTimeSpan(500, None, are_times_rising=False)}


def test_a_brokers_clock_shows_where_no_message_is_next() -> None:
    assert bodies.decode_broker_clock((SPAN % (1795237330001, -1)).encode()) == 1795237330000
    assert bodies.decode_broker_clock((SPAN % (500, 1795237328000)).encode()) is None
    assert bodies.decode_broker_clock(b'{"consumeTimeSpanSet":[]}') is None


def test_key_values() -> None:
    assert bodies.decode_key_values(b'{"table":{"a":"b","n":1,"x":""}}') == {"a": "b", "n": "1", "x": ""}


def test_properties_text() -> None:
    text = "a=1\nb=x=y\r\n\nnothing\n c = \nd=\u2028\x0c\x85|\n=e"
    expected = {"a": "1", "b": "x=y", " c ": " ", "d": "\u2028\x0c\x85|", "": "e"}
    assert bodies.decode_properties_text(text.encode()) == expected
    assert bodies.decode_properties_text(b"") == {}
    assert bodies.decode_properties_text(b"a=\xff") == {"a": "\ufffd"}


def test_unknown_keys_are_ignored() -> None:
    for name, (decoder, text) in DECODERS.items():
        if name != "topic_fields":  # which are all that there are
            assert decoder(("{" + '"zzz":{"a":[1]},' + text[1:]).encode()) == decoder(text.encode()), name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("topic_names", '{"topicList":"abc"}'),
        ("topic_names", '{"topicList":{"a":1}}'),
        ("topic_names", '{"topicList":[1]}'),
        ("topic_names", '{"topicList":null}'),
        ("topic_names", "{}"),
        ("topic_names", "[]"),
        ("route", '{"queueDatas":"","brokerDatas":[]}'),
        ("route", '{"queueDatas":[],"brokerDatas":{}}'),
        ("route", '{"queueDatas":[],"brokerDatas":[{"brokerName":"b","brokerAddrs":{"x":"h:1"}}]}'),
        ("route", '{"queueDatas":[],"brokerDatas":[{"brokerName":"b","brokerAddrs":{{}:"h:1"}}]}'),
        ("cluster_info", '{"brokerAddrTable":[]}'),
        ("cluster_info", '{"brokerAddrTable":{"b":{"brokerName":1}}}'),
        ("consume_stats", '{"offsetTable":{"x":{"brokerOffset":0,"consumerOffset":0}}}'),
        ("consume_stats", '{"offsetTable":{{"brokerName":"b","queueId":0}:{"brokerOffset":0,"consumerOffset":0}}}'),
        ("consume_stats", '{"offsetTable":{},"consumeTps":"1"}'),
        ("consume_stats", '{"offsetTable":{},"consumeTps":true}'),
        ("consume_stats", '{"offsetTable":{},"consumeTps":1e999}'),
        ("consume_stats", '{"offsetTable":{},"consumeTps":1' + "0" * 400 + "}"),
        ("topic_stats", '{"offsetTable":{{"brokerName":"b","queueId":"0","topic":"T"}:{"minOffset":0,"maxOffset":0}}}'),
        ("topic_stats", '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"minOffset":0,"maxOffset":1.0}}}'),
        (
            "topic_stats",
            '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"minOffset":0,"maxOffset":true}}}',
        ),
        ("topic_stats", f'{{"offsetTable":{{{{"brokerName":"b","queueId":{2**63},"topic":"T"}}:{{}}}}}}'),
        ("consume_time_span", '{"consumeTimeSpanSet":{}}'),
        ("consume_time_span", '{"consumeTimeSpanSet":[{"delayTime":1,"messageQueue":{"$ref":"$"}}]}'),
        ("connections", '{"connectionSet":"x"}'),
        ("connections", '{"connectionSet":[{}]}'),
        ("connections", '{"a":"T","subscriptionTable":{{"b":1}:{}}}'),
        ("connections", '{"a":5,"subscriptionTable":{{"$ref":"$.a"}:{}}}'),
        ("running_info", '{"mqTable":{"a":{}}}'),
        ("running_info", '{"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"droped":"false"}}}'),
        ("running_info", '{"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"commitOffset":"x"}}}'),
        ("running_info", '{"properties":{"a":[1]}}'),
        ("groups", '{"subscriptionGroupTable":{"g":{"consumeEnable":"false"}}}'),
        ("groups", '{"subscriptionGroupTable":{"g":1}}'),
        ("pop_shares", '{"messageRequestModeMap":{"T":{"G":{"mode":"POP","popShareQueueNum":"2"}}}}'),
        ("pop_shares", '{"messageRequestModeMap":{"T":{"G":1}}}'),
        ("groups", '{"subscriptionGroupTable":{"g":{"retryQueueNums":null}}}'),
        ("groups", '{"forbiddenTable":{"g":1},"subscriptionGroupTable":{"g":{}}}'),
        ("running_info", '{"statusTable":{"T":{"pullRT":"1"}}}'),
        ("running_info", '{"statusTable":{"T":{"consumeOKTPS":1e999}}}'),
        ("running_info", '{"subscriptionSet":{"a":1}}'),
        ("running_info", '{"subscriptionSet":[{}]}'),
        ("running_info", '{"subscriptionSet":[{"topic":"T","tagsSet":"AB"}]}'),
        ("consumer_offsets", '{"offsetTable":{"T@G":{"x":1}}}'),
        ("consumer_offsets", '{"offsetTable":{"T@G":[1]}}'),
        ("consumer_offsets", '{"offsetTable":{{"a":1}:{0:1}}}'),
        ("topic_configs", '{"topicConfigTable":{"T":1}}'),
        ("topic_configs", '{"topicConfigTable":[]}'),
        ("topic_config", TOPIC.replace('"perm":4', '"perm":"4"')),
        ("topic_config", TOPIC.replace('"readQueueNums":3', '"readQueueNums":-1')),
        ("topic_config", TOPIC.replace('"order":true', '"order":"true"')),
        ("topic_config", TOPIC.replace('"FIFO"', "{}")),
        ("group_names", '{"groupList":[1]}'),
        ("topic_put_tps", '{"topicPutTps":"1"}'),
        ("route", '{"queueDatas":[],"brokerDatas":[],"topicQueueMappingByBroker":{"b":{}}}'),
        ("key_values", '{"table":{"a":{}}}'),
        ("key_values", '{"table":[]}'),
    ],
)
def test_what_is_missing_or_of_another_kind(name: str, text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        DECODERS[name][0](text.encode())


def test_groups_that_pop_and_how_many_share_a_queue() -> None:
    assert group_bodies.decode_pop_groups("T", MODES.encode()) == {"G", "H"}
    assert group_bodies.decode_pop_groups("U", MODES.encode()) == set()
    assert group_bodies.decode_pop_shares("G", MODES.encode()) == {"T": 2}
    assert group_bodies.decode_pop_shares("H", MODES.encode()) == {"T": 0}
    assert group_bodies.decode_pop_shares("G", b'{"messageRequestModeMap":null}') == {}


def refusal(decoder: Callable[[bytes], Any], text: str) -> str:
    """Return the sentence of the refusal, nothing when there is none."""
    try:
        decoder(text.encode())
    except RemoteProtocolError as error:
        return error.sentence
    return ""


def test_every_decoder_is_tested_here() -> None:
    names = {
        name.removeprefix("decode_")
        for module in (bodies, group_bodies)
        for name in vars(module)
        if name.startswith("decode_")
    }
    assert names == {*DECODERS, "properties_text"}


@pytest.mark.parametrize(
    "table", ["table", "offsetTable", "topicList", "subscriptionGroupTable", "mqTable", "properties"]
)
def test_a_refusal_is_short_and_quick_whatever_was_sent(table: str) -> None:
    # Written out, these references have ten to the power of nine entries.
    reference = '{"$ref":"$.' + table + '.%d"}'
    levels = ",".join(f'"{level}":[{",".join([reference % (level - 1)] * 10)}]' for level in range(1, 10))
    fan = '{"0":[0],' + levels + "}"
    deep = "[" * 400 + '"' + "x" * 100_000 + '"' + "]" * 400
    for value in (fan, deep, f'{{"a":{deep}}}', f'{{{{"brokerName":"b","queueId":{deep},"topic":"T"}}:{fan}}}'):
        for decoder, _ in DECODERS.values():
            assert len(refusal(decoder, f'{{"{table}":{value}}}')) < 400


@settings(max_examples=100, deadline=None)
@given(JSON_VALUES)
def test_any_json_is_a_value_or_refused(value: object) -> None:
    text = json.dumps(value).encode()
    for decoder, _ in DECODERS.values():
        try:
            decoder(text)
        except RemoteProtocolError:
            continue


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in a tree: the container and the key or index."""
    found = []
    for key, item in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        found.append((value, key))
        for child in item if isinstance(item, tuple) else (item,):
            if isinstance(child, dict | list):
                found += places(child)
    return found


def write(value: Any) -> str:
    if isinstance(value, ObjectMap):
        return "{" + ",".join(f"{write(key)}:{write(item)}" for key, item in value) + "}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{write(item)}" for key, item in value.items()) + "}"
    return "[" + ",".join(map(write, value)) + "]" if isinstance(value, list) else json.dumps(value)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_json_in_any_place_is_a_value_or_refused(name: str, data: st.DataObject) -> None:
    decoder, text = DECODERS[name]
    tree = loads(text.encode())
    for _ in range(data.draw(st.integers(1, 2))):
        container, key = data.draw(st.sampled_from(places(tree)))
        # A pair of a map keyed by objects stays one, or it could not be written.
        new = data.draw(JSON_VALUES | st.sampled_from([None, [], {}, "", 0, -1, 1.5, True, 2**63, 10**400]))
        container[key] = (
            (data.draw(st.just({}) | st.just(container[key][0])), new) if isinstance(container, ObjectMap) else new
        )
    try:
        decoder(write(tree).encode())
    except RemoteProtocolError:
        return


@pytest.mark.parametrize("count", [-1, 1 << 17, 1 << 40])
def test_a_route_with_impossibly_many_queues_is_refused(count: int) -> None:
    queue = {"brokerName": "b", "readQueueNums": count, "writeQueueNums": 1, "perm": 6}
    body = json.dumps({"queueDatas": [queue], "brokerDatas": []}).encode()
    with pytest.raises(RemoteProtocolError, match="queues on one broker"):
        bodies.decode_route("T", body)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"{}", "wrong format|is missing"),
        (b'{"brokerAddrTable":null}', "wrong format|in place of|is missing"),
        (
            b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:5},"brokerName":"b","cluster":"C"}}}',
            "a number in place of a text",
        ),
        (b'{"brokerAddrTable":{"b":{"brokerAddrs":{},"cluster":"C"}}}', "brokerName is missing"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_without_python(body: bytes, wrong: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        bodies.decode_cluster_info(body)
    assert re.search(rf"The peer's answer about cluster info .*: .*({wrong})", str(caught.value))
    assert not re.search(r"Error\(|NoneType|'str'|object", str(caught.value))
