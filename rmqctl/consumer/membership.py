"""Membership in a group: heartbeats to all brokers, the subscriptions in them, and leaving."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection, Coroutine, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.client.core import Client
from rmqctl.consumer.rules.client_id import make_client_id
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.group import Subscription
from rmqctl.model.route import BrokerData
from rmqctl.net.clock import pause, wait_for
from rmqctl.net.own_address import own_address
from rmqctl.net.tasks import start_task
from rmqctl.protocol import consumer_requests, group_bodies

from .broker_time import BrokerTime
from .reports.problems import Problems
from .routes import Routes
from .settings import ConsumerSettings

# The shortest time between two heartbeats to one broker that queues ask for, and the pause between heartbeats to an
# unreachable one. Until a broker gets a heartbeat on a connection, it treats us as absent, whatever else we send.
_TELL_AGAIN_S = 1.0


def own_client_id(settings: ConsumerSettings) -> str:
    """Return a client id for this process; a new one at each call, unless an instance name is set."""
    return make_client_id(
        own_address(), pid=os.getpid(), nano_time=time.time_ns(), instance_name=settings.instance_name,
        unit_name=settings.unit_name, message_model=settings.message_model,
    )  # fmt: skip


class HeartbeatAnswer(Struct, frozen=True):
    """The last answer of a broker's replica to a heartbeat.

    `at_ms` is when it last accepted one, None for never; `at_s` is the same by the monotonic clock. `error` is why it
    did not accept the newest; `version` is its MQVersion ordinal.
    """

    broker_name: str
    broker_id: int
    address: str
    at_ms: int | None = None
    at_s: float | None = None
    error: RmqctlError | None = None
    version: int | None = None


class _Line:
    """The heartbeats to one address."""

    def __init__(self, heard: HeartbeatAnswer) -> None:
        self.heard = heard
        self.lock = asyncio.Lock()
        self.sent_number = 0
        self.tried_at_s = float("-inf")
        self.is_tried_again = False


class Membership:
    """One client in one group, registered with all brokers of `routes`.

    A broker that hangs or refuses does not delay the others.
    """

    def __init__(
        self, client: Client, settings: ConsumerSettings, client_id: str, routes: Routes, broker_time: BrokerTime, *,
        problems: Problems | None = None,
    ) -> None:  # fmt: skip
        self.client_id = client_id
        self._client = client
        self._settings = settings
        self._routes = routes
        self._broker_time = broker_time
        self._problems = problems or Problems(lambda _: None, client.clock)
        self._subscriptions: dict[str, Subscription] = {}
        # The subscriptions that pulls may name: brokers refuse a version that they do not know yet.
        self._agreed: dict[str, Subscription] = {}
        self._lines: dict[str, _Line] = {}
        self._wanted = 0
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_left = False

    # Subscriptions

    def subscribe(self, subscription: Subscription) -> None:
        """Add a subscription, or change the one to its topic, from the next heartbeat on."""
        before = self._subscriptions.get(subscription.topic)
        version_ms = self._broker_time.next_version_ms(before.version_ms if before is not None else 0)
        self._subscriptions[subscription.topic] = replace(subscription, version_ms=version_ms)
        # A new filter must not get messages of the old one: until brokers know it, they refuse pulls.
        self._agreed[subscription.topic] = self._subscriptions[subscription.topic]

    def unsubscribe(self, topic: str) -> None:
        """Remove the subscription to a topic."""
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
        """Return the subscriptions in heartbeats, by topic."""
        return self._subscriptions

    def subscription(self, topic: str) -> Subscription | None:
        """Return the subscription for a pull: the newest that all reachable brokers know."""
        return self._agreed.get(topic)

    # Heartbeats

    async def run(self) -> None:
        """Send heartbeats until cancelled, the first immediately, and sample the brokers' clocks as often."""
        try:
            while True:
                self._wake.clear()
                self._spawn(self.beat())
                try:
                    await wait_for(self._client.clock, self._wake.wait(), self._settings.heartbeat_s)
                except TimeoutError:
                    self._spawn(self._broker_time.measure(self._routes.brokers(), sample_count=1))
        finally:
            for task in self._tasks:
                task.cancel()

    def connected(self, address: str) -> None:
        """Send a heartbeat on a new connection: the broker has treated us as absent since the old one broke.

        The request that opened the connection does not show that: pulls are answered while the group has any member.
        Java's 5.4 clients do the same (enableHeartbeatChannelEventListener). A running heartbeat uses it anyway.
        """
        line = self._lines.get(address)
        if line is not None and line.heard.at_ms is not None and not line.lock.locked():
            self._wanted += 1
            self._spawn(self._tell(line, self._wanted))

    def beat_soon(self) -> None:
        """Have `run()` send a heartbeat to all brokers soon."""
        self._wake.set()

    async def find_members(self) -> set[str]:
        """Return the client ids that brokers list: any broker that answers knows all members."""
        brokers = [broker for broker in self._routes.brokers() if broker.addresses]
        answers = await asyncio.gather(*map(self.fetch_ids, brokers), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, RmqctlError):
                raise answer
        # A group without members is an error too; heartbeats report the rest.
        return {client_id for ids in answers if not isinstance(ids, BaseException) for client_id in ids}

    async def fetch_ids(self, broker: BrokerData) -> tuple[str, ...]:
        """Return the client ids that one broker lists; several connections of one are listed several times."""
        request = consumer_requests.get_consumer_ids(self._settings.group)
        return group_bodies.decode_consumer_ids((await self._client.ask(broker.read_addresses[0], request)).body)

    async def beat(self) -> None:
        """Send a heartbeat to all brokers; return once each has answered or failed, see `heard()`."""
        self._wanted += 1
        wanted, sending = self._wanted, dict(self._subscriptions)
        await asyncio.gather(*(self._tell(line, wanted) for line in self._places()))
        for topic, subscription in sending.items():
            agreed = self._agreed.get(topic)
            if agreed is not None and agreed.version_ms < subscription.version_ms:
                self._agreed[topic] = subscription

    async def tell(self, broker_name: str) -> None:
        """Send one broker a heartbeat: it may have forgotten us, after a lost connection or a refused pull."""
        before_s = self._client.clock.monotonic_s() - _TELL_AGAIN_S
        lines = [line for line in self._places() if line.heard.broker_name == broker_name]
        self._wanted += 1
        await asyncio.gather(*(self._tell(line, self._wanted) for line in lines if line.tried_at_s <= before_s))

    def heard(self) -> list[HeartbeatAnswer]:
        """Return the last answer of each replica of each broker."""
        return [line.heard for line in list(self._lines.values())]

    async def leave(self) -> list[HeartbeatAnswer]:
        """Leave the group at all brokers that accepted a heartbeat; return those where that failed.

        Cancel `run()` before the call. No heartbeat is sent afterwards.
        """
        self._has_left = True
        for task in self._tasks:
            task.cancel()
        lines = [line for line in self._lines.values() if line.heard.at_ms is not None]
        await asyncio.gather(*map(self._unregister, lines))
        return [line.heard for line in lines if line.heard.error is not None]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # Not awaited: a hanging broker must not delay the next heartbeat.
        start_task(work, self._tasks)

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
                self._lines[address] = _Line(HeartbeatAnswer(broker_name, broker_id, address))
        return list(self._lines.values())

    async def _tell(self, line: _Line, wanted: int) -> None:
        """Send a heartbeat, unless one that was sent meanwhile has the same content."""
        async with line.lock:
            if line.sent_number >= wanted or self._has_left:
                return
            sending, clock = self._wanted, self._client.clock
            line.tried_at_s = clock.monotonic_s()
            command = consumer_requests.heartbeat(
                self.client_id, self._settings.group, self._subscriptions.values(),
                message_model=self._settings.message_model, consume_from=self._settings.consume_from,
            )  # fmt: skip
            try:
                answer = await self._client.ask(line.heard.address, command)
            except RmqctlError as error:
                line.heard = replace(line.heard, error=error)
                if not isinstance(error, UnreachableError):
                    sentence = f"{line.heard.broker_name} does not accept this member: {error.sentence}"
                    self._problems(ConsumerWarning.HEARTBEAT, sentence, line.heard.address)
                elif not line.is_tried_again:
                    line.is_tried_again = True
                    self._spawn(self._tell_until_heard(line))
            else:
                line.heard = replace(
                    line.heard, at_ms=clock.now_ms(), at_s=clock.monotonic_s(), error=None, version=answer.version
                )
                words = f"{line.heard.broker_name} accepts this member again"
                self._problems.works(ConsumerWarning.HEARTBEAT, line.heard.address, words)
            line.sent_number = sending

    async def _tell_until_heard(self, line: _Line) -> None:
        """Send heartbeats to an unreachable broker repeatedly, even if nothing is pulled from it."""
        try:
            while isinstance(line.heard.error, UnreachableError) and self._lines.get(line.heard.address) is line:
                await pause(self._client.clock, _TELL_AGAIN_S)
                self._wanted += 1
                await self._tell(line, self._wanted)
        finally:
            line.is_tried_again = False

    async def _unregister(self, line: _Line) -> None:
        command = consumer_requests.unregister(self.client_id, self._settings.group)
        try:
            await self._client.ask(line.heard.address, command, may_repeat=False)
        except RmqctlError as error:
            line.heard = replace(line.heard, error=error)
        else:
            line.heard = replace(line.heard, error=None)
