"""Severities are as documented: ERROR where messages are lost, consumed twice or not consumed now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.cluster import NOW_MS, Cluster, Queue, rates

from . import test_checks
from .groups import Change, at_a, both, idle, look, member, members, sick

_CASES = {what: change for what, change, _ in test_checks.SICK}


def _no_members(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        broker.groups.clear()


def _read_all(cluster: Cluster) -> None:
    for broker in cluster.brokers.values():
        broker.offsets["G"]["T"] = {0: 100, 1: 100}


def _refuses_groups(broker: Any) -> None:
    broker.configured.clear()
    broker.settings["autoCreateSubscriptionGroup"] = "false"


def _revived_once(broker: Any) -> None:
    broker.topics["%RETRY%G_T"] = [Queue(2)]
    broker.offsets["G"]["%RETRY%G_T"] = {0: 0}


_CLOSED = _CASES["a topic is not readable at broker-a"]
_DISABLED = _CASES["consuming is disabled"]
_NO_RETRIES = _CASES["no retry queues"]
_FAILING = members(c1=member("a0", "a1", statuses={"T": rates(10, 1)}), c2=member("b0", "b1"))


@pytest.mark.parametrize(
    ("what", "change", "code", "severity"),
    [
        ("messages wait, and no member", _no_members, "OFF005", "ERROR"),
        (
            "only failed messages wait, and no member",
            _CASES["failed messages, and no members"],
            "OFF005",
            "WARNING",
        ),
        (
            "only messages of a killed member that popped wait",
            both(_no_members, _read_all, at_a(_revived_once)),
            "OFF005",
            "ERROR",
        ),
        ("messages where no consumer reads", _CASES["queues that no consumer can read"], "OFF004", "ERROR"),
        ("an unreadable topic with unread messages", _CLOSED, "PUL004", "ERROR"),
        ("an unreadable topic, and all is read", both(_CLOSED, _read_all), "PUL004", "WARNING"),
        ("pulls are refused", _DISABLED, "PUL001", "ERROR"),
        ("pulls would be refused", both(_DISABLED, _no_members, _read_all), "PUL001", "WARNING"),
        ("failed messages are lost", both(_NO_RETRIES, _FAILING), "RTY001", "ERROR"),
        (
            "failed messages would be lost",
            both(_NO_RETRIES, members(c1=member("a0", "a1"), c2=member("b0", "b1"))),
            "RTY001",
            "WARNING",
        ),
        ("a paused member", idle(lastConsumeTimestamp=NOW_MS - 120_000), "PRG002", "ERROR"),
        ("a broker that refuses unknown groups", at_a(_refuses_groups), "CFG002", "ERROR"),
        ("a broker that creates unknown groups", _CASES["a broker without the group"], "CFG002", "WARNING"),
    ],
)
def test_severities(what: str, change: Change, code: str, severity: str) -> None:
    (diagnosis,) = look(sick(change)).diagnoses
    assert {str(each.severity) for each in diagnosis.findings if each.code == code} == {severity}, what


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("everything is read", both(_no_members, _read_all)),
        ("nothing was ever committed", both(_no_members, lambda cluster: [
            broker.offsets.clear() for broker in cluster.brokers.values()
        ])),
        ("only leftovers", both(_no_members, lambda cluster: [
            broker.offsets.update(G={"gone": {0: 1}}) for broker in cluster.brokers.values()
        ])),
        ("an empty retry topic", both(_no_members, _read_all, at_a(
            lambda broker: broker.topics.update({"%RETRY%G": [Queue()]})
        ))),
    ],
)  # fmt: skip
def test_an_offline_group_without_unread_messages_is_quiet(what: str, change: Change) -> None:
    (diagnosis,) = look(sick(change)).diagnoses
    assert [each.sentence for each in diagnosis.findings if str(each.severity) != "INFO"] == [], what
