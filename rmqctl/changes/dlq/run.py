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

from msgspec import Struct, field

from rmqctl.admin.messages.send import PRODUCER_GROUP
from rmqctl.admin.results import ask_all
from rmqctl.changes.dlq.rules.replay import MARK, ReplayTarget, mark_of, replay_properties
from rmqctl.changes.late_writes import read_until_seen
from rmqctl.client.core import Client
from rmqctl.client.producer import may_be_stored
from rmqctl.errors import RefusedError, RmqctlError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage, SendStatus
from rmqctl.net.clock import pause
from rmqctl.protocol import sends
from rmqctl.protocol.command import Command
from rmqctl.text.words import counted

from .copies import find_copies
from .ledger import Ledger, LedgerResult, LedgerRow, LedgerState
from .plan import LetterSelection
from .requests import ReplayItem, ReplayRequest, make_chunks
from .source import DeadLetter, LetterSource
from .targets import TargetQueues

_WINDOW_COUNT = 1_000
_REQUESTS_AT_ONCE = 64
# A broker that does not answer in this time has the message, or will never have it (DefaultMQProducer.sendMsgTimeout).
_ANSWER_S = 10.0
# A broker that answers has stored earlier sends after this time: it drops requests that wait longer.
_IN_FLIGHT_S = 5.0
# The number of attempts, at the same broker or another one, when a broker refuses.
_TRIES = 3
_AGAIN_S = 1.0

# Returns the message to send for a dead letter, or None to drop it.
Transform = Callable[[DeadLetter], OutgoingMessage | None]


class ReplayOutcome(Struct):
    """The result of a run. `found_count`: those of `sent_count` whose copy was found after a crash or a lost response.

    `unsafe_count` are stored less safely than the broker's configuration requires. `in_doubt_count` may be stored,
    `refused_count` are not.
    """

    sent_count: int = 0
    found_count: int = 0
    unsafe_count: int = 0
    dropped_count: int = 0
    refused_count: int = 0
    in_doubt_count: int = 0
    by_topic: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    is_interrupted: bool = False

    def note_end(self, error: RmqctlError, planned_count: int) -> None:
        """Note what ended the run, and how many dead letters it did not reach."""
        settled_count = self.sent_count + self.dropped_count + self.refused_count + self.in_doubt_count
        left_count = planned_count - settled_count
        if left_count > 0 or not self.failures:
            what = counted(left_count, "more dead letter") if left_count > 0 else "the rest"
            self.failures.append(Failure(None, what, error, Attempt.WRITE))


class Replay:
    """One run of a replay, see run(). `outcome` is accurate at any time, also after a cancelled run."""

    def __init__(
        self, client: Client, source: LetterSource, target: ReplayTarget, ledger: Ledger, outcome: ReplayOutcome, *,
        group: str, most: int | None = None, rate: float | None = None, transform: Transform | None = None,
        on_progress: Callable[[int], None] = lambda _: None, report: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.outcome = outcome
        self._client = client
        self._source = source
        self._target = target
        self._ledger = ledger
        self._most = most
        self._rate = rate
        self._transform = transform
        self._on_progress = on_progress
        self._report = report
        self._targets = TargetQueues(client, target, group)
        self._choice: LetterSelection | None = None
        self._taken_count = 0
        self._placed_count = 0  # of requests: each is sent to the next queue
        # Topics and brokers that have stored a message.
        self._proven: set[tuple[str, str]] = set()
        # Results of the previous window, for the next write to the ledger.
        self._done: list[LedgerResult] = []
        # Rows whose sending was not answered.
        self._doubts: dict[tuple[str, int, int, str], LedgerRow] = {}
        # Which of them were looked for in vain.
        self._missed: set[tuple[str, int, int, str]] = set()
        # The errors of unanswered requests, by queue.
        self._unanswered: dict[MessageQueue, RmqctlError] = {}

    async def run(self) -> None:
        """Send all dead letters of the source that are not in the ledger.

        Raises what reading raises, and RmqctlError when no broker accepts messages any more. When cancelled, it first
        finishes the window that is being sent.
        """
        await self._settle_earlier()
        size = _WINDOW_COUNT if self._rate is None else max(1, min(_WINDOW_COUNT, int(self._rate)))
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
            self._note()
            await self._settle_own()
            self._conclude()
            self.outcome.failures += self._source.failures()

    async def _windows(self, size: int) -> AsyncGenerator[list[DeadLetter]]:
        choice = self._choice = LetterSelection(self._ledger, self._target)
        window: list[DeadLetter] = []
        async with aclosing(self._source.batches()) as batches:
            async for letters in batches:
                window += self._wanted(choice, letters)
                while len(window) >= size:
                    yield window[:size]
                    window = window[size:]
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
            if not items:
                break
        if items:
            self.outcome.refused_count += len(items)
            what = counted(len(items), "dead letter")
            self.outcome.failures.append(Failure(None, what, errors[0], Attempt.WRITE))
        if self.outcome.sent_count == before and len(self._doubts) > doubts_before:
            # To continue would put all the rest in doubt as well, unless the broker is back.
            await self._settle_own()
        if self.outcome.sent_count == before and (items or len(self._doubts) > doubts_before):
            raise errors[0] if errors else next(iter(self._unanswered.values()))

    def _make(self, letters: Sequence[DeadLetter]) -> list[ReplayItem]:
        """Return the messages to send. What the transformation drops is noted."""
        items = []
        for letter in letters:
            topic = self._target.topic_of(letter.properties) or ""
            made = letter if self._transform is None else self._transform(letter)
            if made is None:
                self._done.append(
                    LedgerResult(self._row(letter, MessageQueue(topic, "", 0), 0), LedgerState.DROPPED, None)
                )
                self.outcome.dropped_count += 1
                continue
            mark = mark_of(self._ledger.id, letter.broker_name, letter.queue_id, letter.queue_offset)
            properties = replay_properties(made.properties, self._target, mark=mark, message_id=letter.message_id)
            items.append(ReplayItem(letter, OutgoingMessage(made.body, properties, made.flag), topic))
        return items

    def _row(self, letter: DeadLetter, mq: MessageQueue, from_offset: int) -> LedgerRow:
        return LedgerRow(
            letter.broker_name, letter.queue_id, letter.queue_offset, letter.message_id,
            letter.properties.get(MARK, ""), *mq, self._client.clock.now_ms(), from_offset,
        )  # fmt: skip

    async def _try(self, items: list[ReplayItem]) -> tuple[list[ReplayItem], list[RmqctlError]]:
        """Send each item once. Returns those that are certainly not stored, and why."""
        firsts, others, left, errors = await self._place(items)
        self._note([row for request in (*firsts, *others) for row in request.rows])
        self._targets.next_turn()
        for requests in (firsts, others):
            for request, error in await self._send(requests):
                errors.append(error)
                left += request.chunk.items
        return left, errors

    async def _send(self, requests: Sequence[ReplayRequest]) -> list[tuple[ReplayRequest, RmqctlError]]:
        """Send requests concurrently. Returns those that are certainly not stored, and why; notes the others."""

        async def send(index: int) -> Command:
            place = requests[index].place
            if self._targets.is_failing(*place):
                raise RefusedError(f"Not sent to {place[1]}, which failed before.")
            try:
                return await self._ask(requests[index])
            except RmqctlError:
                self._targets.failed(*place)
                raise

        answers = await ask_all(range(len(requests)), send, at_once=_REQUESTS_AT_ONCE)
        for index, answer in answers.ok.items():
            self._stored(requests[index], answer)
        refused = []
        for index, error in answers.failed.items():
            request = requests[index]
            if may_be_stored(error):
                self._doubts |= {row[:4]: row for row in request.rows}
                self._unanswered[request.mq] = error
            else:
                refused.append((request, error))
        return refused

    async def _place(
        self, items: list[ReplayItem]
    ) -> tuple[list[ReplayRequest], list[ReplayRequest], list[ReplayItem], list[RmqctlError]]:
        """Divide items among requests and queues. Also returns those whose topic accepts no messages, and why.

        The first list is to be sent before the second. 4.9 does not check the right to send batches
        (PlainAccessResource.parse): if a broker has stored nothing for a topic yet, one message is sent alone.
        """
        by_topic: dict[str, list[ReplayItem]] = {}
        for item in items:
            by_topic.setdefault(item.topic, []).append(item)
        firsts: dict[tuple[str, str], ReplayRequest] = {}
        others: list[ReplayRequest] = []
        left: list[ReplayItem] = []
        errors: list[RmqctlError] = []
        for topic, part in by_topic.items():
            try:
                queues = await self._targets.queues(topic)
            except RmqctlError as error:
                errors.append(error)
                left += part
                continue
            for chunk in make_chunks(topic, part):
                self._placed_count += 1
                mq, address = queues[self._placed_count % len(queues)]
                end = self._targets.ends[mq]
                request = ReplayRequest(mq, address, chunk, [self._row(item.letter, mq, end) for item in chunk.items])
                if chunk.parts is not None and request.place not in self._proven | firsts.keys():
                    firsts[request.place], request = request.split_first()
                others.append(request)
        return [*firsts.values()], others, left, errors

    async def _ask(self, request: ReplayRequest) -> Command:
        now_ms = self._client.clock.now_ms()
        if request.chunk.parts is not None:
            command = sends.send_batch(PRODUCER_GROUP, request.mq, request.chunk.parts, now_ms)
        else:
            try:
                command = sends.send_message(PRODUCER_GROUP, request.mq, request.chunk.items[0].message, now_ms)
            except ValueError as error:
                raise RefusedError(f"The message cannot be sent: {error}.") from None
        return await self._client.ask(
            request.address, command, accept=sends.STORED, may_repeat=False, timeout_s=_ANSWER_S
        )

    def _stored(self, request: ReplayRequest, answer: Command) -> None:
        result = sends.decode_send(answer)
        count = len(request.rows)
        offsets = range(result.queue_offset, result.queue_offset + count)
        self._proven.add(request.place)
        self._targets.stored(request.mq, offsets.stop)
        self._done += map(LedgerResult, request.rows, repeat(LedgerState.SENT), offsets)
        self._count(request.mq.topic, count)
        if result.status is not SendStatus.SEND_OK:
            self.outcome.unsafe_count += count

    def _count(self, topic: str, count: int) -> None:
        self.outcome.sent_count += count
        self.outcome.by_topic[topic] = self.outcome.by_topic.get(topic, 0) + count
        self._on_progress(self.outcome.sent_count)

    # The ledger

    def _note(self, begun: Sequence[LedgerRow] = ()) -> None:
        """Write the results of the previous window, and what is about to be sent.

        In this thread: another thread would have to wait for this thread's Python code after each statement.
        """
        done, self._done = self._done, []
        self._ledger.note(done=done, under_way=[*self._doubts.values(), *begun])
        if self._choice is not None:
            self._choice.forget(each.row for each in done)

    async def _settle_earlier(self) -> None:
        """Look for the copies of what an earlier run left in doubt. Raises RmqctlError if some cannot be read."""
        rows = self._ledger.in_doubt()
        if not rows:
            return
        self._report(f"Looking for {counted(len(rows), 'message')} that an earlier run may have sent...")
        copies = await find_copies(self._client, self._ledger.id, rows)
        if len(copies.stored) + len(copies.open) < len(rows):
            # A broker that was stopped answers reads as soon as it resumes, and may store earlier sends only later.
            await pause(self._client.clock, _IN_FLIGHT_S)
            copies = await find_copies(self._client, self._ledger.id, rows)
        self._settle(copies.stored)
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
            self._settle(copies.stored)
            return not self._doubts

        if not await look():
            await read_until_seen(self._client, look)
        self._missed = set(self._doubts)
        self._note()

    def _conclude(self) -> None:
        """Add failures for what is still in doubt."""
        self.outcome.in_doubt_count = len(self._doubts)
        for mq, error in self._unanswered.items():
            count = sum((row.to_topic, row.to_broker, row.to_queue) == mq for row in self._doubts.values())
            if count:
                what = f"{counted(count, 'dead letter')} to {mq}"
                self.outcome.failures.append(Failure(mq.broker_name, what, error, Attempt.UNANSWERED_WRITE))

    def _settle(self, stored: Sequence[tuple[LedgerRow, int]]) -> None:
        for row, to_offset in stored:
            self._done.append(LedgerResult(row, LedgerState.SENT, to_offset))
            self._count(row.to_topic, 1)
        self.outcome.found_count += len(stored)
