"""The client that every command uses to ask name servers and brokers within the command's deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, Hashable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.client.rules.name_server_views import merge_clusters, merge_routes
from rmqctl.errors import (
    BrokerError,
    DeadlineError,
    NotAskedError,
    NotAuthorisedError,
    NotFoundError,
    RemoteProtocolError,
    RmqctlError,
    UnreachableError,
    UsageError,
)
from rmqctl.model.cluster_memory import Expectation, Sightings
from rmqctl.model.route import BrokerData, ClusterInfo, TopicRoute
from rmqctl.net.address import parse_name_servers
from rmqctl.net.clock import Clock, Deadline, SystemClock, pause
from rmqctl.net.stream import SocketStream, connect_tcp
from rmqctl.net.tls import TlsFacts, TlsSettings, make_context
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command, HeaderEncoding
from rmqctl.rules.cluster_memory import (
    lost_brokers,
    master_missing,
    seen_broker,
    seen_queues,
    with_missing_brokers,
    with_missing_queues,
    without_broker,
)

from .auth import Credentials, signed
from .identity import misplaced_name_server
from .link import Handler
from .mapped_addresses import MappedAddresses
from .name_servers import NameServers, unanswered
from .pool import Connect, Pool
from .refusal import refusal
from .server_requests import ServerRequests

_T = TypeVar("_T")

# Requests in flight to one address; brokers queue admin requests in a pool of 16 threads.
_IN_FLIGHT_PER_ADDRESS = 64
# Brokers answer SYSTEM_BUSY to requests that waited too long in their queues ([TIMEOUT_CLEAN_QUEUE]): retry later.
_BUSY_PAUSES_S = (0.2, 0.5)


class Answer(Struct, frozen=True):
    """An answer with code SUCCESS, its address, and when it came; a slave's copy of offsets can be 10 s old."""

    command: Command
    address: str
    at_ms: int
    from_slave: bool = False


class Client:
    """Sends requests to a cluster; reads and writes of a fixed value may be retried, also at another server.

    `name_servers` is a list, or text as in "10.0.0.5:9876;10.0.0.6:9876". Each request takes at most about a third of
    `timeout_s`; unless the client is `open_ended`, `timeout_s` is also the deadline of all its requests together.
    `address_map` is for brokers that registered addresses which cannot be reached from here. It maps a broker name (its
    master), name/id (a slave) or registered address to host:port. `encoding` is the header's; requests whose code does
    not fit it are sent as JSON. Raises UsageError for invalid addresses and unusable TLS files.
    """

    def __init__(
        self, name_servers: str | Sequence[str], *, timeout_s: float = 10.0, clock: Clock | None = None,
        connect: Connect | None = None, tls: TlsSettings | None = None, handlers: Mapping[int, Handler] | None = None,
        credentials: Credentials | None = None, address_map: Mapping[str, str] | None = None,
        encoding: HeaderEncoding = HeaderEncoding.JSON, open_ended: bool = True,
        expectation: Expectation | None = None,
    ) -> None:  # fmt: skip
        self.clock = clock or SystemClock()
        self.deadline = Deadline(self.clock, timeout_s, open_ended=open_ended)
        self.name_servers = parse_name_servers(_listed(name_servers))
        self.name_server_views = NameServers(self.clock)
        self.expectation = expectation or Expectation()
        self.sightings = Sightings()
        # By broker name: topics whose routes have queues on brokers that are listed nowhere else.
        self.only_routed: dict[str, set[str]] = {}
        # By broker name: why the master did not answer, for brokers whose slave did.
        self.silent_masters: dict[str, RmqctlError] = {}
        self._credentials = credentials
        self._encoding = encoding
        connect = connect or partial(connect_tcp, tls=None if tls is None else make_context(tls))
        self.addresses = MappedAddresses(connect, address_map or {})
        # Servers identify clients by their connections.
        self.server_requests = ServerRequests(handlers or {})
        self._pool = Pool(
            self.clock, connect=self.addresses.connect, handlers=self.server_requests.by_code,
            on_opened=self.server_requests.connected, on_ended=self.server_requests.disconnected,
        )  # fmt: skip
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._asked: dict[Hashable, asyncio.Future[Any]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def is_closed(self) -> bool:
        """Whether the client has been closed: it cannot be used again."""
        return self._pool.is_closed

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()

    async def ask(
        self,
        address: str,
        command: Command,
        *,
        accept: Container[int] = (ResponseCode.SUCCESS,),
        held_s: float = 0.0,
        timeout_s: float | None = None,
        may_repeat: bool = True,
    ) -> Command:
        """Return the answer of one server within `timeout_s`, by default the deadline's slice.

        If the connection ends meanwhile, it is reopened once; a server that is too busy is asked up to twice more.
        `may_repeat=False` is for requests that must not reach the server twice: they are retried only if it was busy.

        `held_s` is how long the server may hold the request on purpose (long polling); such requests are not limited
        by the number in flight. Raises UnreachableError, RemoteProtocolError, NotAuthorisedError, and BrokerError for
        a code not in `accept`.
        """
        ask = partial(self._ask_in_turn, address, command, held_s, timeout_s, may_repeat=may_repeat)
        response = await ask()
        for pause_s in _BUSY_PAUSES_S:
            if response.code != ResponseCode.SYSTEM_BUSY or self.deadline.remaining_s() <= pause_s:
                break
            await pause(self.clock, pause_s)
            response = await ask()
        if response.code not in accept:
            raise refusal(address, command.code, response, self._credentials)
        return response

    async def _ask_in_turn(
        self, address: str, command: Command, held_s: float, timeout_s: float | None, *, may_repeat: bool
    ) -> Command:
        ask = self._ask_twice if may_repeat else self._ask_once
        if held_s:
            return await ask(address, command, held_s, timeout_s)
        gate = self._gates.get(address)
        if gate is None:
            gate = self._gates[address] = asyncio.Semaphore(_IN_FLIGHT_PER_ADDRESS)
        async with gate:
            return await ask(address, command, 0.0, timeout_s)

    async def _ask_twice(self, address: str, command: Command, held_s: float, timeout_s: float | None) -> Command:
        try:
            return await self._ask_once(address, command, held_s, timeout_s)
        except UnreachableError as error:
            if error.name != UnreachableError.name or self.deadline.remaining_s() == 0:
                raise
            return await self._ask_once(address, command, held_s, timeout_s)

    async def _ask_once(self, address: str, command: Command, held_s: float, timeout_s: float | None) -> Command:
        if self.deadline.remaining_s() == 0:
            raise NotAskedError(address, self.deadline.seconds)
        link = None
        try:
            link = await self._pool.link(address, self.deadline.attempt_s())
            attempt_s = self.deadline.attempt_s() if timeout_s is None else timeout_s
            limit_s = min(attempt_s + held_s, self.deadline.remaining_s())
            return await link.request(self._prepared(command), limit_s)
        except DeadlineError as error:
            if held_s and link is not None:
                # A connection that a firewall dropped, or whose host vanished, would stay silent for 15 minutes.
                await self._pool.drop(link)
            raise self.deadline.judged(error, timeout_s) from None

    def _prepared(self, command: Command) -> Command:
        if self._encoding is not HeaderEncoding.JSON and command.code < 1 << 15:
            command = replace(command, encoding=self._encoding)
        return command if self._credentials is None else signed(command, self._credentials)

    async def tls_facts(self, address: str) -> TlsFacts | None:
        """Return what a TLS handshake with a server agrees on, over a new connection; None for plain connections."""
        stream = await self.addresses.connect(address, self.clock, self.deadline.attempt_s())
        try:
            return stream.tls_facts() if isinstance(stream, SocketStream) else None
        finally:
            await stream.aclose()

    def note_brokers(self, brokers: Sequence[BrokerData]) -> None:
        """Apply the address map to brokers that it names, and remember their names."""
        self.name_server_views.broker_names.note(brokers)
        self.addresses.note(brokers)

    async def ask_broker(self, broker: BrokerData, command: Command) -> Answer:
        """Return a broker's answer to a read: the master's, or a slave's when the master cannot be reached.

        Raises the master's error when neither answers.
        """
        first_error: RmqctlError | None = master_missing(broker, self.clock.now_ms())
        for address in broker.read_addresses:
            try:
                response = await self.ask(address, command)
            except (UnreachableError, RemoteProtocolError) as error:
                first_error = first_error or error
                continue
            except RmqctlError:
                # An answer as well: what a slave does not find, its master may have.
                self.silent_masters |= {broker.broker_name: first_error} if first_error else {}
                raise
            self.silent_masters |= {broker.broker_name: first_error} if first_error else {}
            return Answer(response, address, self.clock.now_ms(), from_slave=address != broker.master_address)
        raise first_error or AssertionError("a master was asked")

    def require_master(self, broker: BrokerData) -> str:
        """Return the address of a broker's master. Raises UnreachableError with the reason where it has none."""
        address = broker.master_address
        if address is None:
            raise master_missing(broker, self.clock.now_ms()) or AssertionError("a master has an address")
        return address

    async def ask_name_server(self, command: Command) -> Command:
        """Return the answer of the first name server that gives one. Raises the first one's error when none does."""
        answer = await self._first_answer(lambda address: self.ask(address, command))
        if answer is None:
            raise AssertionError("a client needs a name server")
        return answer

    async def _first_answer(self, ask: Callable[[str], Awaitable[_T | None]]) -> _T | None:
        """Return the first result of `ask` that is not None, in the order of the name servers; else None."""
        first_error: RmqctlError | None = None
        first_address, has_answer = "", False
        for address in self.name_servers:
            try:
                answer = await ask(address)
            except (UnreachableError, RemoteProtocolError) as error:
                if first_error is None:
                    first_error, first_address = error, address
                if isinstance(error, DeadlineError) and self.deadline.is_open_ended:
                    # As above. Name servers do not notice; a slow broker would think that this client has left.
                    await self._pool.drop_address(address)
                continue
            except RmqctlError:
                self._prefer(address)
                raise
            if answer is not None:
                self._prefer(address)
                return answer
            has_answer = True
        if has_answer or first_error is None:
            return None
        raise unanswered(first_error, first_address, len(self.name_servers))

    def _prefer(self, address: str) -> None:
        """Ask this name server first from now on: it answered, and a silent one should not cost time twice."""
        self.name_servers = (address, *(other for other in self.name_servers if other != address))

    async def once(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return the result of `ask`, which is called once per key: later callers share its result or error."""
        known = self._asked.get(key)
        if known is None:
            known = self._asked[key] = asyncio.ensure_future(ask())
        # Shielded: a caller that gives up must not take the answer away from the others.
        return cast("_T", await asyncio.shield(known))

    async def cluster(self) -> ClusterInfo:
        """Return all brokers that any name server lists, possibly none; asks once.

        Expected brokers that are not registered are included, without addresses.
        """
        return await self.once("cluster", self.fresh_cluster)

    async def fresh_cluster(self) -> ClusterInfo:
        """Return the same as cluster(), but always ask."""

        async def ask(address: str) -> ClusterInfo:
            return bodies.decode_cluster_info((await self.ask(address, headers.get_cluster_info())).body)

        try:
            views = await self._ask_name_servers(ask)
        except (BrokerError, NotAuthorisedError) as error:
            if isinstance(error, BrokerError) and error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            raise await misplaced_name_server(self.ask, self.name_server_views.first_refused, error) from None
        self.name_server_views.note_clusters(views)
        live = merge_clusters(views)
        self.note_brokers(live.brokers)
        now_ms = self.clock.now_ms()
        self.sightings.brokers |= {broker.broker_name: seen_broker(broker, now_ms) for broker in live.brokers}
        cluster = with_missing_brokers(live, self.expectation)
        self.sightings.has_missing = bool(cluster.missing)
        return cluster

    async def _ask_name_servers(self, ask: Callable[[str], Awaitable[_T]]) -> Mapping[str, _T]:
        asked = self.name_servers
        try:
            answers = await self.name_server_views.ask_each(asked, ask)
        except (UnreachableError, RemoteProtocolError) as error:
            raise unanswered(error, self.name_server_views.first_refused, len(asked)) from None
        for address in self.name_server_views.silent if self.deadline.is_open_ended else ():
            await self._pool.drop_address(address)  # as in _first_answer
        self._prefer(next(iter(answers)))
        return answers

    async def topic_names(self) -> tuple[str, ...]:
        """Return the names of all topics that any name server knows, sorted."""
        return await self.once("topic names", self._fetch_topic_names)

    async def _fetch_topic_names(self) -> tuple[str, ...]:
        async def ask(address: str) -> tuple[str, ...]:
            return bodies.decode_topic_names((await self.ask(address, headers.get_all_topics())).body)

        answers = await self._ask_name_servers(ask)
        return tuple(sorted({name for names in answers.values() for name in names}))

    async def route(self, topic: str) -> TopicRoute:
        """Return a topic's route, the union of all name servers' routes; asks once per topic.

        Its `missing` contains the queues that missing brokers had. Raises NotFoundError when no name server that
        answered has a route.
        """
        return await self.once(("route", topic), lambda: self._fetch_route(topic))

    async def _fetch_route(self, topic: str) -> TopicRoute:
        async def ask(address: str) -> TopicRoute | None:
            return await self.route_at(address, topic)

        routes = await self._ask_name_servers(ask)
        self.name_server_views.note_routes(topic, routes)
        known = {address: route for address, route in routes.items() if route is not None}
        live = merge_routes(topic, known) if known else None
        if live is not None:
            self.note_brokers(live.brokers)
            for name in without_broker(live):
                self.only_routed.setdefault(name, set()).add(topic)
        self.sightings.topics[topic] = {} if live is None else seen_queues(live, self.clock.now_ms())
        if lost_brokers(topic, live, self.expectation):
            live = with_missing_queues(topic, live, (await self.cluster()).missing, self.expectation)
        if live is not None:
            return live
        raise NotFoundError("Topic", topic)

    async def fresh_route(self, topic: str) -> TopicRoute:
        """Return a topic's current route from the first name server that has one, for long-running commands.

        RocketMQ's clients ask one name server as well. Raises NotFoundError.
        """
        route = await self._first_answer(lambda address: self.route_at(address, topic))
        if route is None:
            raise NotFoundError("Topic", topic)
        self.note_brokers(route.brokers)
        now_ms = self.clock.now_ms()
        self.sightings.brokers |= {each.broker_name: seen_broker(each, now_ms) for each in route.brokers}
        self.sightings.reported.setdefault(topic, {}).update(seen_queues(route, now_ms))
        return route

    async def route_at(self, address: str, topic: str) -> TopicRoute | None:
        """Return one name server's route of a topic, None when it has no route."""
        try:
            response = await self.ask(address, headers.get_route(topic))
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        return bodies.decode_route(topic, response.body)


def _listed(name_servers: object) -> str:
    if isinstance(name_servers, str):
        return name_servers
    if not isinstance(name_servers, Sequence) or not all(isinstance(each, str) for each in name_servers):
        raise UsageError(f"Invalid name servers {name_servers!r}: use a text like 10.0.0.5:9876;10.0.0.6:9876.")
    return ";".join(name_servers)
