"""Any bytes, fed whole or one by one, parse to the same or raise the remote error; any other exception is a bug."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection, Event
from rmqctl.protocol.frame import FrameBuffer, encode_frame
from rmqctl.protocol.message import StoredMessage, iter_messages
from tests.protocol.golden import FRAMES, answer, answers
from tests.protocol.records import V2, Record, batch_entry
from tests.protocol.strategies import ANY_COMMAND

PROPERTY_NAMES = [name for name, value in vars(StoredMessage).items() if isinstance(value, property)]
SHORT_FRAMES = [frame for frame in FRAMES if len(frame) < 1500]
BODIES = [answer(exchange).body for exchange in answers(11, 12) if len(answer(exchange).body) < 1500]
BODIES += [Record(magic=V2).encode(), Record(sys_flag=0xC0, body=batch_entry(b"a") + batch_entry(b"b", 1)).encode()]


@st.composite
def mutations(draw: st.DrawFn, originals: st.SearchStrategy[bytes]) -> bytes:
    """Draw a few originals back to back, with bytes changed, put in, taken away, or the end cut off."""
    data = bytearray(b"".join(draw(st.lists(originals, min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


STREAMS = st.one_of(
    st.binary(max_size=200),
    # A length that fits what follows lets random bytes get past the frame's own checks.
    st.binary(min_size=4, max_size=100).map(lambda rest: len(rest).to_bytes(4, "big") + rest),
    st.tuples(st.sampled_from([0, 1]), st.binary(max_size=60)).map(
        lambda drawn: b"".join(
            ((len(drawn[1]) + 4).to_bytes(4, "big"), bytes([drawn[0]]), len(drawn[1]).to_bytes(3, "big"), drawn[1])
        )
    ),
    mutations(st.sampled_from(SHORT_FRAMES)),
    mutations(ANY_COMMAND.map(encode_frame)),
)


def outcome(
    feed: Callable[[bytes], None], take: Callable[[], Command | Event | None], chunks: Iterable[bytes]
) -> object:
    """Return everything that was taken, and the refusal that ended it."""
    taken: list[Command | Event] = []
    try:
        for chunk in chunks:
            feed(chunk)
            while (item := take()) is not None:
                taken.append(item)
    except RemoteProtocolError as error:
        return taken, error.sentence
    return taken, None


def bytes_of(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def halves(data: bytes) -> list[bytes]:
    return [data[: len(data) // 2], data[len(data) // 2 :]]


@settings(max_examples=300, deadline=None)
@given(STREAMS)
def test_frames(data: bytes) -> None:
    outcomes = []
    for chunks in ([data], bytes_of(data), halves(data)):
        buffer = FrameBuffer()
        outcomes.append(outcome(buffer.feed, buffer.next_command, chunks))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@settings(max_examples=200, deadline=None)
@given(STREAMS)
def test_connections(data: bytes) -> None:
    outcomes = []
    for chunks in ([data], bytes_of(data)):
        connection = Connection()
        for code in (11, 14, 105):
            connection.send_request(Command(code))
        outcomes.append((outcome(connection.receive_data, connection.next_event, chunks), connection.outstanding_count))
    assert outcomes[0] == outcomes[1]


@settings(max_examples=200, deadline=None)
@given(STREAMS)
def test_what_was_read_can_be_sent(data: bytes) -> None:
    buffer = FrameBuffer()
    buffer.feed(data)
    try:
        command = buffer.next_command()
    except RemoteProtocolError:
        return
    if command is not None:
        again = FrameBuffer()
        again.feed(encode_frame(command))
        assert again.next_command() == command


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300) | mutations(st.sampled_from(BODIES)))
def test_messages(data: bytes) -> None:
    try:
        for message in iter_messages(data):
            assert len(message.record) > 0
            for name in PROPERTY_NAMES:
                try:
                    getattr(message, name)
                except RemoteProtocolError:
                    continue
    except RemoteProtocolError:
        return
