"""Messages that are popped and not acknowledged, by records as a 5.4.0 broker writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.pop_checkpoints import PopRecords, is_popped_of, oldest_due_ms
from rmqctl.rules.pop_handles import is_handle

# As read from a broker; a pop of six messages of PopT, of which those at 0 and 3 are acknowledged.
CHECK_POINT = (
    b'{"bm":0,"bn":"broker-a","c":"PopG","d":[0,1,2,3,4,5],"it":60000,"n":6,"pt":1795598874217,"q":0,'
    b'"reviveTime":1795598934217,"ro":0,"so":0,"t":"PopT"}'
)
ACK_0 = b'{"ao":0,"bn":"broker-a","c":"PopG","pt":1795598874217,"q":0,"so":0,"t":"PopT"}'
ACK_3 = ACK_0.replace(b'"ao":0', b'"ao":3')
POPPED_MS = 1795598874217


def ck(**changes: Any) -> tuple[str, bytes]:
    fields = {"bm": 0, "bn": "a", "c": "G", "d": [0, 2, 5], "it": 1000, "n": 3, "pt": 100, "q": 1, "so": 10, "t": "T"}
    return "ck", json.dumps({**fields, **changes}).encode()


def ack(offset: int, **changes: Any) -> tuple[str, bytes]:
    return "ack", json.dumps(
        {"ao": offset, "bn": "a", "c": "G", "pt": 100, "q": 1, "so": 10, "t": "T", **changes}
    ).encode()


def batch(*offsets: int, **changes: Any) -> tuple[str, bytes]:
    return "bAck", ack(-1, aol=list(offsets), **changes)[1]


def read(*records: tuple[str, bytes], group: str = "G") -> PopRecords:
    found = PopRecords(group, "a")
    for tag, body in records:
        found.add(tag, 3, body)
    return found


def test_records_of_a_real_broker() -> None:
    records = PopRecords("PopG", "broker-a")
    for tag, body in (("ck", CHECK_POINT), ("ack", ACK_3), ("ack", ACK_0)):
        records.add(tag, 7, body)
    popped = records.unacknowledged(POPPED_MS + 59_999)
    assert [each.queue_offset for each in popped] == [1, 2, 4, 5]
    assert popped[0].mq == MessageQueue("PopT", "broker-a", 0)
    assert popped[0].handle == "0 1795598874217 60000 7 0 broker-a 0 1"
    assert popped[0].due_ms == POPPED_MS + 60_000
    assert not any(each.is_renewed for each in popped)
    assert records.unacknowledged(POPPED_MS + 60_000) == []
    assert records.is_acknowledged("PopT", 0, 3, "0 1795598874217 60000 7 0 broker-a 0 3")
    assert not records.is_acknowledged("PopT", 0, 4, "0 1795598874217 60000 7 0 broker-a 0 4")
    assert not records.is_acknowledged("PopT", 0, 3, "0 1795598874218 60000 7 0 broker-a 0 3")


@pytest.mark.parametrize(
    ("records", "offsets"),
    [
        ([ck()], [10, 12, 15]),
        ([ck(), ack(12)], [10, 15]),
        ([ck(), batch(10, 15)], [12]),
        ([ck(), ack(12, bn="")], [10, 15]),  # older brokers leave the name out
        ([ck(bm=0b101)], [12]),
        ([ck(d=None)], [10, 11, 12]),  # and the differences
        ([ck(d=[])], [10, 11, 12]),
        ([ck(), ack(12, pt=99), ack(12, so=9), ack(12, q=0), ack(12, t="U"), ack(12, c="H")], [10, 12, 15]),
        ([ck(c="H")], []),
        ([ck(bn="b")], []),  # put there for another broker
        ([ck(it=50)], []),  # its time is over
        ([ck(), ("", ck(so=50)[1])], [10, 12, 15]),
        ([ck(t="%RETRY%G_T"), ack(10, t="%RETRY%G_T")], [12, 15]),
    ],
)
def test_check_points_less_their_acknowledgements(records: list[tuple[str, bytes]], offsets: list[int]) -> None:
    assert [each.queue_offset for each in read(*records).unacknowledged(200)] == offsets


@pytest.mark.parametrize(
    ("topic", "flag"), [("T", "0"), ("%RETRY%G_T", "1"), ("%RETRY%G+T", "2")]
)  # fmt: skip
def test_handles_of_retry_topics(topic: str, flag: str) -> None:
    (popped,) = read(ck(t=topic, d=[0])).unacknowledged(200)
    assert popped.handle == f"10 100 1000 3 {flag} a 1 10"
    assert is_handle(popped.handle)


def test_a_changed_invisible_time() -> None:
    """The broker writes the new check point first, and then acknowledges the message of the old one."""
    (renewed,) = read(ck(d=[0]), ck(so=10, d=[0], pt=150, it=9_000), ack(10)).unacknowledged(2_000)
    assert (renewed.pop_time_ms, renewed.is_renewed) == (150, True)
    # After a reset a message is popped again that was acknowledged before.
    (again,) = read(ck(d=[0]), ack(10), ck(so=10, d=[0], pt=150, it=9_000)).unacknowledged(2_000)
    assert not again.is_renewed


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"c":1}', b"\xff", b'{"c":"G","t":"T","q":"x","so":0,"pt":0}'])
def test_what_is_no_record(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- each kind has its own text
        read(("ck", body))


@pytest.mark.parametrize(
    ("topic", "expected"),
    [("T", True), ("%RETRY%G_T", True), ("%RETRY%G+T", True), ("%RETRY%G", False), ("%RETRY%H_T", False), ("U", False)],
)
def test_topics_of_a_topic(topic: str, *, expected: bool) -> None:
    assert is_popped_of(topic, "G", "T") is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 1 2 3 0 a 0 5", True),
        (None, False),
        ("", False),
        ("0 1 2 3 0 a 0", False),
        ("x 1 2 3 0 a 0 5", False),
        ("0 1 2 999 0 a 0 5", False),  # of an orderly pop
    ],
)
def test_whole_handles(text: str | None, *, expected: bool) -> None:
    assert is_handle(text) is expected


@pytest.mark.parametrize(
    ("records", "due_ms"),
    [
        ([], None),
        ([ack(10), batch(12, 15)], None),
        ([ck()], 1100),
        ([ck(), ack(10)], 1100),
        ([ck(), ack(10), batch(12, 15)], None),
        ([ck(bm=0b110), ack(10)], None),
        # Acknowledgements of others: another pop, another group, another offset.
        ([ck(n=1, d=[0]), ack(10, pt=101)], 1100),
        ([ck(n=1, d=[0]), ack(10, c="H")], 1100),
        ([ck(n=1, d=[0]), ack(11)], 1100),
        ([ck(pt=200), ck(), ck(pt=50), ack(10, pt=50), batch(12, 15, pt=50)], 1100),
        # It is there later than its time is over, as when the broker writes it again.
        ([ck(pt=1, it=1)], 7),
        ([("ck", b"{}"), ("ck", b"?"), ck()], 1100),
    ],
)
def test_what_a_broker_has_to_redeliver_first(records: list[tuple[str, bytes]], due_ms: int | None) -> None:
    assert oldest_due_ms((tag, body, 7) for tag, body in records) == due_ms
