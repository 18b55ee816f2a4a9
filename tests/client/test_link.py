from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from rmqctl.client.link import Handler, Link
from rmqctl.errors import DeadlineError, LocalProtocolError, RemoteProtocolError, UnreachableError
from rmqctl.net.clock import VirtualClock
from rmqctl.net.stream import MemoryStream
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection
from rmqctl.protocol.flags import CommandFlag
from tests.scripted_peer import DROP, SILENCE, Late, Raw, Reply, ScriptedServer, ok

ASK = 9_001
OTHER = 9_002
PUSH = 9_003


def _linked(
    table: Mapping[int, Reply], handlers: Mapping[int, Handler] | None = None
) -> tuple[VirtualClock, ScriptedServer, Link]:
    clock = VirtualClock()
    server = ScriptedServer("broker:1", clock, table)
    return clock, server, Link(server.accept(), clock, handlers)


def _numbered(request: Command) -> Command:
    return ok(number=request.ext_fields["number"])


def _ask(number: int) -> Command:
    return Command(ASK, {"number": str(number)})


async def test_a_request_gets_its_answer() -> None:
    _, server, link = _linked({ASK: ok(b"body", name="value")})
    answer = await link.request(Command(ASK, {"x": "1"}), 5)
    assert (answer.code, answer.ext_fields, answer.body) == (0, {"name": "value"}, b"body")
    assert [request.ext_fields for request in server.asked] == [{"x": "1"}]
    await link.aclose()


async def test_an_answer_with_an_error_code_is_returned_like_any_other() -> None:
    _, _, link = _linked({})
    answer = await link.request(Command(ASK), 5)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    await link.aclose()


async def test_requests_are_pipelined_on_one_connection() -> None:
    clock, server, link = _linked({ASK: SILENCE})
    requests = [asyncio.ensure_future(link.request(_ask(number), 5)) for number in range(50)]
    await clock.await_idle()
    assert len(server.asked) == 50
    await link.aclose()
    await asyncio.gather(*requests, return_exceptions=True)


async def test_answers_that_come_out_of_order_reach_their_own_requests() -> None:
    clock, _, link = _linked({ASK: lambda request: Late(10 - int(request.ext_fields["number"]), _numbered)})
    done: list[str] = []

    async def ask(number: int) -> None:
        answer = await link.request(_ask(number), 60)
        assert answer.ext_fields["number"] == str(number)
        done.append(answer.ext_fields["number"])

    asking = asyncio.gather(*(ask(number) for number in range(10)))
    await clock.advance(10)
    await asking
    assert done == [str(number) for number in reversed(range(10))]
    await link.aclose()


async def test_an_answer_in_many_small_pieces_is_one_answer() -> None:
    clock, server, link = _linked({ASK: SILENCE})
    asking = asyncio.ensure_future(link.request(Command(ASK), 5))
    await clock.await_idle()
    served = server.connections[0]
    for byte in served.protocol.send_response(server.asked[0], ok(b"body")):
        served.stream.write(bytes([byte]))
        await asyncio.sleep(0)
    assert (await asking).body == b"body"
    await link.aclose()


async def test_a_request_without_an_answer_ends_at_its_own_time_limit() -> None:
    clock, _, link = _linked({ASK: SILENCE})
    asking = asyncio.ensure_future(link.request(Command(ASK), 5))
    await clock.advance(4.9)
    assert not asking.done()
    await clock.advance(0.1)
    with pytest.raises(DeadlineError, match=r"broker:1: no answer within 5.0 s"):
        await asking
    assert not link.closed
    await link.aclose()


async def test_a_time_limit_of_zero_expires_and_does_not_hang() -> None:
    clock, _, link = _linked({ASK: SILENCE})
    asking = asyncio.ensure_future(link.request(Command(ASK), 0))
    await clock.advance(0)
    with pytest.raises(DeadlineError):
        await asking
    await link.aclose()


async def test_nothing_is_kept_of_requests_that_ended_however_they_ended() -> None:
    clock, server, link = _linked({ASK: ok(), OTHER: SILENCE})
    await link.request(Command(ASK), 5)
    timed_out = asyncio.ensure_future(link.request(Command(OTHER), 5))
    cancelled = asyncio.ensure_future(link.request(Command(OTHER), 50))
    await clock.advance(6)
    cancelled.cancel()
    results = await asyncio.gather(timed_out, cancelled, return_exceptions=True)
    assert [type(result) for result in results] == [DeadlineError, asyncio.CancelledError]
    assert link._connection.outstanding_count == 0
    assert link._waiting == {}
    assert len(server.asked) == 3
    await link.aclose()


async def test_an_answer_that_comes_too_late_is_ignored_and_the_connection_lives_on() -> None:
    clock, _, link = _linked({ASK: Late(6, ok(b"late")), OTHER: ok(b"in time")})
    asking = asyncio.ensure_future(link.request(Command(ASK), 5))
    await clock.advance(5)
    with pytest.raises(DeadlineError):
        await asking
    await clock.advance(2)
    assert (await link.request(Command(OTHER), 5)).body == b"in time"
    await link.aclose()


async def test_a_second_answer_to_one_request_is_ignored() -> None:
    clock, server, link = _linked({ASK: ok(b"first"), OTHER: ok(b"other")})
    assert (await link.request(Command(ASK), 5)).body == b"first"
    served = server.connections[0]
    served.stream.write(served.protocol.send_response(server.asked[0], ok(b"second")))
    await clock.await_idle()
    assert (await link.request(Command(OTHER), 5)).body == b"other"
    await link.aclose()


async def test_a_connection_that_drops_fails_everything_that_waits_on_it() -> None:
    clock, _, link = _linked({ASK: SILENCE, OTHER: DROP})
    waiting = [asyncio.ensure_future(link.request(Command(ASK), 50)) for _ in range(3)]
    await clock.await_idle()
    waiting.append(asyncio.ensure_future(link.request(Command(OTHER), 50)))
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, UnreachableError)
        assert result.sentence == "broker:1: the connection was closed before the answer arrived."
    assert link.closed
    await link.aclose()


async def test_a_request_on_an_ended_connection_fails_at_once_with_the_reason_of_the_end() -> None:
    _, server, link = _linked({OTHER: DROP})
    with pytest.raises(UnreachableError):
        await link.request(Command(OTHER), 5)
    with pytest.raises(UnreachableError, match="closed before the answer arrived"):
        await link.request(Command(ASK), 5)
    with pytest.raises(UnreachableError, match="closed before the answer arrived"):
        await link.send_oneway(Command(ASK))
    assert server.codes() == [OTHER]


async def test_what_the_peer_wrote_before_it_closed_still_counts() -> None:
    clock, server, link = _linked({ASK: SILENCE})
    asking = asyncio.ensure_future(link.request(Command(ASK), 5))
    await clock.await_idle()
    served = server.connections[0]
    served.stream.write(served.protocol.send_response(server.asked[0], ok(b"last words")))
    await served.stream.aclose()
    assert (await asking).body == b"last words"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "It may not be RocketMQ"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"\x00\x00\x00\x02xx", "too short"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02{]", "not JSON"),
        (b"\x00\x00\x00\x04\x07\x00\x00\x00", "header encoding 7"),
    ],
    ids=["http", "length", "short", "json", "encoding"],
)
async def test_a_peer_that_breaks_the_protocol_fails_everything_and_the_connection_is_closed(
    data: bytes, words: str
) -> None:
    clock, server, link = _linked({ASK: SILENCE, OTHER: Raw(data)})
    waiting = asyncio.ensure_future(link.request(Command(ASK), 50))
    await clock.await_idle()
    with pytest.raises(RemoteProtocolError, match=words):
        await link.request(Command(OTHER), 50)
    with pytest.raises(RemoteProtocolError, match=words):
        await waiting
    await clock.await_idle()
    assert link.closed
    assert server.connections == []


async def test_a_request_that_can_not_be_encoded_leaves_the_connection_as_it_was() -> None:
    _, server, link = _linked({ASK: ok()})
    with pytest.raises(LocalProtocolError):
        await link.request(Command(ASK, body=b"x" * (17 << 20)), 5)
    await link.request(Command(ASK), 5)
    assert len(server.asked) == 1
    await link.aclose()


async def test_a_oneway_request_is_sent_and_not_waited_for() -> None:
    clock, server, link = _linked({ASK: SILENCE})
    await link.send_oneway(Command(ASK, flag=CommandFlag.ONEWAY))
    await clock.await_idle()
    assert [request.is_oneway for request in server.asked] == [True]
    assert link._connection.outstanding_count == 0
    await link.aclose()


async def test_a_pushed_request_reaches_its_handler_and_is_answered_with_what_that_returns() -> None:
    seen: list[tuple[str, Command]] = []

    async def handler(address: str, request: Command) -> Command:
        seen.append((address, request))
        return ok(b"info")

    _, server, link = _linked({}, {PUSH: handler})
    answer = await server.push(Command(PUSH, {"consumerGroup": "g"}))
    assert answer is not None
    assert (answer.code, answer.body) == (0, b"info")
    assert [(address, request.ext_fields) for address, request in seen] == [("broker:1", {"consumerGroup": "g"})]
    await link.aclose()


async def test_a_slow_handler_does_not_hold_up_answers() -> None:
    async def handler(address: str, request: Command) -> Command:
        await asyncio.Event().wait()
        raise AssertionError

    clock, server, link = _linked({ASK: ok(b"quick")}, {PUSH: handler})
    pushing = asyncio.ensure_future(server.push(Command(PUSH)))
    await clock.await_idle()
    assert (await link.request(Command(ASK), 5)).body == b"quick"
    await link.aclose()
    assert not pushing.done()
    pushing.cancel()


async def test_an_unknown_pushed_request_is_answered_as_not_supported() -> None:
    _, server, link = _linked({})
    answer = await server.push(Command(PUSH))
    assert answer is not None
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert str(PUSH) in (answer.remark or "")
    await link.aclose()


async def test_a_pushed_oneway_request_is_handled_and_never_answered() -> None:
    seen: list[int] = []

    async def handler(address: str, request: Command) -> Command:
        seen.append(request.code)
        return ok()

    client_end, server_end = MemoryStream.pair("client", "broker:1")
    link = Link(client_end, VirtualClock(), {PUSH: handler})
    for code in (PUSH, OTHER):
        server_end.write(Connection().send_request(Command(code, flag=CommandFlag.ONEWAY))[1])
    await VirtualClock().await_idle()
    await server_end.aclose()
    assert seen == [PUSH]
    assert await server_end.receive() == b""
    await link.aclose()


async def test_a_handler_may_decide_not_to_answer() -> None:
    async def handler(address: str, request: Command) -> None:
        return None

    clock, server, link = _linked({}, {PUSH: handler})
    pushing = asyncio.ensure_future(server.push(Command(PUSH)))
    await clock.await_idle()
    assert not pushing.done()
    pushing.cancel()
    await link.aclose()


async def test_a_handler_that_fails_is_answered_as_a_system_error() -> None:
    async def handler(address: str, request: Command) -> Command:
        raise UnreachableError("elsewhere:1", "connection refused")

    _, server, link = _linked({ASK: ok()}, {PUSH: handler})
    answer = await server.push(Command(PUSH))
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "elsewhere:1: connection refused."
    await link.request(Command(ASK), 5)
    await link.aclose()


async def test_closing_fails_what_waits_and_may_be_done_twice() -> None:
    clock, server, link = _linked({ASK: SILENCE})
    waiting = asyncio.ensure_future(link.request(Command(ASK), 5))
    await clock.await_idle()
    await link.aclose()
    await link.aclose()
    with pytest.raises(UnreachableError, match="closed here"):
        await waiting
    await clock.await_idle()
    assert server.connections == []


async def test_a_link_that_is_closed_before_it_ever_read_closes_its_stream() -> None:
    clock, server, link = _linked({})
    await link.aclose()
    await clock.await_idle()
    assert server.connections == []


def _flood(request: Command) -> Raw:
    """Return frames that nobody asked for: requests with an unknown code, and answers to nothing."""
    peer = Connection()
    pushed = b"".join(peer.send_request(Command(OTHER))[1] for _ in range(600))
    late = b"".join(peer.send_response(Command(ASK, opaque=9_999_999), ok()) for _ in range(600))
    return Raw(pushed + late)


async def test_a_peer_that_floods_is_cut_off_and_named() -> None:
    _, _, link = _linked({ASK: _flood})
    with pytest.raises(RemoteProtocolError, match=r"^broker:1: .* 1000 frames that rmqctl did not ask for\.$"):
        await link.request(Command(ASK), 5)
    assert link.closed
    await link.aclose()


async def test_a_connection_may_live_through_any_number_of_late_answers_as_long_as_others_come() -> None:
    _, server, link = _linked({ASK: ok(), OTHER: SILENCE})
    for _ in range(3):
        late = b"".join(
            server.connections[0].protocol.send_response(Command(ASK, opaque=9_999_999), ok()) for _ in range(600)
        )
        server.connections[0].stream.write(late)
        assert (await link.request(Command(ASK), 5)).code == 0
    await link.aclose()


async def test_requests_that_are_served_are_no_flood() -> None:
    served: list[int] = []

    async def serve(_: str, command: Command) -> None:
        served.append(command.code)

    clock, server, link = _linked({ASK: ok()}, {PUSH: serve})
    await link.request(Command(ASK), 5)
    peer = Connection()
    data = b"".join(peer.send_request(Command(PUSH, flag=CommandFlag.ONEWAY))[1] for _ in range(1_500))
    server.connections[0].stream.write(data)
    await clock.await_idle()
    assert len(served) == 1_500
    assert not link.closed
    await link.aclose()
