from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.protocol.record import encode_record, iter_batch, record_size
from tests.protocol.golden import Exchange, answer, answers
from tests.protocol.records import batch_entry
from tests.protocol.strategies import INT32, INT64

HOSTS = st.tuples(st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)), INT32)


def _encoded_again(message: StoredMessage) -> bytes:
    topic, properties = message._topic_and_properties()
    return encode_record(
        topic=topic, queue_id=message.queue_id, queue_offset=message.queue_offset,
        commit_log_offset=message.commit_log_offset, flag=message.flag, sys_flag=message.sys_flag,
        born_at_ms=message.born_at_ms, born_host=message.born_address, stored_at_ms=message.stored_at_ms,
        store_host=message.store_address, reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset, body=message.stored_body,
        properties=properties,
    )  # fmt: skip


@pytest.mark.parametrize("exchange", answers(11, 12), ids=str)
def test_recorded_messages_come_out_byte_for_byte(exchange: Exchange) -> None:
    for message in iter_messages(answer(exchange).body):
        assert _encoded_again(message) == message.record


@given(
    topic=st.text(max_size=200).map(lambda text: text.encode(errors="replace")[:255]),
    body=st.binary(max_size=50), properties=st.binary(max_size=50), born_host=HOSTS, store_host=HOSTS,
    number=INT32, long=INT64,
)  # fmt: skip
def test_what_is_encoded_reads_back(
    topic: bytes, body: bytes, properties: bytes, born_host: tuple[bytes, int], store_host: tuple[bytes, int],
    number: int, long: int,
) -> None:  # fmt: skip
    record = encode_record(
        topic=topic, queue_id=number, queue_offset=long, commit_log_offset=long, flag=number, sys_flag=0,
        born_at_ms=long, born_host=born_host, stored_at_ms=long, store_host=store_host, reconsume_times=number,
        prepared_transaction_offset=long, body=body, properties=properties,
    )  # fmt: skip
    assert len(record) == record_size(len(topic), len(body), len(properties), len(born_host[0]), len(store_host[0]))
    message = StoredMessage.decode(record)
    assert _encoded_again(message) == record
    assert (message.stored_body, message.queue_offset, message.flag) == (body, long, number)
    assert message.body_crc_ok


def test_a_batch_is_cut_into_its_messages() -> None:
    data = batch_entry(b"one", properties=b"TAGS\x01a\x02") + batch_entry(b"")
    one, other = iter_batch(data)
    assert (one.body, one.properties) == (b"one", "TAGS\x01a\x02")
    assert (other.body, other.properties) == (b"", "")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_batch_or_refused(data: bytes) -> None:
    try:
        parts = list(iter_batch(data))
    except RemoteProtocolError:
        return
    assert sum(22 + len(part.body) for part in parts) <= len(data)


@pytest.mark.parametrize("cut", [1, 10, 21, -1])
def test_a_batch_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        list(iter_batch(batch_entry(b"body", properties=b"TAGS\x01a")[:cut]))
