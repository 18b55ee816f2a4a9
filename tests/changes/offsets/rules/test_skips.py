"""What a plan skips, and which requests mean to go back."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
from rmqctl.changes.offsets.rules.skips import describe_skips, goes_back, may_older_skip, require_no_skip
from rmqctl.errors import RefusedError
from rmqctl.model.plan import Operation, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue

_NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TargetSpec(TargetKind.EARLIEST), True),
        (TargetSpec(TargetKind.LATEST), False),
        (TargetSpec(TargetKind.TIME, _NOW_MS - 1), True),
        (TargetSpec(TargetKind.TIME, _NOW_MS), True),
        (TargetSpec(TargetKind.TIME, _NOW_MS + 1), False),
        (TargetSpec(TargetKind.TIME, _NOW_MS - 1, ago_ms=1), True),
        (TargetSpec(TargetKind.TIME, _NOW_MS, ago_ms=0), False),  # now
        (TargetSpec(TargetKind.SHIFT, -1), True),
        (TargetSpec(TargetKind.SHIFT, 0), False),
        (TargetSpec(TargetKind.SHIFT, 1), False),
        (TargetSpec(TargetKind.OFFSET, 0), False),
        (TargetSpec(TargetKind.CURRENT), False),
        (TargetSpec(TargetKind.GIVEN), False),
        (TargetSpec(TargetKind.BEFORE), False),
    ],
)
def test_which_targets_mean_to_go_back(spec: TargetSpec, expected: bool) -> None:
    assert goes_back(spec, _NOW_MS) is expected


@pytest.mark.parametrize(
    ("operation", "asked", "expected"),
    [
        (Operation.OFFSET_RESET, "--by-duration 2h (since 2026-11-21T05:20:00.000Z)", False),
        (Operation.OFFSET_RESET, "--to-time 2026-11-21T05:20:00.000Z", False),
        (Operation.OFFSET_RESET, "--to-earliest", False),
        (Operation.OFFSET_RESET, "--shift-by -5", False),
        (Operation.OFFSET_RESET, "--shift-by 5", True),
        (Operation.OFFSET_RESET, "--to-latest", True),
        (Operation.OFFSET_RESET, "--to-offset 7", True),
        (Operation.OFFSET_RESET, "--from-file f", True),
        (Operation.OFFSET_SKIP, "to the end", True),
        (Operation.OFFSET_UNDO, "20261121T052000-abcdef", True),
    ],
)
def test_a_plan_of_an_older_release_shows_by_its_request_whether_it_may_skip(
    operation: Operation, asked: str, expected: bool
) -> None:
    assert may_older_skip(operation, asked) is expected


def _item(queue_id: int, before: int | None, target: int | None, **known: Any) -> PlanItem:
    mq = MessageQueue("T", "broker-a", queue_id)
    return PlanItem(mq, before, target, Route.SERVER_SIDE, min_offset=10, max_offset=100, **known)


_FORWARD = _item(0, 60, 80, skipped=20)
_RANGE = _item(1, 60, 80, skipped_min=5, skipped_max=20)
_MAYBE = _item(2, 60, 80, skipped_min=0, skipped_max=20)
_UNSTORED = _item(3, None, 80)
_NONE = [
    _item(4, 60, 20, skipped=0),
    _item(5, 5, 10, skipped=0, lost=5),  # what retention deleted is not skipped
    _item(6, None, 10),  # to the first message, or before any
    _item(7, 60, None),  # an offset that is deleted
]


@pytest.mark.parametrize(
    ("items", "amount"),
    [
        ([_FORWARD], "20 messages in 1 queue:"),
        ([_FORWARD, *_NONE], "20 messages in 1 queue:"),
        ([_FORWARD, _RANGE], "25 to 40 messages in 2 queues:"),
        ([_MAYBE], "up to 20 messages in 1 queue:"),
        ([_UNSTORED], "up to 70 messages in 1 queue:"),
        ([_FORWARD, _UNSTORED], "20 to 90 messages in 2 queues:"),
        (_NONE, None),
        ([], None),
    ],
)
def test_what_is_skipped_is_counted_and_what_may_be_skipped_too(items: list[PlanItem], amount: str | None) -> None:
    texts = [each.text for each in describe_skips(items, may_skip=True)]
    assert [text.startswith(f"Skips {amount}") for text in texts] == [True] * (amount is not None)
    plan = Plan("p", Operation.OFFSET_RESET, 0, "C@ns:1", {}, "G", Route.SERVER_SIDE, items=tuple(items))
    require_no_skip(plan)
    back = Plan(
        "p", Operation.OFFSET_RESET, 0, "C@ns:1", {}, "G", Route.SERVER_SIDE, items=tuple(items), may_skip=False
    )
    if amount is None:
        require_no_skip(back)
    else:
        with pytest.raises(RefusedError) as caught:
            require_no_skip(back)
        assert "--allow-skip" in (caught.value.hint or "")
