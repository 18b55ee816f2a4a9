"""END_TRANSACTION: commit a half message, or roll it back (EndTransactionProcessor)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message import StoredMessage
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import UNSET_REMARK, FailureError, RefusalError, Request, answer, ok
from rmqctl.sandbox.transactions.checks import IMMUNITY, immunity_ms
from rmqctl.sandbox.transactions.half_messages import PRODUCER_GROUP, committed

from .send_checks import int32

_COMMIT, _ROLL_BACK = MessageFlag.TRANSACTION_COMMITTED, MessageFlag.TRANSACTION_ROLLED_BACK
_REMARKS = {
    ResponseCode.SERVICE_NOT_AVAILABLE: "Service not available now.",
    ResponseCode.MESSAGE_ILLEGAL: (
        "The message is illegal, maybe msg body or properties length not matched. msg body length limit {}B, msg "
        "properties length limit 32KB."
    ),
}


def handle(broker: Broker, request: Request) -> Command | None:
    """Commit or roll back. RocketMQ does not answer where the producer does not know yet. Raises RefusalError."""
    ending = int32(request, "commitOrRollback")
    if ending not in (0, _COMMIT, _ROLL_BACK):
        raise FailureError(
            "org.apache.rocketmq.remoting.exception.RemotingCommandException: commitOrRollback field wrong"
        )
    if not ending:
        return None
    half = broker.store.message_in_log(request.number("commitLogOffset"))
    if half is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
    if broker.profile.is_5 and not request.flag("fromTransactionCheck") and _is_late(broker, half):
        return answer(ResponseCode.ILLEGAL_OPERATION, UNSET_REMARK)
    _check(half, request)
    if ending == _COMMIT:
        _commit(broker, half)
    broker.halves.end(half)
    return ok() if ending == _COMMIT else ok(remark=UNSET_REMARK)


def _is_late(broker: Broker, half: StoredMessage) -> bool:
    """Return whether a producer comes too late, because the message is checked already."""
    immunity, timeout_ms = half.properties.get(IMMUNITY), broker.settings.number("transactionTimeOut")
    if not immunity:
        return False
    return broker.now_ms() - half.born_at_ms > max(timeout_ms, immunity_ms(immunity, timeout_ms))


def _check(half: StoredMessage, request: Request) -> None:
    group = half.properties.get(PRODUCER_GROUP)
    if group is None:
        raise FailureError("java.lang.NullPointerException: the message has no producer group")
    if group != request.text("producerGroup", None):
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if half.queue_offset != request.number("tranStateTableOffset"):
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")


def _commit(broker: Broker, half: StoredMessage) -> None:
    try:
        broker.put(committed(half, is_5=broker.profile.is_5))
    except FailureError:
        raise
    except RefusalError as refusal:
        remark = _REMARKS.get(refusal.code, refusal.remark)
        raise RefusalError(refusal.code, remark.format(broker.settings.text("maxMessageSize"))) from None
