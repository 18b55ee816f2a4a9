"""The progress of the queues in a sample, and what rules/health observes of each: live or read from a recording."""

from __future__ import annotations

from rmqctl.model.progress import QueueProgress, QueueReading, Unknown
from rmqctl.model.sample import GroupSample, QueueSample
from rmqctl.rules.health import Observation
from rmqctl.rules.progress import compute_progress

from .recording import QueueDetail, RecordedSample


def sample_progress(recorded: RecordedSample) -> list[QueueProgress]:
    """Compute the progress of each queue in a sample, by the rules of `offset show`."""
    return [
        compute_progress(
            _reading(queue, recorded.sample, recorded.details.get(mq, QueueDetail())), is_pop=queue.is_popped
        )
        for mq, queue in sorted(recorded.sample.queues.items())
    ]


def observation_of(row: QueueProgress, at_ms: int) -> Observation:
    """Return what the health of a queue is judged by."""
    return Observation(
        at_ms=at_ms,
        consumer_offset=row.consumer_offset,
        max_offset=row.max_offset,
        min_offset=row.min_offset,
        is_held=is_held(row),
        last_timestamp_ms=row.last_timestamp_ms,
        is_none_stored=is_none_stored(row) is True,
    )


def is_held(row: QueueProgress) -> bool | None:
    """Return whether a member held a queue, as used by rules/health: None when members do not report it.

    A member that pops reports its messages, not its queues. Members that were not asked do not report either.
    """
    if row.client_ids:
        return True
    if row.reasons.get("inflight") is Unknown.POP:
        return None
    return False if row.reasons.get("clientId") in (Unknown.NO_MEMBERS, Unknown.NOT_ASSIGNED) else None


def is_none_stored(row: QueueProgress) -> bool | None:
    """Return whether the broker reported that no offset is stored; None when the offset is unknown."""
    if row.consumer_offset is not None:
        return False
    return True if row.reasons.get("consumerOffset") is Unknown.NEVER_COMMITTED else None


def _reading(queue: QueueSample, sample: GroupSample, detail: QueueDetail) -> QueueReading:
    reasons = dict(queue.reasons)
    consumer_offset = queue.consumer_offset
    if consumer_offset is not None and (consumer_offset < 0 or detail.is_none_stored):
        # Clients treat an offset below 0 as not stored (RemoteBrokerOffsetStore).
        consumer_offset, reasons["consumerOffset"] = None, Unknown.NEVER_COMMITTED
    elif consumer_offset == 0 and detail.is_none_stored is None:
        # A broker also answers 0 for "none stored".
        consumer_offset, reasons["consumerOffset"] = None, Unknown.NOT_REPORTED
    for name, value in (
        ("consumerOffset", consumer_offset),
        ("maxOffset", queue.max_offset),
        ("minOffset", detail.min_offset),
    ):
        if value is None:
            reasons.setdefault(name, Unknown.NOT_REPORTED)
    client_ids = tuple(owner.client_id for owner in queue.owners if not owner.is_dropped)
    if not client_ids and "clientId" not in reasons:
        # All of its owners are giving it up.
        reasons["clientId"] = Unknown.CLIENT_SILENT if sample.silent_ids else Unknown.NOT_ASSIGNED
    return QueueReading(
        mq=queue.mq,
        min_offset=detail.min_offset,
        max_offset=queue.max_offset,
        consumer_offset=consumer_offset,
        last_timestamp_ms=detail.last_timestamp_ms,
        client_ids=client_ids,
        reasons=reasons,
        at_ms=sample.at_ms,
    )
