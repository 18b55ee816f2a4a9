"""Applies a plan of offsets: checks it again, writes, reads back, waits for the group, and notes each step first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.offset_writes import push_stored_offsets, require_master, reset_offset, store_offset
from rmqctl.admin.results import ask_all
from rmqctl.admin.stored_offsets import fetch_stored_offsets
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, NotAuthorisedError, RefusedError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GO, GroupState
from rmqctl.model.plan import Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ReceiptItem, Result, Who
from rmqctl.model.route import Broker
from rmqctl.model.sample import GroupSample, QueueSample
from rmqctl.net.clock import pause
from rmqctl.observe.sampling import GroupSampler
from rmqctl.observe.wait_stable import wait_until_confirmed
from rmqctl.rules.confirmation import Outcome, Verdict, Written, push_quiet_s
from rmqctl.rules.drift import is_there
from rmqctl.rules.reset_route import is_cpp_only
from rmqctl.rules.words import counted

from .applied import Applied, note_down, receipt_of
from .journal import Journal
from .offset_check import Checked, check_plan
from .plan_parts import new_id, write_batches

# A member can store its own offset between ours and the push.
_PUSHES = 3
# Go clients work off all that they are told side by side: where two pushes end together they forget parts of both
# (remoteBrokerOffsetStore.persist), and a queue of which they are told again within their 10 s is consumed twice from
# then on (pushConsumer.ResetOffset deletes the entry that has just been made).
_GO_APART_S = 2.0
# They stop for 10 s also where a pull sends them, and take the queue again when they share next, within 20 s.
_GO_MORE_S = 30.0
_GO_AGAIN_S = 12.0
# The broker did nothing, for sure.
_REFUSALS = (BrokerError, NotAuthorisedError, RefusedError)
# Held pulls take 15 s, members that have just come 30 s more until they may pull.
_WAIT_S = 60.0
# How often clients store their offsets (persistConsumerOffsetInterval), and some time to do so.
_STORED_EVERY_S = 6.0
# What a broker stores for "none": clients and brokers take numbers below 0 for it.
NONE_STORED = -1


async def apply_offsets(
    client: Client, plan: Plan, plan_text: str, plan_sha256: str, journal: Journal, who: Who, *, strict: bool,
    wait_s: float | None, report: Callable[[str], None],
) -> Applied:  # fmt: skip
    """Apply a plan of offsets. `report` is told, in a sentence, what is being waited for.

    Nothing is written when the plan no longer holds (StaleError), or the group can't be read. Whatever goes wrong
    later is in the receipt, queue by queue. One writer at a time: the caller holds the group's lock.
    """
    checked = await check_plan(client, plan, strict=strict)
    if checked.moved.queue_count:
        messages, queues = counted(checked.moved.message_count, "message"), f"{checked.moved.queue_count} of its queues"
        report(f"The group has come {messages} further in {queues} since the plan.")
    now_ms = client.clock.now_ms()
    run = _Run(client, plan, checked, journal, new_id(now_ms))
    await run.look_before()
    journal.begin(run.receipt_id, plan, plan_text, plan_sha256, now_ms=now_ms, who=who)
    await run.write()
    await run.read_back(run.written)
    await run.wait(wait_s, report)
    await run.look_after_untold(wait_s)
    ended_at_ms = client.clock.now_ms()
    run.end(ended_at_ms)
    receipt = receipt_of(
        plan, run.receipt_id, plan_sha256, now_ms, ended_at_ms, who,
        items=tuple(run.items[index] for index in range(len(plan.items))),
    )  # fmt: skip
    return Applied(receipt, tuple(run.failures))


class _Run:
    """One application: what is known of each item so far, by its index in the plan."""

    def __init__(self, client: Client, plan: Plan, checked: Checked, journal: Journal, receipt_id: str) -> None:
        self.receipt_id = receipt_id
        self.failures: list[Failure] = []
        self._client = client
        self._plan = plan
        self._checked = checked
        self._journal = journal
        self.written: set[int] = set()
        # Those that clients were told of, rightly.
        self._told: set[int] = set()
        # Those that were stored and that no client was told of, for sure.
        self._untold: set[int] = set()
        self._baseline: GroupSample | None = None
        self._has_go = GO in checked.languages
        self._go_turn = asyncio.Lock()
        self._go_free_at_s = 0.0
        self.items = {
            index: ReceiptItem(
                item.mq, checked.offsets.get(item.mq), item.target, item.route, Result.NOT_ATTEMPTED,
                note=item.note if item.route is Route.UNSEEN else "nothing was sent",
            )
            for index, item in enumerate(plan.items)
        }  # fmt: skip

    async def write(self) -> None:
        """Write at all brokers at once; where one becomes uncertain, the rest of its queues is left alone."""
        there = [
            index
            for index, item in enumerate(self._plan.items)
            if is_there(item, self._checked.offsets.get(item.mq, item.before))
        ]
        for index in there:
            item = self.items[index]
            self.items[index] = replace(
                item, result=Result.CONFIRMED, after=item.before, is_after_known=True, note="it was there already"
            )
        self._settle(there)
        by_broker: dict[str, list[int]] = {}
        unseen = {index for index, item in enumerate(self._plan.items) if item.route is Route.UNSEEN}
        for index in sorted(self.items.keys() - set(there) - unseen):
            by_broker.setdefault(self._plan.items[index].mq.broker_name, []).append(index)
        await asyncio.gather(*(self._write_broker(name, indexes) for name, indexes in by_broker.items()))
        self._settle(self.items.keys() - self.written)

    async def _write_broker(self, name: str, indexes: Sequence[int]) -> None:
        broker = self._checked.brokers[name]
        pushed = [index for index in indexes if self._plan.items[index].route is Route.CLIENT_PUSH]
        plain = [index for index in indexes if index not in set(pushed)]
        try:
            address = require_master(broker)
            stored = {
                mq.topic
                for mq, offset in self._checked.offsets.items()
                if mq.broker_name == name and offset is not None
            }
            for batch in write_batches({index: self._plan.items[index].mq for index in plain}, stored):
                await self._write_batch(address, batch)
            by_topic: dict[str, list[int]] = {}
            for index in pushed:
                by_topic.setdefault(self._plan.items[index].mq.topic, []).append(index)
            for topic, part in by_topic.items():
                await self._push_topic(address, topic, part)
        except RmqctlError as error:
            self.failures.append(Failure(name, "offsets", error))
            for index in indexes:
                if index not in self.written:
                    self._note(index, f"nothing was sent: {error.sentence}")

    async def _write_batch(self, address: str, indexes: Sequence[int]) -> None:
        """Write some queues at once. Raises the error that leaves it open whether something was stored."""
        self._attempting(indexes)
        answers = await ask_all(indexes, lambda index: self._write_one(address, self._plan.items[index]))
        self._note_refusals(answers.failed)

    async def _write_one(self, address: str, item: PlanItem) -> None:
        group, mq = self._plan.group, item.mq
        target = NONE_STORED if item.target is None else item.target
        if item.route is Route.SERVER_SIDE:
            await reset_offset(self._client, address, group, mq, target)
            return
        if await store_offset(self._client, address, group, mq, target):
            return
        # A reset of before still waits for its client: only another one goes over it, and none to "none".
        if item.target is None or not self._checked.is_server_side.get(mq.broker_name):
            raise RefusedError(f"Nothing was stored of {mq}: a reset of before still waits for its client.")
        await reset_offset(self._client, address, group, mq, target)

    async def _push_topic(self, address: str, topic: str, indexes: Sequence[int]) -> None:
        """Store the offsets and have the clients told of them at once, before they store their own again.

        Each time all of them: what is told is what is stored, and a client that stands still stores its old offsets.
        """
        if self._checked.is_server_side.get(self._plan.items[indexes[0]].mq.broker_name):
            # It would take the push for a reset of all queues to their end.
            raise RefusedError("This broker resets by itself, and tells no client.")
        self._attempting(indexes)
        stored, wrong = list(indexes), list(indexes)
        for turn in range(_PUSHES):
            if turn and self._has_go:
                await pause(self._client.clock, _GO_AGAIN_S)
            if self._has_go:
                await self._wait_for_go()
            answers = await ask_all(stored, lambda index: self._write_one(address, self._plan.items[index]))
            self._note_refusals(answers.failed)
            stored = list(answers.ok)
            if not stored:
                return
            try:
                told = await push_stored_offsets(
                    self._client, address, self._plan.group, topic, for_cpp=is_cpp_only(self._checked.languages)
                )
            except BrokerError as error:
                self._note_refusals(dict.fromkeys(stored, error))
                self._untold |= set(stored)
                return
            items = self._plan.items
            wrong = [index for index in stored if told.get(items[index].mq) != items[index].target]
            self._told = (self._told | set(stored)) - set(wrong)
            if not wrong:
                return
        self._untold |= set(wrong)
        for index in wrong:
            self._note(index, "a client stored its own offset each time before the clients could be told")

    async def _wait_for_go(self) -> None:
        """Return at least _GO_APART_S after the return before."""
        async with self._go_turn:
            now_s = self._client.clock.monotonic_s()
            await pause(self._client.clock, max(0.0, self._go_free_at_s - now_s))
            self._go_free_at_s = self._client.clock.monotonic_s() + _GO_APART_S

    def _attempting(self, indexes: Sequence[int]) -> None:
        befores = {index: self.items[index].before for index in indexes}
        self._journal.attempting(self.receipt_id, befores, now_ms=self._client.clock.now_ms())
        for index in indexes:
            self.written.add(index)
            self.items[index] = replace(self.items[index], result=Result.UNKNOWN, note="")

    def _note_refusals(self, failed: Mapping[int, RmqctlError]) -> None:
        """Note what brokers refused. Raises the first error that leaves it open what they did."""
        for index, error in failed.items():
            self._note(index, error.sentence)
        refused = [error for error in failed.values() if isinstance(error, _REFUSALS)]
        self.failures += [
            Failure(self._plan.items[index].mq.broker_name, f"offset of {self._plan.items[index].mq}", error)
            for index, error in failed.items()
            if error in refused
        ]
        for error in failed.values():
            if error not in refused:
                raise error

    def _settle(self, indexes: Iterable[int]) -> None:
        settled = {index: self.items[index] for index in indexes}
        note_down(lambda: self._journal.settle(self.receipt_id, settled), self.failures)

    def end(self, now_ms: int) -> None:
        """Note that it is over."""
        note_down(lambda: self._journal.end(self.receipt_id, now_ms), self.failures)

    def _note(self, index: int, note: str) -> None:
        self.items[index] = replace(self.items[index], note=note)

    async def read_back(self, indexes: Collection[int]) -> None:
        """Read what is stored now where something was sent, and conclude what can be concluded from it."""
        by_broker: dict[str, list[int]] = {}
        for index in sorted(indexes):
            by_broker.setdefault(self._plan.items[index].mq.broker_name, []).append(index)
        answers = await ask_all(by_broker, lambda name: self._stored(name, by_broker[name]))
        for name, part in by_broker.items():
            for index in part:
                if name in answers.ok:
                    self._conclude(index, answers.ok[name][self._plan.items[index].mq])
                else:
                    note = self.items[index].note or "it was sent"
                    self._note(index, f"{note}, and could not be read back: {answers.failed[name].sentence}")
        self.failures += [Failure(name, "what is stored now", error) for name, error in answers.failed.items()]
        self._settle(indexes)

    async def _stored(self, name: str, indexes: Iterable[int]) -> dict[MessageQueue, int | None]:
        broker = self._checked.brokers[name]
        master = Broker(broker.cluster, broker.broker_name, {0: require_master(broker)})
        queues = [self._plan.items[index].mq for index in indexes]
        return await fetch_stored_offsets(self._client, master, self._plan.group, queues)

    def _conclude(self, index: int, after: int | None) -> None:
        """Conclude from what is stored now. It proves nothing of clients: a group that runs is waited for."""
        item = replace(self.items[index], after=after, is_after_known=True)
        if item.route is Route.BROKER_WRITE and after == item.target:
            item = replace(item, result=Result.CONFIRMED, note="")
        elif index in self._told or (item.route is Route.SERVER_SIDE and after == item.target):
            item = replace(item, is_pending=True)
        elif after == item.before:
            item = replace(item, result=Result.UNCHANGED)
        elif item.route is Route.CLIENT_PUSH:
            item = replace(item, note=item.note or "stored, but no client was told: they store their own over it")
        else:
            item = replace(item, note=item.note or "somebody else stored another offset meanwhile")
        self.items[index] = item

    async def wait(self, wait_s: float | None, report: Callable[[str], None]) -> None:
        """Wait until the group itself goes on from where it was sent, at most so long; None for what it can take."""
        open_items = {
            index: item
            for index, item in self.items.items()
            if item.result is Result.UNKNOWN and index in self.written
            if item.route is Route.SERVER_SIDE or (item.route is Route.CLIENT_PUSH and index not in self._untold)
        }
        written = [
            Written(item.mq, item.route, item.before, item.target)
            for item in open_items.values()
            if item.target is not None  # nothing is taken away from a group that runs
        ]
        if wait_s is None:
            wait_s = _WAIT_S + push_quiet_s(written) + (_GO_MORE_S if self._has_go else 0.0)
        if not written or wait_s <= 0 or self._plan.state is not GroupState.ONLINE:
            return
        report(f"Waiting up to {wait_s:g} s until the group goes on from there...")
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
                self.items[index] = _judged(item, verdict, seen.get(item.mq))
        self._settle(open_items)

    async def look_after_untold(self, wait_s: float | None) -> None:
        """See whether members have stored their own offsets over what no client was told of; they do so every 5 s."""
        untold = {
            index
            for index, item in self.items.items()
            if item.result is Result.UNKNOWN and index in self._untold and item.is_after_known
        }
        if not untold or wait_s == 0:
            return
        await pause(self._client.clock, _STORED_EVERY_S)
        await self.read_back(untold)
        for index in untold:
            item = self.items[index]
            if item.is_after_known and _has_gone_on(item):
                self.items[index] = replace(item, result=Result.UNCHANGED)
        self._settle(untold)

    async def look_before(self) -> None:
        """Note where the group's members are before anything is written: what they say later is compared with it."""
        if self._plan.state is GroupState.ONLINE:
            queues = [item.mq for item in self._plan.items if item.route is not Route.BROKER_WRITE]
            sampler = GroupSampler(self._client, self._plan.group, await self._all_brokers())
            self._baseline = await sampler.sample(queues)

    async def _all_brokers(self) -> dict[str, Broker]:
        cluster = await self._client.cluster()
        return {broker.broker_name: broker for broker in cluster.brokers}


_RESULTS = {
    Outcome.CONFIRMED: Result.CONFIRMED,
    Outcome.LOST: Result.UNCHANGED,
    Outcome.PENDING: Result.UNKNOWN,
    Outcome.UNKNOWN: Result.UNKNOWN,
}


def _has_gone_on(item: ReceiptItem) -> bool:
    """Tell whether the group goes on as if nothing had been written."""
    return item.before is not None and item.after is not None and item.before <= item.after != item.target


def _judged(item: ReceiptItem, verdict: Verdict, seen: QueueSample | None) -> ReceiptItem:
    after = None if seen is None else seen.consumer_offset
    is_confirmed = verdict.outcome is Outcome.CONFIRMED
    result = _RESULTS[verdict.outcome]
    if result is Result.UNCHANGED and (after is None or item.before is None or after < item.before):
        result = Result.UNKNOWN  # it is not where it was, nor gone on from there
    return replace(
        item,
        result=result,
        after=item.after if after is None else after,
        is_after_known=item.is_after_known or after is not None,
        is_pending=verdict.outcome is Outcome.PENDING,
        note="" if is_confirmed else verdict.reason,
    )
