"""Find brokers that have deleted trace records of the relevant time, so that a trace may be incomplete."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.admin.results import all_or_failed, ask_all
from rmqctl.admin.topics.stats import fetch_queue_offsets
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.route import Broker, TopicRoute
from rmqctl.protocol import headers
from rmqctl.text.times import iso_time


class _Kept(Struct, frozen=True):
    """What a broker still stores of a topic. `oldest_at_ms`: None without messages."""

    has_deleted: bool
    oldest_at_ms: int | None


async def find_gaps(client: Client, route: TopicRoute, born_at_ms: int | None) -> list[Failure]:
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


async def _fetch_kept(client: Client, broker: Broker, topic: str) -> _Kept:
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
