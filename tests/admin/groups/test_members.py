from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from rmqctl.admin.groups.members import fetch_running_infos
from rmqctl.model.group import GroupConnections, Member
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.versions import OUR_VERSION
from tests.admin.cluster import held, running
from tests.scripted_peer import DROP, SILENCE, Late, Reply, ScriptedNetwork, ok, passing, refused


def _connected(*client_ids: str) -> GroupConnections:
    members = tuple(Member(client_id, "192.0.2.2:50000", "JAVA", OUR_VERSION) for client_id in client_ids)
    return GroupConnections(members, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", {})


async def test_each_member_is_asked_through_the_first_broker_that_sees_it() -> None:
    network = ScriptedNetwork()
    answer = running({("T", "broker-a", 0): held(3, 10, 12, 10)}, pullBatchSize="32")
    servers = [network.add(address, {RequestCode.GET_CONSUMER_RUNNING_INFO: answer}) for address in ("a:1", "b:1")]
    async with network.client("ns:1") as client:
        answers = await fetch_running_infos(client, "G", {"a:1": _connected("c1", "c2"), "b:1": _connected("c2", "c3")})
    assert sorted(answers.ok) == ["c1", "c2", "c3"]
    assert answers.ok["c1"].properties == {"pullBatchSize": "32"}
    asked = [sorted(request.ext_fields["clientId"] for request in server.asked) for server in servers]
    assert asked == [["c1", "c2"], ["c3"]]
    assert {request.ext_fields["jstackEnable"] for server in servers for request in server.asked} == {"false"}


async def test_a_broker_relays_at_most_eight_questions_at_once() -> None:
    clock = VirtualClock()
    network = ScriptedNetwork(clock)
    server = network.add("a:1", {RequestCode.GET_CONSUMER_RUNNING_INFO: Late(1, running())})
    async with network.client("ns:1") as client:
        connected = {"a:1": _connected(*(f"c{number}" for number in range(20)))}
        asking = asyncio.ensure_future(fetch_running_infos(client, "G", connected))
        counts = []
        for _ in range(3):
            await clock.await_idle()
            counts.append(len(server.asked))
            await clock.advance(1)
        assert counts == [8, 16, 20]
        assert len((await asking).ok) == 20


async def test_a_member_that_answers_nothing_could_not_tell() -> None:
    """Go clients for some seconds after their first messages."""

    network = ScriptedNetwork()
    remark = "json marshal error: json: unsupported value: NaN"
    network.add("a:1", {RequestCode.GET_CONSUMER_RUNNING_INFO: replace(ok(b""), remark=remark)})
    async with network.client("ns:1") as client:
        answers = await fetch_running_infos(client, "G", {"a:1": _connected("c1")})
    assert answers.failed["c1"].sentence == f"c1 could not report its running info: {remark}"


@pytest.mark.parametrize(
    ("first", "is_asked_elsewhere"),
    [
        pytest.param(SILENCE, True, id="no-answer"),
        pytest.param(DROP, True, id="the-connection-ends"),
        pytest.param(refused(ResponseCode.CONSUME_MSG_TIMEOUT, "consumer <G> <c1> Timeout"), True, id="not-relayed"),
        pytest.param(refused(ResponseCode.SYSTEM_ERROR, "The Consumer <G> <c1> not online"), True, id="not-there"),
        pytest.param(ok(b""), False, id="the-members-own-failure"),
    ],
)
async def test_a_member_is_asked_through_another_broker_when_one_does_not_reach_it(
    first: Reply, is_asked_elsewhere: bool
) -> None:
    clock = VirtualClock()
    network = ScriptedNetwork(clock)
    network.add("a:1", {RequestCode.GET_CONSUMER_RUNNING_INFO: first})
    server = network.add("b:1", {RequestCode.GET_CONSUMER_RUNNING_INFO: running()})
    async with network.client("ns:1") as client:
        connected = {"a:1": _connected("c1"), "b:1": _connected("c1")}
        answers = await passing(clock, fetch_running_infos(client, "G", connected))
    assert (list(answers.ok), len(server.asked)) == ((["c1"], 1) if is_asked_elsewhere else ([], 0))


async def test_a_silent_member_takes_two_attempts_whatever_the_number_of_brokers() -> None:
    clock = VirtualClock()
    network = ScriptedNetwork(clock)
    addresses = [f"{letter}:1" for letter in "abcdef"]
    for address in addresses:
        network.add(address, {RequestCode.GET_CONSUMER_RUNNING_INFO: SILENCE})
    async with network.client("ns:1", timeout_s=9) as client:
        asking = fetch_running_infos(client, "G", {address: _connected("c1") for address in addresses})
        answers = await passing(clock, asking)
    assert list(answers.failed) == ["c1"]
    assert clock.monotonic_s() <= 6.5
