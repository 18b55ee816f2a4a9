"""Send messages to a topic, one by one or in batches, until one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from rmqctl.admin.results import all_failed, ask_all
from rmqctl.admin.topics.queues import QueueChoice, fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import RefusedError, RemoteProtocolError, RmqctlError, UnreachableError, UsageError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage, SendResult
from rmqctl.producer.producer import Producer
from rmqctl.rules.send_queues import writable_queues
from rmqctl.text.names import one_of
from rmqctl.text.words import counted

# The producer group that brokers and traces show for these messages.
PRODUCER_GROUP = "rmqctl"


class SendReport(Struct):
    """The messages stored so far, in the given order, and why the rest is not."""

    stored: list[tuple[OutgoingMessage, SendResult]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


async def fetch_targets(client: Client, topic: str, choice: QueueChoice | None) -> tuple[MessageQueue, ...]:
    """Return the writable queues of a topic, or the chosen one.

    Raises NotFoundError with similar names, RefusedError when no queue is writable, UsageError for a choice that is not
    exactly one of them.
    """
    queues = writable_queues(await fetch_route(client, topic))
    if not queues:
        raise RefusedError(f"Topic {topic} has no writable queue.", hint=f"See why: rmqctl topic status {topic}")
    if choice is None:
        return queues
    chosen = tuple(mq for mq in queues if choice.has(mq))
    if len(chosen) != 1 or choice.first_id != choice.last_id:
        there = sorted({f"{mq.broker_name}:{mq.queue_id}" for mq in queues})[:8]
        raise UsageError(f"--queue {choice} is not a single writable queue of {topic}.", hint=one_of(there))
    return chosen


async def send_all(
    client: Client, topic: str, messages: Sequence[OutgoingMessage], sent: SendReport, *,
    mq: MessageQueue | None = None, in_batches: bool = False, at_once: int = 1,
    on_progress: Callable[[int], object] = lambda _: None,
) -> None:  # fmt: skip
    """Send messages, in batches or `at_once` concurrently, adding stored ones to `sent`; stop at the first failure.

    Raises that failure when nothing is stored; otherwise it is in `sent`, so that the stored part can be reported.
    """
    producer = Producer(client, PRODUCER_GROUP, timeout_s=client.deadline.attempt_s())
    try:
        if in_batches:
            async for results in producer.send_batches(topic, messages, mq=mq):
                first = len(sent.stored)
                sent.stored += zip(messages[first : first + len(results)], results, strict=True)
                on_progress(len(sent.stored))
        else:
            for at in range(0, len(messages), at_once):
                await _send_some(producer, topic, messages[at : at + at_once], sent, mq)
                on_progress(len(sent.stored))
    except RmqctlError as error:
        if not sent.stored:
            raise
        left_count = len(messages) - len(sent.stored)
        is_open = isinstance(error, UnreachableError | RemoteProtocolError)
        attempt = Attempt.UNANSWERED_WRITE if is_open else Attempt.WRITE
        sent.failures.append(Failure(None, f"{left_count} of {counted(len(messages), 'message')}", error, attempt))


async def _send_some(
    producer: Producer, topic: str, messages: Sequence[OutgoingMessage], sent: SendReport, mq: MessageQueue | None
) -> None:
    """Send some messages concurrently. Raises the most important error when one of them fails."""
    answers = await ask_all(range(len(messages)), lambda index: producer.send_message(topic, messages[index], mq=mq))
    sent.stored += ((messages[index], result) for index, result in answers.ok.items())
    if answers.failed:
        raise all_failed(answers.failed.values())
