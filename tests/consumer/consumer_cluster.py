"""A sandbox of RocketMQ whose time stands still, and consumers in the same event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rmqctl.client.core import Client
from rmqctl.consumer.batch import Batch
from rmqctl.consumer.core import ConsumerCore
from rmqctl.consumer.rebalance_listener import RebalanceListener
from rmqctl.consumer.rules.subscriptions import make_subscription
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.model.consumption import ConsumeFromWhere, ConsumeStatus
from rmqctl.model.group import Subscription
from rmqctl.net.clock import Clock, VirtualClock
from rmqctl.net.stream import Stream
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.allocate import Options, find_strategy
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.topics.table import Topic
from tests.consumer.consumer_parts import SUCCESS
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import commit
from tests.sandbox.sender import pairs
from tests.sandbox.sender import send as send_one
from tests.scripted_peer import run

GROUP, TOPIC, RETRY, DEAD = "G", "T", "%RETRY%G", "%DLQ%G"
both = pytest.mark.parametrize("plays", ["5.4.0", "4.9.7"])
FIRST = ConsumeFromWhere.FIRST_OFFSET


class Seen:
    """A listener: it says of each body what is planned for it, and can be held."""

    def __init__(self, plan: dict[str, Any] | None = None) -> None:
        self.plan = plan or {}
        self.messages: list[StoredMessage] = []
        self.gates: dict[str, asyncio.Event] = {}

    def hold(self, *bodies: str) -> None:
        for body in bodies:
            self.gates[body] = asyncio.Event()

    def let_go(self) -> None:
        for gate in self.gates.values():
            gate.set()

    async def __call__(self, found: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus | None:
        self.messages += found
        body = found[0].body.decode()
        if body in self.gates:
            await self.gates[body].wait()
        answer = self.plan.get(body, SUCCESS)
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else SUCCESS
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]

    @property
    def bodies(self) -> list[str]:
        return [each.body.decode(errors="replace") for each in self.messages]


class Cluster:
    """A sandbox on a virtual clock, and consumers in the same event loop."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        assert isinstance(sandbox.clock, VirtualClock)
        self.clock = sandbox.clock
        self.reports: list[str] = []
        self.consumers: list[ConsumerCore] = []

    async def _connect(self, address: str, clock: Clock, timeout_s: float) -> Stream:
        assert clock is self.clock
        assert timeout_s > 0
        return await self.sandbox.connect(address)

    def consumer(
        self, listener: Callable[..., Any], *, topics: Sequence[Subscription] = (),
        skip: Callable[[StoredMessage], bool] | None = None, rebalance_listener: RebalanceListener | None = None,
        **settings: Any,
    ) -> ConsumerCore:  # fmt: skip
        client = Client(
            [self.sandbox.addr], timeout_s=9, clock=self.clock, connect=self._connect, open_ended=True
        )  # fmt: skip
        settings = {"group": GROUP, "consume_from": FIRST, **settings}
        consumer = ConsumerCore(
            client, ConsumerSettings(**settings), topics or [make_subscription(TOPIC)], listener,
            find_strategy("averagely", Options()), report=lambda problem: self.reports.append(problem.sentence),
            skip=skip, rebalance_listener=rebalance_listener,
        )  # fmt: skip
        self.consumers.append(consumer)
        return consumer

    async def started(self, listener: Callable[..., Any], *, force: bool = False, **options: Any) -> ConsumerCore:
        """Return a consumer that has its queues and what is in them."""
        consumer = self.consumer(listener, **options)
        await self.during(consumer.start(force=force))
        await self.passes(1.5)
        return consumer

    async def passes(self, seconds: float, *, step_s: float = 0.25) -> None:
        """Let time pass."""
        until_s = self.clock.monotonic_s() + seconds
        while (left_s := until_s - self.clock.monotonic_s()) > 1e-9:
            await self.sandbox.advance(min(step_s, left_s))

    async def during(self, work: Coroutine[Any, Any, Any], *, most_s: float = 120.0) -> Any:
        """Let time pass until something is done; return what came of it."""
        task = asyncio.ensure_future(work)
        until_s = self.clock.monotonic_s() + most_s
        await self.sandbox.await_idle()
        while not task.done():
            assert self.clock.monotonic_s() < until_s, "it never ends"
            await self.passes(0.1)
        return await task

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Let time pass until something is so that waits for a thread."""
        async with asyncio.timeout(60):
            while not is_so():
                await self.passes(0.1)

    async def send(self, *bodies: str, queue_id: int = 0, topic: str = TOPIC, **fields: Any) -> None:
        """Store messages."""
        peer = await Peer.of_broker(self.sandbox)
        for body in bodies:
            properties = pairs(UNIQ_KEY=f"key-{body}", **fields.pop("properties", {}))
            answer = await send_one(peer, topic, body.encode(), e=queue_id, properties=properties, **fields)
            assert answer.code == R.SUCCESS, answer.remark
        await peer.aclose()

    def stored(self, topic: str = TOPIC) -> dict[int, int]:
        """Return the stored offsets of the group."""
        return dict(self.sandbox.brokers["broker-a"].offsets.stored.get((topic, GROUP), {}))

    async def commit(self, queue_id: int, offset: int) -> None:
        peer = await Peer.of_broker(self.sandbox)
        await peer.heartbeat("before", consumer_data(GROUP, subscription(TOPIC)))
        await commit(peer, GROUP, TOPIC, queue_id, offset)
        await peer.aclose()
        await self.sandbox.await_idle()

    async def count(self, topic: str) -> int:
        """Return how many messages a topic has in its first queue."""
        peer = await Peer.of_broker(self.sandbox)
        answer = await peer.ask_ok(Q.GET_MAX_OFFSET, topic=topic, queueId=0)
        await peer.aclose()
        return int(answer.ext_fields["offset"])

    async def members(self) -> list[str]:
        """Return who is in the group."""
        peer = await Peer.of_broker(self.sandbox)
        answer = await peer.ask(Q.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=GROUP)
        await peer.aclose()
        return [] if answer.code != R.SUCCESS else sorted(eval(answer.body)["consumerIdList"])

    async def close(self) -> None:
        for consumer in self.consumers:
            if consumer.is_running:
                await self.during(consumer.drain(0))
            await consumer.client.aclose()


@asynccontextmanager
async def cluster(plays: str = "5.4.0", *, queue_count: int = 1, brokers: int = 1) -> AsyncIterator[Cluster]:
    async with Sandbox(clock=VirtualClock(), plays=plays, brokers=brokers) as sandbox:
        for broker in sandbox.brokers.values():
            broker.topics.put(Topic(TOPIC, queue_count, queue_count))
        running = Cluster(sandbox)
        try:
            yield running
        finally:
            await running.close()


def scenario(work: Callable[[Cluster], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def go() -> None:
        async with cluster(**options) as running:
            await work(running)

    run(go())
