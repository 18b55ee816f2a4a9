"""Read the producers that are connected to the brokers of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rmqctl.admin.results import ask_any
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import ProducerInfo, Proxies
from rmqctl.model.names import is_system_group
from rmqctl.model.progress import Unknown
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.protocol import group_bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.rules.group_state import unseen_reason

from .members import find_proxies

_Table = Mapping[str, tuple[ProducerInfo, ...]]


class ProducerView(Struct, frozen=True):
    """One client of a producer group as all brokers of a topic see it: its connections by broker name.

    `unseen_at` are brokers that answered without it, `untold_at` brokers that did not answer. A producer that has sent
    to the topic sends heartbeats to all of them (MQClientInstance.sendHeartbeatToAllBroker).
    """

    group: str
    client_id: str
    connections: Mapping[str, tuple[ProducerInfo, ...]]
    unseen_at: tuple[str, ...]
    untold_at: tuple[str, ...]

    @property
    def heard_at_ms(self) -> int | None:
        """The newest heartbeat, by the clock of the broker that received it; None when no broker reports a time."""
        times = [each.heard_at_ms for at_broker in self.connections.values() for each in at_broker]
        return max((time for time in times if time is not None), default=None)


class TopicProducers(Struct, frozen=True):
    """The producers connected to the brokers of a topic, sorted by group and client, and the failures.

    `group`: the only producer group that was requested, None for all. `unseen_reason` is why there may be more
    producers, None when it cannot. `closed_brokers` have the topic without write permission.
    `hidden_system_count`: clients that are only in RocketMQ's own producer groups, and were left out.
    """

    topic: str
    group: str | None
    producers: tuple[ProducerView, ...]
    broker_names: tuple[str, ...]
    closed_brokers: tuple[str, ...]
    unseen_reason: Unknown | None
    proxies: Proxies
    hidden_system_count: int
    failures: tuple[Failure, ...]


async def fetch_topic_producers(
    client: Client, topic: str, group: str | None = None, *, with_system: bool = False
) -> TopicProducers:
    """Read the producer connections of all masters that have a topic, or those of one producer group.

    Producers send no heartbeats to slaves, so only masters are asked. Raises NotFoundError for a topic without a route,
    and the brokers' error when none of them answers.
    """
    route = await fetch_route(client, topic)
    brokers = {broker.broker_name: broker for broker in _brokers(route)}
    answers = await ask_any(brokers, lambda name: _fetch_table(client, brokers[name], group))
    views = _views(answers.ok, answers.failed)
    shown = [view for view in views if with_system or view.group == group or not is_system_group(view.group)]
    proxies, proxy_failures = await find_proxies(client, [brokers[name] for name in answers.ok])
    return TopicProducers(
        topic=topic,
        group=group,
        producers=tuple(shown),
        broker_names=tuple(sorted(answers.ok)),
        closed_brokers=tuple(sorted(data.broker_name for data in route.queue_data if not data.is_writable)),
        unseen_reason=unseen_reason(answers.failed.values(), proxies),
        proxies=proxies,
        hidden_system_count=len({view.client_id for view in views} - {view.client_id for view in shown}),
        failures=(*(Failure(name, "producers", error) for name, error in answers.failed.items()), *proxy_failures),
    )


def _brokers(route: TopicRoute) -> Iterable[BrokerData]:
    """Return the brokers with queues of the topic, also those that are missing or without an address in the route."""
    known = {broker.broker_name: broker for broker in route.brokers}
    for data in (*route.queue_data, *route.missing):
        yield known.get(data.broker_name, BrokerData("", data.broker_name, {}))


async def _fetch_table(client: Client, broker: BrokerData, group: str | None) -> _Table:
    """Return the connections at a broker by producer group. Raises the errors of Client.ask()."""
    address = client.require_master(broker)
    try:
        answer = await client.ask(address, headers.get_all_producers())
    except BrokerError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return await _fetch_from_old(client, address, group)
    table = group_bodies.decode_producers(answer.body)
    return table if group is None else {group: table.get(group, ())}


async def _fetch_from_old(client: Client, address: str, group: str | None) -> _Table:
    """Ask a broker before 4.9.4 for the connections of one group."""
    if group is None:
        raise RmqctlError(
            f"Broker {address} is too old to list its producer groups (RocketMQ before 4.9.4).",
            hint="Name the producer group with --group.",
        )
    try:
        answer = await client.ask(address, headers.get_producer_connections(group))
    except BrokerError as error:
        if error.code == ResponseCode.SYSTEM_ERROR and "not exist" in (error.remark or ""):
            return {}
        raise
    return {group: group_bodies.decode_producer_connections(answer.body)}


def _views(tables: Mapping[str, _Table], failed: Mapping[str, RmqctlError]) -> list[ProducerView]:
    """Return one view per group and client, sorted."""
    found: dict[tuple[str, str], dict[str, list[ProducerInfo]]] = {}
    for broker_name, table in sorted(tables.items()):
        for group, producers in table.items():
            for each in producers:
                found.setdefault((group, each.client_id), {}).setdefault(broker_name, []).append(each)
    return [
        ProducerView(
            group=group,
            client_id=client_id,
            connections={name: tuple(each) for name, each in at_brokers.items()},
            unseen_at=tuple(sorted(tables.keys() - at_brokers.keys())),
            untold_at=tuple(sorted(failed)),
        )
        for (group, client_id), at_brokers in sorted(found.items())
    ]
