"""Replays dead letters: each is in the ledger before it is sent, and rmqctl looks for copies of unanswered sends.

It works in windows: rmqctl writes a window to the ledger, sends it in as few requests as the target allows, and writes
its results together with the next window. After a crash the last window is in doubt: the next run looks for its copies
on the target before it sends anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from itertools import repeat

from rmqctl.admin.messages.send import PRODUCER_GROUP
from rmqctl.changes.dlq.rules.replay import ReplayTarget, mark_of, replay_properties
from rmqctl.changes.dlq.rules.replay_chains import ReplayChains
from rmqctl.changes.late_writes import read_until_seen
from rmqctl.client.core import Client
from rmqctl.errors import PluginError, RefusedError, RmqctlError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.net.clock import pause
from rmqctl.producer.producer import may_be_stored
from rmqctl.text.words import counted

from .copies import find_copies, find_late_copies
from .lanes import BrokerLanes, LaneSender
from .ledger import Ledger, LedgerResult, LedgerRow, LedgerState
from .outcome import ReplayOutcome
from .placement import Placer
from .plan import LetterSelection, is_replaced, not_transformed
from .reconciliation import SentCopies
from .requests import ReplayItem, ReplayRequest
from .source import DeadLetter, LetterSource
from .targets import TargetQueues

# A window ends at this number of dead letters, or at this size.
_WINDOW_COUNT, _WINDOW_BYTES = 1_000, 64 << 20
# The number of attempts, at the same broker or another one, when a broker refuses.
_TRIES = 3
_AGAIN_S = 1.0
# Dead letters that the transformation cannot change are listed individually up to this number.
_MOST_NAMED = 100

# Returns the message to send for a dead letter, or None to drop it.
Transform = Callable[[DeadLetter], OutgoingMessage | None]


class Replay:
    """One run of a replay, see run(). `outcome` and `copies` are accurate at any time, also after a cancelled run."""

    def __init__(
        self, client: Client, source: LetterSource, target: ReplayTarget, ledger: Ledger, chains: ReplayChains,
        outcome: ReplayOutcome, *, group: str, most: int | None = None, rate: float | None = None,
        transform: Transform | None = None, sender: LaneSender | None = None, window_count: int | None = None,
        on_progress: Callable[[int], None] = lambda _: None, report: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.outcome = outcome
        # What this run has stored, by queue.
        self.copies: dict[MessageQueue, SentCopies] = {}
        self._client = client
        self._source = source
        self._target = target
        self._ledger = ledger
        self._chains = chains
        self._most = most
        self._rate = rate
        self._transform = transform
        self._on_progress = on_progress
        self._report = report
        self._targets = TargetQueues(client, target, group)
        self._sender = sender or BrokerLanes(client, producer_group(target, group))
        self._window_count = window_count or _WINDOW_COUNT
        self._placer = Placer(client, self._targets)
        self._choice: LetterSelection | None = None
        self._taken_count = 0
        # Results of the previous window, for the next write to the ledger.
        self._done: list[LedgerResult] = []
        # Rows that are being sent.
        self._under_way: dict[tuple[str, int, int, str], LedgerRow] = {}
        # Rows whose sending was not answered.
        self._doubts: dict[tuple[str, int, int, str], LedgerRow] = {}
        # Which of them were looked for in vain.
        self._missed: set[tuple[str, int, int, str]] = set()
        # Topics and sharding keys of which a message was not stored: later ones wait for it, and are counted.
        self._held: set[tuple[str, str]] = set()
        self._held_count = 0
        self._untransformed_count = 0
        # The errors of unanswered requests, by queue.
        self._unanswered: dict[MessageQueue, RmqctlError] = {}

    async def run(self) -> None:
        """Send all dead letters of the source that are not in the ledger.

        Raises what reading raises, and RmqctlError when no broker accepts messages any more. When cancelled, it first
        finishes the window that is being sent.
        """
        await self._settle_earlier()
        size = self._window_count if self._rate is None else max(1, min(self._window_count, int(self._rate)))
        sending: asyncio.Future[None] | None = None
        clock, due_s = self._client.clock, float("-inf")
        try:
            async with aclosing(self._windows(size)) as windows:
                async for window in windows:
                    # The next window is read while this one is being sent.
                    if sending is not None:
                        await asyncio.shield(sending)
                    await pause(clock, max(0.0, due_s - clock.monotonic_s()))
                    if self._rate is not None:
                        due_s = clock.monotonic_s() + len(window) / self._rate
                    sending = asyncio.ensure_future(self._send_window(window))
            if sending is not None:
                await asyncio.shield(sending)
        except asyncio.CancelledError:
            self.outcome.is_interrupted = True
            raise
        finally:
            if sending is not None:
                await asyncio.gather(sending, return_exceptions=True)
            self._doubt_rest()
            self._note()
            await self._settle_own()
            self._conclude()
            self.outcome.failures += self._source.failures()

    async def _windows(self, size: int) -> AsyncGenerator[list[DeadLetter]]:
        choice = self._choice = LetterSelection(self._ledger, self._target, self._chains)
        window: list[DeadLetter] = []
        size_bytes = 0
        async with aclosing(self._source.batches()) as batches:
            async for letters in batches:
                for letter in self._wanted(choice, letters):
                    window.append(letter)
                    size_bytes += len(letter.body)
                    if len(window) >= size or size_bytes >= _WINDOW_BYTES:
                        yield window
                        window, size_bytes = [], 0
                if self._most is not None and self._taken_count >= self._most:
                    break
        if window:
            yield window

    def _wanted(self, choice: LetterSelection, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        wanted = [letter for letter, left in choice.choose(letters) if left is None]
        if self._most is not None:
            wanted = wanted[: self._most - self._taken_count]
        self._taken_count += len(wanted)
        return wanted

    async def _send_window(self, letters: Sequence[DeadLetter]) -> None:
        items = self._make(letters)
        before = self.outcome.sent_count
        doubts_before = len(self._doubts)
        errors: list[RmqctlError] = []
        for number in range(_TRIES):
            if number:
                await pause(self._client.clock, _AGAIN_S * number)
            items, errors = await self._try(items)
            items = self._unheld(items)
            if not items:
                break
        if items:
            self._held.update(item.lane for item in items if item.lane is not None)
            self.outcome.refused_count += len(items)
            what = counted(len(items), "dead letter")
            self.outcome.failures.append(Failure(None, what, errors[0], Attempt.WRITE))
        if self.outcome.sent_count == before and len(self._doubts) > doubts_before:
            # To continue would put all the rest in doubt as well, unless the broker is back.
            await self._settle_own()
        if self.outcome.sent_count == before and (items or len(self._doubts) > doubts_before):
            raise errors[0] if errors else next(iter(self._unanswered.values()))

    def _unheld(self, items: Sequence[ReplayItem]) -> list[ReplayItem]:
        """Return the items that need not wait for an earlier message of their sharding key; count the others."""
        free = [item for item in items if item.lane not in self._held]
        self.outcome.refused_count += len(items) - len(free)
        self._held_count += len(items) - len(free)
        return free

    def _make(self, letters: Sequence[DeadLetter]) -> list[ReplayItem]:
        """Return the messages to send. What the transformation drops is noted."""
        items = []
        for letter in letters:
            topic = self._target.topic_of(letter.properties) or ""
            try:
                made = letter if self._transform is None else self._transform(letter)
            except PluginError as error:
                self._untransformed(letter, topic, error)
                continue
            if made is None:
                self._done.append(
                    LedgerResult(self._placer.row(letter, MessageQueue(topic, "", 0), 0), LedgerState.DROPPED, None)
                )
                self.outcome.dropped_count += 1
                continue
            mark = mark_of(self._ledger.id, letter.broker_name, letter.queue_id, letter.queue_offset)
            properties = replay_properties(made.properties, self._target, mark=mark, message_id=letter.message_id)
            items += self._unheld([ReplayItem(letter, OutgoingMessage(made.body, properties, made.flag), topic)])
        return items

    def _untransformed(self, letter: DeadLetter, topic: str, error: PluginError) -> None:
        self.outcome.refused_count += 1
        self._untransformed_count += 1
        if (lane := ReplayItem(letter, OutgoingMessage(letter.body, letter.properties, 0), topic).lane) is not None:
            self._held.add(lane)
        if self._untransformed_count <= _MOST_NAMED:
            self.outcome.failures.append(not_transformed(letter, error))

    async def _try(self, items: Sequence[ReplayItem]) -> tuple[list[ReplayItem], list[RmqctlError]]:
        """Send each item once. Returns those that are certainly not stored, and why."""
        placed = await self._placer.place(items)
        self._under_way = {row[:4]: row for row in placed.rows()}
        self._note()
        self._targets.next_turn()
        failing: set[tuple[str, str]] = set()
        for lanes in (placed.firsts, placed.others):
            for left, error in await self._send(lanes, failing):
                placed.errors.append(error)
                placed.left += left
        for topic, broker_name in failing:
            self._targets.failed(topic, broker_name)
        self._under_way = {}
        return placed.left, placed.errors

    async def _send(
        self, lanes: Sequence[Sequence[ReplayRequest]], failing: set[tuple[str, str]]
    ) -> list[tuple[list[ReplayItem], RmqctlError]]:
        """Send lanes. Returns what is certainly not stored, and why; notes the rest."""
        sent_counts = [0] * len(lanes)

        def on_stored(index: int, offsets: Sequence[int], is_safe: bool) -> None:
            self._stored(lanes[index][sent_counts[index]], offsets, is_safe=is_safe)
            sent_counts[index] += 1

        errors = await self._sender.send(lanes, on_stored, failing)
        refused = []
        for index, error in errors.items():
            request, *behind = lanes[index][sent_counts[index] :]
            if may_be_stored(error):
                self._doubts |= {row[:4]: row for row in request.rows}
                self._unanswered[request.mq] = error
                self._held.update(item.lane for item in request.chunk.items if item.lane is not None)
            else:
                behind = [request, *behind]
            refused.append(([item for each in behind for item in each.chunk.items], error))
        return refused

    def _stored(self, request: ReplayRequest, offsets: Sequence[int], *, is_safe: bool) -> None:
        self._placer.proven.add(request.place)
        self._targets.stored(request.mq, max(offsets) + 1)
        self._note_copies(request.mq, request.rows[0].from_offset, len(request.rows))
        self._done += map(LedgerResult, request.rows, repeat(LedgerState.SENT), offsets)
        self._count(request.mq.topic, len(request.rows))
        if not is_safe:
            self.outcome.unsafe_count += len(request.rows)

    def _note_copies(self, mq: MessageQueue, from_offset: int, count: int) -> None:
        copies = self.copies.setdefault(mq, SentCopies(from_offset))
        copies.first_offset = min(copies.first_offset, from_offset)
        copies.count += count

    def _count(self, topic: str, count: int) -> None:
        self.outcome.count_sent(topic, count)
        self._on_progress(self.outcome.stored_count)

    # The ledger

    def _note(self) -> None:
        """Write the results of the previous window, and what is about to be sent.

        In this thread: another thread would have to wait for this thread's Python code after each statement.
        """
        done = self._done
        self._ledger.note(done=done, under_way=[*(self._doubts | self._under_way).values()])
        # Only now: if writing was interrupted, it is repeated.
        self._done = []
        if self._choice is not None:
            self._choice.forget(each.row for each in done)

    def _doubt_rest(self) -> None:
        """Doubt what was being sent when the run was cut off, and has no result."""
        done = {each.row[:4] for each in self._done}
        self._doubts |= {place: row for place, row in self._under_way.items() if place not in done}
        self._under_way = {}

    async def _settle_earlier(self) -> None:
        """Look for the copies of what an earlier run left in doubt. Raises RmqctlError if some cannot be read."""
        rows = []
        for row in self._ledger.in_doubt():
            if is_replaced(row, self._chains):
                self._done.append(LedgerResult(row, LedgerState.SENT, None))
            else:
                rows.append(row)
        if not rows:
            return
        self._report(f"Looking for {counted(len(rows), 'message')} that an earlier run may have sent...")
        copies = await find_late_copies(self._client, self._ledger.id, rows)
        for row, to_offset in copies.stored:
            self._done.append(LedgerResult(row, LedgerState.SENT, to_offset))
            self.outcome.count_earlier(row.to_topic)
        self._on_progress(self.outcome.stored_count)
        self._doubts = {row[:4]: row for row in copies.open}
        self._note()
        if self._doubts:
            self.outcome.in_doubt_count = len(self._doubts)
            error = copies.error or RmqctlError("The reason is unknown.")
            said = f"{counted(len(self._doubts), 'message')} of an earlier run may be stored"
            hint = "Nothing was sent. Run the replay again when the broker answers."
            raise error.reworded(f"{said}, but this cannot be verified: {error.sentence}", hint=hint)

    async def _settle_own(self) -> None:
        """Look for the copies of this run's unanswered sends, for a bounded time; the rest stays in doubt."""
        if self._doubts.keys() <= self._missed:
            return
        self._report(f"Looking for {counted(len(self._doubts), 'message')} whose sending was not answered...")

        async def look() -> bool:
            copies = await find_copies(self._client, self._ledger.id, list(self._doubts.values()))
            for row, _ in copies.stored:
                del self._doubts[row[:4]]
            for row, to_offset in copies.stored:
                self._done.append(LedgerResult(row, LedgerState.SENT, to_offset))
                self._note_copies(MessageQueue(row.to_topic, row.to_broker, row.to_queue), row.from_offset, 1)
                self._count(row.to_topic, 1)
            self.outcome.found_count += len(copies.stored)
            return not self._doubts

        if not await look():
            await read_until_seen(self._client, look)
        self._missed = set(self._doubts)
        self._note()

    def _conclude(self) -> None:
        """Add failures for what is still in doubt, and for what is counted only."""
        held = RefusedError("An earlier message with the same sharding key was not sent, or is in doubt.")
        untransformed = PluginError("The transform failed on these too.")
        for count, noun, why in (
            (self._held_count, "dead letter", held),
            (self._untransformed_count - _MOST_NAMED, "more dead letter", untransformed),
        ):
            if count > 0:
                self.outcome.failures.append(Failure(None, counted(count, noun), why, Attempt.WRITE))
        self.outcome.in_doubt_count = len(self._doubts)
        for mq, error in self._unanswered.items():
            count = sum((row.to_topic, row.to_broker, row.to_queue) == mq for row in self._doubts.values())
            if count:
                what = f"{counted(count, 'dead letter')} to {mq}"
                self.outcome.failures.append(Failure(mq.broker_name, what, error, Attempt.UNANSWERED_WRITE))


def producer_group(target: ReplayTarget, group: str) -> str:
    """Return the group that sends: 4.9 asks for its right to consume where a message goes to a retry topic."""
    return group if target.is_retry else PRODUCER_GROUP
