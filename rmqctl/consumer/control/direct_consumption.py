"""Consume one message on an operator's request, whether it was consumed before or not.

(ConsumeMessageConcurrentlyService.consumeMessageDirectly.) It is neither acknowledged nor sent back.
"""

from __future__ import annotations

import asyncio
from traceback import walk_tb
from typing import Any

from rmqctl.consumer.batch import Admission, AnyListener, Batch, OrderlyBatch
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.reports.failures import describe_error
from rmqctl.consumer.retried_message import restore_topics
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.consumer.stacks import describe_call
from rmqctl.consumer.workers import make_workers
from rmqctl.errors import RemoteProtocolError
from rmqctl.model.consumption import ConsumeOrderlyStatus, ConsumeStatus
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import Clock
from rmqctl.protocol.message import iter_messages

# CMResult.
_RESULTS: dict[ConsumeStatus | ConsumeOrderlyStatus | None, str] = {
    ConsumeStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeStatus.RECONSUME_LATER: "CR_LATER",
    ConsumeOrderlyStatus.SUCCESS: "CR_SUCCESS",
    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: "CR_LATER",
    ConsumeOrderlyStatus.COMMIT: "CR_COMMIT",
    ConsumeOrderlyStatus.ROLLBACK: "CR_ROLLBACK",
    None: "CR_RETURN_NULL",
}
_THROWN = "CR_THROW_EXCEPTION"


def make_batch(settings: ConsumerSettings, broker_name: str, record: bytes) -> Batch:
    """Return the batch of a stored message for a listener. Raises RemoteProtocolError for an invalid record."""
    messages = list(iter_messages(record))
    if not messages:
        raise RemoteProtocolError("The request has no message to consume.")
    mq = MessageQueue(messages[0].topic, broker_name, messages[0].queue_id)
    if mq.topic == RETRY_PREFIX + settings.group:
        messages = restore_topics(messages)
    # In a process queue of its own: the queues of the consumer stay unchanged.
    if settings.is_orderly:
        return OrderlyBatch(ProcessQueue(mq), messages, 0, stored=messages)
    return Batch(ProcessQueue(mq), messages, settings.delay_level)


async def consume_directly(listener: AnyListener, clock: Clock, batch: Batch) -> dict[str, Any]:
    """Pass a batch to a listener, in its own worker; return the result (ConsumeMessageDirectlyResult)."""
    done, is_orderly = asyncio.Event(), isinstance(batch, OrderlyBatch)
    workers = make_workers(
        listener, 1, clock, name="ConsumeMessageDirectly", on_done=lambda _: done.set(),
        admit=lambda *_: Admission.START, on_end=lambda _: None,
        follow=(lambda _: None) if is_orderly else None,
    )  # fmt: skip
    try:
        workers.submit([batch])
        await done.wait()
    finally:
        workers.close()
    return {
        "autoCommit": not isinstance(batch, OrderlyBatch) or batch.auto_commit,
        "consumeResult": _RESULTS[batch.status] if batch.error is None else _THROWN,
        "order": is_orderly,
        "remark": None if batch.error is None else _describe(batch.error),
        "spentTimeMills": round((batch.finished_s - batch.started_s) * 1000),
    }


def _describe(error: BaseException) -> str:
    """Return an error with the call that raised it (RemotingHelper.exceptionSimpleDesc)."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    return f"{describe_error(error)}, {describe_call(frame, line)}"
