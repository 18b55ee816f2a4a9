"""Messages of a scenario, sent as a Java producer does."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rmqctl.errors import RmqctlError
from rmqctl.net.clock import pause
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.properties import KEYS, TAGS, UNIQ_KEY, encode_properties
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.delivery.unique_keys import new_unique_key
from rmqctl.sandbox.sandbox import Sandbox
from rmqctl.sandbox.topics.table import Topic

from .client import ScriptedClient

_LOOPBACK = bytes((127, 0, 0, 1))


class SendRefusedError(Exception):
    """A broker did not accept a message."""


class ScenarioProducer:
    """Sends to the topics of one sandbox, round robin over brokers and queues."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._client = ScriptedClient(sandbox.clock, sandbox.profile.version, lambda _: None)
        self._numbers = itertools.count()

    def create_topic(self, name: str, queue_count: int) -> None:
        """Create a topic on all brokers."""
        for broker in self._sandbox.brokers.values():
            broker.topics.put(Topic(name, queue_count, queue_count))

    async def send(self, topic: str, body: str, *, tag: str | None = None, key: str | None = None) -> Command:
        """Send one message. Raises RmqctlError when the connection breaks, SendRefusedError."""
        number = next(self._numbers)
        brokers = [broker for broker in self._sandbox.brokers.values() if broker.topics.find(topic)]
        if not brokers:
            raise SendRefusedError(f"{topic}: no broker has this topic")
        broker = brokers[number % len(brokers)]
        return await self.send_to(broker, number // len(brokers), topic, body, tag=tag, key=key)

    async def send_to(
        self, broker: Broker, number: int, topic: str, body: str, *, tag: str | None = None, key: str | None = None
    ) -> Command:  # fmt: skip
        """Send one message to a broker, to queue `number` modulo its queues."""
        found = broker.topics.find(topic)
        queue_id = number % found.write_queue_count if found is not None else 0
        properties = {UNIQ_KEY: new_unique_key((_LOOPBACK, os.getpid() & 0xFFFF), broker.now_ms())}
        if tag is not None:
            properties[TAGS] = tag
        if key is not None:
            properties[KEYS] = key
        answer = await self._client.ask(
            broker.address, RequestCode.SEND_MESSAGE_V2, body.encode(),
            a="demo-producer", b=topic, c="TBW102", d=4, e=queue_id, f=0, g=broker.now_ms(), h=0,
            i=encode_properties(properties), j=0, k=False, m=False,
        )  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            raise SendRefusedError(f"{topic}: {answer.code} {answer.remark}")
        return answer

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class Ticker:
    """A guest that sends messages at a steady pace."""

    def __init__(self, sandbox: Sandbox, topic: str, interval_s: float, make: Callable[[int], str], tag: str) -> None:
        self._producer = ScenarioProducer(sandbox)
        self._clock = sandbox.clock
        self._topic, self._interval_s, self._make, self._tag = topic, interval_s, make, tag
        self._running = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        for number in itertools.count():
            await pause(self._clock, self._interval_s)
            try:
                await self._producer.send(self._topic, self._make(number), tag=self._tag)
            except (RmqctlError, SendRefusedError):
                pass  # an injected fault; the next message may succeed

    async def aclose(self) -> None:
        """Stop sending."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self._producer.aclose()


@contextmanager
def in_the_past(sandbox: Sandbox, seconds: float) -> Iterator[None]:
    """Set the brokers' clocks back for a while, so that all messages sent meanwhile look old."""
    before = {broker: broker.skew_ms for broker in sandbox.brokers.values()}
    for broker in before:
        broker.skew_ms -= round(seconds * 1000)
    try:
        yield
    finally:
        for broker, skew_ms in before.items():
            broker.skew_ms = skew_ms
