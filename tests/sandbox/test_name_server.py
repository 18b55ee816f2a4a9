"""The name server: registrations of brokers from outside, their expiry, routes, keys and values, settings."""

from __future__ import annotations

import json
import zlib
from typing import Any

from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.java_json import loads
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer
from tests.scripted_peer import run

EXTERNAL = {
    "brokerName": "ext",
    "clusterName": "Other",
    "brokerId": 0,
    "brokerAddr": "10.0.0.1:1",
    "haServerAddr": "h:1",
}


def registration(counter: int, *topics: str, perm: int = 6) -> bytes:
    table = {
        name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 2, "perm": perm, "topicSysFlag": 0}
        for name in topics
    }
    version = {"counter": counter, "timestamp": 5, "stateVersion": 0}
    return json.dumps({"topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table}}).encode()


async def queues(peer: Peer, topic: str) -> list[dict[str, Any]]:
    """Return the queueDatas of a topic's route, empty for none."""
    answer = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return []
    return list(loads(answer.body)["queueDatas"])


def test_a_broker_from_outside_is_routed_to_until_its_connection_closes() -> None:
    async def scenario(release: str) -> None:
        async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
            broker, client = await Peer.of_name_server(sandbox), await Peer.of_name_server(sandbox)
            await broker.ask_ok(RequestCode.REGISTER_BROKER, registration(1, "T", "U"), **EXTERNAL)
            assert await queues(client, "T") == [
                {"brokerName": "ext", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 2}
            ]
            clusters = await client.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO)
            assert clusters["brokerAddrTable"]["ext"]["brokerAddrs"] == {"0": "10.0.0.1:1"}
            await broker.aclose()
            await sandbox.await_idle()
            assert await queues(client, "T") == []
            clusters = await client.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO)
            assert "ext" not in clusters["brokerAddrTable"]
            await client.aclose()

    for release in ("5.4.0", "4.9.7"):
        run(scenario(release))


async def test_a_broker_that_falls_silent_expires_and_its_connection_is_closed() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker = await Peer.of_name_server(sandbox)
        await broker.ask_ok(RequestCode.REGISTER_BROKER, registration(1, "T", "U"), **EXTERNAL)
        for _ in range(3):
            await sandbox.advance(100)
            await broker.ask_ok(RequestCode.BROKER_HEARTBEAT, **EXTERNAL)
        assert "T" in sandbox.name_server.topic_names()
        await sandbox.advance(119)
        assert "T" in sandbox.name_server.topic_names()
        await sandbox.advance(7)
        assert "T" not in sandbox.name_server.topic_names()
        assert broker.is_closed
        assert "TBW102" in sandbox.name_server.topic_names()  # the sandbox's own broker does not expire
        await broker.aclose()


async def test_a_broker_may_say_how_long_it_is_to_be_waited_for() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        broker = await Peer.of_name_server(sandbox)
        fields = {**EXTERNAL, "heartbeatTimeoutMillis": 10_000}
        await broker.ask_ok(RequestCode.REGISTER_BROKER, registration(1, "T", "U"), **fields)
        await sandbox.advance(16)
        assert "T" not in sandbox.name_server.topic_names()
        await broker.aclose()


def test_a_first_registration_with_one_topic_is_refused_by_5_and_leaves_the_name_behind() -> None:
    async def scenario(release: str) -> tuple[int, bool]:
        async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
            broker = await Peer.of_name_server(sandbox)
            answer = await broker.ask(RequestCode.REGISTER_BROKER, registration(1, "T"), **EXTERNAL)
            found = bool(await queues(broker, "T"))
            assert "ext" in (await broker.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO))["brokerAddrTable"]
            await broker.ask_ok(RequestCode.REGISTER_BROKER, registration(2, "T", "U"), **EXTERNAL)
            assert await queues(broker, "U")
            await broker.aclose()
            return answer.code, found

    assert run(scenario("5.4.0")) == (ResponseCode.SYSTEM_ERROR, False)
    assert run(scenario("4.9.7")) == (ResponseCode.SUCCESS, True)


async def test_topics_change_with_the_version_and_stay_when_they_are_not_named_any_more() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_name_server(sandbox)
        await peer.ask_ok(RequestCode.REGISTER_BROKER, registration(1, "T", "U"), **EXTERNAL)
        await peer.ask_ok(RequestCode.REGISTER_BROKER, registration(1, "T", "V", perm=4), **EXTERNAL)
        assert [(await queues(peer, name))[0]["perm"] for name in "TUV"] == [6, 6, 4]
        await peer.ask_ok(RequestCode.REGISTER_BROKER, registration(2, "T", perm=4), **EXTERNAL)
        assert [(await queues(peer, name))[0]["perm"] for name in "TUV"] == [4, 6, 4]
        await peer.aclose()


async def test_a_check_sum_that_does_not_match_is_refused() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_name_server(sandbox)
        body = registration(1, "T", "U")
        answer = await peer.ask(RequestCode.REGISTER_BROKER, body, **EXTERNAL, bodyCrc32=1)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
        await peer.ask_ok(RequestCode.REGISTER_BROKER, body, **EXTERNAL, bodyCrc32=zlib.crc32(body) & 0x7FFFFFFF)
        await peer.aclose()


async def test_a_compressed_registration_is_read_and_a_broken_or_endless_one_refused() -> None:
    def text(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    plain = (
        text(b'{"counter":1,"timestamp":5}')
        + (2).to_bytes(4, "big")
        + text(b"T 3 4 6 SINGLE_TAG")
        + text(b'U 1 1 4 SINGLE_TAG {"message.type":"FIFO"}')
        + text(b"[]")
    )

    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_name_server(sandbox)
        for bad in (zlib.compress(plain)[:-8], zlib.compress(plain[:50]), b"x", zlib.compress(bytes(33 << 20), 1)):
            answer = await peer.ask(RequestCode.REGISTER_BROKER, bad, **EXTERNAL, compressed=True)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "Failed to decode RegisterBrokerBody" in (answer.remark or "")
        await peer.ask_ok(RequestCode.REGISTER_BROKER, zlib.compress(plain), **EXTERNAL, compressed=True)
        assert [(await queues(peer, name))[0]["writeQueueNums"] for name in "TU"] == [4, 1]
        await peer.aclose()


async def test_a_slave_is_told_its_master() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_name_server(sandbox)
        await peer.ask_ok(RequestCode.REGISTER_BROKER, registration(1, "T", "U"), **EXTERNAL)
        slave = {**EXTERNAL, "brokerId": 1, "brokerAddr": "10.0.0.1:2"}
        answer = await peer.ask_ok(RequestCode.REGISTER_BROKER, registration(1, "T", "U"), **slave)
        assert answer.ext_fields == {"haServerAddr": "h:1", "masterAddr": "10.0.0.1:1"}
        await peer.ask_ok(RequestCode.UNREGISTER_BROKER, **EXTERNAL)
        route = await peer.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T")
        assert route["brokerDatas"][0]["brokerAddrs"] == {"1": "10.0.0.1:2"}
        await peer.aclose()


async def test_write_permission_taken_here_comes_back_when_the_topic_changes() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer, broker = await Peer.of_name_server(sandbox), sandbox.brokers["broker-a"]
        broker.topics.create_for_group("T", 1)
        broker.topics.create_for_group("U", 1)
        await peer.ask_ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        await sandbox.advance(60)  # registrations that tell of nothing new
        assert [(await queues(peer, name))[0]["perm"] for name in "TU"] == [4, 4]
        broker.topics.change("T", read_queue_count=2)
        assert [(await queues(peer, name))[0]["perm"] for name in "TU"] == [6, 4]
        await peer.aclose()


async def test_the_order_of_a_topic_is_told_when_that_is_switched_on() -> None:
    async with Sandbox(clock=VirtualClock()) as sandbox:
        peer = await Peer.of_name_server(sandbox)
        where = {"namespace": "ORDER_TOPIC_CONFIG", "key": "TBW102"}
        await peer.ask_ok(RequestCode.PUT_KV_CONFIG, **where, value="broker-a:8")
        route = await peer.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102")
        assert "orderTopicConf" not in route
        await peer.ask_ok(RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true\n")
        route = await peer.ask_json(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102")
        assert route["orderTopicConf"] == "broker-a:8"
        answer = await peer.ask_ok(RequestCode.REGISTER_BROKER, registration(1, "T", "U"), **EXTERNAL)
        assert loads(answer.body) == {"table": {"TBW102": "broker-a:8"}}
        await peer.aclose()


def test_unknown_requests_are_answered_by_5_and_not_by_4() -> None:
    async def scenario(release: str) -> bool:
        async with Sandbox(clock=VirtualClock(), plays=release) as sandbox:
            peer = await Peer.of_name_server(sandbox)
            unknown = peer.start(999)
            await peer.ask_ok(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            is_answered = unknown.done()
            await peer.aclose()
            return is_answered

    assert run(scenario("5.4.0"))
    assert not run(scenario("4.9.7"))


async def test_a_broker_of_the_sandbox_that_stops_is_forgotten_and_comes_back() -> None:
    async with Sandbox(brokers=2, clock=VirtualClock()) as sandbox:
        peer = await Peer.of_name_server(sandbox)
        assert len(await queues(peer, "TBW102")) == 2
        await sandbox.brokers["broker-b"].stop()
        assert [queue["brokerName"] for queue in await queues(peer, "TBW102")] == ["broker-a"]
        await sandbox.brokers["broker-b"].resume()
        assert len(await queues(peer, "TBW102")) == 2
        await peer.aclose()
