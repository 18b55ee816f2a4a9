"""Find single messages: by either kind of id, or by their offset in a queue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.results import all_failed, failed_by_name, not_found, unread_brokers
from rmqctl.admin.topics.queues import QueueChoice, chosen_queues, fetch_route
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import find_silent_servers, slave_failures
from rmqctl.errors import BrokerError, NotAuthorisedError, NotFoundError, RemoteProtocolError, RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.net.address import format_address
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import iter_messages
from rmqctl.protocol.message_id import OffsetId, decode_client_id, decode_offset_id, decode_unique_key

from .filter import MessageFilter
from .pull import FoundMessage, pull_queue
from .spans import QueueSpan, fetch_spans
from .wait_lookup import describe_half, find_indexed_or_waiting

# A unique key belongs to one message and its retries; more results than this are a user's mistake.
_SAME_ID_COUNT = 1_000


class LookupReport:
    """The messages found for several ids, and the failures."""

    def __init__(self) -> None:
        self.found: list[FoundMessage] = []
        self.failures: list[Failure] = []
        self.is_cut = False


async def find_by_ids(client: Client, ids: list[str], topic: str | None) -> LookupReport:
    """Return the messages with these ids, in their order.

    A broker's id is looked up on the broker whose address it contains, if that is part of this cluster. All other ids,
    and those not found there, are searched as unique keys in the topic. Raises UsageError for an invalid id and for one
    that needs a topic, and the most important error when none is found.
    """
    for text in ids:
        decode_id(text)
    cluster = await fetch_cluster(client)
    lookup = LookupReport()
    for text in ids:
        try:
            found, failures = await _find_by_id(client, cluster.brokers, text, topic)
        except RmqctlError as error:
            lookup.failures.append(Failure(None, f"message {text}", error))
            continue
        lookup.found += found
        lookup.failures += failures
    if not lookup.found:
        raise all_failed(failure.error for failure in lookup.failures)
    lookup.failures += slave_failures(client)
    return lookup


_NO_TOPIC = "Get on Topic:"
_BY_KEY = "For a business key, use --topic TOPIC --key KEY."


def decode_id(text: str, *, hint: str = _BY_KEY) -> OffsetId | None:
    """Return an id decoded as a broker's id, None when it can only be a unique key. Raises UsageError."""
    try:
        return decode_offset_id(text)
    except ValueError:
        pass
    try:
        decode_client_id(text)
    except ValueError:
        pass
    else:
        return None
    try:
        decode_unique_key(text)
    except ValueError as error:
        raise UsageError(f"{error}.", hint=hint) from None
    return None


async def _find_by_id(
    client: Client, brokers: tuple[BrokerData, ...], text: str, topic: str | None
) -> tuple[list[FoundMessage], list[Failure]]:
    offset_id = decode_id(text)
    address = format_address(offset_id.host, offset_id.port) if offset_id is not None else ""
    owner = next((broker for broker in brokers if address in broker.addresses.values()), None)
    failures: list[Failure] = []
    if offset_id is not None and owner is not None:
        try:
            found = await _view(client, owner, topic, offset_id)
        except RmqctlError as error:
            failures.append(Failure(owner.broker_name, f"message {text}", error))
        else:
            if found is not None:
                return [await describe_half(client, found, owner)], []
    if topic is None:
        if failures:
            first = failures[0].error
            # 5.x checks the right to read on the topic that the request names, and an id alone names none.
            if isinstance(first, NotAuthorisedError) and first.right == _NO_TOPIC:
                raise first.reworded(first.sentence, hint="Add the topic of the message: --topic TOPIC")
            raise first
        if owner is not None:
            hint = "If it is a unique key, give its topic with --topic; otherwise the message may have been deleted."
            what = f"A message at offset {offset_id and offset_id.commit_log_offset} of"
            raise not_found(NotFoundError(what, address, hint=hint), unread_brokers(client, {}))
        if offset_id is not None and (unread := await find_silent_servers(client)):
            gone = not_found(NotFoundError(f"Message {text}: its broker", address), unread)
            raise gone.reworded(gone.sentence, hint="If it is a unique key, give its topic with --topic.")
        raise UsageError(
            f"{text} is a unique key, or an id from a broker outside this cluster, so --topic is required.",
            hint=f"See both readings: rmqctl message decode-id {text}",
        )
    route = await fetch_route(client, topic)
    indexed = await find_indexed_or_waiting(client, route, MessageFilter(key=text), limit=_SAME_ID_COUNT)
    failures += indexed.failures
    if indexed.found:
        return list(indexed.found), failures
    hint = f"No broker of {topic} has it as a unique key or key; deleted messages are not in the index."
    hint += indexed.waiting_hint
    raise await not_indexed(client, NotFoundError("Message", text, hint=hint), topic, failures)


async def not_indexed(client: Client, error: NotFoundError, topic: str, failures: Sequence[Failure]) -> RmqctlError:
    """Return the error for a message that is not in a topic's indexes, or that of unreadable indexes."""
    return not_found(error, failed_by_name(failures) | await find_silent_servers(client, topic))


async def _view(client: Client, owner: BrokerData, topic: str | None, offset_id: OffsetId) -> FoundMessage | None:
    """Return the message at a position of a broker's commit log, None when no message starts there."""
    try:
        answer = await client.ask_broker(owner, headers.view_message(topic or "", offset_id.commit_log_offset))
    except BrokerError as error:
        # SYSTEM_ERROR for a position without a message, and for one in the middle of a message.
        if error.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.QUERY_NOT_FOUND):
            return None
        raise
    try:
        messages = list(iter_messages(answer.command.body))
    except RemoteProtocolError:
        return None  # no message starts at this position
    for message in messages:
        if message.commit_log_offset == offset_id.commit_log_offset:
            mq = MessageQueue(message.topic, owner.broker_name, message.queue_id)
            return FoundMessage(mq, message.queue_offset, message)
    return None


async def find_by_offset(client: Client, topic: str, queue: QueueChoice, first_offset: int, count: int) -> LookupReport:
    """Return messages of one queue from an offset on. Raises NotFoundError for an offset without a message."""
    route = await fetch_route(client, topic)
    queues = chosen_queues(route, [queue])
    if len(queues) != 1:
        raise UsageError(
            f"--offset requires one queue, for example --queue {queues[0].broker_name}:{queues[0].queue_id}."
        )
    spans, failures = await fetch_spans(client, route, queues)
    if failures:
        raise failures[0].error
    span = spans[0]
    if not span.min_offset <= first_offset < span.max_offset:
        raise _no_offset(client, first_offset, span)
    lookup = LookupReport()

    def unreadable(queue_offset: int, error: RmqctlError) -> None:
        lookup.found.append(FoundMessage(span.mq, queue_offset, None, error))

    end_offset = min(span.max_offset, first_offset + count)
    async with aclosing(
        pull_queue(client, span.address, span.mq, first_offset, end_offset, on_unreadable=unreadable)
    ) as pulls:
        async for messages in pulls:
            lookup.found += [FoundMessage(span.mq, message.queue_offset, message) for message in messages]
    lookup.found.sort(key=lambda found: found.queue_offset)
    lookup.failures += slave_failures(client)
    if not lookup.found:
        raise _no_offset(client, first_offset, span)
    return lookup


def _no_offset(client: Client, offset: int, span: QueueSpan) -> RmqctlError:
    error = NotFoundError(f"Offset {offset} of", str(span.mq), hint=_range_hint(span))
    return not_found(error, unread_brokers(client, {}))


def _range_hint(span: QueueSpan) -> str:
    if span.min_offset == span.max_offset:
        return f"The queue is empty; its next offset is {span.max_offset}."
    return f"Use an offset from {span.min_offset} to {span.max_offset - 1}."
