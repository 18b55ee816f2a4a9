"""Offsets: how far a consumer group has come, queue by queue, asked of all brokers at once.

Only requests that leave no trace are used. Whether 0 is a stored offset or nothing is asked again where a broker can't
tell the two apart in its first answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, NotFoundError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConnections
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker, TopicRoute
from rmqctl.model.stats import ConsumeTimeSpan, TopicOffset
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.names import closest
from rmqctl.rules.progress import retention_ms

from .brokers import fetch_cluster
from .clients import fetch_running_infos
from .offset_reading import BrokerView, GroupProgress, Reading, conclude
from .results import all_failed, ask_all, slave_failures


async def fetch_group_progress(client: Client, group: str, topics: Sequence[str] = ()) -> GroupProgress:
    """Return a group's progress in all its topics, or in the given ones.

    Raises NotFoundError for a group or topic that doesn't exist, and the brokers' error when none of them answers.
    """
    cluster, wanted_routes = await asyncio.gather(
        fetch_cluster(client), asyncio.gather(*(_route(client, topic) for topic in topics))
    )
    first = await ask_all(cluster.brokers, lambda broker: _ask_group(client, broker, group))
    if not first.ok:
        raise all_failed(first.failed.values())
    reading = Reading(
        views={broker.broker_name: view for broker, view in first.ok.items()},
        failed_brokers={broker.broker_name: error for broker, error in first.failed.items()},
        failures=[Failure(broker.broker_name, "offsets", error) for broker, error in first.failed.items()],
        asked_topics=tuple(topics),
    )
    known_topics = {mq.topic for view in reading.views.values() for mq in view.stats.queues}
    for connections in reading.connections():
        known_topics.update(connections.subscriptions)
    if not known_topics:
        await _require_group(client, group, reading)
    reading.topics = frozenset(topics or known_topics)
    await _find_routes(client, reading, wanted_routes)
    await asyncio.gather(
        _ask_places(client, group, reading),
        _ask_members(client, group, reading),
        _settle_zeros(client, group, reading),
        _ask_retention(client, reading),
    )
    reading.failures += slave_failures(client)
    return conclude(group, reading)


async def _route(client: Client, topic: str) -> TopicRoute:
    try:
        return await client.route(topic)
    except NotFoundError:
        response = await client.ask_name_server(headers.get_all_topics())
        names = bodies.decode_topic_names(response.body)
        raise NotFoundError("Topic", topic, suggestions=closest(topic, names)) from None


async def _ask_group(client: Client, broker: Broker, group: str) -> BrokerView:
    stats, connections = await asyncio.gather(
        client.ask_broker(broker, headers.get_consume_stats(group)), fetch_connections(client, broker, group)
    )
    return BrokerView(
        broker=broker,
        address=stats.address,
        version=stats.command.version,
        stats=bodies.decode_consume_stats(stats.command.body),
        connections=connections,
    )


async def fetch_connections(client: Client, broker: Broker, group: str) -> GroupConnections | None:
    """Return who is connected to a broker in a group, None for nobody."""
    try:
        answer = await client.ask_broker(broker, headers.get_connections(group))
    except BrokerError as error:
        if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        raise
    return bodies.decode_connections(answer.command.body)


async def _require_group(client: Client, group: str, reading: Reading) -> None:
    """Raise NotFoundError unless a broker that answers has the group's configuration, or somebody is connected."""
    if reading.connections():
        return

    async def ask(name: str) -> set[str]:
        answer = await client.ask_broker(reading.views[name].broker, headers.get_all_groups())
        return set(bodies.decode_groups(answer.command.body))

    tables = await ask_all(reading.views, ask)
    if not tables.ok:
        raise all_failed(tables.failed.values())
    names = set().union(*tables.ok.values())
    if group in names:
        return
    failed = {**reading.failed_brokers, **tables.failed}
    if failed:
        silent = ", ".join(sorted(failed))
        sentence = f"Group {group} is not known to the brokers that answered, and {silent} did not answer."
        raise all_failed(failed.values()).reworded(sentence)
    raise NotFoundError("Group", group, suggestions=closest(group, names))


async def _find_routes(client: Client, reading: Reading, known: Sequence[TopicRoute]) -> None:
    routes = {route.topic: route for route in known}
    found = await ask_all(reading.topics - set(routes), client.route)
    reading.routes = {**routes, **found.ok}
    # A retry topic without a route is made at the first failure; a deleted topic leaves its offsets behind.
    reading.failures += [
        Failure(None, f"route of {topic}", error)
        for topic, error in found.failed.items()
        if not isinstance(error, NotFoundError)
    ]


async def _ask_places(client: Client, group: str, reading: Reading) -> None:
    """Ask for min and max offsets and for ages, of every topic at every broker that has it."""
    places = sorted({(mq.broker_name, mq.topic) for mq in reading.queues() if mq.broker_name in reading.views})

    async def ask_offsets(place: tuple[str, str]) -> dict[MessageQueue, TopicOffset]:
        name, topic = place
        answer = await client.ask_broker(reading.views[name].broker, headers.get_topic_stats(topic))
        return bodies.decode_topic_stats(answer.command.body)

    async def ask_ages(place: tuple[str, str]) -> dict[MessageQueue, ConsumeTimeSpan]:
        name, topic = place
        answer = await client.ask_broker(reading.views[name].broker, headers.get_consume_time_span(topic, group))
        return bodies.decode_consume_time_span(answer.command.body)

    offsets, ages = await asyncio.gather(ask_all(places, ask_offsets), ask_all(places, ask_ages))
    for found in offsets.ok.values():
        reading.topic_offsets.update(found)
    for spans in ages.ok.values():
        reading.spans.update(spans)
    for what, failed in (("min and max offsets", offsets.failed), ("message ages", ages.failed)):
        reading.failures += [
            Failure(name, f"{what} of {topic}", error)
            for (name, topic), error in failed.items()
            if not (isinstance(error, BrokerError) and error.code == ResponseCode.TOPIC_NOT_EXIST)
        ]


async def _ask_members(client: Client, group: str, reading: Reading) -> None:
    through = {view.address: view.connections for view in reading.views.values() if view.connections is not None}
    reading.running = await fetch_running_infos(client, group, through)
    reading.failures += [
        Failure(None, f"running info of {client_id}", error) for client_id, error in reading.running.failed.items()
    ]


async def _settle_zeros(client: Client, group: str, reading: Reading) -> None:
    """Fill reading.stored for queues whose offset the first answers leave open: shown as 0, or not shown.

    5.x tells one by one (QUERY_CONSUMER_OFFSET); 4.9 answers 0 there too, so its whole table is read instead.
    """
    open_queues: dict[str, list[MessageQueue]] = {}
    for mq in reading.queues():
        view = reading.views.get(mq.broker_name)
        if view is not None and view.sure_offset(mq) is None:
            open_queues.setdefault(mq.broker_name, []).append(mq)

    async def settle(name: str) -> None:
        view = reading.views[name]
        if view.version < V5_0_0:
            answer = await client.ask_broker(view.broker, headers.get_all_consumer_offsets())
            table = bodies.decode_consumer_offsets(answer.command.body).groups.get(group, {})
            reading.stored |= {
                mq: _none_below_zero(table.get(mq.topic, {}).get(mq.queue_id)) for mq in open_queues[name]
            }
            return
        answers = await ask_all(open_queues[name], lambda mq: _stored_offset(client, view.broker, group, mq))
        reading.stored |= answers.ok
        if answers.failed:
            raise next(iter(answers.failed.values()))

    settled = await ask_all(open_queues, settle)
    reading.failures += [Failure(name, "stored offsets", error) for name, error in settled.failed.items()]


async def _stored_offset(client: Client, broker: Broker, group: str, mq: MessageQueue) -> int | None:
    try:
        answer = await client.ask_broker(broker, headers.query_consumer_offset(group, mq.topic, mq.queue_id))
    except BrokerError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise
    return _none_below_zero(headers.int_field(answer.command, "offset"))


def _none_below_zero(offset: int | None) -> int | None:
    """Return a stored offset; clients take one below 0 for none (RemoteBrokerOffsetStore), and brokers store any."""
    return offset if offset is not None and offset >= 0 else None


async def _ask_retention(client: Client, reading: Reading) -> None:
    """Ask brokers that hold unread messages how long they keep them.

    Only those: the runtime table, which says how full the disk is, takes a 5.4.0 broker 0.1 s to answer.
    """
    with_backlog = [
        name
        for name, view in reading.views.items()
        if any(item.broker_offset > item.consumer_offset for item in view.stats.queues.values())
    ]

    async def ask(name: str) -> int | None:
        broker = reading.views[name].broker
        config_answer, runtime_answer = await asyncio.gather(
            client.ask_broker(broker, headers.get_broker_config()),
            client.ask_broker(broker, headers.get_broker_runtime()),
        )
        config = bodies.decode_properties_text(config_answer.command.body)
        runtime = bodies.decode_key_values(runtime_answer.command.body)
        try:
            reserved_hours, disk_used_ratio = int(config["fileReservedTime"]), float(runtime["commitLogDiskRatio"])
            forced_at_ratio = _forced_cleaning_ratio(config)
        except (KeyError, ValueError):
            return None
        # A broker that can't tell says -1 (UtilAll.getDiskPartitionSpaceUsedPercent).
        return retention_ms(reserved_hours, disk_used_ratio, forced_at_ratio) if 0 <= disk_used_ratio <= 1 else None

    answers = await ask_all(with_backlog, ask)
    reading.retention_ms |= {name: kept_ms for name, kept_ms in answers.ok.items() if kept_ms is not None}
    reading.failures += [Failure(name, "retention", error) for name, error in answers.failed.items()]


def _forced_cleaning_ratio(config: Mapping[str, str]) -> float:
    """Return how full the disk must be for files to go whatever their age (DefaultMessageStore.CleanCommitLogService).

    4.9 takes it from a system property that no request tells, so its default stands. Both versions keep it in bounds.
    """
    if config.get("cleanFileForciblyEnable") == "false":
        return 1.0
    return min(max(float(config.get("diskSpaceCleanForciblyRatio", 85)) / 100, 0.3), 0.85)
