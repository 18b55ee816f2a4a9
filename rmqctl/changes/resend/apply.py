"""Has a group consume a message once more, and journals it first."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from rmqctl.admin.messages.returns import fetch_log_end, require_copies_readable, see_copy, send_back
from rmqctl.admin.messages.time_search import fetch_message_at
from rmqctl.changes.journal.journal import Journal, write_to_journal
from rmqctl.changes.late_writes import is_refusal, joined
from rmqctl.changes.offsets.rules.drift import group_drift
from rmqctl.changes.plan_parts import new_id, stale
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RmqctlError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.names import DLQ_PREFIX
from rmqctl.model.plan import CleanStep, Plan, PlanItem, ReturnedMessage, Route
from rmqctl.model.receipt import ReceiptItem, ReceiptReport, Result, ReturnReceipt, Who, receipt_of
from rmqctl.protocol import group_bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage

from .group import GroupAtBroker, find_group, require_retries
from .plan import required_message

# A client waits 5 s for the answer (MQClientAPIImpl.consumerSendMessageBack); a copy is indexed within seconds.
_ANSWER_S, _SEEN_WITHIN_S = 5.0, 15.0
# A broker waits 10 s for the client (AdminBrokerProcessor.callConsumer).
_DIRECT_S = 15.0
# The listener ran, and accepted the message (CMResult).
_ACCEPTED = ("CR_SUCCESS", "CR_COMMIT")


class _Outcome(Struct, frozen=True):
    """What became of the message; `error` is set if it was not sent, or if its result was not seen."""

    result: Result
    note: str
    error: RmqctlError | None = None


async def apply_resend(
    client: Client, plan: Plan, plan_text: str, plan_sha256: str, journal: Journal, who: Who, *,
    report: Callable[[str], None],
) -> ReceiptReport:  # fmt: skip
    """Apply a plan to resend. Raises StaleError if the message is no longer there, or was resent since.

    Raises NotAuthorisedError, before anything is sent, if this account may not look for the copy.

    CONFIRMED: the copy was seen in the broker, or the member's listener accepted the message. UNCHANGED: the broker or
    the listener refused it. UNKNOWN: no answer, or no copy was seen.
    """
    item, step, message = required_message(plan)
    name = item.mq.broker_name
    address = plan.brokers[name]
    stored = await _check(client, plan, item, message, journal)
    if item.route is not Route.DIRECT:
        await require_copies_readable(client, address, plan.group)
    end = await fetch_log_end(client, address)
    now_ms = client.clock.now_ms()
    receipt_id = new_id(now_ms)
    journal.begin(receipt_id, plan, plan_text, plan_sha256, now_ms=now_ms, who=who)
    journal.attempting(receipt_id, {0: None})
    journal.returning(receipt_id, 0, [message.queue_offset], known_before=end)
    if item.route is Route.DIRECT:
        report(f"Waiting for the listener of {step.client_id}...")
        outcome = await _consume(client, plan, item, step, stored, address)
    else:
        outcome = await _send_back(client, plan, item, step, message, address, end)
    sent = ReturnReceipt(message.queue_offset, message.message_id, outcome.result, outcome.note)
    done = ReceiptItem(item.mq, None, None, item.route, outcome.result, note=outcome.note, messages=(sent,))
    failures: list[Failure] = []
    if outcome.error is not None:
        attempt = Attempt.UNANSWERED_WRITE if outcome.result is Result.UNKNOWN else Attempt.WRITE
        what = f"offset {message.queue_offset} of {item.mq}"
        failures.append(Failure(name, what, outcome.error, attempt))
    write_to_journal(lambda: journal.returned(receipt_id, 0, [sent]), failures)
    write_to_journal(lambda: journal.settle(receipt_id, {0: done}), failures)
    ended_at_ms = client.clock.now_ms()
    write_to_journal(lambda: journal.end(receipt_id, ended_at_ms), failures)
    receipt = receipt_of(plan, receipt_id, plan_sha256, now_ms, ended_at_ms, who, items=(done,))
    return ReceiptReport(receipt, tuple(failures), int(outcome.result is Result.CONFIRMED))


async def _check(
    client: Client, plan: Plan, item: PlanItem, message: ReturnedMessage, journal: Journal
) -> StoredMessage:
    """Return the message as it is stored now. Raises StaleError when a plan is out of date."""
    mq, address = item.mq, plan.brokers[item.mq.broker_name]
    brokers = {broker.broker_name: broker for broker in (await client.fresh_cluster()).brokers}
    broker = brokers.get(mq.broker_name)
    if broker is None or broker.master_address != address:
        raise stale([f"Broker {mq.broker_name} is no longer at {address}."], has_moved=True)
    _check_group(plan, item, message, await find_group(client, broker, plan.group))
    last = journal.last_resend(plan.group, mq, message.queue_offset, message.message_id)
    if last is not None and not any(each.code == "AGAIN" for each in plan.consequences):
        raise stale([f"Change {last} resent the message, or may have."])
    found = await fetch_message_at(client, address, mq, message.queue_offset)
    if found is None or (found.queue_offset, found.message_id) != (message.queue_offset, message.message_id):
        raise stale([f"{mq} no longer has the message at offset {message.queue_offset}."])
    return found


def _check_group(plan: Plan, item: PlanItem, message: ReturnedMessage, now: GroupAtBroker) -> None:
    """Raise StaleError when a group is not as it was when the plan was made, RefusedError if it gets no copy now."""
    if drift := list(group_drift(plan, now.state, now.consume_type, now.message_model)):
        raise stale(drift)
    step = item.cleaning
    if item.route is Route.DIRECT:
        if step is None or step.client_id not in now.client_ids:
            raise stale([f"Client {step and step.client_id} is no longer connected to {item.mq.broker_name}."])
        return
    require_retries(now, message.reconsume_times)
    if step is not None and step.max_reconsume_times != now.most_retries:
        raise stale([f"retryMaxTimes was {step.max_reconsume_times}, and is {now.most_retries}."])


async def _send_back(
    client: Client, plan: Plan, item: PlanItem, step: CleanStep, message: ReturnedMessage, address: str, end: int
) -> _Outcome:
    failed: RmqctlError | None = None
    try:
        await send_back(
            client, address, item.mq.broker_name, plan.group, message, delay_level=step.delay_level,
            max_reconsume_times=step.max_reconsume_times, timeout_s=_ANSWER_S,
        )  # fmt: skip
    except RmqctlError as error:
        failed = error
    # A broker that could not flush in time answers with an error, although it has stored the message.
    within_s = 0.0 if failed is not None and is_refusal(failed) else _SEEN_WITHIN_S
    topic, note = await see_copy(client, address, plan.group, message, end, within_s=within_s, level=step.delay_level)
    said = "" if failed is None else failed.sentence
    if topic is not None and topic.startswith(DLQ_PREFIX):
        note = f"it became a dead letter, in {topic}"
        return _Outcome(Result.UNCHANGED, note, RmqctlError(f"{plan.group} does not get the message: {note}."))
    if topic is not None:
        return _Outcome(Result.CONFIRMED, f"copy in {topic}" if failed is None else joined(f"copy in {topic}", said))
    if failed is not None and is_refusal(failed):
        return _Outcome(Result.UNCHANGED, said, failed)
    note = joined("its copy was not seen", note or said)
    return _Outcome(Result.UNKNOWN, note, failed or RmqctlError(f"{note[0].upper()}{note[1:]}"))


async def _consume(
    client: Client, plan: Plan, item: PlanItem, step: CleanStep, stored: StoredMessage, address: str
) -> _Outcome:
    offset_id = stored.fixed_fields().offset_id
    request = headers.consume_directly(plan.group, step.client_id or "", offset_id, item.mq.broker_name, item.mq.topic)
    try:
        answer = await client.ask(address, request, timeout_s=_DIRECT_S, may_repeat=False)
        result = group_bodies.decode_direct_result(answer.body)
    except RmqctlError as error:
        is_late = isinstance(error, BrokerError) and error.code == ResponseCode.CONSUME_MSG_TIMEOUT
        if is_refusal(error) and not is_late:
            return _Outcome(Result.UNCHANGED, error.sentence, error)
        late = f"The listener of {step.client_id} did not end within 10 s: it may still run, also later."
        return _Outcome(Result.UNKNOWN, late if is_late else error.sentence, RmqctlError(late) if is_late else error)
    note = f"{result.result} after {result.spent_ms} ms"
    if result.result in _ACCEPTED:
        return _Outcome(Result.CONFIRMED, note)
    return _Outcome(Result.UNCHANGED, joined(note, result.remark) if result.remark else note)
