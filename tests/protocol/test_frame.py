from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.errors import LocalProtocolError, RemoteProtocolError
from rmqctl.protocol.command import Command, HeaderEncoding
from rmqctl.protocol.frame import MAX_FRAME_BYTES, FrameBuffer, encode_frame
from tests.protocol.golden import EXCHANGES, FRAMES, Exchange, decode
from tests.protocol.strategies import ANY_COMMAND


def parse(chunks: Iterable[bytes]) -> list[Command]:
    """Feed the chunks one after the other, taking every command as soon as it is there."""
    buffer, commands = FrameBuffer(), []
    for chunk in chunks:
        buffer.feed(chunk)
        while (command := buffer.next_command()) is not None:
            commands.append(command)
    return commands


def raises_on(data: bytes) -> str:
    buffer = FrameBuffer()
    buffer.feed(data)
    with pytest.raises(RemoteProtocolError) as raised:
        buffer.next_command()
    return raised.value.sentence


@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_a_recorded_frame_comes_back(exchange: Exchange) -> None:
    for frame in exchange.frames:
        command = decode(frame)
        assert decode(encode_frame(command)) == command


@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_a_recorded_frame_comes_back_byte_for_byte(exchange: Exchange) -> None:
    for frame in exchange.frames:
        # Java writes empty extFields for some answers and none for others; nothing depends on it.
        recorded = frame[4:].replace(b'"extFields":{},', b"", 1)
        header_length = int.from_bytes(recorded[1:4], "big") - (len(frame) - 4 - len(recorded))
        recorded = recorded[:1] + header_length.to_bytes(3, "big") + recorded[4:]
        assert encode_frame(decode(frame)) == len(recorded).to_bytes(4, "big") + recorded


def test_the_recording_has_both_releases_and_both_directions() -> None:
    commands = [decode(frame) for frame in FRAMES]
    assert {exchange.rocketmq for exchange in EXCHANGES} == {"4.9.7", "5.4.0"}
    assert {(command.is_response, command.is_oneway) for command in commands} == {
        (False, False),
        (False, True),
        (True, False),
    }


@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_an_answer_has_its_request_s_opaque(exchange: Exchange) -> None:
    request = decode(exchange.request)
    assert request.code == exchange.request_code
    assert request.is_oneway == (exchange.response is None)
    if exchange.response is not None:
        answer = decode(exchange.response)
        assert (answer.opaque, answer.is_response, answer.language) == (request.opaque, True, "JAVA")


def test_all_recorded_frames_in_one_stream() -> None:
    stream = b"".join(FRAMES)
    whole = parse([stream])
    assert whole == [decode(frame) for frame in FRAMES]
    assert parse([stream[at : at + 1000] for at in range(0, len(stream), 1000)]) == whole


@settings(max_examples=100, deadline=None)
@given(st.lists(ANY_COMMAND, max_size=4), st.data())
def test_any_cut_gives_the_same_commands(commands: list[Command], data: st.DataObject) -> None:
    stream = b"".join(map(encode_frame, commands))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(chunks) == parse([stream[at : at + 1] for at in range(len(stream))]) == commands


def test_nothing_is_there_before_the_last_byte() -> None:
    frame = encode_frame(Command(105, {"topic": "T"}, b"body"))
    buffer = FrameBuffer()
    for byte in frame[:-1]:
        buffer.feed(bytes([byte]))
        assert buffer.next_command() is None
    buffer.feed(frame[-1:])
    assert buffer.next_command() == decode(frame)
    assert (buffer.next_command(), len(buffer)) == (None, 0)


def test_a_body_may_be_empty_and_hold_anything() -> None:
    for body in (b"", b"\x00", bytes(range(256)), b"\xff" * 1000):
        assert decode(encode_frame(Command(1, body=body))).body == body


@pytest.mark.parametrize("length", [2**31, 2**32 - 1, 2**31 - 1, MAX_FRAME_BYTES + 1, MAX_FRAME_BYTES - 3])
def test_an_announced_length_over_the_limit_raises_at_four_bytes(length: int) -> None:
    tracemalloc.start()
    try:
        assert "limit is 16777216" in raises_on(length.to_bytes(4, "big"))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_largest_length_is_waited_for_and_costs_nothing_yet() -> None:
    # Netty counts the length field itself: 16 MiB less 4 is what may be announced.
    buffer = FrameBuffer()
    tracemalloc.start()
    try:
        buffer.feed((MAX_FRAME_BYTES - 4).to_bytes(4, "big") + b"\x00\x00\x00\x02")
        assert buffer.next_command() is None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert len(buffer) == 8


def test_the_largest_frame_is_read_and_sent() -> None:
    empty = len(encode_frame(Command(1)))
    largest = Command(1, body=bytes(MAX_FRAME_BYTES - empty))
    frame = encode_frame(largest)
    assert len(frame) == MAX_FRAME_BYTES
    assert len(decode(frame).body) == MAX_FRAME_BYTES - empty
    with pytest.raises(LocalProtocolError, match="frame limit"):
        encode_frame(Command(1, body=bytes(MAX_FRAME_BYTES - empty + 1)))


@pytest.mark.parametrize("encoding", HeaderEncoding)
def test_a_header_over_the_limit_is_not_sent(encoding: HeaderEncoding) -> None:
    with pytest.raises(LocalProtocolError, match="frame limit"):
        encode_frame(Command(1, {"k": "v" * MAX_FRAME_BYTES}, encoding=encoding))


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_length_without_room_for_the_header_s_raises(length: int) -> None:
    assert "too short" in raises_on(length.to_bytes(4, "big"))


@pytest.mark.parametrize("header_length", [1, 5, 0xFFFFFF])
def test_a_header_longer_than_its_frame_raises_before_it_came(header_length: int) -> None:
    assert "in a frame of 4" in raises_on((4).to_bytes(4, "big") + header_length.to_bytes(4, "big"))


def test_a_frame_without_header_is_no_command() -> None:
    raises_on(bytes.fromhex("0000000400000000"))
    raises_on(bytes.fromhex("0000000401000000"))


@pytest.mark.parametrize("encoding", [2, 127, 255])
def test_an_unknown_header_encoding_raises(encoding: int) -> None:
    frame = bytearray(encode_frame(Command(1)))
    frame[4] = encoding
    assert f"encoding {encoding}" in raises_on(bytes(frame))


def test_other_protocols_are_told_apart() -> None:
    assert "may not be RocketMQ" in raises_on(b"HTTP/1.1 400 Bad Request\r\n")
    raises_on(bytes.fromhex("15030300020228"))  # a TLS alert
    raises_on(b"SSH-2.0-OpenSSH_9.2\r\n")


def test_commands_before_a_broken_frame_are_given_out() -> None:
    buffer = FrameBuffer()
    buffer.feed(encode_frame(Command(1)) + encode_frame(Command(2)) + bytes(4))
    assert [buffer.next_command(), buffer.next_command()] == [decode(encode_frame(Command(code))) for code in (1, 2)]
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            buffer.next_command()
