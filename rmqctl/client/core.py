"""The client that every command shares: ask a name server, a broker or one address, within the command's deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping, Sequence
from types import TracebackType
from typing import Self

from msgspec import Struct

from rmqctl.errors import BrokerError, DeadlineError, NotFoundError, RemoteProtocolError, RmqctlError, UnreachableError
from rmqctl.model.route import Broker, TopicRoute
from rmqctl.net.clock import Clock, Deadline, SystemClock
from rmqctl.net.stream import connect_tcp
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command

from .link import Handler
from .pool import Connect, Pool
from .refusal import refusal

# Requests in flight to one address; brokers queue admin requests in a pool of 16 threads.
_IN_FLIGHT_PER_ADDRESS = 64


class Answer(Struct, frozen=True):
    """An answer with code SUCCESS and who gave it; a slave's copy of offsets can be 10 s old."""

    command: Command
    address: str
    from_slave: bool = False


class Client:
    """Asks a cluster. Only reads so far: each may be sent again, on a new connection or to another server.

    `deadline` bounds everything that is asked through this client.
    """

    def __init__(
        self,
        name_servers: Sequence[str],
        *,
        timeout_s: float = 10.0,
        clock: Clock | None = None,
        connect: Connect = connect_tcp,
        handlers: Mapping[int, Handler] | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.deadline = Deadline(self.clock, timeout_s)
        self.name_servers = tuple(name_servers)
        # By broker name: why the master did not answer, for brokers whose slave did.
        self.silent_masters: dict[str, RmqctlError] = {}
        self._pool = Pool(self.clock, connect=connect, handlers=handlers)
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._routes: dict[str, asyncio.Future[TopicRoute]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()

    async def ask(self, address: str, command: Command, *, accept: Container[int] = (ResponseCode.SUCCESS,)) -> Command:
        """Return the answer of one server to a read. A connection that ends under it is opened once more.

        Raises UnreachableError, RemoteProtocolError, NotAuthorisedError, and BrokerError for a code not in `accept`.
        """
        gate = self._gates.get(address)
        if gate is None:
            gate = self._gates[address] = asyncio.Semaphore(_IN_FLIGHT_PER_ADDRESS)
        async with gate:
            try:
                response = await self._ask_once(address, command)
            except UnreachableError as error:
                if error.name != UnreachableError.name or self.deadline.remaining_s() == 0:
                    raise
                response = await self._ask_once(address, command)
        if response.code not in accept:
            raise refusal(address, response)
        return response

    async def _ask_once(self, address: str, command: Command) -> Command:
        if self.deadline.remaining_s() == 0:
            raise DeadlineError(address, self.deadline.seconds)
        link = await self._pool.link(address, self.deadline.attempt_s())
        return await link.request(command, self.deadline.attempt_s())

    async def ask_broker(self, broker: Broker, command: Command) -> Answer:
        """Return a broker's answer to a read: the master's, or a slave's when the master can't be reached.

        Raises the master's error when nobody answers.
        """
        first_error: RmqctlError | None = None
        for address in broker.read_addresses:
            try:
                response = await self.ask(address, command)
            except (UnreachableError, RemoteProtocolError) as error:
                first_error = first_error or error
                continue
            if first_error is not None:
                self.silent_masters[broker.broker_name] = first_error
            return Answer(response, address, from_slave=address != broker.master_address)
        if first_error is None:
            raise UnreachableError(broker.broker_name, "the name server knows no address of it")
        raise first_error

    async def ask_name_server(self, command: Command) -> Command:
        """Return the answer of the first name server that gives one. Raises the first one's error when none does."""
        first_error: RmqctlError | None = None
        for address in self.name_servers:
            try:
                response = await self.ask(address, command)
            except (UnreachableError, RemoteProtocolError) as error:
                first_error = first_error or error
                continue
            # The next question goes there first: a silent server before it has cost time enough.
            self.name_servers = (address, *(other for other in self.name_servers if other != address))
            return response
        if first_error is None:
            raise AssertionError("a client needs a name server")
        others = f" None of the {len(self.name_servers)} name servers answered." if len(self.name_servers) > 1 else ""
        hint = first_error.hint or "Check the address (-n, NAMESRV_ADDR) and that the name server runs."
        raise first_error.reworded(f"Name server {first_error.sentence}{others}", hint=hint)

    async def route(self, topic: str) -> TopicRoute:
        """Return a topic's route, asked once. Raises NotFoundError."""
        known = self._routes.get(topic)
        if known is None:
            known = self._routes[topic] = asyncio.ensure_future(self._fetch_route(topic))
        return await asyncio.shield(known)

    async def _fetch_route(self, topic: str) -> TopicRoute:
        try:
            response = await self.ask_name_server(headers.get_route(topic))
        except BrokerError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NotFoundError("Topic", topic) from None
            raise
        return bodies.decode_route(topic, response.body)
