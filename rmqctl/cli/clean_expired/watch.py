"""clean-expired --watch: repeated rounds, with one line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rmqctl.changes.clean_expired.rules.blocking import is_passed
from rmqctl.cli.output.listing import Column
from rmqctl.cli.output.row_stream import RowStream
from rmqctl.cli.output.text import note_to_stderr, printable
from rmqctl.errors import RmqctlError
from rmqctl.model.receipt import Result
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted

from .stuck_listing import STUCK_EXIT_CODE

if TYPE_CHECKING:
    from rmqctl.cli.output.display import Display
    from rmqctl.model.receipt import ReceiptReport
    from rmqctl.observe.stuck_scan import StuckScan

_PARTLY = 8


class Round(Struct, frozen=True):
    """The scan and the changes of one round; `applied`: None if nothing was cleaned."""

    scan: StuckScan
    applied: ReceiptReport | None = None


class CleanWatch:
    """Runs rounds, writes a line for each, and sums them up. `play` runs one; its RmqctlErrors end only that round."""

    def __init__(self, group: str, display: Display, play: Callable[[], Round]) -> None:
        self._group = group
        self._play = play
        self._stream = RowStream("CleanRound", COLUMNS, lambda item: str(item["at"]), display)
        self._with_notes = display.with_notes
        self._round_count = self._failed_count = self._returned_count = self._freed_count = 0
        self._code = 0

    def run(self, every_s: float, rounds: int | None) -> int:
        """Run a round every `every_s` seconds, `rounds` times or until Ctrl-C. Returns the exit code."""
        next_s = time.monotonic()
        try:
            while rounds is None or self._round_count < rounds:
                time.sleep(max(0.0, next_s - time.monotonic()))
                next_s = max(next_s + every_s, time.monotonic())
                self._stream.write([self._one()])
        finally:
            if self._with_notes:
                note_to_stderr(printable(self._summary()))
        return _PARTLY if self._failed_count else self._code

    def _one(self) -> dict[str, Any]:
        at_ms = time.time_ns() // 1_000_000
        self._round_count += 1
        item: dict[str, Any] = {
            **time_fields("at", at_ms), "group": self._group, "stuckCount": None, "undecidedCount": None,
            "returnedCount": 0, "freedCount": 0, "pendingCount": 0, "receiptId": None, "error": None,
        }  # fmt: skip
        try:
            played = self._play()
        except RmqctlError as error:
            self._failed_count += 1
            return {**item, "error": error.sentence, "reasons": dict.fromkeys(_COUNTS, error.name)}
        item |= dict(self._counts(played))
        failures = (*played.scan.failures, *(() if played.applied is None else played.applied.failures))
        if failures:
            self._failed_count += 1
            item["error"] = "; ".join(dict.fromkeys(f"{each.what}: {each.error.sentence}" for each in failures))
        return {**item, "reasons": {}}

    def _counts(self, played: Round) -> Iterator[tuple[str, Any]]:
        stuck_count = len({each.progress.mq for each in played.scan.stuck})
        yield "stuckCount", stuck_count
        undecided_count = sum(each.verdict.is_stuck is None for each in played.scan.queues)
        yield "undecidedCount", undecided_count
        freed_count = 0
        # Moved by an earlier round or change; nothing is done about these again.
        pending_count = len({each.progress.mq for each in played.scan.stuck if is_passed(each.watched.last)})
        if played.applied is not None:
            receipt = played.applied.receipt
            freed_count = sum(item.result is Result.CONFIRMED for item in receipt.items)
            self._returned_count += played.applied.returned_count
            self._freed_count += freed_count
            yield "returnedCount", played.applied.returned_count
            yield "freedCount", freed_count
            pending_count += sum(item.is_pending for item in receipt.items)
            yield "receiptId", receipt.id
        yield "pendingCount", pending_count
        # The state after the last round counts, as without --watch.
        self._code = STUCK_EXIT_CODE if freed_count < stuck_count else _PARTLY if undecided_count else 0

    def _summary(self) -> str:
        said = f"{counted(self._round_count, 'round')}: {counted(self._returned_count, 'message')} sent back, "
        said += f"{counted(self._freed_count, 'queue')} freed"
        return f"{said}; {counted(self._failed_count, 'round')} failed in part." if self._failed_count else f"{said}."


_COUNTS = ("stuckCount", "undecidedCount")


COLUMNS = (
    Column("AT", "at", show=lambda item: f"{item['atIso'][:19]}Z"),
    Column("STUCK", "stuckCount", is_number=True, is_alarm=lambda item: bool(item["stuckCount"])),
    Column("UNDECIDED", "undecidedCount", is_number=True),
    Column("SENT-BACK", "returnedCount", is_number=True),
    Column("FREED", "freedCount", is_number=True),
    Column("PENDING", "pendingCount", is_number=True),
    Column("RECEIPT", "receiptId"),
    Column("ERROR", "error"),
)
