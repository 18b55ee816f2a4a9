from __future__ import annotations

import asyncio

import pytest

from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.errors import NotFoundError
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import SILENCE, passing, refused


def _cluster() -> Cluster:
    return Cluster(BrokerState("broker-a", topics={"T": [Queue()]}))


def _asked_count(cluster: Cluster) -> int:
    return cluster.name_server.codes().count(Q.GET_ROUTEINFO_BY_TOPIC)


async def test_a_route_is_asked_for_again_when_it_is_old_and_nobody_waits_for_it() -> None:
    cluster = _cluster()
    async with cluster.client() as client:
        routes = FreshRoutes(client, max_age_s=5)
        await asyncio.gather(*(routes.route("T") for _ in range(3)))
        await cluster.clock.advance(4.9)
        await routes.route("T")
        assert _asked_count(cluster) == 1
        await cluster.clock.advance(0.1)
        cluster.brokers["broker-a"].topics["T"].append(Queue())
        assert (await routes.route("T")).queue_data[0].write_queue_count == 1
        await cluster.clock.await_idle()
        assert (await routes.route("T")).queue_data[0].write_queue_count == 2
        assert _asked_count(cluster) == 2


async def test_a_new_route_is_waited_for_where_it_is_wanted_but_for_a_second() -> None:
    cluster = _cluster()
    async with cluster.client() as client:
        routes = FreshRoutes(client)
        old = await routes.route("T")
        cluster.brokers["broker-a"].topics["T"].append(Queue())
        new = await routes.route("T", again=True)
        assert (new.queue_data[0].write_queue_count, new == old) == (2, False)
        cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = SILENCE
        before_s = cluster.clock.monotonic_s()
        assert await passing(cluster.clock, routes.route("T", again=True)) == new
        assert cluster.clock.monotonic_s() - before_s == 1


async def test_a_route_that_was_known_stands_while_there_is_no_other() -> None:
    cluster = _cluster()
    async with cluster.client() as client:
        routes = FreshRoutes(client, max_age_s=5)
        known = await routes.route("T")
        cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = refused(R.TOPIC_NOT_EXIST)
        assert await routes.route("T", again=True) == known
        with pytest.raises(NotFoundError):
            await routes.route("U")
        cluster.network.refusing.add("ns:1")
        await cluster.name_server.drop()
        assert await routes.route("T", again=True) == known
        await cluster.clock.advance(6)
        assert await routes.route("T") == known
        await cluster.clock.advance(6)
