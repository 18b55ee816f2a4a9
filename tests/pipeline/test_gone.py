"""What earlier snapshots have and a cluster no longer has: told only when every server that may know was heard."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.admin.offsets.fleet import FleetProgress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.progress import CutQueue, QueueReading, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.snapshot.gone import (
    GroupTopic,
    _not_gone,
    find_gone,
    is_whole,
    with_places,
    with_unlisted_queues,
)
from rmqctl.rules.progress import compute_progress

BEFORE = {
    GroupTopic(group, topic): {MessageQueue(topic, "broker-a", 0)}
    for group, topic in (("pay", "orders"), ("pay", "refunds"), ("pay", "%RETRY%pay"), ("ship", "parcels"))
}
_FAILURE = Failure("broker-b", "offsets", UnreachableError("broker-b", "no answer"))


def _progress(group: str, *topics: str, **more: Any) -> GroupProgress:
    rows = [
        compute_progress(QueueReading(MessageQueue(topic, "broker-a", 0), 0, max_offset=1, consumer_offset=1))
        for topic in topics
    ]
    given: dict[str, Any] = {"failures": (), **more}
    return GroupProgress(
        group, (), GroupState.EMPTY, frozenset(), None, None, None, 0.0, tuple(rows), notes=(), **given
    )


def _fleet(*groups: GroupProgress, names: frozenset[str] | None = frozenset({"pay"})) -> FleetProgress:
    return FleetProgress(groups, (), {"broker-a": "C"}, names=names, configured=names)


_CUT = CutQueue(MessageQueue("refunds", "broker-a", 3), 5, None, None)


@pytest.mark.parametrize(
    ("fleet", "groups", "topics", "expected"),
    [
        (_fleet(_progress("pay", "orders", "refunds")), (), (), [("ship", None)]),
        (_fleet(_progress("pay", "orders")), (), (), [("pay", "refunds"), ("ship", None)]),
        # A broker did not report its groups: who is not named may be there.
        (_fleet(_progress("pay", "orders", "refunds"), names=None), (), (), []),
        # The group was not read completely.
        (_fleet(_progress("pay", "orders", failures=(_FAILURE,))), (), (), [("ship", None)]),
        (_fleet(_progress("pay", "orders", hidden={"": Unknown.NOT_AUTHORISED})), (), (), [("ship", None)]),
        # Offsets in queues that cannot be read, and a subscription without an offset.
        (_fleet(_progress("pay", "orders", cut=(_CUT,))), (), (), [("ship", None)]),
        (_fleet(_progress("pay", "orders", subscribed=frozenset({"refunds"}))), (), (), [("ship", None)]),
        # Only what was asked for.
        (_fleet(_progress("pay", "orders")), ("p*",), (), [("pay", "refunds")]),
        (_fleet(_progress("pay", "orders")), ("p*",), ("ord*",), []),
        # It is there, and could not be read.
        (_fleet(names=frozenset({"pay", "ship"})), (), (), []),
    ],
)
def test_what_is_surely_gone(
    fleet: FleetProgress, groups: tuple[str, ...], topics: tuple[str, ...], expected: list[tuple[str, str | None]]
) -> None:
    assert find_gone(BEFORE, fleet, groups, topics) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (GroupTopic("ship", "parcels"), [("pay", "refunds")]),
        (GroupTopic("pay", "refunds"), [("ship", None)]),
        (GroupTopic("pay", "orders"), [("pay", "refunds"), ("ship", None)]),
    ],
)
def test_what_was_on_a_broker_that_is_not_registered_is_not_gone(
    key: GroupTopic, expected: list[tuple[str, str | None]]
) -> None:
    before = {**BEFORE, key: {MessageQueue(str(key.topic), name, 0) for name in ("broker-a", "broker-b")}}
    assert find_gone(before, _fleet(_progress("pay", "orders")), (), ()) == expected


def test_queues_of_an_unlisted_broker_are_unknown() -> None:
    queues = {MessageQueue("orders", name, 1) for name in ("broker-a", "broker-b", "broker-c")}
    before = {**BEFORE, GroupTopic("pay", "orders"): queues}
    fleet = replace(_fleet(_progress("pay", "orders"), _progress("idle"), names=None), unlisted=frozenset({"broker-b"}))
    pay, idle = with_unlisted_queues(fleet, before).groups
    assert [(str(row.mq), row.lag, row.reasons.get("lag")) for row in pay.rows] == [
        ("orders@broker-a:0", 0, None), ("orders@broker-b:1", None, Unknown.BROKER_NOT_REGISTERED),
    ]  # fmt: skip
    assert idle.rows == ()
    # Only the topics that were asked for; nothing while all brokers are listed.
    asked = replace(fleet, groups=(replace(fleet.groups[0], asked_topics=("ref*",)),))
    for each in (asked, replace(fleet, unlisted=frozenset())):
        assert with_unlisted_queues(each, before) == each


def test_a_group_that_is_not_found_may_be_on_a_broker_that_is_down() -> None:
    error = with_places(NotFoundError("Group", "ship"), BEFORE)
    assert error.sentence == "No broker that is registered has group ship."
    assert "Earlier snapshots have it on broker-a." in (error.hint or "")
    for other in (NotFoundError("Group", "sip"), NotFoundError("Topic", "ship")):
        assert with_places(other, BEFORE) is other


def test_what_was_gone_already_is_not_found_again() -> None:
    a0 = ("broker-a", 0)
    rows = [
        ("pay", "orders", *a0, 1, "BEHIND", "a"), ("pay", "refunds", *a0, 1, "BEHIND", "a"),
        ("pay", "refunds", None, None, 2, "TOPIC_GONE", "b"),
        ("ship", "parcels", *a0, 1, None, "a"), ("ship", None, None, None, 2, "GROUP_GONE", "b"),
        ("back", "orders", *a0, 1, "BEHIND", "a"), ("back", None, None, None, 2, "GROUP_GONE", "b"),
        ("back", "orders", *a0, 3, "BEHIND", "c"), ("back", "orders", "broker-b", 1, 3, "BEHIND", "c"),
    ]  # fmt: skip
    expected = {
        ("pay", "orders"): {MessageQueue("orders", "broker-a", 0)},
        ("back", "orders"): {MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 1)},
    }
    assert _not_gone(rows, "d") == expected
    assert _not_gone(reversed(rows), "d") == expected


def test_a_run_that_is_taken_again_finds_the_same_gone() -> None:
    """Its rows are replaced, and earlier snapshots may be older than what is read."""
    rows = [
        ("pay", "refunds", None, None, 2, "TOPIC_GONE", "a"), ("ship", None, None, None, 2, "GROUP_GONE", "a"),
    ]  # fmt: skip
    before = _not_gone(rows, "a")
    assert find_gone(before, _fleet(_progress("pay", "orders")), (), ()) == [("pay", "refunds"), ("ship", None)]
    assert find_gone(before, _fleet(_progress("pay", "refunds"), names=frozenset({"pay", "ship"})), (), ()) == []


def test_a_snapshot_is_whole_when_each_group_was_read() -> None:
    names = frozenset({"pay", "TOOLS_CONSUMER"})
    assert is_whole(_fleet(_progress("pay"), names=names))
    assert not is_whole(_fleet(names=names))
    assert not is_whole(_fleet(_progress("pay"), names=None))
