"""The sandbox as a whole: a name server, some brokers, one clock, one set of faults."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from rmqctl.errors import NotFoundError, RmqctlError, UnreachableError, UsageError
from rmqctl.net.clock import Clock, JumpClock, VirtualClock
from rmqctl.net.stream import MemoryStream, Stream
from rmqctl.sandbox.faults.faults import Faults
from rmqctl.sandbox.storage.commit_log import SEGMENT_BYTES, CommitLog
from rmqctl.sandbox.storage.state import StateStore
from rmqctl.sandbox.storage.store import MessageStore
from rmqctl.sandbox.topics.table import Topic
from rmqctl.text.names import closest

from .broker import Broker
from .handlers import BROKER, NAME_SERVER, load
from .handlers.broker.r017_update_and_create_topic import check_topic, put_topic
from .name_server import NameServer
from .profile import find_profile
from .request import RefusalError
from .server import Server
from .settings import LIKE_DEFAULT, check_settings

if TYPE_CHECKING:
    from rmqctl.sandbox.storage.data_folder import DataFolder

CLUSTER = "DefaultCluster"
LOOPBACK = "127.0.0.1"
# What one broker keeps in memory before it drops the oldest messages, as on a full disk; and what it keeps on disk.
CAPACITY_BYTES = 512 * 1024 * 1024
DISK_CAPACITY_BYTES = 4 * 1024 * 1024 * 1024

_FIRST_BROKER_PORT = 1011
_PORT_STEP = 20
# How many turns of the event loop must pass without activity before the sandbox is idle.
_QUIET_TURNS = 20


def check_counts(*, brokers: int, queues: int) -> None:
    """Raise UsageError for a number of brokers or queues that a sandbox cannot have."""
    if not 1 <= brokers <= 26:
        raise UsageError(f"A sandbox can have 1 to 26 brokers, not {brokers}.")
    if not 1 <= queues <= 1024:
        raise UsageError(f"A topic can have 1 to 1024 queues, not {queues}.")


class Guest(Protocol):
    """A client that lives as long as the sandbox."""

    async def aclose(self) -> None:
        """Leave."""


class Sandbox:
    """RocketMQ in this process, for tests and demonstrations, not for production.

        async with Sandbox(brokers=2) as sandbox:
            ...  # clients connect to sandbox.addr

    `addr` is the name server's host:port, `brokers` are the brokers by name (broker-a, broker-b ...), `faults` are the
    faults to inject. Time is the machine's, plus what `advance()` skips; a VirtualClock moves only with `advance()`.
    `settings` apply to all brokers, under RocketMQ's names; those that the sandbox does not obey are refused. With
    `like_default`, brokers are set as real ones without a configuration: SQL92 filters are off.

    Everything is in memory, up to `capacity_bytes` per broker. With `dir`, a folder, everything that clients know to be
    stored survives the end of the process; storage/data_folder.py documents what is written when. A stopped sandbox
    cannot be restarted; a new one with the same folder resumes from its data.
    """

    def __init__(
        self, *, brokers: int = 1, queues: int = 8, plays: str = "5.4.0", port: int = 0, listen: str = LOOPBACK,
        clock: Clock | None = None, settings: Mapping[str, str] | None = None, like_default: bool = False,
        capacity_bytes: int | None = None, dir: str | Path | None = None,  # noqa: A002 - as the option is called
    ) -> None:  # fmt: skip
        check_counts(brokers=brokers, queues=queues)
        self.profile = find_profile(plays)
        check_settings(self.profile, settings or {})
        self.clock: Clock = clock or JumpClock()
        self.faults = Faults()
        self.name_server = NameServer(self.clock, self.profile, self.faults, load(NAME_SERVER, self.profile))
        self._one_jump = asyncio.Lock()
        self._port = port
        self._listen = listen
        defaults = {"defaultTopicQueueNums": str(queues), **(LIKE_DEFAULT if like_default else {})}
        self.brokers: dict[str, Broker] = {}
        # Clients that scenarios added; they leave when the sandbox stops.
        self.guests: list[Guest] = []
        self._folder: DataFolder | None = None
        self._is_over = False
        if dir is not None:
            from rmqctl.sandbox.storage.data_folder import DataFolder

            self._folder = DataFolder(Path(dir), plays=self.profile.name, broker_count=brokers)
        try:
            self._make_brokers(brokers, defaults, settings or {}, capacity_bytes)
        except BaseException:
            self._let_go()
            raise

    def _make_brokers(
        self, count: int, defaults: Mapping[str, str], settings: Mapping[str, str], capacity_bytes: int | None
    ) -> None:
        handlers = load(BROKER, self.profile)
        for number in range(count):
            name = f"broker-{chr(ord('a') + number)}"
            store, state = self._open_storage(name, capacity_bytes)
            # Those that requests changed are kept, as in a broker's configuration file.
            names = {"brokerClusterName": CLUSTER, "brokerName": name, "brokerId": "0"}
            own = {**names, **defaults, **state.load("settings"), **settings}
            try:
                self.brokers[name] = Broker(
                    name, cluster=CLUSTER, profile=self.profile, clock=self.clock, faults=self.faults,
                    name_server=self.name_server, store=store, state=state, settings=own,
                    handlers=handlers,
                )  # fmt: skip
            except (RefusalError, OSError) as error:
                reason = error.remark if isinstance(error, RefusalError) else error.strerror
                hint = "Make sure that the sandbox can write to its folder and that the disk is not full."
                raise RmqctlError(f"{name} cannot resume from its data: {reason}.", hint=hint) from None

    def _open_storage(self, name: str, capacity_bytes: int | None) -> tuple[MessageStore, StateStore]:
        if self._folder is not None:
            return self._folder.open_broker(name, DISK_CAPACITY_BYTES if capacity_bytes is None else capacity_bytes)
        capacity_bytes = CAPACITY_BYTES if capacity_bytes is None else capacity_bytes
        state = StateStore()
        # The oldest segment is removed as a whole, so it must be a small part of the capacity.
        log = CommitLog(min(SEGMENT_BYTES, max(1, capacity_bytes // 8)))
        return MessageStore(log, capacity_bytes, state), state

    def _let_go(self) -> None:
        is_over, self._is_over = self._is_over, True
        if self._folder is not None and not is_over:
            self._folder.close()

    async def start(self) -> None:
        """Open all ports. Raises UnreachableError, and UsageError for a stopped sandbox."""
        if self._is_over:
            raise UsageError("This sandbox was stopped.", hint="Create a new one, with the same folder if it had one.")
        try:
            await self.name_server.start(self._listen, self._port)
            for number, broker in enumerate(self.brokers.values()):
                port = self._port + _FIRST_BROKER_PORT + _PORT_STEP * number if self._port else 0
                await broker.start(self._listen, port)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close everything, the guests first."""
        while self.guests:
            await self.guests.pop().aclose()
        for broker in self.brokers.values():
            await broker.stop()
        await self.name_server.stop()
        self._let_go()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def addr(self) -> str:
        """The name server's address, host:port."""
        return self.name_server.server.address

    async def connect(self, address: str) -> Stream:
        """Open a connection in memory to one of the servers, as if through its port. Raises UnreachableError."""
        for server in self._servers():
            if server.address == address:
                client_end, server_end = MemoryStream.pair("client", address)
                server.spawn(server.serve(server_end))
                return client_end
        raise UnreachableError(address, "connection refused")

    def create_topic(
        self, name: str, *, queues: int = 8, attributes: Mapping[str, str] = {}, broker: str | None = None
    ) -> None:
        """Create a topic with this number of queues at all brokers, or at one, as UPDATE_AND_CREATE_TOPIC does.

        `attributes` are those of 5.x by name, for example {"message.type": "FIFO"}. Raises UsageError for what a broker
        refuses, NotFoundError for an unknown broker.
        """
        if broker is not None and broker not in self.brokers:
            raise NotFoundError("Broker", broker, suggestions=closest(broker, self.brokers))
        changes = {f"+{key}": text for key, text in attributes.items()}
        wanted = Topic(name, queues, queues, attributes=changes)
        for each in self.brokers.values() if broker is None else [self.brokers[broker]]:
            if attributes and not each.profile.is_5:
                raise UsageError(f"Topic {name}: 4.9 has no attributes.")
            try:
                check_topic(each, wanted)
                put_topic(each, wanted)
            except RefusalError as error:
                raise UsageError(f"Topic {name}: {error.remark}") from None

    async def advance(self, seconds: float) -> None:
        """Advance the clock immediately; each timer that becomes due runs at its own time.

        On the machine's clock, connected clients count as alive throughout, except those that are cut off. Raises
        UsageError for a clock that cannot be moved, and for a negative time.
        """
        if seconds < 0:
            raise UsageError("Time cannot go backwards.")
        if not math.isfinite(seconds):
            raise UsageError("Time can only advance by a number of seconds.")
        await self.await_idle()
        async with self._one_jump:
            if isinstance(self.clock, JumpClock):
                await self.clock.advance(seconds, self._keep_alive)
            elif isinstance(self.clock, VirtualClock):
                await self.clock.advance(seconds)
            else:
                raise UsageError("The clock of this sandbox cannot be moved.", hint="Use a VirtualClock or no clock.")
        await self.await_idle()

    def _keep_alive(self, seconds: float) -> None:
        self.name_server.keep_alive(seconds)
        for broker in self.brokers.values():
            broker.keep_alive(seconds)

    async def await_idle(self) -> None:
        """Wait until all requests of clients in this process are handled, except those that are held."""
        quiet, seen = 0, -1
        while quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            now = sum(server.activity_count for server in self._servers())
            quiet = quiet + 1 if now == seen else 0
            seen = now

    def _servers(self) -> list[Server]:
        running = [broker.server for broker in self.brokers.values() if broker.is_running]
        return [self.name_server.server, *running]
