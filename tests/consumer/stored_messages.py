"""Messages as a broker would return them, made by its record writer."""

from __future__ import annotations

from collections.abc import Iterable

from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.record import encode_record

_HOST = (bytes([127, 0, 0, 1]), 10911)


def stored(queue_offset: int, body: bytes = b"m") -> StoredMessage:
    """Return the message at an offset."""
    record = encode_record(
        topic=b"T", queue_id=0, queue_offset=queue_offset, commit_log_offset=0, flag=0, sys_flag=0, born_at_ms=0,
        born_host=_HOST, stored_at_ms=0, store_host=_HOST, reconsume_times=0, prepared_transaction_offset=0, body=body,
        properties=b"",
    )  # fmt: skip
    return StoredMessage.decode(record)


def stored_at(offsets: Iterable[int]) -> list[StoredMessage]:
    """Return a message at each offset."""
    return [stored(offset) for offset in offsets]
