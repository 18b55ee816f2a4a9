"""Bodies of trace messages (TraceDataEncoder): records end with 0x02, fields are separated by 0x01."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmqctl.model.trace import DeliveryEnd, DeliveryStart, TraceEvent, TraceRecord, TraceStep

_FIELD_END = "\x01"
_RECORD_END = "\x02"
_MESSAGE_TYPES = ("NORMAL", "TRANS_HALF", "TRANS_COMMIT", "DELAY", "ORDER")  # MessageType, by ordinal
_RESULTS = ("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED")  # ConsumeReturnType, by ordinal
_MAX_DIGITS = 18


def decode_trace(body: bytes, client_host: str) -> tuple[list[TraceRecord], int]:
    """Return the records of one trace message, and how many cannot be read; unknown kinds are skipped.

    `client_host` is the born host of the trace message: the client that wrote it.
    """
    records: list[TraceRecord] = []
    unreadable_count = 0
    for text in body.decode(errors="replace").split(_RECORD_END):
        kind, *fields = text.split(_FIELD_END)
        read = _KINDS.get(kind.strip())
        if read is None:
            continue
        try:
            records.append(read(fields, client_host))
        except (IndexError, ValueError):
            unreadable_count += 1
    return records, unreadable_count


def _number(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > _MAX_DIGITS:
        raise ValueError("not a number")
    return int(text)


def _text(text: str) -> str | None:
    """Return a text, or None for an empty one and for "null", which Java writes for a missing text."""
    return None if text in ("", "null") else text


def _named(names: Sequence[str], text: str) -> str:
    at = _number(text)
    return names[at] if 0 <= at < len(names) else text


def _published(fields: Sequence[str], client_host: str) -> TraceStep:
    return TraceStep(
        event=TraceEvent.PUBLISHED,
        at_ms=_number(fields[0]),
        group=_text(fields[2]),
        topic=_text(fields[3]),
        msg_id=fields[4],
        tags=_text(fields[5]),
        keys=_text(fields[6]),
        store_host=_text(fields[7]),
        cost_ms=_number(fields[9]),
        message_type=_named(_MESSAGE_TYPES, fields[10]),
        offset_msg_id=_text(fields[11]),
        result="SUCCESS" if fields[12] == "true" else "FAILED",
        client_host=client_host,
    )


def _delivery_start(fields: Sequence[str], client_host: str) -> DeliveryStart:
    return DeliveryStart(
        at_ms=_number(fields[0]),
        group=fields[2],
        request_id=fields[3],
        msg_id=fields[4],
        retry_times=_number(fields[5]),
        keys=_text(fields[6]) if len(fields) > 6 else None,
        client_host=client_host,
    )


def _delivery_end(fields: Sequence[str], client_host: str) -> DeliveryEnd:
    is_success = fields[3] == "true"
    return DeliveryEnd(
        request_id=fields[0],
        msg_id=fields[1],
        cost_ms=_number(fields[2]),
        is_success=is_success,
        keys=_text(fields[4]) if len(fields) > 4 else None,
        # Clients before 4.4 write no code.
        result=_named(_RESULTS, fields[5]) if len(fields) > 5 else ("SUCCESS" if is_success else "FAILED"),
        at_ms=_number(fields[6]) if len(fields) > 6 else None,
        group=_text(fields[7]) if len(fields) > 7 else None,
        client_host=client_host,
    )


def _transaction_end(fields: Sequence[str], client_host: str) -> TraceStep:
    return TraceStep(
        event=TraceEvent.TRANSACTION_ENDED,
        at_ms=_number(fields[0]),
        group=_text(fields[2]),
        topic=_text(fields[3]),
        msg_id=fields[4],
        tags=_text(fields[5]),
        keys=_text(fields[6]),
        store_host=_text(fields[7]),
        message_type=_named(_MESSAGE_TYPES, fields[8]),
        transaction_id=_text(fields[9]),
        result=_text(fields[10]),
        client_host=client_host,
    )


def _recall(fields: Sequence[str], client_host: str) -> TraceStep:
    return TraceStep(
        event=TraceEvent.RECALLED,
        at_ms=_number(fields[0]),
        group=_text(fields[2]),
        topic=_text(fields[3]),
        msg_id=fields[4],
        result="SUCCESS" if fields[5] == "true" else "FAILED",
        client_host=client_host,
    )


_KINDS: dict[str, Callable[[Sequence[str], str], TraceRecord]] = {
    "Pub": _published,
    "SubBefore": _delivery_start,
    "SubAfter": _delivery_end,
    "EndTransaction": _transaction_end,
    "Recall": _recall,
}
