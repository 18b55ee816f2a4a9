"""Find traces of messages, by the index of the topic that clients write them to."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rmqctl.admin.messages.rules.trace import trace_steps
from rmqctl.admin.results import all_failed, all_or_failed, ask_all, not_found
from rmqctl.admin.topics.stats import fetch_queue_offsets
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import find_silent_servers, slave_failures
from rmqctl.errors import NotFoundError, NotRegisteredError, RemoteProtocolError, RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.model.trace import TraceRecord, TraceStep
from rmqctl.protocol import headers
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.message_id import decode_unique_key
from rmqctl.protocol.properties import split_keys
from rmqctl.protocol.trace import decode_trace
from rmqctl.text.times import iso_time, month_times_ms
from rmqctl.text.words import counted

from .filter import MessageFilter
from .index import find_indexed
from .lookup import find_by_ids

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_ENABLE = "Create producers and consumers with enableMsgTrace=true"
# At most this many of the newest messages of the trace topic with one key; each contains several records.
_MAX_MESSAGES = 10_000


class Trace(Struct, frozen=True):
    """The trace of a message, or of all messages with a key, in the order of times."""

    steps: tuple[TraceStep, ...]
    failures: tuple[Failure, ...]
    unreadable_count: int
    crowded: tuple[str, ...]
    is_cut: bool = False


async def fetch_trace(client: Client, trace_topic: str, *, msg_id: str | None = None, key: str | None = None) -> Trace:
    """Return the trace of a message id, or of a business key.

    A broker's message id is converted to the producer's first, as traces contain only that. Raises NotFoundError.
    """
    wanted = key if msg_id is None else await _unique_key(client, msg_id)
    if wanted is None:
        raise AssertionError("a trace is asked for by an id or a key")
    try:
        route = await client.route(trace_topic)
    except NotFoundError:
        hint = f"{_ENABLE} and brokers with traceTopicEnable=true, or give another topic with --trace-topic."
        error = NotFoundError("The trace topic", trace_topic, hint=hint)
        raise not_found(error, await find_silent_servers(client, trace_topic)) from None
    indexed = await find_indexed(client, route, MessageFilter(key=wanted), limit=_MAX_MESSAGES)
    if indexed.failures and len(indexed.failures) == len(route.brokers):
        raise all_failed(failure.error for failure in indexed.failures)
    records: list[TraceRecord] = []
    unreadable_count = 0
    broken: list[Failure] = []
    for found in indexed.found:
        read, count = ([], 1) if found.message is None else _decode(found.message)
        unreadable_count += count
        if count:
            unreadable = RemoteProtocolError(f"{counted(count, 'trace record')} of this message cannot be read.")
            broken.append(Failure(found.mq.broker_name, f"offset {found.queue_offset} of {found.mq}", unreadable))
        records += [record for record in read if wanted in (record.msg_id, *split_keys(record.keys))]
    steps = trace_steps(records)
    silent = {failure.broker_name for failure in indexed.failures}
    born_at_ms = _born_at_ms(wanted, steps, client.clock.now_ms())
    gaps = [gap for gap in await _find_gaps(client, route, born_at_ms) if gap.broker_name not in silent]
    failures = (*indexed.failures, *broken, *gaps, *slave_failures(client))
    if not records and not failures:
        hint = f"{_ENABLE}, try again in some seconds, or give another topic with --trace-topic."
        error = NotFoundError(f"A trace in {trace_topic} of", wanted, hint=hint)
        raise not_found(error, await find_silent_servers(client, trace_topic))
    return Trace(tuple(steps), failures, unreadable_count, indexed.crowded, indexed.is_cut)


def _born_at_ms(wanted: str, steps: Sequence[TraceStep], now_ms: int) -> int | None:
    """Return the latest possible birth time of a message, the earliest of several messages; None if unknown.

    The id contains the time, in the producer's time zone; no event is older than its message.
    """
    times = [step.at_ms for step in steps if step.at_ms is not None]
    for msg_id in {wanted, *(step.msg_id for step in steps)}:
        try:
            since_month_ms = decode_unique_key(msg_id).since_month_start_ms & 0xFFFFFFFF
        except ValueError:
            continue
        times += month_times_ms(since_month_ms, now_ms)[:1]
    return min(times, default=None)


async def _unique_key(client: Client, msg_id: str) -> str:
    """Return the producer's id of a message; an id that is not found as a broker's is already the producer's."""
    try:
        lookup = await find_by_ids(client, [msg_id], None)
    except (NotFoundError, NotRegisteredError, UsageError):
        return msg_id
    message = lookup.found[0].message
    return msg_id if message is None else message.message_id


def _decode(message: StoredMessage) -> tuple[list[TraceRecord], int]:
    try:
        return decode_trace(message.body, message.born_host)
    except RemoteProtocolError:
        return [], 1


class _Kept(Struct, frozen=True):
    """What a broker still stores of a topic. `oldest_at_ms`: None without messages."""

    has_deleted: bool
    oldest_at_ms: int | None


async def _find_gaps(client: Client, route: TopicRoute, born_at_ms: int | None) -> list[Failure]:
    """Return a failure for each broker that may have deleted records written since a message was born.

    Commit log files are deleted oldest first. So nothing is missing on a broker that has deleted nothing, or whose
    oldest record is older than the message. If the birth time is unknown (None), any deletion counts.
    """
    answers = await ask_all(route.brokers, lambda broker: _fetch_kept(client, broker, route.topic))
    failures = [Failure(broker.broker_name, "age of trace records", error) for broker, error in answers.failed.items()]
    for broker, kept in answers.ok.items():
        is_older = born_at_ms is not None and kept.oldest_at_ms is not None and kept.oldest_at_ms <= born_at_ms
        if kept.has_deleted and not is_older:
            failures.append(Failure(broker.broker_name, "older trace records", _deleted(route.topic, kept)))
    return failures


def _deleted(topic: str, kept: _Kept) -> RmqctlError:
    begin = f"starts at {iso_time(kept.oldest_at_ms)}" if kept.oldest_at_ms is not None else "is empty there"
    error = RmqctlError(f"{topic} {begin}: older records were deleted. The trace may be incomplete.")
    error.name = "DELETED"
    return error


async def _fetch_kept(client: Client, broker: BrokerData, topic: str) -> _Kept:
    queues = await fetch_queue_offsets(client, broker, topic)

    async def ask(queue_id: int) -> int:
        found = await client.ask_broker(broker, headers.get_earliest_store_time(topic, queue_id))
        return headers.int_field(found.command, "timestamp")

    filled = [queue_id for queue_id, offsets in queues.items() if offsets.max_offset > offsets.min_offset]
    times = all_or_failed(await ask_all(filled, ask))
    kept = [at_ms for at_ms in times.values() if at_ms > 0]
    # A queue's min offset is updated some time after its messages are deleted; until then their time cannot be read.
    has_deleted = len(kept) < len(times) or any(offsets.min_offset > 0 for offsets in queues.values())
    return _Kept(has_deleted, min(kept, default=None))
