"""Read a topic's route from every name server, and compare it with the brokers' configurations."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.admin.results import Answers, all_failed, ask_all
from rmqctl.client.core import Client
from rmqctl.client.name_servers import unanswered
from rmqctl.client.partial_answers import slave_failures
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.progress import Unknown
from rmqctl.model.route import BrokerData, QueueData, TopicRoute
from rmqctl.model.topic import StaticMapping, TopicConfig, TopicFinding
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.rules.cluster_memory import not_registered
from rmqctl.rules.topics import compare_with_route, route_findings

from .config import fetch_topic_config
from .queues import fetch_route

_ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"  # NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG


class RoutePart(Struct, frozen=True):
    """One broker in a topic's route, as some name servers report it; name servers that differ have another part.

    `broker`: None when the route has its queues but not its addresses. No `name_servers`: the queues are in no route.
    """

    data: QueueData
    broker: BrokerData | None
    mapping: StaticMapping | None
    name_servers: tuple[str, ...]
    findings: tuple[TopicFinding, ...]


class RouteReport(Struct, frozen=True):
    """A topic's route on all name servers. `without_route`: name servers that do not know the topic.

    `order_confs`: the order configuration by name server, "broker-a:4;broker-b:4", None without one; `order_in_route`:
    name servers that include it in the route, so that clients see it (orderMessageEnable). `hidden` is why there may be
    queues that are in no part.
    """

    topic: str
    parts: tuple[RoutePart, ...]
    asked: tuple[str, ...]
    without_route: tuple[str, ...]
    order_confs: Mapping[str, str | None]
    order_in_route: tuple[str, ...]
    is_static: bool
    failures: tuple[Failure, ...]
    hidden: Unknown | None = None

    @property
    def is_agreed(self) -> bool:
        """Whether all name servers that answered agree."""
        return len(set(self.order_confs.values())) <= 1 and not any(
            TopicFinding.NAME_SERVERS_DIFFER in part.findings for part in self.parts
        )


async def fetch_route_report(client: Client, topic: str) -> RouteReport:
    """Return a topic's route from every name server, including queues of brokers that are not registered now.

    Raises NotFoundError when those that answer have no route, and their error when none of them answers.
    """
    asked = client.name_servers
    answers = await ask_all(asked, lambda address: client.route_at(address, topic))
    if not answers.ok:
        error = all_failed(answers.failed.values())
        address = next((name for name, each in answers.failed.items() if each is error), asked[0])
        raise unanswered(error, address, len(asked))
    routes = {address: route for address in asked if (route := answers.ok.get(address)) is not None}
    union = await fetch_route(client, topic)
    now_ms = client.clock.now_ms()
    absent = {
        broker.broker_name: not_registered(broker, now_ms) for broker in union.brokers if broker.absence is not None
    }
    without_route = tuple(address for address, route in answers.ok.items() if route is None)
    answering = tuple(answers.ok)
    confs = await ask_all(answering, lambda address: _fetch_order_conf(client, address, topic))
    failures = [Failure(None, f"route at name server {name}", error) for name, error in answers.failed.items()]
    failures += [Failure(None, f"order at name server {name}", error) for name, error in confs.failed.items()]
    failures += [Failure(name, f"queues of {topic}", error) for name, error in absent.items()]
    configs = await _fetch_configs(client, topic, failures)
    has = {
        each: config for each, config in configs.ok.items() if config or each.broker_name not in client.silent_masters
    }
    in_route = {data.broker_name for data in union.queue_data}
    failures += [
        Failure(broker.broker_name, "topic", error)
        for broker, error in configs.failed.items()
        if broker.broker_name in in_route
    ]
    return RouteReport(
        topic=topic,
        parts=(*_parts(routes, answering, has), *_missing_parts(union), *_unrouted_parts(has, in_route)),
        asked=asked,
        without_route=without_route,
        order_confs=confs.ok,
        order_in_route=tuple(address for address, route in routes.items() if route.order_conf is not None),
        is_static=any(route.is_static for route in routes.values()),
        failures=(*failures, *slave_failures(client)),
        hidden=await _find_hidden(client, union),
    )


async def _fetch_configs(
    client: Client, topic: str, failures: list[Failure]
) -> Answers[BrokerData, TopicConfig | None]:
    """Ask every registered broker for the topic's configuration, as topic status does."""
    try:
        registered = (await client.cluster()).registered
    except RmqctlError as error:
        failures.append(Failure(None, "brokers", error))
        registered = ()
    return await ask_all(registered, lambda broker: fetch_topic_config(client, broker, topic))


async def _find_hidden(client: Client, route: TopicRoute) -> Unknown | None:
    """Return why a missing broker may have queues of a topic that are neither in the route nor in the memory."""
    named = {data.broker_name for data in (*route.queue_data, *route.missing)}
    if route.topic in client.expectation.topics or all(
        broker.broker_name in named for broker in (await client.cluster()).missing
    ):
        return None
    return Unknown.BROKER_NOT_REGISTERED


def _missing_parts(route: TopicRoute) -> list[RoutePart]:
    brokers = {broker.broker_name: broker for broker in route.brokers}
    findings = (TopicFinding.BROKER_MISSING,)
    return [RoutePart(data, brokers[data.broker_name], None, (), findings) for data in route.missing]


def _unrouted_parts(configs: Mapping[BrokerData, TopicConfig | None], in_route: set[str]) -> list[RoutePart]:
    """Return the queues of brokers that have the topic although no route names them."""
    return [
        RoutePart(
            QueueData(
                broker_name=broker.broker_name,
                read_queue_count=config.read_queue_count,
                write_queue_count=config.write_queue_count,
                is_readable=config.is_readable,
                is_writable=config.is_writable,
                perm=config.perm,
            ),
            broker,
            None,
            (),
            (TopicFinding.NOT_IN_ROUTE,),
        )
        for broker, config in configs.items()
        if config is not None and broker.broker_name not in in_route
    ]


async def _fetch_order_conf(client: Client, address: str, topic: str) -> str | None:
    """Read what updateOrderConf stores; most name servers do not include it in routes."""
    command = headers.get_kv_config(_ORDER_NAMESPACE, topic)
    answer = await client.ask(address, command, accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND))
    return answer.ext_fields.get("value") if answer.code == ResponseCode.SUCCESS else None


def _parts(
    routes: Mapping[str, TopicRoute], answering: tuple[str, ...], configs: Mapping[BrokerData, TopicConfig | None]
) -> list[RoutePart]:
    """Merge equal answers, broker by broker; different answers stay separate parts."""
    config_of = {broker.broker_name: config for broker, config in configs.items()}
    said: dict[str, list[tuple[QueueData, BrokerData | None, StaticMapping | None, list[str]]]] = {}
    for address, route in routes.items():
        brokers = {broker.broker_name: broker for broker in route.brokers}
        mappings = {mapping.broker_name: mapping for mapping in route.mappings}
        for data in route.queue_data:
            part = (data, brokers.get(data.broker_name), mappings.get(data.broker_name))
            of_broker = said.setdefault(data.broker_name, [])
            alike = next((names for *other, names in of_broker if tuple(other) == part), None)
            if alike is None:
                of_broker.append((*part, [address]))
            else:
                alike.append(address)
    parts = []
    for data, broker, mapping, names in (part for _, of_broker in sorted(said.items()) for part in of_broker):
        findings = route_findings(data, broker)
        if data.broker_name in config_of:
            config = {data.broker_name: config_of[data.broker_name]}
            findings += compare_with_route(config, {data.broker_name: data}).values()
        if len(names) < len(answering):
            findings.append(TopicFinding.NAME_SERVERS_DIFFER)
        parts.append(RoutePart(data, broker, mapping, tuple(names), tuple(findings)))
    return parts
