"""When a queue with unread messages has been idle for too long."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.model.group import GroupState, RunningInfo
from rmqctl.rules.health.idle import idle_for_ms, is_abandoned, is_overdue, may_wait_for_polls
from rmqctl.rules.health.positions import PositionPair

from .test_stuck_queues import HOLDER, OVERDUE, UNHELD, judged, long_idle, position, watched


@pytest.mark.parametrize(
    ("what", "times", "expected"),
    [
        ("it finished nothing for 20 min, and the next message is older", (1_300_000, 100_000, 3_600_000), 1_200_000),
        ("the next message is younger", (1_300_000, 100_000, 5_000), 5_000),
        ("its clock is unknown", (None, 100_000, 5_000), None),
        ("it does not report when it finished a message", (1_300_000, None, 5_000), None),
        ("the age of the next message is unknown", (1_300_000, 100_000, None), None),
    ],
)
def test_the_idle_time_is_bounded_by_the_member_and_by_the_message(
    what: str, times: tuple[int | None, int | None, int | None], expected: int | None
) -> None:
    assert idle_for_ms(*times) == expected, what


@pytest.mark.parametrize(
    ("what", "idle_ms", "watched_ms", "expected"),
    [
        ("its own times show it", 30_001, 0, True),
        ("the watch shows it", None, 30_001, True),
        ("it is idle for a moment", 30_000, 2_000, False),
        ("only a longer watch shows it", None, 30_000, None),
    ],
)
def test_a_queue_is_overdue_after_the_limit(
    what: str, idle_ms: int | None, watched_ms: int, expected: bool | None
) -> None:
    assert is_overdue(idle_ms, watched_ms, 30_000) is expected, what


@pytest.mark.parametrize(
    ("what", "head_age_ms", "watched_ms", "expected"),
    [
        ("old messages, and a long watch", 60_001, 30_000, True),
        ("old messages, and a short watch", 3_600_000, 2_000, None),
        ("the application may commit every minute", 60_000, 30_000, False),
        ("messages of unknown age that were watched themselves", None, 60_000, True),
        ("messages of unknown age", None, 59_999, None),
    ],
)
def test_a_queue_without_a_holder_is_abandoned_after_a_long_watch(
    what: str, head_age_ms: int | None, watched_ms: int, expected: bool | None
) -> None:
    assert is_abandoned(head_age_ms, watched_ms) is expected, what


_PULL, _LITE = (
    RunningInfo({"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY", **options}, {}, {})
    for options in ({}, {"pullThresholdForAll": "10000"})
)


@pytest.mark.parametrize(
    ("what", "running", "expected"),
    [
        ("one lite pull consumer", [_LITE, RunningInfo({}, {}, {})], True),
        ("two of them", [_LITE, _LITE], None),
        ("a pull consumer as well", [_LITE, _PULL], False),
        ("only push consumers", [RunningInfo({}, {}, {})], False),
    ],
)
def test_which_queues_wait_for_their_turn(what: str, running: list[RunningInfo], expected: bool | None) -> None:
    assert may_wait_for_polls(running) is expected, what


_WATCHED = watched(position(None), position(None), for_ms=30_000)
_TAIL, _PULLS = (
    watched(replace(position(None), pull_offset=first), replace(position(None), pull_offset=last), for_ms=30_000)
    for first, last in ((10, 10), (10, 40))
)


@pytest.mark.parametrize(
    ("what", "looks", "more", "is_overdue"),
    [
        ("paused for long", long_idle(30_001), {}, True),
        ("paused for a moment", long_idle(30_000), {}, False),
        ("the next message is new", long_idle(3_600_000), {"head_age_ms": 30_000}, False),
        ("idle between two pulls", long_idle(90_000), {"holder": replace(HOLDER, pull_interval_ms=60_000)}, False),
        ("paused for longer than that", long_idle(90_001), {"holder": replace(HOLDER, pull_interval_ms=60_000)}, True),
        ("pulls have ended", OVERDUE, {}, True),
        ("filtered messages", long_idle(30_000), {"is_wanted": False}, False),
        ("pulls of filtered messages fail", long_idle(30_001), {"is_wanted": False}, True),
        ("no times, and a short watch", long_idle(0), {"holder": replace(HOLDER, now_ms=None)}, None),
        ("no times, and a long watch", long_idle(0, for_ms=30_001), {"holder": replace(HOLDER, now_ms=None)}, True),
        ("refused pulls", long_idle(3_600_000), {"can_pull": False}, False),
        ("no holder, and a short watch", UNHELD, {"reports_queues": False}, None),
        ("no holder", _WATCHED, {"reports_queues": False}, True),
        ("no holder, among push consumers", _WATCHED, {}, True),
        ("no holder, and a new message", _WATCHED, {"reports_queues": False, "head_age_ms": 60_000}, False),
        ("no holder, but a member pulls", _PULLS, {"reports_queues": False}, False),
        ("no holder, and filtered messages", _WATCHED, {"reports_queues": False, "is_wanted": False}, False),
        ("no holder, and filtered messages that no pull passed", _TAIL, {"is_wanted": False}, True),
        ("no holder, and an application that polls other queues", _WATCHED, {"waits_for_polls": True}, False),
        ("no holder, and any of two applications polls", _WATCHED, {"waits_for_polls": None}, None),
        ("no holder, and a silent member", _WATCHED, {"has_silent": True}, False),
        ("no members", _WATCHED, {"state": GroupState.EMPTY}, False),
    ],
)  # fmt: skip
def test_when_a_queue_is_idle_for_too_long(
    what: str, looks: PositionPair, more: dict[str, Any], is_overdue: bool | None
) -> None:
    holder = {"holder": None} if looks.last.held is None else {}
    assert judged(looks, **{**holder, **more}).is_overdue is is_overdue, what
