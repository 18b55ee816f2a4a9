"""Consume one message on an operator's request, whether it was consumed before or not.

(ConsumeMessageConcurrentlyService.consumeMessageDirectly.) It is neither acknowledged nor sent back.
"""

from __future__ import annotations

import asyncio
from traceback import walk_tb
from typing import Any

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.consumption import ConsumeStatus
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import Clock
from rmqctl.protocol.message import iter_messages

from .batch import Admission, Batch, Listener
from .process_queue import ProcessQueue
from .reports.failures import describe_error
from .retried_message import restore_topics
from .settings import ConsumerSettings
from .stacks import describe_call
from .workers import make_workers

# CMResult.
_RESULTS = {
    ConsumeStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeStatus.RECONSUME_LATER: "CR_LATER",
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
    return Batch(ProcessQueue(mq), messages, settings.delay_level)


async def consume_directly(listener: Listener, clock: Clock, batch: Batch) -> dict[str, Any]:
    """Pass a batch to a listener, in its own worker; return the result (ConsumeMessageDirectlyResult)."""
    done = asyncio.Event()
    workers = make_workers(
        listener, 1, clock, name="ConsumeMessageDirectly", on_done=lambda _: done.set(),
        admit=lambda *_: Admission.START, on_end=lambda _: None,
    )  # fmt: skip
    try:
        workers.submit([batch])
        await done.wait()
    finally:
        workers.close()
    return {
        "autoCommit": True,
        "consumeResult": _RESULTS[batch.status] if batch.error is None else _THROWN,
        "order": False,
        "remark": None if batch.error is None else _describe(batch.error),
        "spentTimeMills": round((batch.finished_s - batch.started_s) * 1000),
    }


def _describe(error: BaseException) -> str:
    """Return an error with the call that raised it (RemotingHelper.exceptionSimpleDesc)."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    return f"{describe_error(error)}, {describe_call(frame, line)}"
