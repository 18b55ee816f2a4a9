"""Offsets that come from elsewhere: another group's, or a file's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rmqctl.admin.queues import QueueChoice, fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.rules.file_claims import require_fit

from .offset_files import OffsetEntry, OffsetFile, resolve_brokers
from .offset_found import find_group


async def offsets_of_group(client: Client, group: str, topics: Sequence[str]) -> dict[MessageQueue, int | None]:
    """Return where a group is, None for none stored, in some topics or all that it consumes, but its retry topic.

    Raises as find_group(), NotFoundError where nothing is stored, and the error of what could not be read.
    """
    found = await find_group(client, group, topics)
    for failure in found.failures:
        # Who takes over a part would begin anywhere in the rest.
        raise failure.error.reworded(
            f"Not all of group {group} could be read: {failure.what}: {failure.error.sentence}"
        )
    # The retry topic is the group's own.
    given = {mq: offset for mq, offset in found.offsets.items() if not mq.topic.startswith(RETRY_PREFIX)}
    if not any(offset is not None for offset in given.values()):
        raise NotFoundError("Offset", group).reworded(f"Group {group} has no offsets to take over.")
    return given


async def offsets_of_file(
    client: Client, file: OffsetFile, topics: Sequence[str], queues: Sequence[QueueChoice] = ()
) -> tuple[tuple[str, ...], dict[MessageQueue, int | None]]:
    """Return the topics of a file, only the wanted ones where some are named, and its offsets by queue.

    Raises UsageError for topics and queues that the file lacks, for a file of another cluster and for a queue that does
    not exist, NotFoundError for a topic.
    """
    claimed = {entry.topic for entry in file.entries}
    require_fit("The file", "topic", claimed, topics, hint="Name its topics with --topic, or leave --topic out.")
    entries = tuple(entry for entry in file.entries if not topics or entry.topic in topics)
    named = sorted({entry.topic for entry in entries})
    routes = await asyncio.gather(*(fetch_route(client, topic) for topic in named))
    _require_cluster(file, entries, routes)
    counts = {
        (route.topic, place.broker_name): place.read_queue_count
        for route in routes
        for place in route.queue_data
        if place.is_readable
    }
    given = dict(resolve_brokers(entries, counts))
    lacking = [str(choice) for choice in queues if not any(choice.has(mq) for mq in given)]
    hint = "Name its queues with --queue, or leave --queue out."
    require_fit("The file", "queue", [str(mq) for mq in given], lacking, hint=hint)
    return tuple(named), given


def _require_cluster(file: OffsetFile, entries: Sequence[OffsetEntry], routes: Sequence[TopicRoute]) -> None:
    """Raise UsageError where the queues that the file names are of another cluster here."""
    here = {broker.broker_name: broker.cluster for route in routes for broker in route.brokers if broker.cluster}
    named = {here[entry.broker_name] for entry in entries if entry.broker_name in here}
    hint = "Name that cluster with -n or --context."
    require_fit("The file", "cluster", file.clusters, named or {*here.values()}, hint=hint)
