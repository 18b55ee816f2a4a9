"""Applies a plan of configurations: checks it again, writes, reads back, and journals each step first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rmqctl.admin.offsets.write import store_offset
from rmqctl.admin.results import ask_all
from rmqctl.changes.configs.rules.fields import differing_names, holds, is_config_seen
from rmqctl.changes.journal.journal import Journal, write_to_journal
from rmqctl.changes.late_writes import (
    LOOKING,
    is_refusal,
    joined,
    read_until_seen,
    stored_words,
    unseen_again_note,
    unseen_note,
)
from rmqctl.changes.plan_parts import new_id, write_batches
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.plan import ConfigItem, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ConfigReceiptItem, ReceiptItem, ReceiptReport, Result, Who, receipt_of

from .access import BrokerConfig, access_of
from .check import check_config_plan
from .lookup import FoundConfig
from .topic_routes import settle_routes

_NOTHING_SENT = "nothing was sent"


async def apply_configs(
    client: Client, plan: Plan, plan_text: str, plan_sha256: str, journal: Journal, who: Who, *, strict: bool,
    report: Callable[[str], None],
) -> ReceiptReport:  # fmt: skip
    """Apply a plan of configurations, and of the offsets that are deleted or restored with a group's configuration.

    `report` is called with a sentence about what is being waited for.

    Nothing is written when the plan is out of date (StaleError). Later failures are in the receipt, item by item. One
    writer at a time: the caller holds the lock of the group or topic.
    """
    found = await check_config_plan(client, plan, strict=strict)
    now_ms = client.clock.now_ms()
    run = _Run(client, plan, found, journal, new_id(now_ms))
    journal.begin(run.receipt_id, plan, plan_text, plan_sha256, now_ms=now_ms, who=who)
    if any(item.awaits for item in plan.configs) or any(item.awaits for item in plan.items):
        report(LOOKING)
    await asyncio.gather(*(run.change(name) for name in plan.brokers))
    run.settle_unseen()
    await run.finish(report)
    ended_at_ms = client.clock.now_ms()
    write_to_journal(lambda: journal.end(run.receipt_id, ended_at_ms), run.failures)
    receipt = receipt_of(
        plan, run.receipt_id, plan_sha256, now_ms, ended_at_ms, who, items=tuple(run.items), configs=tuple(run.configs),
    )  # fmt: skip
    return ReceiptReport(receipt, run.all_failures())


class _Run:
    """One application: what is known of each offset and configuration so far, in the plan's order."""

    def __init__(self, client: Client, plan: Plan, found: FoundConfig, journal: Journal, receipt_id: str) -> None:
        self.receipt_id = receipt_id
        self.failures: list[Failure] = []
        self._client = client
        self._plan = plan
        self._found = found
        self._access = access_of(plan)
        self._journal = journal
        # Items whose request was sent and not answered, by number in the journal, and the failures that say so.
        self._unanswered: set[int] = set()
        self._write_failures: dict[str, Failure] = {}
        # Why a broker could not be read the last time.
        self._read_failures: dict[str, Failure] = {}
        # The notes of such items from before.
        self._sent_notes: dict[int, str] = {}
        self.items = [
            ReceiptItem(
                item.mq, item.before, item.target, item.route, Result.NOT_ATTEMPTED, note=_first_note(item)
            )
            for item in plan.items
        ]  # fmt: skip
        self.configs = [
            ConfigReceiptItem(
                item.broker_name, item.before, item.target, Result.NOT_ATTEMPTED, note=_first_note(item),
                route=item.route,
            )
            for item in plan.configs
        ]  # fmt: skip

    async def change(self, name: str) -> None:
        """Make all changes at one broker, and read them back; unanswered ones are read again for a while."""
        configs = [index for index in _seen(self.configs) if self.configs[index].broker_name == name]
        offsets = [index for index in _seen(self.items) if self.items[index].mq.broker_name == name]
        unseen_configs, unseen_offsets = await self._look_for_awaited(name, configs, offsets)
        configs = [index for index in configs if index not in unseen_configs]
        offsets = [index for index in offsets if index not in unseen_offsets]
        is_going = any(self._plan.configs[index].target is None for index in configs) or any(
            self._plan.items[index].target is None for index in offsets
        )
        try:
            if is_going:
                await self._delete(name, configs, offsets)
            elif await self._write(name, configs, offsets):
                await self._store(name, offsets)
        except RmqctlError as error:
            self._not_sent(name, configs, offsets, error)
        await self._read_back(name, configs, offsets)
        self._settle(configs, offsets)
        if self._is_open(configs, offsets):

            async def look() -> bool:
                await self._read_back(name, configs, offsets)
                return not self._is_open(configs, offsets)

            await read_until_seen(self._client, look)
            self._note_unseen(configs, offsets)
            self._settle(configs, offsets)

    async def finish(self, report: Callable[[str], None]) -> None:
        """Bring the name servers' routes in line, once all brokers have been changed."""
        if self._access.topic is not None:
            self.failures += await settle_routes(self._client, self._access.topic, self.configs, report)

    def settle_unseen(self) -> None:
        """Write to the journal why the rest was not attempted."""
        configs = [index for index, item in enumerate(self.configs) if item.route is Route.UNSEEN]
        offsets = [index for index, item in enumerate(self.items) if item.route is Route.UNSEEN]
        if configs or offsets:
            self._settle(configs, offsets)

    async def _look_for_awaited(
        self, name: str, configs: Sequence[int], offsets: Sequence[int]
    ) -> tuple[set[int], set[int]]:
        """Look for the earlier writes that items of an undo await, for a bounded time; return those not seen.

        Nothing is written for those, and they are unknown.
        """
        unseen_configs = {index for index in configs if self._plan.configs[index].awaits is not None}
        unseen_offsets = {index for index in offsets if self._plan.items[index].awaits is not None}
        failed: RmqctlError | None = None

        async def look() -> bool:
            nonlocal failed
            try:
                held, failed = await self._access.read(self._client, self._found.brokers[name]), None
            except RmqctlError as error:
                failed = error
                return False
            for index in list(unseen_configs):
                now, awaits = held.fields, self._plan.configs[index].awaits
                self.configs[index] = replace(self.configs[index], before=now, after=now, is_after_known=True)
                if awaits is not None and is_config_seen(awaits, now):
                    unseen_configs.remove(index)
            for index in list(unseen_offsets):
                stored, awaits = held.offsets.get(self.items[index].mq), self._plan.items[index].awaits
                self.items[index] = replace(self.items[index], before=stored, after=stored, is_after_known=True)
                if awaits is not None and awaits.target == stored:
                    unseen_offsets.remove(index)
            return not unseen_configs and not unseen_offsets

        if (unseen_configs or unseen_offsets) and not await look():
            await read_until_seen(self._client, look)
        if failed is not None:
            self._read_failures[name] = Failure(name, "what it has now", failed)
        self._note_never_seen(unseen_configs, unseen_offsets, failed)
        return unseen_configs, unseen_offsets

    def _note_never_seen(self, configs: Collection[int], offsets: Collection[int], failed: RmqctlError | None) -> None:
        now_ms = self._client.clock.now_ms()
        # Nothing was sent, so nothing could be reverted: the target is the state from before.
        for index in configs:
            config, awaits = self.configs[index], self._plan.configs[index].awaits
            if awaits is not None:
                state = _config_words(self._plan.configs[index].before, config.after)
                note = unseen_again_note(awaits, state, failed, now_ms)
                self.configs[index] = replace(config, target=config.before, result=Result.UNKNOWN, note=note)
        for index in offsets:
            item, awaits = self.items[index], self._plan.items[index].awaits
            if awaits is not None:
                note = unseen_again_note(awaits, stored_words(item.after), failed, now_ms)
                self.items[index] = replace(item, target=item.before, result=Result.UNKNOWN, note=note)
        self._settle(sorted(configs), sorted(offsets))

    def _is_open(self, configs: Sequence[int], offsets: Sequence[int]) -> bool:
        """Return whether some item was not answered, or not read back, and may still be seen to take effect."""
        unknown = [(index, self.items[index]) for index in offsets] + [
            (len(self.items) + index, self.configs[index]) for index in configs
        ]
        return any(
            item.result is Result.UNKNOWN
            and (number in self._unanswered or not item.is_after_known or self._access.follows)
            for number, item in unknown
        )

    def _note_unseen(self, configs: Sequence[int], offsets: Sequence[int]) -> None:
        now_ms = self._client.clock.now_ms()
        for index in configs:
            config, is_unanswered = self.configs[index], len(self.items) + index in self._unanswered
            if config.result is Result.UNKNOWN and is_unanswered and config.is_after_known:
                note = unseen_note(config.note, _config_words(config.before, config.after), now_ms)
                self.configs[index] = replace(config, note=note)
        for index in offsets:
            item = self.items[index]
            if item.result is Result.UNKNOWN and index in self._unanswered and item.is_after_known:
                self.items[index] = replace(item, note=unseen_note(item.note, stored_words(item.after), now_ms))

    def all_failures(self) -> tuple[Failure, ...]:
        """Return what failed, except what was later confirmed."""
        items = [(item.mq.broker_name, item.result) for item in self.items]
        items += [(item.broker_name, item.result) for item in self.configs]
        open_names = {name for name, result in items if result is not Result.CONFIRMED}
        unanswered = [failure for name, failure in self._write_failures.items() if name in open_names]
        return (*self.failures, *unanswered, *self._read_failures.values())

    async def _delete(self, name: str, configs: Sequence[int], offsets: Sequence[int]) -> None:
        self._attempting(configs, offsets)
        try:
            item = self.configs[configs[0]] if configs else None
            await self._access.delete(self._client, self._found.brokers[name], item)
        except RmqctlError as error:
            self._failed(name, self._plan.subject.kind, error, configs, offsets)

    async def _write(self, name: str, configs: Sequence[int], offsets: Sequence[int]) -> bool:
        """Write a broker's configuration, if there is one to write; return whether offsets may be written next."""
        for index in configs:
            item = self.configs[index]
            self._attempting([index], ())
            try:
                await self._access.write(self._client, self._found.brokers[name], item)
            except RmqctlError as error:
                self._failed(name, "configuration", error, [index], ())
                for offset in offsets:
                    note = f"{_NOTHING_SENT}: the configuration was not written"
                    self.items[offset] = replace(self.items[offset], note=note)
                return False
        return True

    async def _store(self, name: str, offsets: Sequence[int]) -> None:
        """Store offsets again; stop after a write whose effect is uncertain."""
        address = self._client.require_master(self._found.brokers[name])

        async def store(index: int) -> None:
            item = self.items[index]
            if item.target is not None and not await store_offset(
                self._client, address, self._plan.group, item.mq, item.target
            ):
                self.items[index] = replace(self.items[index], note="an earlier reset still waits for a client")

        stored = {mq.topic for mq in self._found.offsets if mq.broker_name == name}
        for batch in write_batches({index: self.items[index].mq for index in offsets}, stored):
            self._attempting((), batch)
            answers = await ask_all(batch, store)
            for index, error in answers.failed.items():
                self._failed(name, f"offset of {self.items[index].mq}", error, (), [index])
            if not all(map(is_refusal, answers.failed.values())):
                return

    def _attempting(self, configs: Sequence[int], offsets: Sequence[int]) -> None:
        """Journal what is going to be sent. Raises the journal's error: what is not journaled is not sent."""
        befores: dict[int, Any] = {index: self.items[index].before for index in offsets}
        befores |= {len(self.items) + index: self.configs[index].before for index in configs}
        self._journal.attempting(self.receipt_id, befores)
        for index in offsets:
            self.items[index] = replace(self.items[index], result=Result.UNKNOWN, note="")
        for index in configs:
            self.configs[index] = replace(self.configs[index], result=Result.UNKNOWN, note="")

    def _not_sent(self, name: str, configs: Sequence[int], offsets: Sequence[int], error: RmqctlError) -> None:
        self.failures.append(Failure(name, "the journal of this change", error, Attempt.WRITE))
        note = f"{_NOTHING_SENT}: {error.sentence}"
        for index in configs:
            if (item := self.configs[index]).result is Result.NOT_ATTEMPTED:
                self.configs[index] = replace(item, note=note)
        for index in offsets:
            if (offset := self.items[index]).result is Result.NOT_ATTEMPTED:
                self.items[index] = replace(offset, note=note)

    def _failed(self, name: str, what: str, error: RmqctlError, configs: Sequence[int], offsets: Sequence[int]) -> None:
        if is_refusal(error):
            self.failures.append(Failure(name, what, error, Attempt.WRITE))
        else:
            self._write_failures[name] = Failure(name, what, error, Attempt.UNANSWERED_WRITE)
            self._unanswered |= {*offsets, *(len(self.items) + index for index in configs)}
        for index in configs:
            self.configs[index] = replace(self.configs[index], note=error.sentence)
        for index in offsets:
            self.items[index] = replace(self.items[index], note=error.sentence)

    async def _read_back(self, name: str, configs: Sequence[int], offsets: Sequence[int]) -> None:
        """Read what the broker has now, and draw conclusions from it."""
        try:
            held = await self._access.read(self._client, self._found.brokers[name])
        except RmqctlError as error:
            self._read_failures[name] = Failure(name, "what it has now", error)
            self._not_seen(configs, offsets, error)
        else:
            self._read_failures.pop(name, None)
            for index in configs:
                self._conclude_config(index, held)
            for index in offsets:
                self._conclude_offset(index, held.offsets)

    def _settle(self, configs: Sequence[int], offsets: Sequence[int]) -> None:
        settled: dict[int, ReceiptItem | ConfigReceiptItem] = {index: self.items[index] for index in offsets}
        settled |= {len(self.items) + index: self.configs[index] for index in configs}
        write_to_journal(lambda: self._journal.settle(self.receipt_id, settled), self.failures)

    def _not_seen(self, configs: Sequence[int], offsets: Sequence[int], error: RmqctlError) -> None:
        def said(number: int, note: str) -> str:
            sent = self._sent_notes.setdefault(number, note)
            return joined(sent or "It was sent", f"It could not be read back: {error.sentence}")

        for index in configs:
            if (item := self.configs[index]).result is Result.UNKNOWN:
                self.configs[index] = replace(item, note=said(len(self.items) + index, item.note))
        for index in offsets:
            if (offset := self.items[index]).result is Result.UNKNOWN:
                self.items[index] = replace(offset, note=said(index, offset.note))

    def _conclude_config(self, index: int, held: BrokerConfig) -> None:
        item, after = self.configs[index], held.fields
        if item.result is not Result.UNKNOWN:
            return
        number = len(self.items) + index
        sent = self._sent_notes.pop(number, item.note)
        result, note = Result.UNKNOWN, sent or "it is neither as before nor as it was sent"
        if after is None and item.target is None and held.why_back:
            note = held.why_back
        elif holds(item.target, after):
            result, note = Result.CONFIRMED, ""
        elif _is_as_before(item.before, after) and number not in self._unanswered:
            result, note = Result.UNCHANGED, sent
        self.configs[index] = replace(item, result=result, after=after, is_after_known=True, note=note)

    def _conclude_offset(self, index: int, stored: Mapping[MessageQueue, int]) -> None:
        item, after = self.items[index], stored.get(self.items[index].mq)
        if item.result is not Result.UNKNOWN:
            return
        sent = self._sent_notes.pop(index, item.note)
        result, note = Result.UNKNOWN, sent or "another client stored a different offset meanwhile"
        if after == item.target:
            result, note = Result.CONFIRMED, ""
        elif after == item.before and index not in self._unanswered:
            result, note = Result.UNCHANGED, sent
        self.items[index] = replace(item, result=result, after=after, is_after_known=True, note=note)


def _first_note(item: PlanItem | ConfigItem) -> str:
    return item.note if item.route is Route.UNSEEN else _NOTHING_SENT


def _seen(items: Sequence[ReceiptItem | ConfigReceiptItem]) -> list[int]:
    return [index for index, item in enumerate(items) if item.route is not Route.UNSEEN]


def _is_as_before(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> bool:
    return before is after if before is None or after is None else not differing_names(before, after)


def _config_words(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    return "It is as before" if _is_as_before(before, after) else "It is neither as before nor as it was sent"
