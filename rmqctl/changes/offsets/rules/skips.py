"""What a plan skips, and whether it may: a request to go back must not move a group past unread messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqctl.errors import RefusedError
from rmqctl.model.plan import Consequence, Operation, Plan, PlanItem
from rmqctl.text.words import counted

from .reset import TargetKind, TargetSpec

SKIPS = "SKIPS"
# What plans of older releases ask for in these words goes back. They do not record whether they may skip.
_BACK_WORDS = ("--by-duration ", "--to-time ", "--to-earliest", "--shift-by -")


def goes_back(spec: TargetSpec, now_ms: int) -> bool:
    """Return whether a target means to go back. `now_ms` is the brokers' time.

    A time goes back unless it is in the future, or the word `now`, which is counted back by 0.
    """
    match spec.kind:
        case TargetKind.EARLIEST:
            return True
        case TargetKind.TIME:
            return spec.value <= now_ms if spec.ago_ms is None else spec.ago_ms > 0
        case TargetKind.SHIFT:
            return spec.value < 0
        case _:
            return False


def may_older_skip(operation: Operation, asked: str) -> bool:
    """Return whether a plan of an older release may skip messages, as far as its request shows."""
    return operation is not Operation.OFFSET_RESET or not asked.startswith(_BACK_WORDS)


def describe_skips(items: Sequence[PlanItem], *, may_skip: bool) -> Iterator[Consequence]:
    """Describe how many unread messages a plan skips; yields nothing if it surely skips none."""
    found = _skipping(items)
    if found:
        text = f"Skips {_amount(found, 'message')} in {counted(len(found), 'queue')}: the group will not receive them."
        refused = "" if may_skip else " The request is to go back: without --allow-skip, this plan is not applied."
        yield Consequence(SKIPS, f"{text}{_unstored(found)}{refused}")


def require_no_skip(plan: Plan) -> None:
    """Raise RefusedError if a plan would, or might, skip unread messages although the request is to go back."""
    found = () if plan.may_skip else _skipping(plan.items)
    if found:
        sentence = (
            f"{plan.asked} means to go back, but would move {counted(len(found), 'queue')} of group {plan.group} "
            f"forward past {_amount(found, 'unread message')}.{_unstored(found)}"
        )
        hint = (
            "Nothing was changed. Choose an earlier target, or go back from the stored offsets with --shift-by -N. To "
            "skip these messages, make the plan with --allow-skip."
        )
        raise RefusedError(sentence, hint=hint)


def _skipping(items: Sequence[PlanItem]) -> list[tuple[PlanItem, int, int]]:
    """Return the items that may skip messages, with the least and the most that each skips."""
    bounds = [(item, *_bounds(item)) for item in items]
    return [each for each in bounds if each[2] > 0]


def _bounds(item: PlanItem) -> tuple[int, int]:
    if item.skipped_bounds is not None:
        return item.skipped_bounds
    # Without a stored offset, members choose where they start (ConsumeFromWhere): at most at the first message.
    return (0, 0) if item.target is None else (0, max(0, item.target - (item.min_offset or 0)))


def _amount(found: Sequence[tuple[PlanItem, int, int]], noun: str) -> str:
    low, high = sum(each[1] for each in found), sum(each[2] for each in found)
    least = "" if low == high else f"{low} to " if low else "up to "
    return f"{least}{counted(high, noun)}"


def _unstored(found: Sequence[tuple[PlanItem, int, int]]) -> str:
    count = sum(item.before is None for item, _, _ in found)
    has = "has" if count == 1 else "have"
    said = f" {counted(count, 'queue')} {has} no stored offset: how many are unread there is unknown."
    return said if count else ""
