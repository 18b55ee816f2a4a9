"""Applies a plan of offsets: checks it again, writes, verifies the result, and journals each step first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from rmqctl.admin.offsets.write import push_stored_offsets, reset_offset, store_offset
from rmqctl.admin.results import ask_all
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.rules.drift import is_there
from rmqctl.changes.offsets.rules.reset import CONTINUED, THERE
from rmqctl.changes.offsets.rules.route import is_cpp_only
from rmqctl.changes.plan_parts import broker_of, new_id, write_batches
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RefusedError, RmqctlError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.group import GO
from rmqctl.model.plan import Plan, PlanItem, Route
from rmqctl.model.receipt import ReceiptReport, Result, Who, receipt_of
from rmqctl.net.clock import pause
from rmqctl.text.words import counted

from .check import PlanCheck, check_plan
from .outcomes import Outcomes

# A member can store its own offset between ours and the push.
_PUSHES = 3
# Go clients handle resets concurrently: if two end together, they forget parts of both
# (remoteBrokerOffsetStore.persist). A queue that is reset again within their 10 s is consumed twice from then on
# (pushConsumer.ResetOffset deletes the entry that has just been made).
_GO_APART_S = 2.0
_GO_AGAIN_S = 12.0
# What a broker stores for "none": clients and brokers treat all numbers below 0 as none.
NONE_STORED = -1


async def apply_offsets(
    client: Client, plan: Plan, plan_text: str, plan_sha256: str, journal: Journal, who: Who, *, strict: bool,
    wait_s: float | None, report: Callable[[str], None],
) -> ReceiptReport:  # fmt: skip
    """Apply a plan of offsets. `report` is called with a sentence about what is being waited for.

    Nothing is written when the plan is out of date (StaleError), or the group cannot be read. Later failures are in
    the receipt, queue by queue. One writer at a time: the caller holds the group's lock.
    """
    checked = await check_plan(client, plan, strict=strict)
    if checked.moved.queue_count:
        messages, queues = counted(checked.moved.message_count, "message"), f"{checked.moved.queue_count} of its queues"
        report(f"The group has advanced by {messages} in {queues} since the plan was made.")
    now_ms = client.clock.now_ms()
    outcomes = Outcomes(client, plan, checked, journal, new_id(now_ms))
    await outcomes.look_before()
    journal.begin(outcomes.receipt_id, plan, plan_text, plan_sha256, now_ms=now_ms, who=who)
    writer = OffsetWriter(client, plan, checked, outcomes)
    awaiting = {index for index, item in enumerate(plan.items) if item.awaits is not None}
    await writer.write(leave=awaiting)
    if awaiting:
        seen = await outcomes.look_for_awaited(awaiting, report)
        await writer.write(leave=outcomes.items.keys() - seen)
    await outcomes.find(wait_s, report)
    ended_at_ms = client.clock.now_ms()
    outcomes.end(ended_at_ms)
    receipt = receipt_of(plan, outcomes.receipt_id, plan_sha256, now_ms, ended_at_ms, who, items=outcomes.in_order())
    return ReceiptReport(receipt, outcomes.all_failures())


class OffsetWriter:
    """Sends what a plan writes, and notes what brokers answer."""

    def __init__(self, client: Client, plan: Plan, checked: PlanCheck, outcomes: Outcomes) -> None:
        self._client = client
        self._plan = plan
        self._checked = checked
        self._outcomes = outcomes
        self._has_go = GO in checked.languages
        self._go_turn = asyncio.Lock()
        self._go_free_at_s = 0.0

    async def write(self, *, leave: Collection[int] = ()) -> None:
        """Write to all brokers concurrently; at a broker, stop after a write whose effect is uncertain.

        Items of `leave` are not written.
        """
        there = [
            index
            for index, item in enumerate(self._plan.items)
            if index not in leave
            and is_there(item, self._checked.offsets.get(item.mq, item.before), self._checked.places.get(item.mq, ()))
        ]
        for index in there:
            item = self._outcomes.items[index]
            self._outcomes.items[index] = replace(
                item,
                result=Result.CONFIRMED,
                after=item.before,
                is_after_known=True,
                note=THERE if item.before == item.target else CONTINUED,
            )
        self._outcomes.settle(there)
        by_broker: dict[str, list[int]] = {}
        unseen = {index for index, item in enumerate(self._plan.items) if item.route is Route.UNSEEN}
        for index in sorted(self._outcomes.items.keys() - set(there) - unseen - set(leave)):
            by_broker.setdefault(self._plan.items[index].mq.broker_name, []).append(index)
        await asyncio.gather(*(self._write_broker(name, indexes) for name, indexes in by_broker.items()))
        self._outcomes.settle(self._outcomes.items.keys() - self._outcomes.written)

    async def _write_broker(self, name: str, indexes: Sequence[int]) -> None:
        pushed = [index for index in indexes if self._plan.items[index].route is Route.CLIENT_PUSH]
        plain = [index for index in indexes if index not in set(pushed)]
        try:
            address = self._client.require_master(broker_of(self._checked.brokers, name))
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
            if self._outcomes.unanswered.isdisjoint(indexes):
                self._outcomes.failures.append(Failure(name, "offsets", error, Attempt.WRITE))
            else:
                self._outcomes.write_failures[name] = Failure(name, "offsets", error, Attempt.UNANSWERED_WRITE)
            for index in indexes:
                if index not in self._outcomes.written:
                    self._outcomes.note(index, f"nothing was sent: {error.sentence}")

    async def _write_batch(self, address: str, indexes: Sequence[int]) -> None:
        """Write some queues concurrently. Raises the error that does not prove that nothing was stored."""
        self._outcomes.attempting(indexes)
        answers = await ask_all(indexes, lambda index: self._write_one(address, self._plan.items[index]))
        self._outcomes.note_refusals(answers.failed)

    async def _write_one(self, address: str, item: PlanItem) -> None:
        group, mq = self._plan.group, item.mq
        target = NONE_STORED if item.target is None else item.target
        if item.route is Route.SERVER_SIDE:
            await reset_offset(self._client, address, group, mq, target)
            return
        if await store_offset(self._client, address, group, mq, target):
            return
        # An earlier reset still waits for a client: only another reset replaces it, and a reset cannot delete.
        if item.target is None or not self._checked.is_server_side.get(mq.broker_name):
            raise RefusedError(f"The offset of {mq} was not stored: an earlier reset still waits for a client.")
        await reset_offset(self._client, address, group, mq, target)

    async def _push_topic(self, address: str, topic: str, indexes: Sequence[int]) -> None:
        """Store the offsets and push them to the clients immediately, before they commit their own again.

        Each turn stores all of them: the broker pushes what is stored, and a paused client commits its old offsets.
        """
        if self._checked.is_server_side.get(self._plan.items[indexes[0]].mq.broker_name):
            # It would treat the push as a reset of all queues to their end.
            raise RefusedError("This broker resets offsets by itself, and does not push resets to clients.")
        self._outcomes.attempting(indexes)
        stored, wrong = list(indexes), list(indexes)
        for turn in range(_PUSHES):
            if turn and self._has_go:
                await pause(self._client.clock, _GO_AGAIN_S)
            if self._has_go:
                await self._wait_for_go()
            answers = await ask_all(stored, lambda index: self._write_one(address, self._plan.items[index]))
            try:
                self._outcomes.note_refusals(answers.failed)
            except RmqctlError:
                self._outcomes.not_pushed |= answers.ok.keys() - self._outcomes.pushed
                raise
            stored = list(answers.ok)
            if not stored:
                return
            try:
                pushed = await push_stored_offsets(
                    self._client, address, self._plan.group, topic, for_cpp=is_cpp_only(self._checked.languages)
                )
            except BrokerError as error:
                self._outcomes.note_refusals(dict.fromkeys(stored, error))
                self._outcomes.not_pushed |= set(stored) - self._outcomes.pushed
                return
            except RmqctlError:
                # The broker may have notified them, or may still do so.
                self._outcomes.unanswered |= set(stored)
                raise
            items = self._plan.items
            wrong = [index for index in stored if pushed.get(items[index].mq) != items[index].target]
            self._outcomes.pushed = (self._outcomes.pushed | set(stored)) - set(wrong)
            if not wrong:
                return
        self._outcomes.not_pushed |= set(wrong)
        for index in wrong:
            self._outcomes.note(index, "a client committed its own offset each time before the push reached it")

    async def _wait_for_go(self) -> None:
        """Return at least _GO_APART_S after the previous return."""
        async with self._go_turn:
            now_s = self._client.clock.monotonic_s()
            await pause(self._client.clock, max(0.0, self._go_free_at_s - now_s))
            self._go_free_at_s = self._client.clock.monotonic_s() + _GO_APART_S
