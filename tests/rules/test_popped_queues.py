"""Whether members still pop from a queue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from rmqctl.model.group import RunningInfo, TopicConsumeStatus
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health.popped import Pops, is_pop_overdue, pops_of, pops_of_all
from rmqctl.rules.health.positions import Position, PositionPair
from rmqctl.rules.stuck_queues import judge

from .test_stuck_queues import facts

_A0, _A1, _B0 = (MessageQueue("T", name, queue_id) for name, queue_id in (("a", 0), ("a", 1), ("b", 0)))
_ALL = MessageQueue("T", "a", -1)
_STILL = PositionPair(Position(10, 100), Position(10, 100), 32_000)
_MOVED = PositionPair(Position(10, 100), Position(11, 100), 32_000)


def _member(
    count: int = 0, mq: MessageQueue = _ALL, *, tps: float = 0.0, start: str = "1", limit: str = ""
) -> RunningInfo:
    options = {"PROP_CONSUMER_START_TIMESTAMP": start, "popThresholdForQueue": limit}
    return RunningInfo(options, {}, {mq: count}, {"T": TopicConsumeStatus(0, 0, 0, tps, 0, 0)})


_ONE = {"c1": _member()}
_FULL = {"c1": _member(97)}
_TWO = {**_ONE, "c2": _member(97)}


@pytest.mark.parametrize(
    ("what", "watched", "first", "last", "expected"),
    [
        ("nothing moved", {_A0: _STILL, _A1: _STILL}, _ONE, _ONE, Pops.STOPPED),
        ("it moved", {_A0: _MOVED}, _ONE, _ONE, Pops.POPPING),
        ("another queue that is popped together moved", {_A0: _STILL, _A1: _MOVED}, _ONE, _ONE, Pops.POPPING),
        ("a queue of another broker moved", {_A0: _STILL, _B0: _MOVED}, _ONE, _ONE, Pops.STOPPED),
        (
            "single queues are assigned", {_A0: _STILL, _A1: _MOVED}, {"c1": _member(0, _A0)}, {"c1": _member(0, _A0)},
            Pops.STOPPED,
        ),
        ("the listener has some messages", {_A0: _STILL}, {"c1": _member(96)}, {"c1": _member(96)}, Pops.STOPPED),
        ("the listener has as many as it may, for long", {_A0: _STILL}, _FULL, _FULL, Pops.UNKNOWN),
        ("it had as many at first", {_A0: _STILL}, _FULL, _ONE, Pops.UNKNOWN),
        ("its own limit", {_A0: _STILL}, {"c1": _member(9, limit="8")}, {"c1": _member(9, limit="8")}, Pops.UNKNOWN),
        ("a slow listener", {_A0: _STILL}, _FULL, {"c1": _member(97, tps=0.05)}, Pops.POPPING),
        ("another member has as many as it may", {_A0: _STILL}, _TWO, _TWO, Pops.UNKNOWN),
        ("it has just started", {_A0: _STILL}, {}, _ONE, Pops.UNKNOWN),
        ("it has started again", {_A0: _STILL}, {"c1": _member(start="0")}, _ONE, Pops.UNKNOWN),
        ("no member reports that it pops", {_A0: _STILL}, {}, {}, Pops.UNKNOWN),
    ],
)  # fmt: skip
def test_whether_members_still_pop(
    what: str, watched: Mapping[MessageQueue, PositionPair], first: Mapping[str, RunningInfo],
    last: Mapping[str, RunningInfo], expected: Pops,
) -> None:  # fmt: skip
    assert pops_of(_A0, watched, first, last) is expected, what
    every = pops_of_all(watched, watched, dict.fromkeys(watched, first), last)
    assert every == {mq: pops_of(mq, watched, first, last) for mq in watched}, what


@pytest.mark.parametrize(
    ("what", "pops", "watched", "expected"),
    [
        ("long enough", Pops.STOPPED, _STILL, True),
        ("a pop may wait at the broker", Pops.STOPPED, replace(_STILL, for_ms=30_000), None),
        ("not known", Pops.UNKNOWN, _STILL, None),
        ("they pop", Pops.POPPING, _STILL, False),
        ("messages that have just arrived", Pops.STOPPED, replace(_STILL, first=Position(10, 10)), False),
        ("all is read", Pops.STOPPED, replace(_STILL, last=Position(10, 10)), False),
    ],
)
def test_when_a_queue_that_nothing_is_popped_from_is_overdue(
    what: str, pops: Pops, watched: PositionPair, expected: bool | None
) -> None:
    assert is_pop_overdue(pops, watched) is expected, what


def test_a_member_that_did_not_answer_may_pop() -> None:
    popped = facts(_STILL, holder=None, is_pop=True, pops=Pops.STOPPED)
    for has_silent in (False, True):
        verdict = judge(replace(popped, has_silent=has_silent), None)
        assert verdict is not None
        assert verdict.is_overdue is not has_silent
