"""Which messages the journal's changes skipped."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.journal.skips import Skip, journal_skips
from rmqctl.model.plan import PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import Result

from .test_journal import a_plan, begin, settled

_AT = {"broker-a": "127.0.0.1:10911"}
# The offset before and after, the result, and what was skipped.
_ITEMS = [
    (5, 9, Result.CONFIRMED, (5, 9)),
    (5, 9, Result.UNKNOWN, (5, 9)),
    (None, 9, Result.CONFIRMED, (0, 9)),
    (5, 9, Result.UNCHANGED, None),
    (5, 9, Result.NOT_ATTEMPTED, None),
    (9, 5, Result.CONFIRMED, None),
    (5, None, Result.CONFIRMED, None),
]


def test_skips_are_moves_forward_that_were_made_or_may_have_been(journal: Journal, path: Path) -> None:
    assert journal_skips(_AT, ["T"], path=path) == []
    queues = [MessageQueue("T", "broker-a", number) for number in range(len(_ITEMS))]
    moves = list(zip(queues, _ITEMS, strict=True))
    items = tuple(PlanItem(mq, before, target, Route.SERVER_SIDE) for mq, (before, target, *_) in moves)
    begin(journal, "r", replace(a_plan(), items=items))
    journal.attempting("r", {number: before for number, (before, *_) in enumerate(_ITEMS)})
    journal.settle(
        "r",
        {
            number: replace(settled(0, result), mq=mq, before=before, target=target)
            for number, (mq, (before, target, result, _)) in enumerate(moves)
        },
    )
    journal.end("r", 1_500)
    expected = [Skip("G", mq, *skipped, 1_500) for mq, (*_, skipped) in moves if skipped is not None]
    assert journal_skips(_AT, ["T", "U"], path=path) == expected
    assert journal_skips(_AT, ["U"], path=path) == []
    assert journal_skips({"broker-a": "10.0.0.1:10911"}, ["T"], path=path) == []
    # A process that is killed while it attempts the last one leaves it open.
    begin(journal, "s", a_plan(1))
    journal.attempting("s", {0: 2}, now_ms=1_800)
    assert journal_skips(_AT, ["T"], path=path) == [*expected, Skip("G", queues[0], 2, 5, 1_800)]
