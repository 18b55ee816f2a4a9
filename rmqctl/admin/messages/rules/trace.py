"""Combine trace records: match the start and end of each delivery, and put all events in order."""

from __future__ import annotations

from collections.abc import Iterable

from rmqctl.model.trace import DeliveryEnd, DeliveryStart, TraceEvent, TraceRecord, TraceStep


def trace_steps(records: Iterable[TraceRecord]) -> list[TraceStep]:
    """Return the events in order of time, each once; clients may write a trace message twice.

    A delivery's start and end are matched by request id and message id: a listener may get several messages.
    """
    starts: dict[tuple[str, str], DeliveryStart] = {}
    ends: dict[tuple[str, str], DeliveryEnd] = {}
    steps: dict[TraceStep, None] = {}
    for record in records:
        if isinstance(record, DeliveryStart):
            starts.setdefault((record.request_id, record.msg_id), record)
        elif isinstance(record, DeliveryEnd):
            ends.setdefault((record.request_id, record.msg_id), record)
        else:
            steps.setdefault(record)
    deliveries = [_delivery(starts.get(key), ends.get(key)) for key in dict.fromkeys([*starts, *ends])]
    order = list(TraceEvent)
    return sorted([*steps, *deliveries], key=lambda step: (step.at_ms or 0, order.index(step.event)))


def _delivery(start: DeliveryStart | None, end: DeliveryEnd | None) -> TraceStep:
    known = start or end
    if known is None:
        raise AssertionError("a delivery has neither a start nor an end")
    end_ms = end.at_ms if end is not None else None
    return TraceStep(
        event=TraceEvent.DELIVERED,
        msg_id=known.msg_id,
        group=start.group if start is not None else known.group,
        # Without its start record, the start time follows from the end.
        at_ms=start.at_ms if start is not None else None if end is None or end_ms is None else end_ms - end.cost_ms,
        client_host=known.client_host,
        keys=known.keys,
        cost_ms=end.cost_ms if end is not None else None,
        result=end.result if end is not None else None,
        retry_times=start.retry_times if start is not None else None,
        request_id=known.request_id,
    )
