"""Offsets that come from elsewhere: another group's, or a file's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rmqctl.admin.queues import fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue

from .offset_files import OffsetFile, resolve_brokers
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
    client: Client, file: OffsetFile, topics: Sequence[str]
) -> tuple[tuple[str, ...], dict[MessageQueue, int | None]]:
    """Return the topics of a file, only the wanted ones where some are named, and its offsets by queue.

    Raises UsageError for a topic that the file lacks and for a queue that there is not, NotFoundError for a topic.
    """
    entries = file.entries
    lacking = sorted({*topics} - {entry.topic for entry in entries})
    if lacking:
        raise UsageError(f"The file has no offset of {', '.join(lacking)}.")
    entries = tuple(entry for entry in entries if not topics or entry.topic in topics)
    named = sorted({entry.topic for entry in entries})
    routes = await asyncio.gather(*(fetch_route(client, topic) for topic in named))
    counts = {
        (route.topic, place.broker_name): place.read_queue_count
        for route in routes
        for place in route.queue_data
        if place.is_readable
    }
    return tuple(named), dict(resolve_brokers(entries, counts))
