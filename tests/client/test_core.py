from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmqctl.client.auth import Credentials, signed
from rmqctl.client.core import Client
from rmqctl.errors import (
    BrokerError,
    CutShortError,
    DeadlineError,
    NotAskedError,
    NotAuthorisedError,
    NotFoundError,
    RemoteProtocolError,
    UnreachableError,
)
from rmqctl.model.route import BrokerData
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command, HeaderEncoding
from tests.scripted_peer import DROP, SILENCE, Late, Raw, ScriptedNetwork, ok, passing, refused, run

ASK = 9_001
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
NO_ROUTE = refused(ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server for the topic: T")
ROUTE_BODY = b"""{"brokerDatas":[{"brokerAddrs":{"0":"a:1"},"brokerName":"broker-a","cluster":"C"}],
"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":2,"writeQueueNums":2,"topicSysFlag":0}]}"""
BROKER = BrokerData("C", "broker-a", {0: "master:1", 2: "slave2:1", 1: "slave1:1"})


def _network() -> tuple[VirtualClock, ScriptedNetwork]:
    clock = VirtualClock()
    return clock, ScriptedNetwork(clock)


# One address


async def test_a_read_that_loses_its_connection_is_asked_once_more_on_a_fresh_one() -> None:
    _, network = _network()
    server = network.add("a:1", {ASK: ok(b"answer")})
    server.fail_next(ASK, DROP)
    async with network.client("ns:1") as client:
        assert (await client.ask("a:1", Command(ASK))).body == b"answer"
    assert server.codes() == [ASK, ASK]
    assert network.attempts == ["a:1", "a:1"]


async def test_a_read_that_loses_its_connection_twice_fails() -> None:
    _, network = _network()
    server = network.add("a:1", {ASK: DROP})
    async with network.client("ns:1") as client:
        with pytest.raises(UnreachableError, match="a:1: the connection was closed before the answer arrived"):
            await client.ask("a:1", Command(ASK))
    assert server.codes() == [ASK, ASK]


async def test_a_read_that_times_out_is_not_asked_again() -> None:
    clock, network = _network()
    server = network.add("a:1", {ASK: SILENCE})
    async with network.client("ns:1", timeout_s=9) as client:
        with pytest.raises(DeadlineError, match=r"a:1: no answer within 3.0 s"):
            await passing(clock, client.ask("a:1", Command(ASK)))
    assert server.codes() == [ASK]
    assert clock.monotonic_s() == 3.0


async def test_a_refused_connection_is_tried_once() -> None:
    _, network = _network()
    async with network.client("ns:1") as client:
        with pytest.raises(UnreachableError, match="a:1: connection refused"):
            await client.ask("a:1", Command(ASK))
    assert network.attempts == ["a:1"]


async def test_requests_that_wait_while_the_connection_drops_are_all_answered_by_the_fresh_one() -> None:
    clock, network = _network()
    server = network.add("a:1", {ASK: ok()})
    for _ in range(10):
        server.fail_next(ASK, SILENCE)
    async with network.client("ns:1") as client:
        asking = asyncio.gather(*(client.ask("a:1", Command(ASK)) for _ in range(10)))
        await clock.await_idle()
        await server.drop()
        assert [answer.code for answer in await asking] == [0] * 10
    assert network.attempts == ["a:1", "a:1"]


async def test_a_protocol_error_is_not_asked_again() -> None:
    _, network = _network()
    server = network.add("a:1", {ASK: Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")})
    async with network.client("ns:1") as client:
        with pytest.raises(RemoteProtocolError):
            await client.ask("a:1", Command(ASK))
    assert server.codes() == [ASK]


async def test_at_most_64_requests_are_in_flight_to_one_address() -> None:
    clock, network = _network()
    server = network.add("a:1", {ASK: Late(1, ok())})
    other = network.add("b:1", {ASK: ok()})
    async with network.client("ns:1") as client:
        asking = asyncio.gather(*(client.ask("a:1", Command(ASK)) for _ in range(150)))
        await clock.await_idle()
        assert len(server.asked) == 64
        await client.ask("b:1", Command(ASK))
        assert len(other.asked) == 1
        await clock.advance(1)
        assert len(server.asked) == 128
        await clock.advance(2)
        await asking
        assert len(server.asked) == 150


async def test_the_deadline_bounds_everything_that_is_asked_through_one_client() -> None:
    clock, network = _network()
    network.add("a:1", {ASK: SILENCE})
    async with network.client("ns:1", timeout_s=6) as client:
        for kind in (DeadlineError, DeadlineError, DeadlineError, NotAskedError, NotAskedError):
            with pytest.raises(kind) as caught:
                await passing(clock, client.ask("a:1", Command(ASK)), step_s=0.01)
            assert type(caught.value) is kind
    # The last requests were not sent: that is no silence of the server's.
    assert len(network.servers["a:1"].asked) == 3
    assert caught.value.name == "NOT_ASKED"
    assert caught.value.sentence == "a:1: not asked: the command's deadline of 6 s was over."
    assert 6 <= clock.monotonic_s() < 6.1


@pytest.mark.parametrize(("before_s", "kind"), [(4.5, DeadlineError), (5.5, CutShortError)])
async def test_little_time_to_answer_is_no_silence(before_s: float, kind: type[DeadlineError]) -> None:
    clock, network = _network()
    network.add("a:1", {ASK: SILENCE})
    async with network.client("ns:1", timeout_s=6) as client:
        await clock.advance(before_s)
        with pytest.raises(kind) as caught:
            await passing(clock, client.ask("a:1", Command(ASK)), step_s=0.01)
    assert type(caught.value) is kind
    assert caught.value.name == "TIMED_OUT"


@pytest.mark.parametrize(("deadline_s", "said"), [(0.999961, "1"), (0.05, "0.05"), (10.0, "10"), (3600.0, "3600")])
def test_a_deadline_is_told_as_it_was_given(deadline_s: float, said: str) -> None:
    assert f"deadline of {said} s was over" in NotAskedError("a:1", deadline_s).sentence


async def test_connecting_counts_against_the_deadline_as_well() -> None:
    clock, network = _network()
    network.hanging.add("a:1")
    async with network.client("ns:1", timeout_s=6) as client:
        with pytest.raises(DeadlineError, match=r"no answer within 2.0 s"):
            await passing(clock, client.ask("a:1", Command(ASK)))
    assert network.attempts == ["a:1"]


async def test_an_error_code_is_an_error_with_its_name_its_remark_and_a_way_to_learn_more() -> None:
    _, network = _network()
    network.add("a:1", {ASK: refused(ResponseCode.SYSTEM_ERROR, " it broke \n")})
    async with network.client("ns:1") as client:
        with pytest.raises(BrokerError) as caught:
            await client.ask("a:1", Command(ASK))
    error = caught.value
    assert error.sentence == "a:1 answered SYSTEM_ERROR (1): it broke"
    assert (error.name, error.code, error.remark, error.exit_code) == ("SYSTEM_ERROR", 1, "it broke", 1)
    assert error.hint == "rmqctl explain 1"


async def test_an_unknown_error_code_keeps_its_number() -> None:
    _, network = _network()
    network.add("a:1", {ASK: refused(31_999)})
    async with network.client("ns:1") as client:
        with pytest.raises(BrokerError, match=r"a:1 answered CODE_31999 \(31999\)"):
            await client.ask("a:1", Command(ASK))


async def test_a_remark_of_several_lines_is_told_in_one() -> None:
    _, network = _network()
    network.add("a:1", {ASK: refused(1, "No such thing\nSee https://example.org\tfor details.")})
    async with network.client("ns:1") as client:
        with pytest.raises(BrokerError) as caught:
            await client.ask("a:1", Command(ASK))
    assert caught.value.sentence.endswith("No such thing See https://example.org for details.")


@pytest.mark.parametrize(
    "answer",
    [
        # 4.9: SYSTEM_ERROR, known by its remark; 5.x: NO_PERMISSION.
        refused(1, "org.apache.rocketmq.acl.common.AclException: No acl config for mallory, \norg.apache..."),
        refused(ResponseCode.NO_PERMISSION, "User:mallory has no permission to access Topic:T from 192.0.2.7."),
        refused(ResponseCode.NO_PERMISSION),
    ],
    ids=["4.9", "5.x", "without a remark"],
)
async def test_a_refusal_by_access_control_is_an_authorisation_error(answer: Command) -> None:
    _, network = _network()
    network.add("a:1", {ASK: answer})
    async with network.client("ns:1") as client:
        with pytest.raises(NotAuthorisedError) as caught:
            await client.ask("a:1", Command(ASK))
    assert (caught.value.exit_code, caught.value.name) == (4, "NOT_AUTHORISED")
    assert caught.value.sentence.startswith("a:1 refused the request: ")
    assert "\n" not in caught.value.sentence
    assert not caught.value.sentence.endswith("..")


# A broker


async def test_the_master_is_asked_first() -> None:
    _, network = _network()
    for address in BROKER.addresses.values():
        network.add(address, {ASK: ok(address.encode())})
    async with network.client("ns:1") as client:
        answer = await client.ask_broker(BROKER, Command(ASK))
    assert (answer.command.body, answer.address, answer.from_slave) == (b"master:1", "master:1", False)
    assert network.attempts == ["master:1"]


@pytest.mark.parametrize("reply", [None, DROP, SILENCE, Raw(b"\xff" * 20)], ids=["down", "drop", "silent", "garbage"])
async def test_a_slave_answers_when_the_master_does_not(reply: object) -> None:
    clock, network = _network()
    if reply is not None:
        network.add("master:1", {ASK: reply})  # type: ignore[dict-item]
    network.add("slave2:1", {ASK: ok(b"from slave 2")})
    async with network.client("ns:1") as client:
        answer = await passing(clock, client.ask_broker(BROKER, Command(ASK)))
    assert (answer.command.body, answer.address, answer.from_slave) == (b"from slave 2", "slave2:1", True)


async def test_what_a_slave_does_not_find_is_not_the_masters_answer() -> None:
    _, network = _network()
    network.add("slave1:1", {ASK: refused(22)})
    async with network.client("ns:1") as client:
        with pytest.raises(BrokerError):
            await client.ask_broker(BROKER, Command(ASK))
        assert list(client.silent_masters) == [BROKER.broker_name]


async def test_a_refusal_by_the_master_is_final() -> None:
    _, network = _network()
    network.add("master:1", {ASK: refused(1)})
    network.add("slave1:1", {ASK: ok()})
    async with network.client("ns:1") as client:
        with pytest.raises(BrokerError):
            await client.ask_broker(BROKER, Command(ASK))
    assert network.attempts == ["master:1"]


async def test_the_masters_error_stands_when_no_replica_answers() -> None:
    _, network = _network()
    async with network.client("ns:1") as client:
        with pytest.raises(UnreachableError, match="master:1: connection refused"):
            await client.ask_broker(BROKER, Command(ASK))
    assert network.attempts == ["master:1", "slave1:1", "slave2:1"]


async def test_a_broker_without_a_master_is_asked_at_its_slave() -> None:
    _, network = _network()
    network.add("slave1:1", {ASK: ok()})
    async with network.client("ns:1") as client:
        answer = await client.ask_broker(BrokerData("C", "broker-a", {1: "slave1:1"}), Command(ASK))
    assert answer.from_slave


async def test_a_broker_without_an_address_is_unreachable() -> None:
    _, network = _network()
    async with network.client("ns:1") as client:
        with pytest.raises(UnreachableError, match="broker-a: the name server does not list its address"):
            await client.ask_broker(BrokerData("C", "broker-a", {}), Command(ASK))


async def test_only_a_master_is_written_to() -> None:
    _, network = _network()
    async with network.client("ns:1") as client:
        assert client.require_master(BrokerData("C", "broker-a", {0: "a:1", 1: "s:1"})) == "a:1"
        for addresses, reason in (
            ({1: "s:1"}, "no master is registered"),
            ({}, "the name server does not list its address"),
        ):
            with pytest.raises(UnreachableError, match=f"broker-a: {reason}"):
                client.require_master(BrokerData("C", "broker-a", addresses))


# Name servers


async def test_the_next_name_server_answers_for_one_that_does_not() -> None:
    clock, network = _network()
    network.hanging.add("silent:1")
    network.add("web:1", {ASK: Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")})
    network.add("good:1", {ASK: ok(b"answer")})
    async with network.client("closed:1", "silent:1", "web:1", "good:1") as client:
        assert (await passing(clock, client.ask_name_server(Command(ASK)))).body == b"answer"
    assert network.attempts == ["closed:1", "silent:1", "web:1", "good:1"]


async def test_the_name_server_that_answered_is_asked_first_from_then_on() -> None:
    clock, network = _network()
    silent = network.add("silent:1", {ASK: SILENCE})
    network.add("good:1", {ASK: ok(b"answer")})
    async with network.client("silent:1", "good:1") as client:
        for _ in range(3):
            assert (await passing(clock, client.ask_name_server(Command(ASK)))).body == b"answer"
    assert silent.codes() == [ASK]


async def test_the_only_name_server_that_does_not_answer_is_named_with_a_hint() -> None:
    _, network = _network()
    async with network.client("ns:1") as client:
        with pytest.raises(UnreachableError) as caught:
            await client.ask_name_server(Command(ASK))
    assert caught.value.sentence == "Name server ns:1: connection refused."
    assert "-n" in (caught.value.hint or "")
    assert caught.value.exit_code == 6


async def test_when_no_name_server_answers_the_first_ones_error_stands_for_all() -> None:
    _, network = _network()
    async with network.client("ns1:1", "ns2:1") as client:
        with pytest.raises(UnreachableError) as caught:
            await client.ask_name_server(Command(ASK))
    sentence = "Name server ns1:1: connection refused. None of the 2 name servers answered."
    assert caught.value.sentence == str(caught.value) == sentence


async def test_requests_that_share_one_failure_tell_it_in_the_same_words() -> None:
    _, network = _network()
    async with network.client("ns1:1", "ns2:1") as client:
        results = await asyncio.gather(
            *(client.ask_name_server(Command(ASK)) for _ in range(3)), return_exceptions=True
        )
    for result in results:
        assert isinstance(result, UnreachableError)
        assert result.sentence.count("Name server ns1:1") == 1
        assert result.sentence.count("None of the 2") == 1


async def test_a_web_server_in_place_of_a_name_server_is_named_with_its_address() -> None:
    _, network = _network()
    network.add("web:80", {ASK: Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")})
    async with network.client("web:80") as client:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.ask_name_server(Command(ASK))
    assert caught.value.sentence.startswith("Name server web:80: The peer announced a frame of ")
    assert "It may not be RocketMQ." in caught.value.sentence


async def test_an_answer_that_is_no_name_servers_is_named_with_its_address() -> None:
    _, network = _network()
    for address in ("web:80", "web:81"):
        network.add(address, {RequestCode.GET_BROKER_CLUSTER_INFO: Command(0, {}, b'{"brokerAddrTable":[],"a":')})
    async with network.client("web:80", "web:81") as client:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.cluster()
    assert caught.value.sentence.startswith("Name server web:80: ")
    assert caught.value.sentence.endswith(". None of the 2 name servers answered.")
    assert caught.value.hint == "Check that it is the address of a RocketMQ name server (-n, NAMESRV_ADDR)."


async def test_a_silent_name_server_keeps_the_name_of_a_time_out() -> None:
    clock, network = _network()
    network.add("ns:1", {ASK: SILENCE})
    async with network.client("ns:1") as client:
        with pytest.raises(DeadlineError) as caught:
            await passing(clock, client.ask_name_server(Command(ASK)))
    assert caught.value.name == "TIMED_OUT"
    assert caught.value.sentence == "Name server ns:1: no answer within 3.3 s."


@pytest.mark.parametrize("open_ended", [False, True])
async def test_who_stays_gives_a_connection_up_that_its_name_server_does_not_answer_on(*, open_ended: bool) -> None:
    clock, network = _network()
    server = network.add("ns:1", {ASK: SILENCE})
    async with _client(network, open_ended=open_ended) as client:
        with pytest.raises(DeadlineError):
            await passing(clock, client.ask_name_server(Command(ASK)))
        server.table[ASK] = ok()
        await client.ask_name_server(Command(ASK))
    assert network.attempts == ["ns:1"] * (2 if open_ended else 1)


# Routes


async def test_a_route_is_asked_once() -> None:
    _, network = _network()
    server = network.add("ns:1", {ROUTE: ok(ROUTE_BODY)})
    async with network.client("ns:1") as client:
        routes = await asyncio.gather(*(client.route("T") for _ in range(5)), client.route("U"))
        assert await client.route("T") is routes[0]
    assert [request.ext_fields["topic"] for request in server.asked] == ["T", "U"]
    assert [str(mq) for mq in routes[0].readable_queues()] == ["T@broker-a:0", "T@broker-a:1"]


async def test_a_fresh_route_is_asked_each_time_and_says_what_is_so_now() -> None:
    _, network = _network()
    server = network.add("ns:1", {ROUTE: ok(ROUTE_BODY)})
    async with network.client("ns:1") as client:
        old = await client.route("T")
        server.table[ROUTE] = ok(ROUTE_BODY.replace(b'"readQueueNums":2', b'"readQueueNums":3'))
        fresh = await client.fresh_route("T")
        assert (len(old.readable_queues()), len(fresh.readable_queues())) == (2, 3)
        server.table[ROUTE] = NO_ROUTE
        with pytest.raises(NotFoundError, match="Topic T does not exist"):
            await client.fresh_route("T")


async def test_a_topic_without_a_route_is_not_found_and_that_is_asked_once_too() -> None:
    _, network = _network()
    server = network.add("ns:1", {ROUTE: NO_ROUTE})
    async with network.client("ns:1") as client:
        for _ in range(2):
            with pytest.raises(NotFoundError, match="Topic T does not exist"):
                await client.route("T")
    assert len(server.asked) == 1


async def test_another_refusal_of_a_route_is_an_error_of_its_own() -> None:
    _, network = _network()
    network.add("ns:1", {ROUTE: refused(ResponseCode.SYSTEM_ERROR)})
    async with network.client("ns:1") as client:
        with pytest.raises(BrokerError, match="SYSTEM_ERROR"):
            await client.route("T")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"brokerDatas":7,"queueDatas":[]}'])
async def test_a_route_that_can_not_be_read_is_a_protocol_error(body: bytes) -> None:
    _, network = _network()
    network.add("ns:1", {ROUTE: ok(body)})
    async with network.client("ns:1") as client:
        with pytest.raises(RemoteProtocolError):
            await client.route("T")


async def test_a_caller_that_gives_up_leaves_the_route_to_the_others() -> None:
    clock, network = _network()
    server = network.add("ns:1", {ROUTE: Late(1, ok(ROUTE_BODY))})
    async with network.client("ns:1") as client:
        gives_up, waits = (asyncio.ensure_future(client.route("T")) for _ in range(2))
        await clock.await_idle()
        gives_up.cancel()
        await clock.advance(1)
        assert (await waits).topic == "T"
    assert len(server.asked) == 1


# The client's life


async def test_leaving_the_client_closes_every_connection() -> None:
    clock, network = _network()
    servers = [network.add(f"a{number}:1", {ASK: ok()}) for number in range(3)]
    async with network.client("ns:1") as client:
        for server in servers:
            await client.ask(server.address, Command(ASK))
        assert [len(server.connections) for server in servers] == [1, 1, 1]
    await clock.await_idle()
    assert [len(server.connections) for server in servers] == [0, 0, 0]


async def test_a_request_that_is_pushed_to_the_client_reaches_its_handler() -> None:
    clock, network = _network()
    server = network.add("a:1", {ASK: ok()})

    async def handler(address: str, request: Command) -> Command:
        return ok(address.encode())

    client = Client(["ns:1"], clock=clock, connect=network.connect, handlers={40: handler})
    async with client:
        await client.ask("a:1", Command(ASK))
        answer = await server.push(Command(40))
    assert answer is not None
    assert answer.body == b"a:1"


# Signatures


def _client(network: ScriptedNetwork, **settings: Any) -> Client:
    return Client(["ns:1"], clock=network.clock, connect=network.connect, **settings)


_OPERATOR = Credentials("operator", "secret")


def _is_signed(command: Command) -> bool:
    fields = {name: value for name, value in command.ext_fields.items() if name != "Signature"}
    expected = signed(Command(command.code, fields, command.body), _OPERATOR).ext_fields["Signature"]
    return command.ext_fields.get("Signature") == expected


@pytest.mark.parametrize("encoding", HeaderEncoding)
async def test_every_request_is_signed_whoever_is_asked_and_when_it_is_asked_again(encoding: HeaderEncoding) -> None:
    _, network = _network()
    name_server = network.add("ns:1", {ROUTE: ok(ROUTE_BODY)})
    server = network.add("a:1", {ASK: ok()})
    server.fail_next(ASK, DROP)
    async with _client(network, credentials=_OPERATOR, encoding=encoding) as client:
        route = await client.route("T")
        await client.ask_broker(route.brokers[0], Command(ASK, {"b": "ü"}, b"body"))
    asked = [*name_server.asked, *server.asked]
    assert [command.code for command in asked] == [ROUTE, ASK, ASK]
    assert all(_is_signed(command) for command in asked)
    assert {command.encoding for command in asked} == {encoding}


async def test_without_credentials_nothing_is_signed() -> None:
    _, network = _network()
    server = network.add("a:1", {ASK: ok()})
    async with _client(network) as client:
        await client.ask("a:1", Command(ASK, {"b": "c"}))
    assert server.asked[0].ext_fields == {"b": "c"}


# The encoding of headers


@pytest.mark.parametrize(
    ("code", "encoding"),
    [
        (11, HeaderEncoding.ROCKETMQ),
        (32_767, HeaderEncoding.ROCKETMQ),
        (32_768, HeaderEncoding.JSON),
        (200_050, HeaderEncoding.JSON),
    ],
)
async def test_a_code_that_does_not_fit_the_binary_header_goes_as_json(code: int, encoding: HeaderEncoding) -> None:
    _, network = _network()
    server = network.add("a:1", {code: ok(b"answer")})
    async with _client(network, encoding=HeaderEncoding.ROCKETMQ) as client:
        assert (await client.ask("a:1", Command(code, {"topic": "T"}))).body == b"answer"
    (command,) = server.asked
    assert (command.code, command.encoding, command.ext_fields) == (code, encoding, {"topic": "T"})


# Brokers behind other addresses

CLUSTER = RequestCode.GET_BROKER_CLUSTER_INFO
CLUSTER_BODY = (
    b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:1",1:"10.0.0.2:1"},"brokerName":"broker-a",'
    b'"cluster":"C"}},"clusterAddrTable":{}}'
)


@pytest.mark.parametrize(
    ("address_map", "reached"),
    [
        ({"broker-a": "here:1"}, "here:1"),
        ({"10.0.0.1:1": "here:1"}, "here:1"),
        ({"broker-a/1": "here:1"}, "10.0.0.1:1"),
        ({"broker-b": "here:1"}, "10.0.0.1:1"),
    ],
    ids=["by name", "by registered address", "another replica", "another broker"],
)
@pytest.mark.parametrize("source", ["cluster", "route"])
async def test_a_mapped_broker_is_reached_at_its_other_address(
    address_map: dict[str, str], reached: str, source: str
) -> None:
    _, network = _network()
    route_body = ROUTE_BODY.replace(b'"0":"a:1"', b'"0":"10.0.0.1:1"')
    network.add("ns:1", {CLUSTER: ok(CLUSTER_BODY), ROUTE: ok(route_body)})
    for address in ("here:1", "10.0.0.1:1", "10.0.0.2:1"):
        network.add(address, {ASK: ok(address.encode())})
    async with _client(network, address_map=address_map) as client:
        brokers = (await (client.cluster() if source == "cluster" else client.route("T"))).brokers
        answer = await client.ask_broker(brokers[0], Command(ASK))
    assert answer.command.body.decode() == reached
    # It keeps the name that the cluster knows it by.
    assert (answer.address, answer.from_slave) == ("10.0.0.1:1", False)


async def test_a_slave_is_mapped_by_its_id() -> None:
    _, network = _network()
    network.add("ns:1", {CLUSTER: ok(CLUSTER_BODY)})
    network.add("here:2", {ASK: ok(b"slave")})
    async with _client(network, address_map={"broker-a/1": "here:2"}) as client:
        broker = (await client.cluster()).brokers[0]
        answer = await client.ask_broker(broker, Command(ASK))
    assert (answer.command.body, answer.address, answer.from_slave) == (b"slave", "10.0.0.2:1", True)


async def test_a_mapped_address_that_can_not_be_reached_is_named_with_the_one_it_stands_for() -> None:
    _, network = _network()
    network.add("ns:1", {CLUSTER: ok(CLUSTER_BODY)})
    async with _client(network, address_map={"broker-a": "here:1"}) as client:
        broker = (await client.cluster()).brokers[0]
        with pytest.raises(UnreachableError) as caught:
            await client.ask(broker.addresses[0], Command(ASK))
    assert caught.value.sentence == "10.0.0.1:1 (mapped to here:1: connection refused)."


async def test_the_cluster_is_asked_for_once() -> None:
    _, network = _network()
    name_server = network.add("ns:1", {CLUSTER: ok(CLUSTER_BODY)})
    async with _client(network) as client:
        assert await asyncio.gather(client.cluster(), client.cluster()) == [await client.cluster()] * 2
    assert name_server.codes() == [CLUSTER]


# Without a deadline for the whole


async def test_an_open_ended_client_goes_on_while_each_request_has_its_time() -> None:
    clock, network = _network()
    server = network.add("a:1", {ASK: Late(2, ok())})
    async with _client(network, timeout_s=9.0, open_ended=True) as client:
        for _ in range(10):
            await passing(clock, client.ask("a:1", Command(ASK)))
        assert clock.monotonic_s() >= 20
        server.table[ASK] = Late(4, ok())
        with pytest.raises(DeadlineError, match=r"no answer within 3\.0 s"):
            await passing(clock, client.ask("a:1", Command(ASK)))


async def test_a_request_that_the_server_may_hold_has_that_much_more_time_and_room_of_its_own() -> None:
    clock, network = _network()
    server = network.add("b:1", {RequestCode.PULL_MESSAGE: Late(14.0, ok()), RequestCode.GET_BROKER_CONFIG: ok()})

    async with _client(network, open_ended=True) as client:
        held = [
            asyncio.ensure_future(client.ask("b:1", Command(RequestCode.PULL_MESSAGE), held_s=15.0)) for _ in range(100)
        ]
        await clock.advance(1)
        assert len(server.asked) == 100
        # A hundred that are held leave the way free for others.
        await passing(clock, client.ask("b:1", Command(RequestCode.GET_BROKER_CONFIG)))
        await clock.advance(14)
        assert all(answer.result().code == 0 for answer in held)
        server.table[RequestCode.PULL_MESSAGE] = SILENCE
        with pytest.raises(DeadlineError):
            await passing(clock, client.ask("b:1", Command(RequestCode.PULL_MESSAGE), held_s=15.0))


@pytest.mark.parametrize(("busy_count", "is_answered"), [(1, True), (2, True), (3, False)])
def test_a_busy_server_gets_a_moment(busy_count: int, *, is_answered: bool) -> None:
    clock, network = _network()
    server = network.add("a:1", {ASK: ok()})
    for _ in range(busy_count):
        server.fail_next(ASK, refused(ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy"))

    async def scenario() -> None:
        async with network.client("ns:1") as client:
            if is_answered:
                assert (await passing(clock, client.ask("a:1", Command(ASK)), step_s=0.1)).code == ResponseCode.SUCCESS
            else:
                with pytest.raises(BrokerError, match="SYSTEM_BUSY"):
                    await passing(clock, client.ask("a:1", Command(ASK)), step_s=0.1)

    run(scenario())
    assert len(server.asked) == min(busy_count + 1, 3)
