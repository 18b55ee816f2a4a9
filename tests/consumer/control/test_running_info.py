"""What a consumer says of itself, beside what Java's clients were recorded saying."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from rmqctl.consumer.control.running_info import ConsumerState, HeldQueue, encode_running_info
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.rules.subscriptions import make_subscription, retry_subscription
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.model import group
from rmqctl.model.consumption import ConsumeFromWhere
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import group_bodies
from rmqctl.protocol.java_json import loads
from rmqctl.rules.flow_control import FlowControl
from rmqctl.rules.group_views import strategy_name
from tests.consumer.stored_messages import stored, stored_at
from tests.protocol.golden import EXCHANGES, answer

START_MS = 1_800_000_000_123
ONE, TWO = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
STATUS = group.TopicConsumeStatus(2.5, 100.25, 0.5, 99.0, 1.25, 12)


def held(mq: MessageQueue, *offsets: int, commit_offset: int = 7) -> HeldQueue:
    queue = ProcessQueue(mq, now_ms=START_MS + 1000)
    queue.put(stored_at(offsets))
    queue.last_pull_at_ms, queue.last_consume_at_ms = START_MS + 3000, START_MS + 2000
    return HeldQueue(queue, commit_offset)


def running(settings: ConsumerSettings | None = None, **more: Any) -> ConsumerState:
    values: dict[str, Any] = {
        "settings": settings or ConsumerSettings(group="G"),
        "client_id": "192.0.2.2@12#34@unit",
        "started_at_ms": START_MS,
        "name_servers": ("a:9876", "b:9876"),
        "strategy": "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely",
        "listener": "shop.orders.consume",
        "subscriptions": [make_subscription("T", "B || A", version_ms=5), retry_subscription("G", version_ms=6)],
        "queues": {ONE: held(ONE, 7, 9, 12), TWO: held(TWO, commit_offset=-1)},
        "statuses": {"T": STATUS, "%RETRY%G": group.TopicConsumeStatus(0.0, 0.0, 0.0, 0.0, 0.0, 0)},
        "holds": {FlowControl.SPAN: 3},
    }
    return ConsumerState(**{**values, **more})


def test_it_reads_as_any_clients_answer() -> None:
    body = encode_running_info(running())
    info = group_bodies.decode_running_info(body)
    assert info.process_queues == {
        ONE: group.ProcessQueueInfo(
            cached_count=3, cached_min_offset=7, cached_max_offset=12, commit_offset=7, dropped=False,
            cached_size_mib=0, locked=True, last_pull_at_ms=START_MS + 3000, last_consume_at_ms=START_MS + 2000,
            locked_at_ms=START_MS + 1000,
        ),
        TWO: group.ProcessQueueInfo(
            cached_count=0, cached_min_offset=0, cached_max_offset=0, commit_offset=None, dropped=False,
            cached_size_mib=0, locked=True, last_pull_at_ms=START_MS + 3000, last_consume_at_ms=START_MS + 2000,
            # When it was taken: what tells a queue that was begun anew from one that went on.
            locked_at_ms=START_MS + 1000,
        ),
    }  # fmt: skip
    assert info.statuses["T"] == STATUS
    assert [(each.topic, each.expression, each.tags, each.version_ms) for each in info.subscriptions] == [
        ("%RETRY%G", "*", frozenset(), 6),
        ("T", "B || A", frozenset({"A", "B"}), 5),
    ]
    assert strategy_name(info) == "averagely"
    assert info.pop_unacked == {}
    assert loads(body)["userConsumerInfo"] == {"flowControl.SPAN": "3"}


def test_properties_have_javas_names_and_units() -> None:
    settings = ConsumerSettings(
        group="G", consume_timeout_s=90.0, unit_name="unit", span_limit=None, topic_mib_limit=64, heartbeat_s=12.5
    )
    properties = group_bodies.decode_running_info(encode_running_info(running(settings))).properties
    assert properties.items() >= {
        "PROP_CLIENT_VERSION": "V5_3_1", "PROP_CONSUMEORDERLY": "false", "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMER_START_TIMESTAMP": str(START_MS), "PROP_NAMESERVER_ADDR": "a:9876;b:9876;",
        "PROP_THREADPOOL_CORE_SIZE": "20", "clientIP": "192.0.2.2", "consumeConcurrentlyMaxSpan": "-1",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeMessageBatchMaxSize": "1", "consumeThreadMax": "20",
        "consumeTimeout": "1.5", "consumerGroup": "G", "heartbeatBrokerInterval": "12500", "instanceName": "12#34",
        "maxReconsumeTimes": "-1", "messageListener": "shop.orders.consume", "messageModel": "CLUSTERING",
        "namesrvAddr": "a:9876;b:9876", "pullThresholdForQueue": "1000", "pullThresholdForTopic": "-1",
        "pullThresholdSizeForTopic": "64", "unitName": "unit",
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("given_ms", "expected_ms"), [(None, START_MS - 1_800_000), (1_795_237_328_540, 1_795_237_328_540)]
)
def test_the_time_to_begin_at_is_written_in_the_zone_of_the_machine(given_ms: int | None, expected_ms: int) -> None:
    settings = ConsumerSettings(group="G", consume_from=ConsumeFromWhere.TIMESTAMP, consume_timestamp_ms=given_ms)
    text = loads(encode_running_info(running(settings)))["properties"]["consumeTimestamp"]
    assert datetime.strptime(text, "%Y%m%d%H%M%S").astimezone().timestamp() == expected_ms // 1000


def test_a_large_queue_is_told_in_whole_mib() -> None:
    queue = ProcessQueue(ONE)
    queue.put([stored(offset, b"x" * (3 << 19)) for offset in range(3)])
    body = encode_running_info(running(queues={ONE: HeldQueue(queue, 0)}))
    assert group_bodies.decode_running_info(body).process_queues[ONE].cached_size_mib == 4


def test_stacks_are_there_only_when_asked_for() -> None:
    # Java's mqadmin prints the part when the key is there.
    assert b"jstack" not in encode_running_info(running())
    assert loads(encode_running_info(running(stacks="main  TID: 1\n")))["jstack"] == "main  TID: 1\n"


RECORDED = [exchange for exchange in EXCHANGES if exchange.request_code == 307]


@pytest.mark.parametrize("recorded", RECORDED, ids=str)
def test_its_keys_are_those_of_javas_clients(recorded: Any) -> None:
    java, ours = loads(answer(recorded).body), loads(encode_running_info(running(stacks="s")))
    newer = {"mqPopTable", "userConsumerInfo"} if recorded.rocketmq == "4.9.7" else set()
    assert set(ours) - {"jstack"} - newer == set(java) - {"jstack"}
    for name in ("mqTable", "statusTable"):
        (theirs, *_), (own, *_) = ([value for _, value in table[name].items()] for table in (java, ours))
        assert own.keys() == theirs.keys()
        assert {key: type(value) for key, value in own.items()} == {key: type(value) for key, value in theirs.items()}
    assert ours["subscriptionSet"][0].keys() == java["subscriptionSet"][0].keys()
    # What only 5.x knows may be there for 4.9's tools to pass over; nothing is invented.
    if recorded.rocketmq == "5.4.0":
        assert ours["properties"].keys() <= java["properties"].keys()
    assert {key for key in java["properties"] if key.startswith("PROP_")} <= ours["properties"].keys()
    assert all(type(value) is str for value in ours["properties"].values())
