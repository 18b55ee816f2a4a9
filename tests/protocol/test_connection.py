from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.errors import LocalProtocolError, RemoteProtocolError
from rmqctl.protocol.command import Command, HeaderEncoding
from rmqctl.protocol.connection import Connection, Event, RequestReceived, ResponseReceived
from rmqctl.protocol.flags import CommandFlag
from tests.protocol.golden import EXCHANGES, Exchange, decode

ONEWAY = int(CommandFlag.ONEWAY)


def events(connection: Connection, data: bytes) -> list[Event]:
    """Feed the bytes and take all events."""
    connection.receive_data(data)
    taken = []
    while (event := connection.next_event()) is not None:
        taken.append(event)
    return taken


def received(connection: Connection, data: bytes) -> Command:
    (event,) = events(connection, data)
    return event.command


def test_a_request_and_its_answer() -> None:
    client, server = Connection(), Connection()
    opaque, data = client.send_request(Command(105, {"topic": "T"}))
    (asked,) = events(server, data)
    assert isinstance(asked, RequestReceived)
    assert (asked.command.code, asked.command.opaque, asked.command.ext_fields) == (105, opaque, {"topic": "T"})
    (answered,) = events(client, server.send_response(asked.command, Command(0, body=b"route")))
    assert isinstance(answered, ResponseReceived)
    assert (answered.request_code, answered.command.body, answered.command.opaque) == (105, b"route", opaque)
    assert client.outstanding_count == server.outstanding_count == 0


def test_both_sides_ask_with_the_same_opaque() -> None:
    client, broker = Connection(), Connection()
    from_client, asked_by_client = client.send_request(Command(34))
    from_broker, asked_by_broker = broker.send_request(Command(307))
    assert from_client == from_broker
    at_broker, at_client = received(broker, asked_by_client), received(client, asked_by_broker)
    (for_client,) = events(client, broker.send_response(at_broker, Command(0)))
    (for_broker,) = events(broker, client.send_response(at_client, Command(0)))
    assert isinstance(for_client, ResponseReceived)
    assert isinstance(for_broker, ResponseReceived)
    assert (for_client.request_code, for_broker.request_code) == (34, 307)


def test_answers_out_of_order() -> None:
    client, server = Connection(), Connection()
    sent = [client.send_request(Command(code)) for code in (11, 12, 14, 38)]
    assert [opaque for opaque, _ in sent] == [0, 1, 2, 3]
    asked = [event.command for event in events(server, b"".join(data for _, data in sent))]
    assert client.outstanding_count == 4
    answers = b"".join(server.send_response(asked[index], Command(0)) for index in (2, 0, 3, 1))
    codes = [event.request_code for event in events(client, answers) if isinstance(event, ResponseReceived)]
    assert codes == [14, 11, 38, 12]
    assert client.outstanding_count == 0


def test_an_answer_that_nobody_waits_for() -> None:
    client, server = Connection(), Connection()
    (event,) = events(client, server.send_response(Command(1, opaque=99), Command(0)))
    assert event == ResponseReceived(event.command, None)


def test_the_second_answer_to_one_request_is_for_nobody() -> None:
    client, server = Connection(), Connection()
    asked = received(server, client.send_request(Command(105))[1])
    answer = server.send_response(asked, Command(0))
    assert [event.request_code for event in events(client, answer * 2) if isinstance(event, ResponseReceived)] == [
        105,
        None,
    ]


def test_a_forgotten_request_s_answer_is_for_nobody() -> None:
    client, server = Connection(), Connection()
    opaque, data = client.send_request(Command(105))
    client.forget(opaque)
    client.forget(opaque)
    assert client.outstanding_count == 0
    (event,) = events(client, server.send_response(received(server, data), Command(0)))
    assert isinstance(event, ResponseReceived)
    assert event.request_code is None


def test_a_oneway_request_waits_for_nothing_and_must_not_be_answered() -> None:
    client, server = Connection(), Connection()
    _, data = client.send_request(Command(15, flag=ONEWAY))
    assert client.outstanding_count == 0
    asked = received(server, data)
    assert asked.is_oneway
    with pytest.raises(LocalProtocolError, match="must not be answered"):
        server.send_response(asked, Command(0))


@pytest.mark.parametrize("encoding", HeaderEncoding)
def test_an_answer_has_its_request_s_header_encoding(encoding: HeaderEncoding) -> None:
    client, server = Connection(), Connection()
    asked = received(server, client.send_request(Command(14, encoding=encoding))[1])
    for other in HeaderEncoding:
        answer = server.send_response(asked, Command(0, {"offset": "1"}, encoding=other))
        assert answer[4] == encoding
        assert decode(answer).ext_fields == {"offset": "1"}


def test_an_answer_whose_code_does_not_fit_the_binary_header_is_json() -> None:
    asked = decode(Connection().send_request(Command(14, encoding=HeaderEncoding.ROCKETMQ))[1])
    answer = decode(Connection().send_response(asked, Command(200050)))
    assert (answer.code, answer.encoding) == (200050, HeaderEncoding.JSON)


def test_an_answer_in_the_other_encoding_is_read() -> None:
    # 5.4.0 answers binary requests with JSON headers.
    client = Connection()
    opaque, _ = client.send_request(Command(14, encoding=HeaderEncoding.ROCKETMQ))
    (event,) = events(client, Connection().send_response(Command(14, opaque=opaque), Command(0)))
    assert isinstance(event, ResponseReceived)
    assert event.request_code == 14


def test_an_answer_is_always_flagged_as_one() -> None:
    answer = decode(Connection().send_response(Command(14, opaque=5), Command(22, opaque=9, remark="Not found")))
    assert (answer.is_response, answer.opaque, answer.code, answer.remark) == (True, 5, 22, "Not found")


def test_opaque_stays_positive_when_it_wraps() -> None:
    connection = Connection()
    connection._next_opaque = 2**31 - 1
    assert [connection.send_request(Command(14))[0] for _ in range(2)] == [2**31 - 1, 0]


def test_a_request_that_can_not_be_sent_is_not_waited_for() -> None:
    connection = Connection()
    with pytest.raises(LocalProtocolError):
        connection.send_request(Command(200050, encoding=HeaderEncoding.ROCKETMQ))
    assert connection.outstanding_count == 0


def test_a_broken_frame_raises_after_the_events_before_it() -> None:
    connection = Connection()
    connection.receive_data(EXCHANGES[0].request + b"\xff" * 4)
    assert connection.next_event() == RequestReceived(decode(EXCHANGES[0].request))
    with pytest.raises(RemoteProtocolError):
        connection.next_event()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(EXCHANGES), max_size=3), st.randoms(use_true_random=False))
def test_byte_by_byte_equals_whole(chosen: list[Exchange], random: Random) -> None:
    frames = [frame for exchange in chosen for frame in exchange.frames if len(frame) < 5000]
    random.shuffle(frames)
    stream = b"".join(frames)
    whole, single = Connection(), Connection()
    expected = events(whole, stream)
    assert [event for byte in stream for event in events(single, bytes([byte]))] == expected
    assert len(expected) == len(frames)


@pytest.mark.parametrize("exchange", [exchange for exchange in EXCHANGES if exchange.response], ids=str)
def test_recorded_answers_find_their_requests(exchange: Exchange) -> None:
    connection = Connection()
    request = decode(exchange.request)
    connection._next_opaque = request.opaque
    assert connection.send_request(request)[0] == request.opaque
    (event,) = events(connection, exchange.response)
    assert isinstance(event, ResponseReceived)
    assert event.request_code == exchange.request_code
