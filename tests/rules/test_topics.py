from __future__ import annotations

import pytest

from rmqctl.model.route import BrokerData, ClusterInfo, QueueData
from rmqctl.model.topic import TOPIC_FINDINGS, TopicConfig, TopicFinding, TopicKind
from rmqctl.rules.topics import (
    compare_with_route,
    config_findings,
    kind_of,
    own_topics,
    permission_words,
    route_findings,
)

F = TopicFinding
CLUSTER = ClusterInfo((BrokerData("C", "broker-a", {0: "a:1"}), BrokerData("C", "broker-b", {0: "b:1"})))


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("orders", TopicKind.NORMAL),
        ("%RETRY%group", TopicKind.RETRY),
        ("%DLQ%group", TopicKind.DEAD_LETTER),
        ("%LMQ%light", TopicKind.LIGHT),
        ("SCHEDULE_TOPIC_XXXX", TopicKind.DELAY),
        ("rmq_sys_wheel_timer", TopicKind.DELAY),
        ("rmq_sys_REVIVE_LOG_C", TopicKind.SYSTEM),
        ("RMQ_SYS_TRACE_TOPIC", TopicKind.SYSTEM),
        ("TBW102", TopicKind.SYSTEM),
        ("BenchmarkTest", TopicKind.SYSTEM),
        ("C", TopicKind.SYSTEM),
        ("broker-b", TopicKind.SYSTEM),
        ("C_REPLY_TOPIC", TopicKind.SYSTEM),
        ("broker-c", TopicKind.NORMAL),
    ],
)
def test_a_topics_kind_is_told_from_its_name(topic: str, kind: TopicKind) -> None:
    assert kind_of(topic, own_topics(CLUSTER)) is kind


@pytest.mark.parametrize(
    ("perm", "words"),
    [
        (6, "read-write"),
        (4, "read-only"),
        (2, "write-only"),
        (0, "none"),
        (7, "read-write, inherited"),
        (1, "none, inherited"),
        (14, "read-write"),
    ],
)
def test_permissions_in_words(perm: int, words: str) -> None:
    assert permission_words(perm) == words


def test_configurations_that_agree_have_no_finding() -> None:
    assert config_findings([TopicConfig("T", 4, 4, 6), TopicConfig("T", 4, 4, 6)]) == []
    assert config_findings([]) == []


@pytest.mark.parametrize(
    ("other", "finding"),
    [
        (TopicConfig("T", 8, 8, 6), F.QUEUES_DIFFER),
        (TopicConfig("T", 4, 4, 4), F.PERMISSIONS_DIFFER),
        (TopicConfig("T", 4, 4, 6, is_ordered=True), F.ATTRIBUTES_DIFFER),
        (TopicConfig("T", 4, 4, 6, attributes={"message.type": "FIFO"}), F.ATTRIBUTES_DIFFER),
    ],
)
def test_each_difference_between_brokers_is_found(other: TopicConfig, finding: TopicFinding) -> None:
    assert config_findings([TopicConfig("T", 4, 4, 6), other]) == [finding]


def test_more_write_than_read_queues_is_found_on_one_broker_alone() -> None:
    assert config_findings([TopicConfig("T", 2, 4, 6)]) == [F.UNREAD_QUEUES]


@pytest.mark.parametrize(
    ("data", "broker", "findings"),
    [
        (QueueData("b", 4, 4, True, True), BrokerData("C", "b", {0: "b:1"}), []),
        (QueueData("b", 4, 4, True, True), BrokerData("C", "b", {1: "b:2"}), [F.NO_MASTER]),
        (QueueData("b", 4, 4, True, True), BrokerData("C", "b", {}), [F.NO_ADDRESS]),
        (QueueData("b", 4, 4, True, True), None, [F.NO_ADDRESS]),
        (QueueData("b", 4, 4, False, True), BrokerData("C", "b", {0: "b:1"}), [F.NOT_READABLE]),
        (QueueData("b", 4, 4, True, False), BrokerData("C", "b", {0: "b:1"}), [F.NOT_WRITABLE]),
        (QueueData("b", 2, 4, True, True), BrokerData("C", "b", {0: "b:1"}), [F.UNREAD_QUEUES]),
        (QueueData("b", 4, 2, True, True), BrokerData("C", "b", {0: "b:1"}), [F.UNWRITTEN_QUEUES]),
    ],
)
def test_what_does_not_fit_in_a_route(data: QueueData, broker: BrokerData | None, findings: list[TopicFinding]) -> None:
    assert route_findings(data, broker) == findings


def test_brokers_and_route_are_compared_broker_by_broker() -> None:
    told = {
        "same": TopicConfig("T", 4, 4, 6),
        "other": TopicConfig("T", 8, 8, 6),
        "hidden": TopicConfig("T", 4, 4, 6),
        "gone": None,
        "never": None,
    }
    route = {name: QueueData(name, 4, 4, True, True) for name in ("same", "other", "gone")}
    assert compare_with_route(told, route) == {
        "other": F.ROUTE_DIFFERS,
        "hidden": F.NOT_IN_ROUTE,
        "gone": F.NOT_ON_BROKER,
    }


def test_every_finding_has_its_words() -> None:
    assert set(TOPIC_FINDINGS) == set(TopicFinding)
