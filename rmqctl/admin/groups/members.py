"""Read the members of a group, and what they report about themselves through a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.results import Answers, as_reported, ask_all, ask_any
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import slave_failures
from rmqctl.errors import BrokerError, NotAuthorisedError, NotFoundError, RemoteProtocolError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConnections, GroupState, Proxies, RunningInfo
from rmqctl.model.names import PROXY_GROUP
from rmqctl.model.progress import Unknown
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.protocol import group_bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.rules.group_state import group_state, unseen_reason

from .names import require_group

T = TypeVar("T")

# A relayed request blocks one of a broker's 16 admin threads until the client answers, up to 10 s.
RELAYED_AT_ONCE = 8


async def fetch_connections(client: Client, broker: BrokerData, group: str) -> GroupConnections | None:
    """Return the members of a group that are connected to a broker, None when there are none."""
    _, found = await fetch_placed_connections(client, broker, group)
    return found


async def fetch_placed_connections(
    client: Client, broker: BrokerData, group: str
) -> tuple[str, GroupConnections | None]:
    """Return the address that answered, a master's or slave's, and the members there, None without members."""
    try:
        answer = await client.ask_broker(broker, headers.get_connections(group))
    except BrokerError as error:
        if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return error.address, None
        raise
    return answer.address, group_bodies.decode_connections(answer.command.body)


async def fetch_proxied(client: Client, address: str, group: str) -> GroupConnections | None:
    """Return the members of a group that are connected to a proxy, by gRPC or remoting; None when there are none.

    `address` is that of the proxy's remoting port. Raises the errors of Client.ask().
    """
    accepted = (ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE)
    answer = await client.ask(address, headers.get_connections(group), accept=accepted)
    return group_bodies.decode_connections(answer.body) if answer.code == ResponseCode.SUCCESS else None


async def find_proxies(
    client: Client,
    brokers: Iterable[BrokerData],
    fetch: Callable[[BrokerData], Awaitable[GroupConnections | None]] | None = None,
) -> tuple[Proxies, list[Failure]]:
    """Return whether proxies are connected to any broker, and the failures when the result is UNTOLD.

    Each broker is asked once, whatever the number of groups, unless `fetch` asks for PROXY_GROUP itself. A refusal is
    not a failure: the result only matters for groups without a visible member.
    """

    async def fetch_once(broker: BrokerData) -> GroupConnections | None:
        return await client.once(
            ("proxies", broker.broker_name), lambda: fetch_connections(client, broker, PROXY_GROUP)
        )

    answers = await ask_all(brokers, fetch or fetch_once)
    if any(found is not None for found in answers.ok.values()):
        return Proxies.PRESENT, []
    failures = [
        Failure(broker.broker_name, "proxies", error)
        for broker, error in answers.failed.items()
        if not isinstance(error, NotAuthorisedError)
    ]
    if failures:
        return Proxies.UNTOLD, failures
    return (Proxies.REFUSED if answers.failed else Proxies.ABSENT), []


def addresses_of(connections: Iterable[tuple[str, GroupConnections | None]]) -> dict[str, tuple[str, ...]]:
    """Return by client id the addresses of all brokers that each member is connected to."""
    through: dict[str, dict[str, None]] = {}
    for address, found in connections:
        for member in found.members if found is not None else ():
            through.setdefault(member.client_id, {})[address] = None
    return {client_id: tuple(addresses) for client_id, addresses in through.items()}


async def ask_through(addresses: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> T:
    """Ask a member through its first broker; if it is not reached there, through all its other brokers at once.

    So a silent member takes two attempts, whatever the number of brokers. Raises the first broker's error, immediately
    if it is from the member itself: that member answers nothing else through another broker.
    """
    first, *others = addresses
    try:
        return await ask(first)
    except RemoteProtocolError:
        raise
    except RmqctlError:
        answers = await ask_all(others, ask)
        if not answers.ok:
            raise
        return next(iter(answers.ok.values()))


async def ask_running_info(
    client: Client, address: str, group: str, client_id: str, *, with_stacks: bool = False
) -> RunningInfo:
    """Return a member's running info, read through a broker.

    Raises RmqctlError; RemoteProtocolError for an empty answer: for 10 s after their first messages, Go clients cannot
    encode their running info ("json: unsupported value: NaN") but answer with a success.
    """
    asked_at_ms = client.clock.now_ms()
    answer = await client.ask(address, headers.get_running_info(group, client_id, with_stacks=with_stacks))
    answered_at_ms = client.clock.now_ms()
    if not answer.body:
        said = f": {answer.remark}" if answer.remark else ""
        hint = "Try again in some seconds: Go clients cannot report this right after their first messages."
        raise RemoteProtocolError(f"{client_id} could not report its running info{said}", hint=hint)
    info = group_bodies.decode_running_info(answer.body)
    return replace(info, asked_at_ms=asked_at_ms, answered_at_ms=answered_at_ms)


async def fetch_running_infos(
    client: Client,
    group: str,
    connections: Mapping[str, GroupConnections],
    *,
    only: Collection[str] | None = None,
    with_stacks: bool = False,
) -> Answers[str, RunningInfo]:
    """Return the running info of every member, or of `only` these, by client id; `connections` is by broker address.

    A broker forwards the request to the client and waits 10 s for it. Clients in other languages may not answer. See
    ask_through().
    """
    through = addresses_of(connections.items())
    gates = {address: asyncio.Semaphore(RELAYED_AT_ONCE) for address in connections}

    async def ask(client_id: str, address: str) -> RunningInfo:
        async with gates[address]:
            return await ask_running_info(client, address, group, client_id, with_stacks=with_stacks)

    asked = [name for name in through if only is None or name in only]
    return await ask_all(asked, lambda name: ask_through(through[name], partial(ask, name)))


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
    answers = await ask_any(brokers, lambda name: fetch_placed_connections(client, brokers[name], group))
    connections = as_reported(client.silent_masters, {name: found for name, (_, found) in answers.ok.items()})
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
        unseen = unseen_reason([*answers.failed.values(), *client.silent_masters.values()], proxies)
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
