"""The route of a changed topic: name servers list what its brokers have, and forget a topic that was deleted."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.config import forget_topic
from rmqctl.changes.late_writes import LOOK_AGAIN_S, read_until_seen
from rmqctl.client.core import Client
from rmqctl.client.rules.name_server_views import merge_routes
from rmqctl.errors import NameServersDifferError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.receipt import ConfigReceiptItem
from rmqctl.model.route import QueueData, TopicRoute
from rmqctl.rules.cluster_memory import seen_queues
from rmqctl.text.words import listed

_Configs = Mapping[str, Mapping[str, Any] | None]


async def settle_routes(
    client: Client, topic: str, items: Sequence[ConfigReceiptItem], report: Callable[[str], None]
) -> list[Failure]:
    """Wait until every name server lists a topic as these brokers have it; return which of them do not.

    A broker registers a change within milliseconds, but never its deletion: once no broker has the topic any more, its
    route is deleted at the name servers (DELETE_TOPIC_IN_NAMESRV). Name servers that were silent before are not asked;
    other parts of a command report those.
    """
    configs: _Configs = {item.broker_name: item.after for item in items if item.is_after_known}
    asked = [address for address in client.name_servers if address not in client.name_server_views.silent]
    if not configs or not asked:
        return []
    routes: dict[str, TopicRoute | None] = {}
    open_: dict[str, RmqctlError] = {}

    async def settle(address: str) -> None:
        routes[address] = await client.route_at(address, topic)
        if is_gone_with(configs, routes[address]):
            await forget_topic(client, address, topic)
            routes[address] = await client.route_at(address, topic)

    async def look() -> bool:
        answers = await ask_all(asked, settle)
        open_.clear()
        open_.update(answers.failed)
        for address in answers.ok:
            if late := differing_brokers(configs, routes[address]):
                sentence = f"Name server {address} does not list {topic} as {listed(late)} has it."
                open_[address] = NameServersDifferError(sentence, hint=f"Look again: rmqctl topic route {topic}")
        return not open_

    if not await look():
        report(f"Waiting up to {LOOK_AGAIN_S:g} s until name servers list {topic} as its brokers have it...")
        await read_until_seen(client, look)
    known = {address: route for address, route in routes.items() if route is not None}
    client.sightings.topics[topic] = seen_queues(merge_routes(topic, known), client.clock.now_ms()) if known else {}
    return [Failure(None, f"route at name server {address}", error) for address, error in sorted(open_.items())]


def is_gone_with(configs: _Configs, route: TopicRoute | None) -> bool:
    """Return whether a route is left over: its brokers have deleted the topic, and no other broker offers it."""
    if route is None or any(config is not None for config in configs.values()):
        return False
    return not offering_brokers(route, configs)


def offering_brokers(route: TopicRoute | None, apart_from: Container[str]) -> list[str]:
    """Return the other brokers that a route offers to clients, sorted."""
    queues = () if route is None else route.queue_data
    return sorted(data.broker_name for data in queues if data.perm and data.broker_name not in apart_from)


def differing_brokers(configs: _Configs, route: TopicRoute | None) -> list[str]:
    """Return the brokers whose topic a route does not show as they have it, sorted.

    A deleted topic without permissions is as good as one that the route does not list: no client uses it.
    """
    in_route = {} if route is None else {data.broker_name: data for data in route.queue_data}
    return sorted(name for name, config in configs.items() if not _is_listed(config, in_route.get(name)))


def _is_listed(config: Mapping[str, Any] | None, data: QueueData | None) -> bool:
    if config is None or data is None:
        return config is None and (data is None or data.perm == 0)
    shown = (data.read_queue_count, data.write_queue_count, data.perm)
    return shown == (config["readQueueNums"], config["writeQueueNums"], config["perm"])
