"""The results of the offsets that a plan writes: read back, waited for, and journaled as soon as they are known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.results import ask_all
from rmqctl.changes.journal.journal import Journal, write_to_journal
from rmqctl.changes.late_writes import (
    LOOK_AGAIN_S,
    LOOKING,
    is_refusal,
    joined,
    read_until_seen,
    stored_words,
    unseen_again_note,
    unseen_note,
)
from rmqctl.changes.offsets.rules.drift import is_seen
from rmqctl.changes.plan_parts import broker_of
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.group import GO, GroupState
from rmqctl.model.plan import Plan, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ReceiptItem, Result
from rmqctl.model.route import BrokerData
from rmqctl.model.sample import GroupSample, QueueSample
from rmqctl.net.clock import pause
from rmqctl.observe.group_sampler import GroupSampler
from rmqctl.observe.wait_stable import wait_until_confirmed
from rmqctl.rules.written_offsets import ResetOutcome, WriteVerdict, WrittenOffset, push_quiet_s

from .check import PlanCheck

# Go clients also stop for 10 s after a pull moves them, and get the queue again at the next rebalance, within 20 s.
_GO_MORE_S = 30.0
# Held pulls take 15 s; members that have just joined take 30 s more until they may pull.
_WAIT_S = 60.0
# The interval of the clients' commits (persistConsumerOffsetInterval), and some time to do so.
_STORED_EVERY_S = 6.0


class Outcomes:
    """One application of a plan: what is known of each item so far, by its index in the plan."""

    def __init__(self, client: Client, plan: Plan, checked: PlanCheck, journal: Journal, receipt_id: str) -> None:
        self.receipt_id = receipt_id
        self.failures: list[Failure] = []
        # The request was sent, or is about to be.
        self.written: set[int] = set()
        # The right offset was pushed to the clients.
        self.pushed: set[int] = set()
        # The offset was stored, and certainly not pushed to any client.
        self.not_pushed: set[int] = set()
        # A request was sent and not answered; the errors are by broker.
        self.unanswered: set[int] = set()
        self.write_failures: dict[str, Failure] = {}
        self._client = client
        self._plan = plan
        self._checked = checked
        self._journal = journal
        # Why a broker could not be read the last time, and the notes of its items from before.
        self._read_failures: dict[str, Failure] = {}
        self._sent_notes: dict[int, str] = {}
        self._baseline: GroupSample | None = None
        self._has_go = GO in checked.languages
        self.items = {
            index: ReceiptItem(
                item.mq, checked.offsets.get(item.mq), item.target, item.route, Result.NOT_ATTEMPTED,
                note=item.note if item.route is Route.UNSEEN else "nothing was sent",
            )
            for index, item in enumerate(plan.items)
        }  # fmt: skip

    def in_order(self) -> tuple[ReceiptItem, ...]:
        """Return all items in the plan's order."""
        return tuple(self.items[index] for index in range(len(self.items)))

    async def find(self, wait_s: float | None, report: Callable[[str], None]) -> None:
        """Find out the results of all that was written."""
        await self.read_back(self.written)
        awaited = self._awaited(wait_s)
        # Concurrently: a later look at the group could not tell which members had moved before it.
        await asyncio.gather(self._wait(awaited, wait_s, report), self._look_again(awaited, report))
        await self._check_not_pushed(wait_s)

    def attempting(self, indexes: Sequence[int]) -> None:
        """Journal what is going to be sent. Raises the journal's error: what is not journaled is not sent."""
        befores = {index: self.items[index].before for index in indexes}
        self._journal.attempting(self.receipt_id, befores, now_ms=self._client.clock.now_ms())
        for index in indexes:
            self.written.add(index)
            self.items[index] = replace(self.items[index], result=Result.UNKNOWN, note="")

    def note_refusals(self, failed: Mapping[int, RmqctlError]) -> None:
        """Note what brokers refused. Raises the first error that is not a refusal: its effect is uncertain."""
        for index, error in failed.items():
            self.note(index, error.sentence)
        refused = {index: error for index, error in failed.items() if is_refusal(error)}
        for index, error in refused.items():
            mq = self._plan.items[index].mq
            self.failures.append(Failure(mq.broker_name, f"offset of {mq}", error, Attempt.WRITE))
        self.unanswered |= failed.keys() - refused.keys()
        for index, error in failed.items():
            if index not in refused:
                raise error

    def settle(self, indexes: Iterable[int]) -> None:
        """Write to the journal what is known of items."""
        settled = {index: self.items[index] for index in indexes}
        write_to_journal(lambda: self._journal.settle(self.receipt_id, settled), self.failures)

    def end(self, now_ms: int) -> None:
        """Write to the journal that the change has ended."""
        write_to_journal(lambda: self._journal.end(self.receipt_id, now_ms), self.failures)

    def note(self, index: int, note: str) -> None:
        """Set an item's note."""
        self.items[index] = replace(self.items[index], note=note)

    async def read_back(self, indexes: Collection[int]) -> None:
        """Read what is stored now where something was sent, and draw conclusions from it."""
        by_broker = self._by_broker(indexes)
        answers = await ask_all(by_broker, lambda name: self._stored(name, by_broker[name]))
        for name, part in by_broker.items():
            for index in part:
                if name in answers.ok:
                    self._conclude(index, answers.ok[name][self._plan.items[index].mq])
                else:
                    self._note_unread(index, answers.failed[name])
            self._read_failures.pop(name, None)
        self._read_failures |= {
            name: Failure(name, "what is stored now", error) for name, error in answers.failed.items()
        }
        self.settle(indexes)

    def _note_unread(self, index: int, error: RmqctlError) -> None:
        note = self._sent_notes.setdefault(index, self.items[index].note)
        self.note(index, joined(note or "It was sent", f"The offset could not be read back: {error.sentence}"))

    def all_failures(self) -> tuple[Failure, ...]:
        """Return what failed, except what was later confirmed."""
        open_names = {item.mq.broker_name for item in self.items.values() if item.result is not Result.CONFIRMED}
        unanswered = [failure for name, failure in self.write_failures.items() if name in open_names]
        return (*self.failures, *unanswered, *self._read_failures.values())

    def _awaited(self, wait_s: float | None) -> set[int]:
        """Return the items whose targets the group itself has to reach, if rmqctl waits for that."""
        if wait_s == 0 or self._plan.state is not GroupState.ONLINE:
            return set()
        return {
            index
            for index, item in self.items.items()
            if item.result is Result.UNKNOWN and index in self.written
            if item.route is Route.SERVER_SIDE or (item.route is Route.CLIENT_PUSH and index not in self.not_pushed)
            if item.target is not None  # offsets of a running group are not deleted
        }

    async def _look_again(self, awaited: Collection[int], report: Callable[[str], None]) -> None:
        """Read unanswered writes again until they are seen, for a bounded time; then they stay unknown.

        The same applies to writes that were answered and could not be read back. `awaited` is watched elsewhere.
        """

        def is_open(index: int) -> bool:
            item = self.items[index]
            if index in awaited or item.result is not Result.UNKNOWN or item.is_pending:
                return False
            return not item.is_after_known or (index in self.unanswered and item.after != item.target)

        left = [index for index in sorted(self.written) if is_open(index)]
        if not left:
            return
        report(f"Reading unanswered writes again for up to {LOOK_AGAIN_S:g} s...")

        async def look() -> bool:
            await self.read_back([index for index in left if is_open(index)])
            return not any(map(is_open, left))

        await read_until_seen(self._client, look)
        now_ms = self._client.clock.now_ms()
        for index in filter(is_open, left):
            item = self.items[index]
            if item.is_after_known:
                self.note(index, unseen_note(item.note, stored_words(item.after), now_ms))
        self.settle(left)

    async def look_for_awaited(self, indexes: Collection[int], report: Callable[[str], None]) -> set[int]:
        """Look for the earlier writes that items of an undo await, for a bounded time; return those that were seen.

        Nothing is written for the others, and they are unknown.
        """
        report(LOOKING)
        seen: set[int] = set()
        failed: dict[str, RmqctlError] = {}

        async def look() -> bool:
            nonlocal failed
            by_broker = self._by_broker(index for index in indexes if index not in seen)
            answers = await ask_all(by_broker, lambda name: self._stored(name, by_broker[name]))
            failed = dict(answers.failed)
            for index in (index for name in answers.ok for index in by_broker[name]):
                planned = self._plan.items[index]
                now = answers.ok[planned.mq.broker_name][planned.mq]
                self.items[index] = replace(self.items[index], before=now, after=now, is_after_known=True)
                if planned.awaits is not None and is_seen(planned.awaits, planned.before, now):
                    seen.add(index)
            return seen >= set(indexes)

        if not await look():
            await read_until_seen(self._client, look)
        for index in sorted(set(indexes) - seen):
            item, awaits = self.items[index], self._plan.items[index].awaits
            if awaits is not None:
                error, now_ms = failed.get(item.mq.broker_name), self._client.clock.now_ms()
                note = unseen_again_note(awaits, stored_words(item.after), error, now_ms)
                # Nothing was sent, so nothing could be reverted.
                self.items[index] = replace(item, target=item.before, result=Result.UNKNOWN, note=note)
        self._read_failures |= {name: Failure(name, "what is stored now", error) for name, error in failed.items()}
        self.settle(set(indexes) - seen)
        return seen

    def _by_broker(self, indexes: Iterable[int]) -> dict[str, list[int]]:
        by_broker: dict[str, list[int]] = {}
        for index in sorted(indexes):
            by_broker.setdefault(self._plan.items[index].mq.broker_name, []).append(index)
        return by_broker

    async def _stored(self, name: str, indexes: Iterable[int]) -> dict[MessageQueue, int | None]:
        broker = broker_of(self._checked.brokers, name)
        master = BrokerData(broker.cluster, broker.broker_name, {0: self._client.require_master(broker)})
        queues = [self._plan.items[index].mq for index in indexes]
        return await fetch_stored_offsets(self._client, master, self._plan.group, queues)

    def _conclude(self, index: int, after: int | None) -> None:
        """Draw conclusions from what is stored now; it proves nothing about clients, which are waited for."""
        note = self._sent_notes.pop(index, self.items[index].note)
        item = replace(self.items[index], after=after, is_after_known=True, note=note)
        if item.route is Route.BROKER_WRITE and after == item.target:
            item = replace(item, result=Result.CONFIRMED, note="")
        elif index in self.pushed or (item.route is Route.SERVER_SIDE and after == item.target):
            item = replace(item, is_pending=True)
        elif index in self.unanswered:
            # The broker may still perform the write, or push it to the clients.
            if after == item.target:
                item = replace(item, note=joined(note, "Stored; it is unknown whether it was pushed to the clients"))
        elif after == item.before:
            item = replace(item, result=Result.UNCHANGED)
        elif item.route is Route.CLIENT_PUSH:
            item = replace(item, note=item.note or "stored, but not pushed to the clients: they will overwrite it")
        else:
            item = replace(item, note=item.note or "another client stored a different offset meanwhile")
        self.items[index] = item

    async def _wait(self, awaited: Collection[int], wait_s: float | None, report: Callable[[str], None]) -> None:
        """Wait at most `wait_s` until the group itself resumes from the new offsets; None waits as long as needed."""
        open_items = {index: self.items[index] for index in sorted(awaited)}
        written = []
        for index, item in open_items.items():
            cleaning = self._plan.items[index].cleaning
            by = (None, None) if cleaning is None else (cleaning.blocked_by, cleaning.client_id)
            if item.target is not None:
                is_unanswered = index in self.unanswered
                written.append(WrittenOffset(item.mq, item.route, item.before, item.target, *by, is_unanswered))
        if wait_s is None:
            wait_s = _WAIT_S + push_quiet_s(written) + (_GO_MORE_S if self._has_go else 0.0)
        if not written or wait_s <= 0:
            return
        self._client.deadline.extend(wait_s)
        report(f"Waiting up to {wait_s:g} s until the group resumes from the new offsets...")
        waited = await wait_until_confirmed(
            self._client,
            self._plan.group,
            written,
            await self._all_brokers(),
            limit_s=wait_s,
            baseline=self._baseline,
        )
        seen = waited.last_sample.queues if waited.last_sample is not None else {}
        for index, item in open_items.items():
            if (verdict := waited.verdicts.get(item.mq)) is not None:
                judged = replace(
                    _judged(item, verdict, seen.get(item.mq)),
                    reconsumed_at_least=waited.reconsumed_at_least.get(item.mq),
                )
                is_seen = judged.result is Result.CONFIRMED or judged.after == item.target
                if index in self.unanswered and not is_seen:
                    note = unseen_note(item.note, verdict.reason, self._client.clock.now_ms())
                    judged = replace(judged, result=Result.UNKNOWN, is_pending=False, note=note)
                self.items[index] = judged
        self.settle(open_items)

    async def _check_not_pushed(self, wait_s: float | None) -> None:
        """Check whether members have overwritten offsets that were not pushed to them; they commit every 5 s."""
        not_pushed = {
            index
            for index, item in self.items.items()
            if item.result is Result.UNKNOWN and index in self.not_pushed - self.unanswered and item.is_after_known
        }
        if not not_pushed or wait_s == 0:
            return
        await pause(self._client.clock, _STORED_EVERY_S)
        await self.read_back(not_pushed)
        for index in not_pushed:
            item = self.items[index]
            if item.is_after_known and _has_gone_on(item):
                self.items[index] = replace(item, result=Result.UNCHANGED)
        self.settle(not_pushed)

    async def look_before(self) -> None:
        """Sample the group's members before anything is written; later samples are compared with this one."""
        if self._plan.state is GroupState.ONLINE:
            queues = [item.mq for item in self._plan.items if item.route is not Route.BROKER_WRITE]
            sampler = GroupSampler(self._client, self._plan.group, await self._all_brokers())
            self._baseline = await sampler.sample(queues)

    async def _all_brokers(self) -> dict[str, BrokerData]:
        cluster = await self._client.cluster()
        return {broker.broker_name: broker for broker in cluster.registered}


_RESULTS = {
    ResetOutcome.CONFIRMED: Result.CONFIRMED,
    ResetOutcome.LOST: Result.UNCHANGED,
    ResetOutcome.PENDING: Result.UNKNOWN,
    ResetOutcome.UNKNOWN: Result.UNKNOWN,
}


def _has_gone_on(item: ReceiptItem) -> bool:
    """Return whether the group continues as if nothing had been written."""
    return item.before is not None and item.after is not None and item.before <= item.after != item.target


def _judged(item: ReceiptItem, verdict: WriteVerdict, seen: QueueSample | None) -> ReceiptItem:
    after = None if seen is None else seen.consumer_offset
    is_confirmed = verdict.outcome is ResetOutcome.CONFIRMED
    result = _RESULTS[verdict.outcome]
    if result is Result.UNCHANGED and (after is None or item.before is None or after < item.before):
        result = Result.UNKNOWN  # it is neither where it was nor further on
    return replace(
        item,
        result=result,
        after=item.after if after is None else after,
        is_after_known=item.is_after_known or after is not None,
        is_pending=verdict.outcome is ResetOutcome.PENDING,
        note="" if is_confirmed else verdict.reason,
    )
