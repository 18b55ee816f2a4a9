"""Read the members of a group."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.results import Answers, all_failed, ask_all, slave_failures
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConnections, GroupState, RunningInfo
from rmqctl.model.progress import Unknown
from rmqctl.model.route import TopicRoute
from rmqctl.rules.group_state import group_state, unseen_reason

from .connections import fetch_placed_connections, fetch_running_infos, find_proxies
from .names import require_group


class GroupMembers(Struct, frozen=True):
    """The members of a group.

    `connections` are by broker that answered, None without members; `running` is by client id, each member's running
    info or why it is missing; `unseen_reason` is why the state is UNKNOWN and not EMPTY; `topic_brokers` are the
    brokers of each subscribed topic; `at_ms` is when they were read, by this machine's clock.
    """

    group: str
    state: GroupState
    unseen_reason: Unknown | None
    connections: Mapping[str, GroupConnections | None]
    running: Answers[str, RunningInfo]
    topic_brokers: Mapping[str, tuple[str, ...]]
    failures: tuple[Failure, ...]
    at_ms: int


async def fetch_group_members(client: Client, group: str) -> GroupMembers:
    """Read a group's connections from every broker, and every member's running info.

    Raises NotFoundError for a group that does not exist, and the brokers' error when none of them answers.
    """
    brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
    answers = await ask_all(brokers, lambda name: fetch_placed_connections(client, brokers[name], group))
    if not answers.ok:
        raise all_failed(answers.failed.values())
    connections = {name: found for name, (_, found) in answers.ok.items()}
    connected = {name: found for name, found in connections.items() if found is not None and found.members}
    if not connected:
        await require_group(client, group, {name: brokers[name] for name in answers.ok}, answers.failed)
    through = {answers.ok[name][0]: found for name, found in connected.items()}
    running = await fetch_running_infos(client, group, through)
    topics = {topic for found in connected.values() for topic in found.subscriptions}
    topics.update(item.topic for info in running.ok.values() for item in info.subscriptions)
    routes = await ask_all(topics, client.route)
    failures = [Failure(name, "members", error) for name, error in answers.failed.items()]
    failures += [Failure(None, f"running info of {client_id}", error) for client_id, error in running.failed.items()]
    unseen = None
    if not connected:
        proxies, proxy_failures = await find_proxies(client, [brokers[name] for name in answers.ok])
        failures += proxy_failures
        unseen = unseen_reason(answers.failed.values(), proxies)
    state = group_state(unseen, has_members=bool(connected))
    failures += [
        Failure(None, f"route of {topic}", error)
        for topic, error in routes.failed.items()
        if not isinstance(error, NotFoundError)
    ]
    failures += slave_failures(client)
    brokers_of = broker_names(routes.ok)
    return GroupMembers(group, state, unseen, connections, running, brokers_of, tuple(failures), client.clock.now_ms())


def broker_names(routes: Mapping[str, TopicRoute]) -> dict[str, tuple[str, ...]]:
    """Return the brokers of each topic."""
    return {topic: tuple(data.broker_name for data in route.queue_data) for topic, route in routes.items()}
