"""A member of ours among Java's: brokers list it, tell of it and forget it as they do theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rmqctl.client.core import Client
from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.consumer.broker_time import BrokerTime
from rmqctl.consumer.membership import Membership
from rmqctl.consumer.rebalance import Rebalance
from rmqctl.consumer.routes import Routes
from rmqctl.consumer.rules.client_id import make_client_id
from rmqctl.consumer.rules.subscriptions import make_subscription, retry_subscription
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.rules.allocate import find_strategy

from .harness.cluster import Cluster
from .harness.held import held, held_when_quiet
from .harness.rmqctl import Rmqctl

TOPIC, GROUP = "SharedWithOurs", "MixedGroup"


class _Holder:
    """Holds queues, and pulls none."""

    def __init__(self) -> None:
        self.queues: set[MessageQueue] = set()

    def held(self) -> dict[MessageQueue, int]:
        return dict.fromkeys(self.queues, time.time_ns() // 1_000_000)

    async def take(self, mq: MessageQueue) -> bool:
        self.queues.add(mq)
        return True

    async def drop(self, mq: MessageQueue) -> bool:
        self.queues.remove(mq)
        return True

    def names(self) -> set[str]:
        return {f"{mq.broker_name}:{mq.queue_id}" for mq in self.queues if mq.topic == TOPIC}


async def _until(condition: Callable[[], bool], limit_s: float = 60) -> None:
    give_up_at = time.monotonic() + limit_s
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < give_up_at, "it did not come to be so"
        await asyncio.sleep(0.05)


def test_ours_and_javas_share_a_group(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic(TOPIC, queue_count=4)
    every_queue = {f"{name}:{queue_id}" for name in cluster.addresses for queue_id in range(4)}
    cluster.java.consume("first", GROUP, TOPIC, expr="TagA || TagB", instance="first")
    client_id = make_client_id("127.0.0.1", pid=1, nano_time=time.monotonic_ns())

    def java(*names: str) -> set[str]:
        """Return what these hold, nothing while two of them hold the same: one has not let go of it yet."""
        held_by = [cluster.java.queues(name, TOPIC) for name in names]
        every = set().union(*held_by)
        return every if sum(map(len, held_by)) == len(every) else set()

    async def scenario() -> None:
        woken: list[Command] = []

        async def notified(_: str, request: Command) -> None:
            woken.append(request)
            rebalance.wake()

        handlers = {int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED): notified}
        async with Client([cluster.namesrv], handlers=handlers, open_ended=True) as client:
            settings, holder = ConsumerSettings(group=GROUP), _Holder()
            routes, broker_time = Routes(FreshRoutes(client, settings.route_refresh_s)), BrokerTime(client)
            await routes.refresh([TOPIC])
            await broker_time.measure(routes.brokers())
            membership = Membership(client, settings, client_id, routes, broker_time)
            membership.subscribe(make_subscription(TOPIC, "TagA || TagB"))
            membership.subscribe(retry_subscription(GROUP))
            strategy = find_strategy("averagely")
            rebalance = Rebalance(client, settings, membership, routes, strategy.allocate, holder)
            await membership.beat()
            assert [heard.error for heard in membership.heard()] == [None, None]
            tasks = [asyncio.ensure_future(membership.run()), asyncio.ensure_future(rebalance.run())]

            await _until(lambda: len(holder.names()) == 4 and java("first") | holder.names() == every_queue)
            woken.clear()
            await asyncio.to_thread(
                cluster.java.consume, "second", GROUP, TOPIC, expr="TagA || TagB", instance="second"
            )
            await _until(lambda: len(holder.names()) < 4 and java("first", "second") | holder.names() == every_queue)
            assert {request.ext_fields["consumerGroup"] for request in woken} == {GROUP}
            assert not java("first", "second") & holder.names()
            listed = (await asyncio.to_thread(rmqctl, "group", "members", GROUP, "-o", "json")).document["items"]
            ours = next(item for item in listed if item["clientId"] == client_id)
            assert (len(listed), ours["unseenAt"]) == (3, [])
            said = await asyncio.to_thread(cluster.java.mqadmin, "consumerConnection", "-g", GROUP)
            assert client_id in said
            assert all(task.done() is False for task in tasks)

            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert await membership.leave() == []
            await _until(lambda: java("first", "second") == every_queue)

    asyncio.run(scenario())


def test_asking_for_the_brokers_time_leaves_no_trace(cluster: Cluster) -> None:
    before = held_when_quiet(cluster.namesrv)

    async def scenario() -> BrokerTime:
        async with Client([cluster.namesrv]) as client:
            broker_time = BrokerTime(client)
            await broker_time.measure((await client.cluster()).brokers)
            return broker_time

    broker_time = asyncio.run(scenario())
    skews = broker_time.skews()
    assert set(skews) == set(cluster.addresses)
    # Brokers and we go by the same clock here.
    for skew in skews.values():
        assert skew.low_ms <= 0 <= skew.high_ms
        assert skew.high_ms - skew.low_ms < 1000
    assert broker_time.errors == {}
    assert held(cluster.namesrv) == before
