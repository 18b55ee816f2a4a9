"""Brokers that share a name, through the client: by what name servers list, by earlier answers, and by the memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from rmqctl.client.core import Client
from rmqctl.client.duplicates import find_duplicates, require_distinct, with_duplicates
from rmqctl.errors import NotFoundError, RefusedError
from rmqctl.model.cluster_memory import Expectation, SeenBroker
from rmqctl.model.failure import Failure
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from tests.scripted_peer import SILENCE, ScriptedNetwork, ok, passing

CLUSTER, ROUTE = RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.GET_ROUTEINFO_BY_TOPIC
CONFIG, RUNTIME = RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO
GONE = "gone"


def _broker(addresses: Mapping[str, str], name: str = "a", cluster: str = "C1") -> dict[str, Any]:
    return {"brokerAddrs": dict(addresses), "brokerName": name, "cluster": cluster}


def _list(*brokers: dict[str, Any], clusters: Mapping[str, list[str]] | None = None) -> Command:
    table = {broker["brokerName"]: broker for broker in brokers}
    return ok(json.dumps({"brokerAddrTable": table, "clusterAddrTable": clusters or {}}).encode())


def _route(broker: dict[str, Any]) -> Command:
    queues = [{"brokerName": broker["brokerName"], "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}]
    return ok(json.dumps({"brokerDatas": [broker], "queueDatas": queues}).encode())


def _identity(boot: int, name: str = "a", broker_id: int = 0) -> dict[int, Any]:
    config = f"brokerName={name}\nbrokerClusterName=C1\nbrokerId={broker_id}\n".encode()
    return {CONFIG: ok(config), RUNTIME: ok(json.dumps({"table": {"bootTimestamp": str(boot)}}).encode())}


SILENT: dict[int, Any] = {CONFIG: SILENCE, RUNTIME: SILENCE}


def _network(old: Mapping[int, Any] | str, **name_servers: Mapping[int, Any]) -> ScriptedNetwork:
    """Return a network with a master at new:1, and what is `old` at old:1."""
    network = ScriptedNetwork(VirtualClock())
    network.add("new:1", _identity(2))
    if isinstance(old, str):
        network.refusing.add("old:1")
    else:
        network.add("old:1", dict(old))
    for name, table in name_servers.items():
        network.add(f"{name}:1", dict(table))
    return network


def _client(network: ScriptedNetwork, *servers: str, seen: SeenBroker | None = None) -> Client:
    expectation = Expectation(brokers={} if seen is None else {"a": seen})
    return Client(servers, timeout_s=30, clock=network.clock, connect=network.connect, expectation=expectation)


def _names(failures: list[Failure]) -> list[str | None]:
    assert {failure.error.name for failure in failures} <= {"DUPLICATE_BROKER"}
    return [failure.broker_name for failure in failures]


NEW, OLD = _broker({"0": "new:1"}), _broker({"0": "old:1"})


@pytest.mark.parametrize(
    ("answer", "route", "named"),
    [
        (_list(NEW, clusters={"C1": ["a"]}), _route(NEW), []),
        (_list(NEW), _route(NEW), []),
        (_list(NEW, clusters={"C1": ["a"], "C2": ["a"]}), _route(NEW), ["a"]),
        (_list(NEW, clusters={"C2": ["a"]}), _route(NEW), ["a"]),
        (_list(NEW), _route(_broker({"0": "new:1"}, cluster="C2")), ["a"]),
        (_list(NEW, _broker({"0": "new:1"}, "b")), _route(NEW), ["a", "b"]),
        (_list(NEW, _broker({"0": "b:1", "1": "new:1"}, "b")), _route(NEW), ["a", "b"]),
        # The slave that a route lists as the master is the broker's own.
        (_list(_broker({"0": "new:1", "1": "old:1"})), _route(OLD), []),
        (_list(_broker({"1": "old:1"})), _route(OLD), []),
        # Another broker registered between the two answers.
        (_list(NEW), _route(OLD), ["a"]),
    ],
)
async def test_the_answers_of_a_name_server_are_compared(answer: Command, route: Command, named: list[str]) -> None:
    network = _network(_identity(1), ns={CLUSTER: answer, ROUTE: route})
    for asks_route_first in (False, True):
        async with _client(network, "ns:1") as client:
            if asks_route_first:
                await client.route("T")
            await client.cluster()
            await client.route("T")
            assert _names(await find_duplicates(client)) == named
            missing = with_duplicates(await find_duplicates(client), NotFoundError("Group", "G"))
            assert (missing.exit_code, "does not exist" in missing.sentence) == ((1, False) if named else (5, True))
            if named:
                with pytest.raises(RefusedError):
                    await require_distinct(client, ["a"])
            await require_distinct(client, ["z"])


@pytest.mark.parametrize(
    ("old", "named"),
    [
        pytest.param(_identity(1), ["a"], id="another master of the name"),
        pytest.param(_identity(2), [], id="the same process at another address"),
        pytest.param(_identity(1, name="z"), [], id="another broker at the former address"),
        pytest.param(_identity(1, broker_id=1), [], id="a former master that is a slave now"),
        pytest.param(GONE, [], id="nothing listens there"),
        pytest.param(SILENT, ["a"], id="no answer"),
    ],
)
async def test_who_is_at_a_former_address_decides(old: Mapping[int, Any] | str, named: list[str]) -> None:
    lists = [_list(OLD), _list(NEW)]
    network = _network(old, ns={CLUSTER: lambda _: lists.pop(0) if len(lists) > 1 else lists[0]})
    async with _client(network, "ns:1") as client:
        await client.fresh_cluster()
        await client.fresh_cluster()
        assert _names(await passing(network.clock, find_duplicates(client))) == named

    network = _network(old, ns={CLUSTER: _list(NEW)})
    now_ms = network.clock.now_ms()
    for age_ms in (60_000, 900_000):
        # A host that moved must not make results partial for good.
        found = [] if old is SILENT and age_ms > 600_000 else named
        then_ms = now_ms - age_ms
        for seen in (
            SeenBroker("C1", "old:1", then_ms), SeenBroker("C1", "new:1", now_ms, others={"old:1": then_ms}),
        ):  # fmt: skip
            async with _client(network, "ns:1", seen=seen) as client:
                await client.cluster()
                assert _names(await passing(network.clock, find_duplicates(client))) == found
                others = client.sightings.brokers["a"].others or {}
                assert list(others) == (["old:1"] if found else [])
                assert all(at_ms == then_ms for at_ms in others.values() if old is SILENT)


async def test_a_map_that_leads_to_another_broker_is_named() -> None:
    network = _network(_identity(1, name="b"), ns={CLUSTER: _list(NEW, _broker({"0": "b:1"}, "b"))})
    for address, named in (("old:1", ["a"]), ("new:1", [])):
        async with Client(
            ["ns:1"], clock=network.clock, connect=network.connect, address_map={"a": address, "b": "old:1"}
        ) as client:
            await client.cluster()
            assert _names(await find_duplicates(client)) == named


async def test_name_servers_that_give_different_addresses_name_two_brokers_only_if_both_are_there() -> None:
    for old, named in ((_identity(1), ["a"]), (GONE, [])):
        network = _network(old, ns1={CLUSTER: _list(NEW)}, ns2={CLUSTER: _list(OLD)})
        async with _client(network, "ns1:1", "ns2:1") as client:
            await client.cluster()
            assert _names(await find_duplicates(client)) == named
