from __future__ import annotations

import struct
import zlib
from ipaddress import IPv6Address
from itertools import pairwise
from typing import Any

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.protocol.message_id import decode_offset_id, decode_unique_key
from tests.protocol.golden import Exchange, answer, answers, decode
from tests.protocol.records import V1, V2, Record, batch_entry, properties_text
from tests.protocol.strategies import INT32, INT64

RECORD = Record()
PROPERTY_NAMES = ["queue_offset"] + [
    name for name, value in vars(StoredMessage).items() if isinstance(value, property) and not name.startswith("_")
]
FIXED_NAMES = (
    "flag", "commit_log_offset", "sys_flag", "born_at_ms", "born_host", "stored_at_ms", "store_host", "reconsume_times",
    "offset_id",
)  # fmt: skip
V6 = IPv6Address("2001:db8::1").packed
OTHER_V6 = IPv6Address("fd00::2").packed
COMPRESSED, BORN_V6, STORE_V6, INNER = 0x1, 0x10, 0x20, 0xC0


def one(data: bytes) -> StoredMessage:
    (message,) = iter_messages(data)
    return message


def values(message: StoredMessage) -> dict[str, Any]:
    return {name: getattr(message, name) for name in PROPERTY_NAMES}


def read_all(data: bytes) -> None:
    """Read every property of every message; whichever of them refuses, the rest are read all the same."""
    try:
        for message in iter_messages(data):
            for name in PROPERTY_NAMES:
                try:
                    getattr(message, name)
                except RemoteProtocolError:
                    continue
    except RemoteProtocolError:
        return


@pytest.mark.parametrize("exchange", answers(11, 12), ids=str)
def test_recorded_messages(exchange: Exchange) -> None:
    request, response = decode(exchange.request), answer(exchange)
    messages = list(iter_messages(response.body))
    assert b"".join(message.record for message in messages) == response.body
    for message in messages:
        assert message.topic == request.ext_fields["topic"] == "ship"
        assert message.body_crc_ok is True
        assert (message.sys_flag, message.flag, message.reconsume_times) == (0, 0, 0)
        assert message.body == message.stored_body
        # One broker wrote them all, and the clocks of both sides are the same machine's.
        assert message.store_host == "127.0.0.1:10911"
        assert message.born_host.startswith("127.0.0.1:")
        assert 1795237316000 < message.born_at_ms <= message.stored_at_ms < 1795238180000
        id_of_broker = decode_offset_id(message.offset_id)
        assert (id_of_broker.port, id_of_broker.commit_log_offset) == (10911, message.commit_log_offset)
        assert message.message_id == message.properties["UNIQ_KEY"]
        # The producer's id counts from the start of its month, here November 2026 in UTC.
        made_at_ms = 1793491200000 + decode_unique_key(message.message_id).since_month_start_ms
        assert 0 <= message.born_at_ms - made_at_ms < 1000
        assert message.tags in ("T0", "T1", "T2", "T3", "T4")


@pytest.mark.parametrize("exchange", answers(11), ids=str)
def test_recorded_pulls(exchange: Exchange) -> None:
    request, response = decode(exchange.request), answer(exchange)
    messages = list(iter_messages(response.body))
    first = int(request.ext_fields["queueOffset"])
    next_offset = int(response.ext_fields["nextBeginOffset"])
    assert [message.queue_offset for message in messages] == list(range(first, next_offset))
    assert {message.queue_id for message in messages} == {int(request.ext_fields["queueId"])}
    assert {len(message.body) for message in messages} == {100}
    for before, after in pairwise(messages):
        assert after.commit_log_offset - before.commit_log_offset >= len(before.record)


def test_recorded_messages_in_numbers() -> None:
    (pulled,) = iter_messages(answer(answers(11)[0]).body)
    assert values(pulled) == {
        "body_crc": 0x43DC06A3,
        "queue_id": 3,
        "flag": 0,
        "queue_offset": 0,
        "commit_log_offset": 0,
        "sys_flag": 0,
        "born_at_ms": 1795237328485,
        "born_host": "127.0.0.1:59018",
        "born_address": (bytes((127, 0, 0, 1)), 59018),
        "stored_at_ms": 1795237328540,
        "store_host": "127.0.0.1:10911",
        "store_address": (bytes((127, 0, 0, 1)), 10911),
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "stored_body": pulled.body,
        "body": b"jhpliehdkejpjlhcjdkjnkinbedfchkofjlfnkdbaghkbhbdjoioppoaphdjmncccdnffekpgpcnoellfcaejednhfgihminmhgg",
        "body_crc_ok": True,
        "topic": "ship",
        "properties_bytes": b"KEYS\x01k300\x02UNIQ_KEY\x01FD000000000000000000000000000002468030946E096813CE6000CC\x02"
        b"WAIT\x01true\x02TAGS\x01T0\x02CLUSTER\x01DefaultCluster\x02WAIT\x01true",
        "properties": {
            "KEYS": "k300",
            "UNIQ_KEY": "FD000000000000000000000000000002468030946E096813CE6000CC",
            "WAIT": "true",
            "TAGS": "T0",
            "CLUSTER": "DefaultCluster",
        },
        "offset_id": "7F00000100002A9F0000000000000000",
        "message_id": "FD000000000000000000000000000002468030946E096813CE6000CC",
        "tags": "T0",
    }
    found = [one(answer(exchange).body) for exchange in answers(12)]
    assert [message.body for message in found] == [b"hello-1"] * 2
    assert [message.offset_id for message in found] == [
        "7F00000100002A9F00000000000217DB",
        "7F00000100002A9F000000000001E423",
    ]
    # 5.x stores what 4.9 adds when it answers.
    assert {"MSG_REGION", "TRACE_ON", "WAIT"} <= found[1].properties.keys()


@pytest.mark.parametrize("magic", [V1, V2])
def test_both_magics(magic: int) -> None:
    message = one(RECORD.but(magic=magic))
    assert (message.topic, message.properties, message.body) == ("orders", {"TAGS": "A"}, b"hello")
    assert (message.queue_offset, message.commit_log_offset, message.flag) == (11, 4096, 7)
    assert (message.reconsume_times, message.prepared_transaction_offset) == (2, 5)
    assert (message.born_at_ms, message.stored_at_ms) == (1_700_000_000_001, 1_700_000_000_002)


def test_long_topics() -> None:
    assert one(RECORD.but(topic=b"t" * 255)).topic == "t" * 255
    assert one(RECORD.but(topic=b"t" * 1000, magic=V2)).topic == "t" * 1000


@pytest.mark.parametrize("magic", [V1, V2])
@pytest.mark.parametrize(
    ("sys_flag", "born", "store"),
    [
        (0, "192.0.2.1:50001", "192.0.2.2:10911"),
        (BORN_V6, "[2001:db8::1]:50001", "192.0.2.2:10911"),
        (STORE_V6, "192.0.2.1:50001", "[fd00::2]:10911"),
        (BORN_V6 | STORE_V6, "[2001:db8::1]:50001", "[fd00::2]:10911"),
    ],
)
def test_hosts(magic: int, sys_flag: int, born: str, store: str) -> None:
    born_host = (V6, 50001) if sys_flag & BORN_V6 else RECORD.born_host
    store_host = (OTHER_V6, 10911) if sys_flag & STORE_V6 else RECORD.store_host
    message = one(RECORD.but(magic=magic, sys_flag=sys_flag, born_host=born_host, store_host=store_host))
    assert (message.born_host, message.store_host) == (born, store)
    fixed = message.fixed_fields()
    for name in FIXED_NAMES:
        assert getattr(fixed, name) == getattr(message, name)
    assert (message.topic, message.body, message.body_crc_ok) == ("orders", b"hello", True)
    assert (message.stored_at_ms, message.reconsume_times) == (RECORD.stored_at_ms, 2)
    address = store_host[0].hex().upper()
    assert message.offset_id == message.message_id == f"{address}00002A9F0000000000001000"


@settings(max_examples=150, deadline=None)
@given(
    st.builds(
        Record,
        magic=st.sampled_from([V1, V2]),
        queue_id=INT32,
        flag=INT32,
        queue_offset=INT64,
        commit_log_offset=INT64,
        sys_flag=st.sampled_from([0, 2, 4, 8, 0xC, 0x40, 0x80, 0x700, -0x800]),
        born_at_ms=INT64,
        stored_at_ms=INT64,
        reconsume_times=INT32,
        prepared_transaction_offset=INT64,
        body=st.binary(max_size=30),
        topic=st.text(max_size=20).map(str.encode),
    )
)
def test_any_record_is_read_as_written(record: Record) -> None:
    message = one(record.encode())
    numbers = ("queue_id", "flag", "queue_offset", "commit_log_offset", "sys_flag", "born_at_ms", "stored_at_ms")
    for name in (*numbers, "reconsume_times", "prepared_transaction_offset", "body"):
        assert getattr(message, name) == getattr(record, name), name
    assert message.topic == record.topic.decode()
    assert message.body_crc_ok is True
    assert message.inner_index is None


def test_records_stand_back_to_back() -> None:
    data = RECORD.but(queue_offset=1) + RECORD.but(queue_offset=2, magic=V2) + RECORD.but(queue_offset=3, body=b"")
    assert [message.queue_offset for message in iter_messages(data)] == [1, 2, 3]
    assert list(iter_messages(b"")) == []


def test_what_a_record_has_after_its_fields_is_skipped() -> None:
    # A decoder goes on by the record's size, not by the sum of its fields.
    record = RECORD.encode()
    longer = struct.pack(">i", len(record) + 9) + record[4:] + bytes(9)
    assert [message.topic for message in iter_messages(longer + record)] == ["orders", "orders"]


@pytest.mark.parametrize(
    ("kind", "compress"),
    [
        (0x000, zlib.compress),
        (0x300, zlib.compress),
        (0x100, lz4.frame.compress),
        (0x200, zstandard.ZstdCompressor().compress),
    ],
    ids=["zlib of old clients", "zlib", "lz4", "zstd"],
)
def test_compressed_bodies(kind: int, compress: Any) -> None:
    body = b"a long body " * 1000
    message = one(RECORD.but(sys_flag=COMPRESSED | kind, body=compress(body)))
    assert message.body == body
    assert message.stored_body == compress(body)
    # The CRC is of what is stored.
    assert message.body_crc_ok is True
    # The kind alone says nothing.
    assert one(RECORD.but(sys_flag=kind)).body == b"hello"


def test_a_body_that_is_not_compressed_as_it_says() -> None:
    for kind in range(0, 0x800, 0x100):
        message = one(RECORD.but(sys_flag=COMPRESSED | kind))
        with pytest.raises(RemoteProtocolError):
            _ = message.body
        assert (message.stored_body, message.topic) == (b"hello", "orders")


def test_a_wrong_crc_is_seen() -> None:
    right = zlib.crc32(b"hello") & 0x7FFFFFFF
    assert one(RECORD.but(crc=right)).body_crc_ok is True
    for wrong in (right ^ 1, right - 2**31, 0):
        assert one(RECORD.but(crc=wrong)).body_crc_ok is False
    changed = RECORD.encode().replace(b"hello", b"hullo")
    assert one(changed).body_crc_ok is False
    assert one(changed).body == b"hullo"


def test_the_last_of_two_properties_wins() -> None:
    # 4.9 stores messages of a batch with a second WAIT.
    text = properties_text([("WAIT", "true"), ("TAGS", "A"), ("WAIT", "false")])
    assert one(RECORD.but(properties=text)).properties == {"WAIT": "false", "TAGS": "A"}


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    message = one(RECORD.but(topic=b"or\xffders", properties=b"TAGS\x01\xc3\x02\xfe\x01v\x02"))
    assert message.topic == "or\ufffdders"
    assert message.properties == {"TAGS": "\ufffd", "\ufffd": "v"}
    assert message.tags == "\ufffd"


def test_the_id_without_a_producer_s_id_is_the_broker_s() -> None:
    assert one(RECORD.but(properties=b"")).message_id == "C000020200002A9F0000000000001000"
    assert one(RECORD.but(properties=properties_text({"UNIQ_KEY": "X"}))).message_id == "X"
    assert one(RECORD.but(properties=properties_text({"UNIQ_KEY": ""}))).message_id.startswith("C0000202")
    assert one(RECORD.but(properties=b"")).tags is None


# Where the lengths of RECORD stand: 84 the body's, 93 the topic's, 100 the properties'.
BODY_AT, TOPIC_AT, PROPERTIES_AT = 84, 93, 100


def test_the_places_of_the_lengths() -> None:
    record = RECORD.encode()
    assert record[BODY_AT + 4 : TOPIC_AT] == b"hello"
    assert record[TOPIC_AT + 1 : PROPERTIES_AT] == b"orders"
    assert record[PROPERTIES_AT + 2 :] == b"TAGS\x01A\x02"


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 1000, 5 + 16])
def test_a_body_longer_than_its_record(length: int) -> None:
    record = RECORD.encode()
    with pytest.raises(RemoteProtocolError, match="body"):
        one(record[:BODY_AT] + struct.pack(">i", length) + record[BODY_AT + 4 :])


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (TOPIC_AT, b"\xff"),
        (TOPIC_AT, b"\x0f"),
        (TOPIC_AT, b"\x0e"),
        (PROPERTIES_AT, struct.pack(">h", -1)),
        (PROPERTIES_AT, struct.pack(">h", 8)),
        (PROPERTIES_AT, struct.pack(">h", 32767)),
    ],
)
def test_a_topic_or_properties_longer_than_the_record(at: int, new: bytes) -> None:
    record = RECORD.encode()
    message = one(record[:at] + new + record[at + len(new) :])
    for name in ("topic", "properties", "tags", "message_id"):
        with pytest.raises(RemoteProtocolError, match="longer than the message"):
            getattr(message, name)
    # What stands before the lie is still to be had.
    assert (message.body, message.queue_offset) == (b"hello", 11)


@pytest.mark.parametrize("length", [-1, -32768, -120, 32767, 100])
def test_a_long_topic_longer_than_the_record(length: int) -> None:
    record = RECORD.but(magic=V2)
    message = one(record[:TOPIC_AT] + struct.pack(">h", length) + record[TOPIC_AT + 2 :])
    with pytest.raises(RemoteProtocolError, match="longer than the message"):
        _ = message.topic


@pytest.mark.parametrize("size", [-1, 0, 4, 90, 110, 2**31 - 1, -(2**31)])
def test_a_record_that_lies_about_its_size(size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        list(iter_messages(struct.pack(">i", size) + RECORD.encode()[4:]))


@pytest.mark.parametrize("magic", [0, 0xCBD43194, 0xDAA320A8, 0xFFFFFFFF])
def test_another_magic(magic: int) -> None:
    # 0xCBD43194 fills the end of a commit log file, and is never sent.
    with pytest.raises(RemoteProtocolError, match=f"magic {magic:#010x}"):
        list(iter_messages(RECORD.but(magic=magic)))


def test_messages_before_a_broken_one_are_given_out() -> None:
    messages = iter_messages(RECORD.encode() + b"rest")
    assert next(messages).topic == "orders"
    with pytest.raises(RemoteProtocolError, match="4 bytes after the last message"):
        next(messages)


@pytest.mark.parametrize("size", [0, 3, 4, 87])
def test_a_record_shorter_than_its_fixed_fields(size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        StoredMessage.decode(RECORD.encode()[:size])
    both = RECORD.but(sys_flag=BORN_V6 | STORE_V6, born_host=(V6, 1), store_host=(V6, 1))
    with pytest.raises(RemoteProtocolError):
        StoredMessage.decode(both[: size + 24])


BATCH = [batch_entry(b"one", 1, properties_text({"TAGS": "A"})), batch_entry(b"", 2), batch_entry(b"three" * 50, 3)]


def inner(entries: bytes = b"".join(BATCH), properties: dict[str, str] | None = None, **fields: Any) -> bytes:
    text = properties_text({"INNER_NUM": "3", "INNER_BASE": "40"} if properties is None else properties)
    sys_flag = fields.pop("sys_flag", 0)
    return RECORD.but(**{"sys_flag": INNER | sys_flag, "body": entries, "properties": text, **fields})


@pytest.mark.parametrize("magic", [V1, V2])
def test_inner_batch(magic: int) -> None:
    messages = list(iter_messages(RECORD.encode() + inner(magic=magic) + RECORD.encode()))
    assert [message.inner_index for message in messages] == [None, 0, 1, 2, None]
    unwrapped = messages[1:4]
    assert [message.queue_offset for message in unwrapped] == [40, 41, 42]
    assert [message.body for message in unwrapped] == [b"one", b"", b"three" * 50]
    assert [message.flag for message in unwrapped] == [1, 2, 3]
    assert [message.properties for message in unwrapped] == [{"TAGS": "A"}, {}, {}]
    assert [message.body_crc_ok for message in unwrapped] == [None, None, None]
    for message in unwrapped:
        assert (message.topic, message.queue_id, message.commit_log_offset) == ("orders", 3, 4096)
        assert (message.born_at_ms, message.stored_at_ms) == (RECORD.born_at_ms, RECORD.stored_at_ms)
        assert (message.born_host, message.store_host) == ("192.0.2.1:50001", "192.0.2.2:10911")
        assert (message.reconsume_times, message.prepared_transaction_offset) == (2, 5)
        # A record in its own right.
        (again,) = iter_messages(message.record)
        assert values(again) == {**values(message), "body_crc_ok": again.body == b""}


def test_inner_batch_from_ipv6() -> None:
    hosts = {"born_host": (V6, 50001), "store_host": (OTHER_V6, 10911)}
    for message in iter_messages(inner(sys_flag=BORN_V6 | STORE_V6, **hosts)):
        assert (message.born_host, message.store_host) == ("[2001:db8::1]:50001", "[fd00::2]:10911")


def test_inner_batch_compressed() -> None:
    messages = list(iter_messages(inner(zlib.compress(b"".join(BATCH)), sys_flag=COMPRESSED | 0x300)))
    assert [message.body for message in messages] == [b"one", b"", b"three" * 50]


def test_inner_messages_have_the_other_flags_of_the_outer() -> None:
    (message,) = iter_messages(inner(BATCH[0], {}, sys_flag=0x40000000 | 0x700 | 0xE))
    assert message.sys_flag == 0x40000000 | 0x700 | 0xE


def test_inner_batch_bomb() -> None:
    entry = struct.pack(">iiiiih", 22, 0, 0, 0, 0, 0)
    bomb = inner(zlib.compress(entry * 1_000_000), sys_flag=COMPRESSED | 0x300)
    with pytest.raises(RemoteProtocolError, match="more than 32767 messages"):
        list(iter_messages(bomb))


def test_an_inner_batch_that_can_not_be_cut_up_may_stay_one_message() -> None:
    broken = inner(b"".join(BATCH)[:-3])
    told: list[tuple[StoredMessage, RemoteProtocolError]] = []
    found = list(iter_messages(RECORD.encode() + broken + inner(), lambda *given: told.append(given)))
    assert [each.inner_index for each in found] == [None, None, 0, 1, 2]
    assert [message is found[1] for message, _ in told] == [True]
    with pytest.raises(RemoteProtocolError):
        list(iter_messages(broken))


def test_inner_batch_flags_only_together() -> None:
    for sys_flag in (0x40, 0x80):
        message = one(RECORD.but(sys_flag=sys_flag, body=b"".join(BATCH)))
        assert message.body == b"".join(BATCH)


@pytest.mark.parametrize("base", ["", "x", "-1", "²", "٣", "1" * 19, "9" * 5000, " 40"])
def test_inner_batch_without_a_base_counts_from_the_record_s_offset(base: str) -> None:
    messages = list(iter_messages(inner(properties={"INNER_BASE": base})))
    assert [message.queue_offset for message in messages] == [11, 12, 13]


def test_inner_batch_keeps_a_topic_that_is_no_utf_8() -> None:
    # Replaced and encoded again it would be three times as long, and too long for its own length.
    (message,) = iter_messages(inner(BATCH[0], {}, magic=V2, topic=b"\xff" * 20_000))
    assert message.topic == "\ufffd" * 20_000


@pytest.mark.parametrize("count", ["0", "2", "4", "999999999999999999"])
def test_inner_batch_of_another_count(count: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"of 3 messages that announces {count}"):
        list(iter_messages(inner(properties={"INNER_NUM": count})))


@pytest.mark.parametrize("count", ["", "x", "-1", "²", "9" * 5000])
def test_inner_batch_without_a_count(count: str) -> None:
    assert len(list(iter_messages(inner(properties={"INNER_NUM": count})))) == 3


def test_empty_inner_batch() -> None:
    assert list(iter_messages(inner(b"", {}))) == []


@pytest.mark.parametrize("at", [0, 16, 23])
@pytest.mark.parametrize("length", [-1, -(2**31), -25, 2**31 - 1, 1000, 25])
def test_inner_batch_that_lies_about_a_length(at: int, length: int) -> None:
    # The first entry: size at 0, body's length at 16, properties' length (16 bits) at 23.
    new = struct.pack(">i", length) if at != 23 else struct.pack(">h", max(-(2**15), min(length, 2**15 - 1)))
    entry = BATCH[0][:at] + new + BATCH[0][at + len(new) :]
    with pytest.raises(RemoteProtocolError):
        [values(message) for message in iter_messages(inner(entry, {}))]


def test_inner_batch_that_is_cut() -> None:
    whole = b"".join(BATCH)
    ends = {0, len(BATCH[0]), len(BATCH[0] + BATCH[1]), len(whole)}
    for length in set(range(len(whole))) - ends:
        with pytest.raises(RemoteProtocolError):
            list(iter_messages(inner(whole[:length], {})))


def test_inner_batch_at_the_end_of_all_offsets() -> None:
    with pytest.raises(RemoteProtocolError):
        list(iter_messages(inner(properties={}, queue_offset=2**63 - 2)))


SAMPLES = [
    RECORD.encode(),
    RECORD.but(magic=V2, sys_flag=BORN_V6, born_host=(V6, 1)),
    RECORD.but(sys_flag=STORE_V6 | COMPRESSED, store_host=(V6, 1), body=zlib.compress(b"body")),
    RECORD.but(sys_flag=COMPRESSED | 0x100, body=lz4.frame.compress(b"body" * 9)),
    RECORD.but(sys_flag=COMPRESSED | 0x200, body=zstandard.ZstdCompressor().compress(b"body" * 9)),
    inner(),
    inner(magic=V2, sys_flag=BORN_V6 | STORE_V6, born_host=(V6, 1), store_host=(V6, 1)),
    answer(answers(11)[0]).body,
    answer(answers(12)[1]).body,
]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_any_flipped_bits_are_read_or_refused(sample: bytes, data: st.DataObject) -> None:
    record = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 6))):
        record[data.draw(st.integers(0, len(record) - 1))] ^= data.draw(st.integers(1, 255))
    read_all(bytes(record))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(len(sample)))
def test_every_bit_and_every_cut_of_a_record(sample: bytes) -> None:
    for at in range(len(sample)):
        read_all(sample[:at])
        for bit in range(8):
            read_all(sample[:at] + bytes([sample[at] ^ 1 << bit]) + sample[at + 1 :])
