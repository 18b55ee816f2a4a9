"""Queues of a member whose application polls (DefaultLitePullConsumer)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rmqctl.rules.health.positions import PositionPair
from rmqctl.rules.holder_report import Holder
from rmqctl.rules.stuck_queues import StuckReason, judge

from .test_stuck_queues import HOLDER, IDLE, NOW_MS, SILENT, facts, held, judged, long_idle, position, quiet, watched

_POLLED = replace(HOLDER, is_polled=True, polled_at_ms=NOW_MS - 60_000)
_NO_MORE, _GONE = (replace(_POLLED, polled_at_ms=at_ms) for at_ms in (NOW_MS - 60_001, 0))
_PREFETCHED = quiet(3_600_000)


@pytest.mark.parametrize(
    ("what", "looks", "holder", "head_age_ms", "expected"),
    [
        ("it polls other queues", _PREFETCHED, _POLLED, 3_600_000, False),
        ("it polls none", _PREFETCHED, _NO_MORE, 3_600_000, True),
        ("the messages are new", _PREFETCHED, _GONE, 60_000, False),
        ("the age of the messages is unknown", _PREFETCHED, _GONE, None, None),
        ("that was watched", quiet(0, for_ms=60_001), _GONE, None, True),
        ("it was watched for long, and polls", quiet(0, for_ms=120_000), _POLLED, None, False),
        ("its clock is unknown", _PREFETCHED, replace(_POLLED, now_ms=None), 3_600_000, None),
        ("it waits between pulls", _PREFETCHED, replace(_NO_MORE, pull_interval_ms=10_000), 3_600_000, False),
        ("it answers only at the end", watched(SILENT, position(held())), _GONE, 3_600_000, True),
        ("its pulls return nothing", IDLE, _GONE, 3_600_000, True),
        ("it has polled all, and not committed", long_idle(3_600_000, pulled=100), _GONE,
         3_600_000, False),
    ],
)  # fmt: skip
def test_prefetched_messages_are_not_in_consumption(
    what: str, looks: PositionPair, holder: Holder, head_age_ms: int | None, expected: bool | None
) -> None:
    verdict = judged(looks, 1_000, holder=holder, head_age_ms=head_age_ms)
    has_head = looks.last.held is not None and looks.last.held.head_offset is not None
    assert verdict.why is (StuckReason.NOT_POLLED if has_head else StuckReason.PAUSED), what
    assert (verdict.is_stuck, verdict.is_overdue) == (False, expected), what


def test_a_queue_that_is_polled_is_fine_however_slowly() -> None:
    looks = watched(position(held()), position(held(head=12), 12))
    assert judge(facts(looks, holder=_POLLED), None) is None
