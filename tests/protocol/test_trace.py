from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqctl.model.trace import DeliveryEnd, DeliveryStart, TraceEvent, TraceStep
from rmqctl.protocol.trace import decode_trace

HOST = "192.0.2.1:50000"
# As a Java client 5.4.0 wrote them.
PUB = (
    b"Pub\x011795256495733\x01DefaultRegion\x01P\x01Traced\x01FD02\x01TagA\x01k0\x01127.0.0.1:56737\x012\x0183\x010"
    b"\x017F0000010000DDA10000000000000000\x01true\x02"
)
BEFORE = b"SubBefore\x011795256497533\x01DefaultRegion\x01G\x01R1\x01FD02\x010\x01k1\x02"
AFTER = b"SubAfter\x01R1\x01FD02\x017\x01false\x01k1\x014\x011795256497540\x01G\x02"


def test_the_records_of_java_are_read() -> None:
    records, unreadable_count = decode_trace(PUB + BEFORE + AFTER, HOST)
    assert unreadable_count == 0
    assert records == [
        TraceStep(
            event=TraceEvent.PUBLISHED, msg_id="FD02", group="P", at_ms=1_795_256_495_733, client_host=HOST,
            topic="Traced", keys="k0", tags="TagA", cost_ms=83, result="SUCCESS", store_host="127.0.0.1:56737",
            offset_msg_id="7F0000010000DDA10000000000000000", message_type="NORMAL",
        ),
        DeliveryStart(1_795_256_497_533, "G", "R1", "FD02", 0, "k1", HOST),
        DeliveryEnd("R1", "FD02", 7, False, "k1", "FAILED", 1_795_256_497_540, "G", HOST),
    ]  # fmt: skip


def test_what_java_writes_for_nothing_is_none() -> None:
    (record,), _ = decode_trace(PUB.replace(b"TagA", b"null").replace(b"k0", b""), HOST)
    assert isinstance(record, TraceStep)
    assert (record.tags, record.keys) == (None, None)


def test_an_end_without_time_and_code_is_read() -> None:
    (record,), _ = decode_trace(b"SubAfter\x01R1\x01FD02\x017\x01true\x02", HOST)
    assert isinstance(record, DeliveryEnd)
    assert (record.result, record.at_ms, record.group) == ("SUCCESS", None, None)


def test_a_result_that_nobody_knows_keeps_its_number() -> None:
    (record,), _ = decode_trace(AFTER.replace(b"\x014\x01", b"\x019\x01"), HOST)
    assert isinstance(record, DeliveryEnd)
    assert record.result == "9"


def test_transactions_and_recalls_are_read() -> None:
    body = (
        b"EndTransaction\x0110\x01R\x01P\x01T\x01FD02\x01A\x01k\x01h:1\x012\x01TX\x01COMMIT_MESSAGE\x01false\x02"
        b"Recall\x0111\x01R\x01P\x01T\x01FD02\x01true\x02"
    )
    (ended, recalled), _ = decode_trace(body, HOST)
    assert isinstance(ended, TraceStep)
    assert isinstance(recalled, TraceStep)
    assert (ended.event, ended.transaction_id, ended.result) == (TraceEvent.TRANSACTION_ENDED, "TX", "COMMIT_MESSAGE")
    assert (recalled.event, recalled.result) == (TraceEvent.RECALLED, "SUCCESS")


def test_one_bad_record_does_not_hide_the_others_and_is_counted() -> None:
    records, unreadable_count = decode_trace(b"Pub\x01x\x02" + BEFORE + b"Unheard\x011\x02SubAfter\x01R\x02", HOST)
    assert [type(record) for record in records] == [DeliveryStart]
    assert unreadable_count == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_counted(body: bytes) -> None:
    for data in (body, PUB[: len(body)] + body, BEFORE.replace(b"0", body[:8])):
        records, unreadable_count = decode_trace(data, HOST)
        assert len(records) + unreadable_count <= data.count(b"\x02") + 1
