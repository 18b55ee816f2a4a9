"""What earlier snapshots have and a cluster no longer has: told only when every server that may know was heard."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.admin.offsets.fleet import FleetProgress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.errors import UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.progress import CutQueue, QueueReading, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.snapshot.gone import GroupTopic, _not_gone, find_gone, is_whole
from rmqctl.rules.progress import compute_progress

BEFORE = [
    GroupTopic("pay", "orders"), GroupTopic("pay", "refunds"), GroupTopic("pay", "%RETRY%pay"),
    GroupTopic("ship", "parcels"),
]  # fmt: skip
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
    return FleetProgress(groups, (), {}, names=names, configured=names)


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


def test_what_was_gone_already_is_not_found_again() -> None:
    rows = [
        ("pay", "orders", 1, "BEHIND", "a"), ("pay", "refunds", 1, "BEHIND", "a"),
        ("pay", "refunds", 2, "TOPIC_GONE", "b"),
        ("ship", "parcels", 1, None, "a"), ("ship", None, 2, "GROUP_GONE", "b"),
        ("back", "orders", 1, "BEHIND", "a"), ("back", None, 2, "GROUP_GONE", "b"),
        ("back", "orders", 3, "BEHIND", "c"),
    ]  # fmt: skip
    expected = {("pay", "orders"), ("back", "orders")}
    assert _not_gone(rows, "d") == expected
    assert _not_gone(reversed(rows), "d") == expected


def test_a_run_that_is_taken_again_finds_the_same_gone() -> None:
    """Its rows are replaced, and earlier snapshots may be older than what is read."""
    before = _not_gone([("pay", "refunds", 2, "TOPIC_GONE", "a"), ("ship", None, 2, "GROUP_GONE", "a")], "a")
    assert find_gone(before, _fleet(_progress("pay", "orders")), (), ()) == [("pay", "refunds"), ("ship", None)]
    assert find_gone(before, _fleet(_progress("pay", "refunds"), names=frozenset({"pay", "ship"})), (), ()) == []


def test_a_snapshot_is_whole_when_each_group_was_read() -> None:
    names = frozenset({"pay", "TOOLS_CONSUMER"})
    assert is_whole(_fleet(_progress("pay"), names=names))
    assert not is_whole(_fleet(names=names))
    assert not is_whole(_fleet(_progress("pay"), names=None))
