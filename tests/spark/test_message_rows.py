"""Arrow batches, beside each message read field by field."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.source.message_rows import ARROW_TYPES, arrow_schema, to_batch
from rmqctl.protocol.message import StoredMessage, iter_messages
from tests.protocol.records import V1, V2, Record, properties_text
from tests.protocol.strategies import INT32, INT64

MQ = MessageQueue("Orders", "broker-a", 3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_V6 = (IPv6Address("2001:db8::1").packed, 10911)


def _time(at_ms: int) -> datetime | None:
    return _EPOCH + timedelta(milliseconds=at_ms) if 0 <= at_ms <= 253_402_300_799_999 else None


def _row(mq: MessageQueue, message: StoredMessage) -> dict[str, Any]:
    properties = message.properties
    return {
        "topic": mq.topic,
        "broker_name": mq.broker_name,
        "queue_id": mq.queue_id,
        "queue_offset": message.queue_offset,
        "commit_log_offset": message.commit_log_offset,
        "msg_id": message.offset_id,
        "uniq_key": properties.get("UNIQ_KEY"),
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "body": message.body,
        "properties": sorted(properties.items()),
        "born_ts": _time(message.born_at_ms),
        "store_ts": _time(message.stored_at_ms),
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "body_crc": message.body_crc,
        "store_size_bytes": len(message.record),
    }


def _rows(records: list[bytes]) -> list[dict[str, Any]]:
    messages = [message for record in records for message in iter_messages(record)]
    batch = to_batch([(MQ, messages)], tuple(ARROW_TYPES))
    assert batch.schema == arrow_schema(ARROW_TYPES)
    batch.validate(full=True)
    rows = batch.to_pylist()
    for row in rows:
        row["properties"] = sorted(row["properties"])
    assert rows == [_row(MQ, message) for message in messages]
    return rows


_TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=6)
_PAIRS = st.lists(st.tuples(st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a", ""]) | _TEXT, _TEXT), max_size=5)
_PROPERTIES = (
    _PAIRS.map(properties_text) | _PAIRS.map(lambda pairs: properties_text(pairs)[:-1]) | st.binary(max_size=12)
)


@settings(max_examples=150)
@given(
    st.lists(
        st.builds(
            Record,
            magic=st.sampled_from([V1, V2]),
            flag=INT32,
            queue_offset=INT64,
            commit_log_offset=INT64,
            sys_flag=st.sampled_from([0, 2, 4, 8, 0xC, 0x700]),
            born_at_ms=INT64,
            stored_at_ms=st.integers(-10, 253_402_300_800_010),
            reconsume_times=INT32,
            body=st.binary(max_size=30),
            properties=_PROPERTIES,
        ).map(Record.encode),
        max_size=6,
    )
)
def test_batches_are_what_messages_are_field_by_field(records: list[bytes]) -> None:
    _rows(records)


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"TAGS\x01A",
        b"TAGS\x01A\x02",
        b"TAGS\x01A\x02TAGS\x01B\x02",  # twice, as 4.9's batches write some
        b"\x01no name\x02",
        b"a\x01b\x01c\x02",  # a second mark belongs to the value
        b"no value\x02TAGS\x01A\x02",
        b"\x02\x02TAGS\x01A\x02",
        b"a\x01\x02",
        b"a\x01\xff\x02",  # no UTF-8
        b"a\x01half\xc3\x02\xa4\x01b\x02",  # no UTF-8, but for the marks between its bytes
        b"a\x00b\x01c\x02",
        "a\x01größe €\x02".encode(),
    ],
)
@pytest.mark.parametrize("neighbour", [b"", b"k\x01v\x02", b"x\x01y\x01z"])
def test_properties_as_they_come(properties: bytes, neighbour: bytes) -> None:
    record = Record()
    _rows([record.but(properties=each) for each in (neighbour, properties, neighbour)])


def test_hosts_with_ipv6_beside_others() -> None:
    record = Record()
    v6 = record.but(sys_flag=0x30, born_host=_V6, store_host=_V6)
    rows = _rows([record.encode(), v6, record.but(sys_flag=0x10, born_host=_V6)])
    assert [row["born_host"] for row in rows] == ["192.0.2.1:50001", "[2001:db8::1]:10911", "[2001:db8::1]:10911"]


def test_compressed_bodies_are_as_they_were_sent() -> None:
    record = Record()
    rows = _rows([record.encode(), record.but(sys_flag=1, body=zlib.compress(b"x" * 5000))])
    assert [row["body"] for row in rows] == [b"hello", b"x" * 5000]


def test_a_message_that_can_not_be_read_is_named() -> None:
    record = Record()
    good, bad = (next(iter_messages(each)) for each in (record.encode(), record.but(sys_flag=1, queue_offset=12)))
    with pytest.raises(RemoteProtocolError, match=r"message Orders@broker-a:3 offset 12: "):
        to_batch([(MQ, [good]), (MQ, [bad])], ("body",))
    (first, second) = to_batch([(MQ, [good, bad])], ("queue_offset", "body", "tags"), is_strict=False).to_pylist()
    assert (first["body"], second["body"]) == (b"hello", None)
    assert (second["queue_offset"], second["tags"]) == (12, "A")
    # Nobody asked for what can't be read.
    assert to_batch([(MQ, [good, bad])], ("queue_offset",)).num_rows == 2


def test_messages_of_several_queues_are_told_apart() -> None:
    record = Record()
    other = MessageQueue("%RETRY%billing", "broker-b", 0)
    runs = [(MQ, list(iter_messages(record.but(queue_offset=1)))), (other, list(iter_messages(record.encode() * 2)))]
    rows = to_batch(runs, ("broker_name", "topic", "queue_id", "queue_offset")).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("broker-a", "Orders", 3, 1), ("broker-b", "%RETRY%billing", 0, 11), ("broker-b", "%RETRY%billing", 0, 11),
    ]  # fmt: skip
