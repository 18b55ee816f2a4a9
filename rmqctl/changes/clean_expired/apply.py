"""Cleans: sends stuck messages back, waits for their copies, and only then moves each queue past them.

Each step is journaled before it is sent. A run that is killed leaves at worst a message that was sent back and is still
in flight: the next run finds its copy after the former end of the commit log, and does not send it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.groups.members import fetch_placed_connections, fetch_running_infos
from rmqctl.admin.messages.returns import fetch_log_end, find_copy, see_copy, send_back, send_copy
from rmqctl.admin.messages.time_search import fetch_message_at
from rmqctl.admin.results import ask_all
from rmqctl.changes.clean_expired.rules.blocking import describe_not_followed
from rmqctl.changes.clean_expired.rules.methods import describe_progress
from rmqctl.changes.journal.journal import Journal, write_to_journal
from rmqctl.changes.journal.rows import OpenReturn, holder_of
from rmqctl.changes.late_writes import is_refusal, joined
from rmqctl.changes.offsets.apply import OffsetWriter
from rmqctl.changes.offsets.check import PlanCheck, check_plan
from rmqctl.changes.offsets.outcomes import Outcomes
from rmqctl.changes.plan_parts import broker_of, new_id
from rmqctl.changes.unseen_parts import leave_out_unseen
from rmqctl.client.core import Client
from rmqctl.errors import RefusedError, RmqctlError, StaleError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import CleanStep, Plan, ReturnedMessage, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ReceiptReport, Result, ReturnReceipt, Who, receipt_of
from rmqctl.text.words import counted

from .pop_apply import PopAcks
from .rights import find_missing_rights

_SENT_AT_ONCE = 32
# A client waits 5 s for the response (MQClientAPIImpl.consumerSendMessageBack).
_ANSWER_S = 5.0
# Brokers index a message some ms after they store it, and later under load.
_SEEN_WITHIN_S = 15.0


async def apply_cleaning(
    client: Client, plan: Plan, plan_text: str, plan_sha256: str, journal: Journal, who: Who, *, strict: bool,
    wait_s: float | None, report: Callable[[str], None],
) -> ReceiptReport:  # fmt: skip
    """Apply a cleaning plan. See apply_offsets(), which moves the queues in the same way.

    A queue is left alone if its client has moved past the message by itself, or was assigned the queue again. Raises
    StaleError if all queues are. Messages that are no longer popped are left alone as well; the others are
    acknowledged one by one, and their queues do not move. Each queue is cleaned on its own: queues of brokers that
    cannot be read now are left out, and those that this account cannot clean to the end. Raises NotAuthorisedError if
    these are all queues.
    """
    plan, checked, unseen = await _check(client, plan, strict=strict)
    pops = PopAcks(client, plan, checked.brokers)
    seen = [index for index, item in enumerate(plan.items) if item.route is not Route.UNSEEN]
    closed = await find_missing_rights(client, checked.brokers, plan.group, [plan.items[index] for index in seen])
    left = await _find_left(client, plan, checked.offsets)
    left |= {index: StaleError(sentence) for index, sentence in (await pops.look_before()).items()}
    left |= {index: closed[mq] for index in seen if (mq := plan.items[index].mq) in closed}
    if left and len(left) == len(seen):
        _require_some(left.values())
    now_ms = client.clock.now_ms()
    outcomes = Outcomes(client, plan, checked, journal, new_id(now_ms))
    await outcomes.look_before()
    # What earlier runs sent back is looked up before this run's rows exist.
    earlier = {
        index: {
            offset: found
            for holder in {holder_of(item.cleaning, message) for message in item.cleaning.messages}
            for offset, found in journal.open_returns(plan.group, item.mq, holder).items()
        }
        for index, item in enumerate(plan.items)
        if item.cleaning is not None
    }
    journal.begin(outcomes.receipt_id, plan, plan_text, plan_sha256, now_ms=now_ms, who=who)
    returns = _Returns(client, plan, checked, journal, outcomes.receipt_id, earlier, pops)
    indexes = [index for index in seen if index not in left]
    popped = pops.indexes - left.keys()
    if popped:
        journal.attempting(outcomes.receipt_id, {index: plan.items[index].before for index in popped}, now_ms=now_ms)
    count = sum(len(pops.messages(index)) for index in indexes)
    if count:
        report(f"Sending {counted(count, 'message')} back...")
    await asyncio.gather(*(returns.send(index) for index in indexes))
    unstored = {index for index in indexes if index not in popped and not returns.is_stored(index)}
    outcomes.items |= await pops.conclude({index: outcomes.items[index] for index in popped}, returns.receipts)
    for index in unstored:
        outcomes.note(index, "not moved: the copy of a message was not seen")
    for index, error in left.items():
        outcomes.note(index, error.sentence)
        if isinstance(error, RefusedError):
            # An earlier change moved it, and its client has not followed: nothing is sent, nothing is confirmed.
            after = checked.offsets[plan.items[index].mq]
            outcomes.items[index] = replace(
                outcomes.items[index], result=Result.UNKNOWN, after=after, is_after_known=True, is_pending=True
            )
        elif not isinstance(error, StaleError):
            mq = plan.items[index].mq
            outcomes.failures.append(Failure(mq.broker_name, f"messages of {mq}", error, Attempt.WRITE))
    outcomes.failures += [*unseen, *returns.failures]
    await OffsetWriter(client, plan, checked, outcomes).write(leave=unstored | popped | left.keys())
    await outcomes.find(wait_s, report)
    ended_at_ms = client.clock.now_ms()
    outcomes.end(ended_at_ms)
    items = tuple(
        replace(item, messages=tuple(returns.receipts.get(index, ()))) for index, item in enumerate(outcomes.in_order())
    )
    receipt = receipt_of(plan, outcomes.receipt_id, plan_sha256, now_ms, ended_at_ms, who, items=items)
    return ReceiptReport(receipt, outcomes.all_failures(), returns.returned_count)


async def _check(client: Client, plan: Plan, *, strict: bool) -> tuple[Plan, PlanCheck, Sequence[Failure]]:
    """Return a plan without the brokers that cannot be read now, its check, and the failures of those brokers.

    Raises what check_plan raises.
    """
    try:
        return plan, await check_plan(client, plan, strict=strict), ()
    except RmqctlError:
        left = await leave_out_unseen(client, plan)
        if not left.failures:
            raise
    plan = replace(left.plan, id=plan.id, asked=plan.asked)
    return plan, await check_plan(client, plan, strict=strict), left.failures


def _require_some(errors: Collection[RmqctlError]) -> None:
    """Raise the error of a plan of which nothing can be applied. What could not be checked is not out of date."""
    unchecked = [error for error in errors if not isinstance(error, StaleError | RefusedError)]
    if unchecked:
        raise unchecked[0]
    if all(isinstance(error, StaleError) for error in errors):
        raise StaleError(f"The plan is out of date. {next(iter(errors)).sentence}", hint="Make a new plan.")


async def _find_left(client: Client, plan: Plan, stored: Mapping[MessageQueue, int | None]) -> dict[int, RmqctlError]:
    """Return the items that are left alone. StaleError: the messages are no longer in flight in the same client.

    A client that was assigned the queue again receives what it had already consumed: to move past that would lose it.
    RefusedError: the stored offset is past them already, so a move to the target could go back. Any other error: the
    client did not report.
    """
    ids = {item.cleaning.client_id for item in plan.items if item.cleaning is not None and item.cleaning.client_id}
    if not ids:
        return {}
    cluster = await client.cluster()
    connections = await ask_all(cluster.registered, lambda broker: fetch_placed_connections(client, broker, plan.group))
    through = {address: found for address, found in connections.ok.values() if found is not None}
    unlisted = {broker.broker_name: error for broker, error in connections.failed.items()}
    infos = await fetch_running_infos(client, plan.group, through, only=ids)
    left: dict[int, RmqctlError] = {}
    for index, item in enumerate(plan.items):
        if item.cleaning is not None and item.cleaning.client_id is not None:
            client_id, head = item.cleaning.client_id, item.cleaning.head_offset
            info = infos.ok.get(client_id)
            error = infos.failed.get(client_id)
            if info is None and error is None:
                error = unlisted.get(item.mq.broker_name)  # which has the client connected, if it holds the queue
            if error is not None:
                left[index] = error.reworded(
                    f"{client_id} did not report whether it still has the message: {error.sentence}"
                )
            elif why := describe_progress(
                item.mq, item.cleaning, None if info is None else info.process_queues.get(item.mq)
            ):
                left[index] = StaleError(why)
            elif why := describe_not_followed(item.mq, client_id, head, stored.get(item.mq)):
                left[index] = RefusedError(why)
    return left


class _Sent(Struct, frozen=True):
    """The result for one message: the topic where its copy was seen, and a note; `is_earlier`: of an earlier change."""

    topic: str | None
    note: str = ""
    is_earlier: bool = False


class _Returns:
    """Sends back the messages of queues. `receipts` are by the queue's index, in the order of the plan."""

    def __init__(
        self, client: Client, plan: Plan, checked: PlanCheck, journal: Journal, receipt_id: str,
        earlier: Mapping[int, Mapping[int, OpenReturn]], pops: PopAcks,
    ) -> None:  # fmt: skip
        self.receipts: dict[int, list[ReturnReceipt]] = {}
        self.failures: list[Failure] = []
        self.returned_count = 0
        self._client = client
        self._plan = plan
        self._checked = checked
        self._journal = journal
        self._receipt_id = receipt_id
        self._earlier = earlier
        self._pops = pops
        self._gate = asyncio.Semaphore(_SENT_AT_ONCE)
        self._ends: dict[str, asyncio.Task[int]] = {}

    def is_stored(self, index: int) -> bool:
        """Return whether a copy of each message of a queue was seen."""
        return all(each.result is Result.CONFIRMED for each in self.receipts[index])

    async def send(self, index: int) -> None:
        """Send back the messages of one queue; failures are noted."""
        item = self._plan.items[index]
        cleaning = item.cleaning
        if cleaning is None:
            self.receipts[index] = []
            return
        messages, left_alone = self._pops.messages(index), self._pops.left_alone
        unsent = [
            ReturnReceipt(
                each.queue_offset, each.message_id, Result.NOT_ATTEMPTED, left_alone.get((index, each.queue_offset), "")
            )
            for each in cleaning.messages
        ]  # fmt: skip
        self.receipts[index] = unsent
        try:
            address = self._client.require_master(broker_of(self._checked.brokers, item.mq.broker_name))
            end = await self._log_end(address)
            self._journal.returning(self._receipt_id, index, [each.queue_offset for each in messages], known_before=end)
        except RmqctlError as error:
            self.failures.append(Failure(item.mq.broker_name, f"messages of {item.mq}", error, Attempt.WRITE))
            return
        answers = await ask_all(
            range(len(messages)), lambda number: self._return(index, address, cleaning, messages[number], end)
        )
        receipts = [
            _receipt(message, answers.ok.get(number), answers.failed.get(number))
            for number, message in enumerate(messages)
        ]
        self.returned_count += sum(each.topic is not None and not each.is_earlier for each in answers.ok.values())
        kept = [each for each in unsent if (index, each.queue_offset) in left_alone]
        self.receipts[index] = sorted((*receipts, *kept), key=lambda each: each.queue_offset)
        for each in receipts:
            if each.result is not Result.CONFIRMED:
                failure = RmqctlError(each.note)
                attempt = Attempt.UNANSWERED_WRITE if each.result is Result.UNKNOWN else Attempt.WRITE
                what = f"offset {each.queue_offset} of {item.mq}, sent back"
                self.failures.append(Failure(item.mq.broker_name, what, failure, attempt))
        write_to_journal(lambda: self._journal.returned(self._receipt_id, index, receipts), self.failures)

    async def _log_end(self, address: str) -> int:
        """Return the end of a broker's commit log before this run's first message; each broker is asked once."""
        if address not in self._ends:
            self._ends[address] = asyncio.ensure_future(fetch_log_end(self._client, address))
        return await self._ends[address]

    async def _return(self, index: int, address: str, cleaning: CleanStep, message: ReturnedMessage, end: int) -> _Sent:
        """Send one message back, and acknowledge it if it was popped. Raises what _store_again() raises."""
        async with self._gate:
            sent = await self._store_again(index, address, cleaning, message, end)
            if sent.topic is not None:
                await self._pops.acknowledge(index, address, message)
            return sent

    async def _store_again(
        self, index: int, address: str, cleaning: CleanStep, message: ReturnedMessage, end: int
    ) -> _Sent:  # fmt: skip
        """Have one message stored again, unless an earlier run did. Raises only errors that prove that it was not."""
        group = self._plan.group
        before = self._earlier.get(index, {}).get(message.queue_offset)
        if before is not None and before.message_id == message.message_id:
            topic = await find_copy(self._client, address, group, message, before.known_before)
            if topic is not None:
                return _Sent(topic, f"{before.receipt_id} already sent it back", is_earlier=True)
            if before.is_stored:
                # Its copy was seen; since then its index file was deleted, or it was consumed long ago.
                return _Sent(None, f"{before.receipt_id} already sent it back, and its copy no longer exists")
        try:
            await self._send(self._plan.items[index].mq, address, cleaning, message)
        except RmqctlError as error:
            # A broker that could not flush in time answers with an error, although it has stored the message.
            sent = await self._see(address, message, end, within_s=0.0 if is_refusal(error) else _SEEN_WITHIN_S)
            if sent.topic is None and is_refusal(error):
                raise
            return _Sent(sent.topic, joined(error.sentence, sent.note))
        return await self._see(address, message, end, within_s=_SEEN_WITHIN_S)

    async def _send(self, mq: MessageQueue, address: str, cleaning: CleanStep, message: ReturnedMessage) -> None:
        group, level, limit = self._plan.group, cleaning.delay_level, cleaning.max_reconsume_times
        if message.pop_handle is not None and mq.topic.startswith(RETRY_PREFIX):
            found = await fetch_message_at(self._client, address, mq, message.queue_offset)
            if found is None or found.queue_offset != message.queue_offset or found.message_id != message.message_id:
                raise RefusedError(f"{mq} offset {message.queue_offset} is not the message of the plan.")
            await send_copy(
                self._client, address, group, found, message.origin_topic, broker_name=mq.broker_name,
                delay_level=level, max_reconsume_times=limit, timeout_s=_ANSWER_S,
            )  # fmt: skip
            return
        await send_back(
            self._client, address, mq.broker_name, group, message, delay_level=level, max_reconsume_times=limit,
            timeout_s=_ANSWER_S,
        )  # fmt: skip

    async def _see(self, address: str, message: ReturnedMessage, end: int, *, within_s: float) -> _Sent:
        """Wait for the copy. Without a topic if it is not seen in time: the note says why, if known."""
        return _Sent(*await see_copy(self._client, address, self._plan.group, message, end, within_s=within_s))


def _receipt(message: ReturnedMessage, sent: _Sent | None, error: RmqctlError | None) -> ReturnReceipt:
    result, note = Result.NOT_ATTEMPTED, ""
    if error is not None:
        result, note = Result.UNCHANGED, error.sentence
    elif sent is not None and sent.topic is not None:
        result, note = Result.CONFIRMED, joined(f"copy in {sent.topic}", sent.note)
    elif sent is not None:
        result, note = Result.UNKNOWN, joined("its copy was not seen", sent.note)
    return ReturnReceipt(message.queue_offset, message.message_id, result, note)
