"""Being a member of a group: heartbeats to all brokers, the subscriptions they carry, and leaving."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection, Coroutine, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.consuming import Subscription
from rmqctl.net.clock import pause, wait_for
from rmqctl.net.own_address import own_address
from rmqctl.protocol import consuming
from rmqctl.rules.client_id import make_client_id

from .broker_time import BrokerTime
from .routes import Routes
from .settings import ConsumerSettings

# A broker that many queues ask to be told anew is told once in this time, and one that can't be reached as often:
# until it has heard of us on a connection, it takes us for gone, and whatever else we ask it does not count.
_TELL_AGAIN_S = 1.0


def own_client_id(settings: ConsumerSettings) -> str:
    """Return the id of a client of this process; another one each time, unless a name is set."""
    return make_client_id(
        own_address(), pid=os.getpid(), nano_time=time.time_ns(), instance_name=settings.instance_name,
        unit_name=settings.unit_name, message_model=settings.message_model,
    )  # fmt: skip


class Heard(Struct, frozen=True):
    """What a replica of a broker last answered to a heartbeat.

    `at_ms` is when it last took one, None for never; `error` is why it did not take the newest; `version` is its
    MQVersion ordinal.
    """

    broker_name: str
    broker_id: int
    address: str
    at_ms: int | None = None
    error: RmqctlError | None = None
    version: int | None = None


class _Line:
    """What one address has been told."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.lock = asyncio.Lock()
        self.told = 0
        self.tried_at_s = float("-inf")
        self.is_tried_again = False


class Membership:
    """One client in one group, told to all brokers that `routes` knows of.

    A broker that hangs or refuses keeps nobody from telling the others.
    """

    def __init__(
        self, client: Client, settings: ConsumerSettings, client_id: str, routes: Routes, broker_time: BrokerTime
    ) -> None:
        self.client_id = client_id
        self._client = client
        self._settings = settings
        self._routes = routes
        self._broker_time = broker_time
        self._subscriptions: dict[str, Subscription] = {}
        # What pulls may name: a version that brokers have not been told yet would be refused.
        self._agreed: dict[str, Subscription] = {}
        self._lines: dict[str, _Line] = {}
        self._wanted = 0
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_left = False

    # Subscriptions

    def subscribe(self, subscription: Subscription) -> None:
        """Consume a topic, or in another way than before; brokers are told with the next heartbeat."""
        before = self._subscriptions.get(subscription.topic)
        version_ms = self._broker_time.next_version_ms(before.version_ms if before is not None else 0)
        self._subscriptions[subscription.topic] = replace(subscription, version_ms=version_ms)
        # Another filter must not be served with the old one's messages: until brokers know it, pulls are refused.
        self._agreed[subscription.topic] = self._subscriptions[subscription.topic]

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no more."""
        self._subscriptions.pop(topic, None)
        self._agreed.pop(topic, None)

    def renew(self, topics: Collection[str]) -> None:
        """Give subscriptions a new version, after their queues have changed (RebalancePushImpl.messageQueueChanged)."""
        for topic in topics:
            before = self._subscriptions.get(topic)
            if before is not None:
                version_ms = self._broker_time.next_version_ms(before.version_ms)
                self._subscriptions[topic] = replace(before, version_ms=version_ms)

    def subscriptions(self) -> Mapping[str, Subscription]:
        """Return what heartbeats name, by topic."""
        return self._subscriptions

    def subscription(self, topic: str) -> Subscription | None:
        """Return what a pull should name: the newest that all brokers that can be reached have been told."""
        return self._agreed.get(topic)

    # Heartbeats

    async def run(self) -> None:
        """Send heartbeats until it is cancelled, the first at once, and look at the brokers' clocks as often."""
        self._client.on_connected = self._connected
        try:
            while True:
                self._wake.clear()
                self._spawn(self.beat())
                try:
                    await wait_for(self._client.clock, self._wake.wait(), self._settings.heartbeat_s)
                except TimeoutError:
                    self._spawn(self._broker_time.measure(self._routes.brokers(), sample_count=1))
        finally:
            self._client.on_connected = lambda _: None
            for task in self._tasks:
                task.cancel()

    def _connected(self, address: str) -> None:
        """Tell a broker at once that was told on another connection: it takes us for gone since that one broke.

        Whatever had it opened does not know that; pulls are answered as long as the group has any member. Java's
        clients of 5.4 do so too (enableHeartbeatChannelEventListener). A heartbeat that is under way goes there too.
        """
        line = self._lines.get(address)
        if line is not None and line.heard.at_ms is not None and not line.lock.locked():
            self._wanted += 1
            self._spawn(self._tell(line, self._wanted))

    def beat_soon(self) -> None:
        """Have all brokers told what is new, as soon as `run()` gets to it."""
        self._wake.set()

    async def beat(self) -> None:
        """Tell all brokers; returns when each has answered or failed, which `heard()` then tells."""
        self._wanted += 1
        wanted, telling = self._wanted, dict(self._subscriptions)
        await asyncio.gather(*(self._tell(line, wanted) for line in self._places()))
        for topic, subscription in telling.items():
            agreed = self._agreed.get(topic)
            if agreed is not None and agreed.version_ms < subscription.version_ms:
                self._agreed[topic] = subscription

    async def tell(self, broker_name: str) -> None:
        """Tell one broker again, which may have forgotten us: its connection was lost, or it refuses our pulls."""
        before_s = self._client.clock.monotonic_s() - _TELL_AGAIN_S
        lines = [line for line in self._places() if line.heard.broker_name == broker_name]
        self._wanted += 1
        await asyncio.gather(*(self._tell(line, self._wanted) for line in lines if line.tried_at_s <= before_s))

    def heard(self) -> list[Heard]:
        """Return what each replica of each broker last answered."""
        return [line.heard for line in self._lines.values()]

    async def leave(self) -> list[Heard]:
        """Leave the group at all brokers that took a heartbeat; return those that did not hear of it.

        Not to be called while `run()` goes on. Nothing can be told afterwards.
        """
        self._has_left = True
        for task in self._tasks:
            task.cancel()
        lines = [line for line in self._lines.values() if line.heard.at_ms is not None]
        await asyncio.gather(*map(self._unregister, lines))
        return [line.heard for line in lines if line.heard.error is not None]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # Not awaited: what a hanging broker takes must not hold the next heartbeat.
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _places(self) -> list[_Line]:
        """Return a line for each address of each broker, and forget addresses that no route names any more."""
        places = {
            address: (broker.broker_name, broker_id)
            for broker in self._routes.brokers()
            for broker_id, address in broker.addresses.items()
        }
        for address in [address for address in self._lines if address not in places]:
            del self._lines[address]
        for address, (broker_name, broker_id) in places.items():
            if address not in self._lines:
                self._lines[address] = _Line(Heard(broker_name, broker_id, address))
        return list(self._lines.values())

    async def _tell(self, line: _Line, wanted: int) -> None:
        """Send a heartbeat, unless one that was sent meanwhile says it all."""
        async with line.lock:
            if line.told >= wanted or self._has_left:
                return
            telling = self._wanted
            line.tried_at_s = self._client.clock.monotonic_s()
            command = consuming.heartbeat(
                self.client_id, self._settings.group, self._subscriptions.values(),
                message_model=self._settings.message_model, consume_from=self._settings.consume_from,
            )  # fmt: skip
            try:
                answer = await self._client.ask(line.heard.address, command)
            except RmqctlError as error:
                line.heard = replace(line.heard, error=error)
                if isinstance(error, UnreachableError) and not line.is_tried_again:
                    line.is_tried_again = True
                    self._spawn(self._tell_until_heard(line))
            else:
                line.heard = replace(line.heard, at_ms=self._client.clock.now_ms(), error=None, version=answer.version)
            line.told = telling

    async def _tell_until_heard(self, line: _Line) -> None:
        """Tell a broker that can't be reached again and again, also one that nothing is pulled from."""
        try:
            while isinstance(line.heard.error, UnreachableError) and self._lines.get(line.heard.address) is line:
                await pause(self._client.clock, _TELL_AGAIN_S)
                self._wanted += 1
                await self._tell(line, self._wanted)
        finally:
            line.is_tried_again = False

    async def _unregister(self, line: _Line) -> None:
        command = consuming.unregister(self.client_id, self._settings.group)
        try:
            await self._client.ask(line.heard.address, command, may_repeat=False)
        except RmqctlError as error:
            line.heard = replace(line.heard, error=error)
        else:
            line.heard = replace(line.heard, error=None)
