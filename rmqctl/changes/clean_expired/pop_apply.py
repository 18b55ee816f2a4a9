"""Acknowledges popped messages whose copies were seen, and reads back whether the brokers have recorded it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.messages.pop_log import PopLog, acknowledge_popped, read_pop_log
from rmqctl.admin.results import Answers, ask_all
from rmqctl.changes.late_writes import joined
from rmqctl.changes.plan_parts import broker_of
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.plan import Plan, ReturnedMessage, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ReceiptItem, Result, ReturnReceipt
from rmqctl.model.route import BrokerData
from rmqctl.net.clock import pause
from rmqctl.rules.pop_handles import Handle
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted

# With less time left, a message is left alone: its broker would redeliver it while rmqctl looks for the copy.
_LEAST_LEFT_MS = 3_000
_ANSWER_S = 5.0
# A broker records an acknowledgement before it answers; it can be read some ms later.
_RECORDED_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.2

# An item's index in the plan, and the queue offset of one of its messages.
_Place = tuple[int, int]


class PopAcks:
    """The acknowledgements of one application of a plan. `left_alone` says, by message, why nothing is sent for it."""

    def __init__(self, client: Client, plan: Plan, brokers: Mapping[str, BrokerData]) -> None:
        self.indexes = frozenset(index for index, item in enumerate(plan.items) if item.route is Route.POP_ACK)
        self.left_alone: dict[_Place, str] = {}
        self._client, self._plan, self._brokers = client, plan, brokers
        self._errors: dict[_Place, str] = {}

    async def look_before(self) -> dict[int, str]:
        """Leave messages alone that are no longer popped as planned; return the items that have no others, and why.

        A client may have acknowledged a message meanwhile, or the broker may have redelivered it.
        """
        logs = await self._read(self.indexes)
        for index in self.indexes:
            for message in self.messages(index):
                why = _why_left_alone(self._plan.items[index].mq, message, logs)
                if why is not None:
                    self.left_alone[index, message.queue_offset] = why
        return {index: why for (index, _), why in self.left_alone.items() if not self.messages(index)}

    def messages(self, index: int) -> list[ReturnedMessage]:
        """Return the messages of an item that are not left alone."""
        cleaning = self._plan.items[index].cleaning
        messages = () if cleaning is None else cleaning.messages
        return [each for each in messages if (index, each.queue_offset) not in self.left_alone]

    async def acknowledge(self, index: int, address: str, message: ReturnedMessage) -> None:
        """Acknowledge a popped message whose copy was seen; a pulled message has no handle and is ignored."""
        if message.pop_handle is None:
            return
        mq, offset = self._plan.items[index].mq, message.queue_offset
        try:
            await acknowledge_popped(
                self._client, address, self._plan.group, mq, offset, message.pop_handle, timeout_s=_ANSWER_S
            )
        except RmqctlError as error:
            self._errors[index, offset] = error.sentence

    async def conclude(
        self, items: Mapping[int, ReceiptItem], receipts: Mapping[int, Sequence[ReturnReceipt]]
    ) -> dict[int, ReceiptItem]:
        """Return each item with its result: CONFIRMED if the broker has recorded all acknowledgements."""
        sent = {
            (index, each.queue_offset) for index in items for each in receipts[index] if each.result is Result.CONFIRMED
        }
        recorded = await self._wait_until_recorded(sent)
        return {index: self._outcome(index, item, receipts[index], recorded) for index, item in items.items()}

    async def _wait_until_recorded(self, sent: set[_Place]) -> set[_Place]:
        clock, recorded = self._client.clock, set[_Place]()
        until_s = clock.monotonic_s() + _RECORDED_WITHIN_S
        while True:
            logs = await self._read({index for index, _ in sent - recorded})
            recorded |= {place for place in sent - recorded if self._is_recorded(place, logs)}
            if recorded >= sent - self._errors.keys() or clock.monotonic_s() >= until_s:
                return recorded
            await pause(clock, _LOOK_EVERY_S)

    def _is_recorded(self, place: _Place, logs: Answers[str, PopLog]) -> bool:
        index, offset = place
        mq = self._plan.items[index].mq
        handles = [each.pop_handle for each in self.messages(index) if each.queue_offset == offset]
        log = logs.ok.get(mq.broker_name)
        return log is not None and any(
            handle is not None and log.records.is_acknowledged(mq.topic, mq.queue_id, offset, handle)
            for handle in handles
        )

    def _outcome(
        self, index: int, item: ReceiptItem, receipts: Sequence[ReturnReceipt], recorded: Collection[_Place]
    ) -> ReceiptItem:
        sent = [each for each in receipts if (index, each.queue_offset) not in self.left_alone]
        acknowledged = [each for each in sent if (index, each.queue_offset) in recorded]
        twice_count = sum(each.result in (Result.CONFIRMED, Result.UNKNOWN) for each in sent) - len(acknowledged)
        refused_count = len(sent) - len(acknowledged) - twice_count
        note = f"{counted(len(acknowledged), 'message')} acknowledged"
        if twice_count:
            note = joined(note, f"{twice_count} sent back and not acknowledged: the broker may redeliver them as well")
        if refused_count:
            note = joined(note, f"{refused_count} not acknowledged: not sent back")
        if left_count := len(receipts) - len(sent):
            note = joined(note, f"{left_count} left alone")
        errors = {error for (other, _), error in self._errors.items() if other == index}
        for error in sorted(errors):
            note = joined(note, error)
        result = Result.UNKNOWN if twice_count else Result.UNCHANGED if refused_count else Result.CONFIRMED
        return replace(item, before=item.target, result=result, note=note)

    async def _read(self, indexes: Collection[int]) -> Answers[str, PopLog]:
        """Read what each broker has recorded since the first pop of its items here."""
        since_ms: dict[str, int] = {}
        for index in indexes:
            name = self._plan.items[index].mq.broker_name
            for message in self.messages(index):
                popped_ms = Handle.parse(message.pop_handle or "").pop_time_ms
                since_ms[name] = min(since_ms.get(name, popped_ms), popped_ms)
        group = self._plan.group
        return await ask_all(
            since_ms,
            lambda name: read_pop_log(
                self._client, self._client.require_master(broker_of(self._brokers, name)), name, group, since_ms[name]
            ),
        )


def _why_left_alone(mq: MessageQueue, message: ReturnedMessage, logs: Answers[str, PopLog]) -> str | None:
    if mq.broker_name in logs.failed:
        return f"It is unknown whether the message is still popped: {logs.failed[mq.broker_name].sentence}"
    log = logs.ok[mq.broker_name]
    popped = log.records.unacknowledged(log.now_ms)
    found = next((each for each in popped if each.handle == message.pop_handle), None)
    if found is None and log.since_ms is not None:
        return f"It is unknown whether {mq} offset {message.queue_offset} is still popped: there are too many records."
    if found is None:
        return f"{mq} offset {message.queue_offset} is no longer popped: it was acknowledged, renewed or redelivered."
    if found.due_ms - log.now_ms < _LEAST_LEFT_MS:
        return f"{mq.broker_name} itself redelivers {mq} offset {message.queue_offset} at {iso_time(found.due_ms)}."
    return None
