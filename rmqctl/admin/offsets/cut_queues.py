"""Read the stored offsets of queues that no consumer can read: consume stats leave them out."""

from __future__ import annotations

from collections.abc import Collection

from rmqctl.admin.brokers.tables import fetch_all_offsets
from rmqctl.admin.groups.tables import fetch_removed_queue_ends
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import by_queue, fetch_stored_offsets
from rmqctl.errors import NotAuthorisedError
from rmqctl.model.failure import Failure
from rmqctl.model.progress import CutQueue
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.readable_queues import is_unreadable

from .reading import GroupReading

# Tables of clusters with many groups are large: 5.x brokers are first asked for the offsets of the queue ids beyond the
# readable ones, of as many as can be read and at least of these. Clients commit an offset for each queue they ever had.
_PROBED = 8
# More requests than this would take longer than a table.
_MOST_PROBES = 256


async def read_cut_queues(
    client: Client, group: str, reading: GroupReading, topics: Collection[str], *, is_probing: bool = False
) -> None:
    """Fill reading.cut for these topics, and min and max offsets, from the brokers' tables of all stored offsets.

    `is_probing`: read the table of a broker only if some queues show that it is needed, for commands about one group.
    """
    brokers = {name: view.broker for name, view in reading.views.items()}
    if is_probing:
        needed = await ask_all(brokers, lambda name: _needs_table(client, group, reading, name, topics))
        brokers = {name: broker for name, broker in brokers.items() if needed.ok.get(name, True)}
    tables = await ask_all(brokers, lambda name: fetch_all_offsets(client, brokers[name]))
    # A broker that refuses this account always refuses it, so that is a note.
    refused = {name for name, error in tables.failed.items() if isinstance(error, NotAuthorisedError)}
    reading.closed_tables |= refused
    failures = [
        Failure(name, "all stored offsets", error) for name, error in tables.failed.items() if name not in refused
    ]
    # The same table may have failed for other topics.
    reading.failures += [failure for failure in failures if failure not in reading.failures]
    offsets = {
        mq: offset
        for name, groups in tables.ok.items()
        for mq, offset in by_queue(name, groups.get(group, {})).items()
        if mq.topic in topics and is_unreadable(mq, reading.routes.get(mq.topic))
    }
    ends = await fetch_removed_queue_ends(client, brokers, sorted(offsets))
    reading.topic_offsets.update(ends.ok)
    reading.failures += [Failure(mq.broker_name, f"messages of {mq}", error) for mq, error in ends.failed.items()]
    for mq, offset in sorted(offsets.items()):
        found = reading.topic_offsets.get(mq)
        bounds = (None, None) if found is None else (found.min_offset, found.max_offset)
        reading.cut[mq] = CutQueue(mq, offset, *bounds)


async def _needs_table(client: Client, group: str, reading: GroupReading, name: str, topics: Collection[str]) -> bool:
    view = reading.views[name]
    queues = [
        MessageQueue(topic, name, queue_id)
        for topic in sorted(topics)
        if (route := reading.routes.get(topic)) is not None and not route.is_static
        for data in route.queue_data
        if data.broker_name == name
        for queue_id in range(data.read_queue_count, data.read_queue_count + max(_PROBED, data.read_queue_count))
    ]
    if view.version < V5_0_0 or len(queues) > _MOST_PROBES:
        return True
    offsets = await fetch_stored_offsets(client, view.broker, group, queues, version=view.version)
    return any(offset is not None for offset in offsets.values())
