"""All name servers at once, through the client: the union, and who leaves something out or is silent."""

from __future__ import annotations

import asyncio
import json

import pytest

from rmqctl.admin.topics.queues import fetch_route
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import find_partial
from rmqctl.errors import NotFoundError, NotRegisteredError, UnreachableError
from rmqctl.model.cluster_memory import Expectation, SeenBroker, SeenQueues
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from tests.scripted_peer import SILENCE, ScriptedNetwork, ok, passing, refused

CLUSTER, ROUTE = RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.GET_ROUTEINFO_BY_TOPIC
NO_ROUTE = refused(ResponseCode.TOPIC_NOT_EXIST, "No topic route info")


def _cluster(*names: str) -> Command:
    table = {
        name: {"brokerAddrs": {"0": f"{name}:1"}, "brokerName": name, "cluster": "C"} for name in names
    }  # fmt: skip
    return ok(json.dumps({"brokerAddrTable": table}).encode())


def _route(*names: str, count: int = 2) -> Command:
    queues = [{"brokerName": name, "perm": 6, "readQueueNums": count, "writeQueueNums": count} for name in names]
    brokers = [{"brokerAddrs": {"0": f"{name}:1"}, "brokerName": name, "cluster": "C"} for name in names]
    return ok(json.dumps({"brokerDatas": brokers, "queueDatas": queues}).encode())


def _network(**tables: dict[int, object]) -> ScriptedNetwork:
    network = ScriptedNetwork(VirtualClock())
    for name, table in tables.items():
        network.add(f"{name}:1", table)  # type: ignore[arg-type]
    return network


def _client(network: ScriptedNetwork, *servers: str, expectation: Expectation | None = None) -> Client:
    return Client(servers, timeout_s=9, clock=network.clock, connect=network.connect, expectation=expectation)


async def test_all_are_asked_and_who_leaves_a_broker_out_is_named() -> None:
    network = _network(ns1={CLUSTER: _cluster("a")}, ns2={CLUSTER: _cluster("a", "b")}, ns3={CLUSTER: _cluster()})
    async with _client(network, "ns1:1", "ns2:1", "ns3:1") as client:
        cluster = await client.cluster()
        assert [broker.broker_name for broker in cluster.brokers] == ["a", "b"]
        failures, warnings = await find_partial(client), client.name_server_views.silences()
    assert [(failure.what, failure.error.name, failure.error.sentence) for failure in failures] == [
        ("name server ns1:1", "NAME_SERVERS_DIFFER", "It does not list b, which other name servers do."),
        ("name server ns3:1", "NAME_SERVERS_DIFFER", "It does not list a, b, which other name servers do."),
    ]
    assert warnings == []


async def test_a_route_is_the_union_and_one_that_knows_no_topic_is_no_end() -> None:
    network = _network(ns1={ROUTE: NO_ROUTE}, ns2={ROUTE: _route("a")}, ns3={ROUTE: _route("a", "b")})
    async with _client(network, "ns1:1", "ns2:1", "ns3:1") as client:
        route = await client.route("T")
        assert {mq.broker_name for mq in route.readable_queues()} == {"a", "b"}
        failures = await find_partial(client)
    assert [failure.error.sentence for failure in failures] == [
        "It has no route for T, which other name servers have.",
        "It has no route for T on b, which other name servers have.",
    ]


async def test_a_silent_one_holds_up_nobody_for_long_and_is_asked_once() -> None:
    network = _network(ns1={CLUSTER: SILENCE, ROUTE: SILENCE}, ns2={CLUSTER: _cluster("a"), ROUTE: _route("a")})
    async with _client(network, "ns1:1", "ns2:1") as client:
        await passing(network.clock, client.cluster())
        assert network.clock.monotonic_s() == 1.0
        await passing(network.clock, asyncio.gather(client.route("T"), client.route("U")))
        assert network.clock.monotonic_s() == 1.0
        failures, warnings = await find_partial(client), client.name_server_views.silences()
    assert failures == []
    (failure,) = warnings
    assert (failure.what, failure.error.sentence) == (
        "name server ns1:1",
        "ns1:1: no answer within 1.0 s.",
    )


async def test_a_long_run_asks_a_silent_one_again_after_a_minute() -> None:
    network = _network(ns1={CLUSTER: SILENCE}, ns2={CLUSTER: _cluster("a")})
    client = Client(
        ("ns1:1", "ns2:1"), timeout_s=9, clock=network.clock, connect=network.connect, open_ended=True
    )  # fmt: skip
    async with client:
        await passing(network.clock, client.fresh_cluster())
        network.add("ns1:1", {CLUSTER: _cluster("a")})
        await passing(network.clock, client.fresh_cluster())
        assert list(client.name_server_views.silent) == ["ns1:1"]
        await network.clock.advance(60)
        await passing(network.clock, client.fresh_cluster())
        assert client.name_server_views.silent == {}


async def test_when_none_answers_the_attempt_takes_its_whole_time() -> None:
    network = _network(ns1={CLUSTER: SILENCE}, ns2={CLUSTER: SILENCE})
    async with _client(network, "ns1:1", "ns2:1") as client:
        with pytest.raises(UnreachableError, match="None of the 2 name servers answered"):
            await passing(network.clock, client.cluster())
        assert network.clock.monotonic_s() == 3.0


def _expectation(network: ScriptedNetwork) -> Expectation:
    seen_ms = network.clock.now_ms() - 60_000
    return Expectation(
        brokers={name: SeenBroker("C", f"{name}:1", seen_ms) for name in ("a", "b")},
        topics={"T": {"a": SeenQueues(2, 2, 6, seen_ms), "b": SeenQueues(3, 3, 6, seen_ms)}},
    )


async def test_no_route_where_a_name_server_is_silent_is_no_proof_for_a_topic_that_is_named() -> None:
    network = _network(ns2={CLUSTER: _cluster("a"), ROUTE: NO_ROUTE})
    async with _client(network, "gone:1", "ns2:1") as client:
        with pytest.raises(NotFoundError):
            await client.route("U")
        with pytest.raises(UnreachableError, match="Topic U was not found, but gone:1 could not be read"):
            await fetch_route(client, "U")


async def test_a_missing_broker_is_part_of_the_cluster_and_of_its_routes_and_can_not_be_asked() -> None:
    network = _network(ns1={CLUSTER: _cluster("a"), ROUTE: _route("a")})
    async with _client(network, "ns1:1", expectation=_expectation(network)) as client:
        route = await client.route("T")
        assert (len(route.readable_queues()), len(route.missing_queues())) == (2, 3)
        (missing,) = (await client.cluster()).missing
        with pytest.raises(NotRegisteredError, match="b: not registered; rmqctl last saw it at "):
            await client.ask_broker(missing, Command(CLUSTER))
        # Of a topic that was never seen whole nobody can say that the missing broker has no part.
        await client.route("V")
        failures = await find_partial(client)
        assert [(failure.broker_name, failure.what) for failure in failures] == [("b", "queues of V, if it has any")]
        assert set(client.sightings.brokers) == {"a"}
        assert client.sightings.has_missing


async def test_a_topic_that_only_a_missing_broker_has_is_known() -> None:
    network = _network(ns1={CLUSTER: _cluster("a"), ROUTE: NO_ROUTE})
    async with _client(network, "ns1:1", expectation=_expectation(network)) as client:
        route = await client.route("T")
        assert (route.queue_data, len(route.missing_queues())) == ((), 3)


async def test_who_stays_takes_the_first_route_that_there_is() -> None:
    network = _network(ns1={ROUTE: NO_ROUTE}, ns2={ROUTE: _route("a")})
    async with _client(network, "gone:1", "ns1:1", "ns2:1") as client:
        assert len((await client.fresh_route("T")).readable_queues()) == 2
        assert client.name_servers[0] == "ns2:1"
    async with _client(network, "gone:1", "ns1:1") as client:
        with pytest.raises(NotFoundError):
            await client.fresh_route("T")
