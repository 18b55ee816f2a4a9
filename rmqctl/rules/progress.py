"""Figures derived from the offsets of one queue: lag, losses, messages in flight, duplicate risk, retention left."""

from __future__ import annotations

from collections.abc import Mapping

from rmqctl.model.group import ProcessQueueInfo
from rmqctl.model.progress import LagState, PulledSource, QueueProgress, QueueReading, TimeLagSource, Unknown


def compute_progress(reading: QueueReading, *, is_broadcasting: bool = False, is_pop: bool = False) -> QueueProgress:
    """Compute one row from one reading. An unknown value never becomes 0: it stays None and gets a reason."""
    reasons = dict(reading.reasons)
    lag, lost = _lag(reading, reasons, is_broadcasting=is_broadcasting)
    inflight = _inflight(reading, reasons, is_broadcasting=is_broadcasting, is_pop=is_pop)
    duplicate_risk = _duplicate_risk(reading, reasons, is_broadcasting=is_broadcasting, is_pop=is_pop)
    time_lag_ms, time_lag_source = _time_lag(reading, lag, reasons)
    return QueueProgress(
        mq=reading.mq,
        min_offset=reading.min_offset,
        max_offset=reading.max_offset,
        consumer_offset=reading.consumer_offset,
        pull_offset=reading.pull_offset,
        lag=lag,
        lost=lost,
        inflight=inflight,
        duplicate_risk=duplicate_risk,
        duplicate_risk_source=reading.pulled_source if duplicate_risk is not None else None,
        last_timestamp_ms=reading.last_timestamp_ms,
        time_lag_ms=time_lag_ms,
        time_lag_source=time_lag_source,
        retention_left_ms=_retention_left(reading, lag, time_lag_ms, reasons),
        client_ids=reading.client_ids,
        reasons=reasons,
        pulled_to=reading.pulled_to,
        first_unfinished=reading.first_unfinished,
        at_ms=reading.at_ms,
    )


def compute_lag(min_offset: int | None, max_offset: int, consumer_offset: int) -> tuple[int, int | None]:
    """Return how many messages can still be consumed, and how many were deleted unread (None when min is unknown).

    For an offset below min, mqadmin counts deleted messages as lag; here they are lost, not lag.
    """
    if min_offset is None:
        return max_offset - consumer_offset, None
    lost = max(0, min(min_offset, max_offset) - consumer_offset)
    return max_offset - consumer_offset - lost, lost


def lag_state(row: QueueProgress) -> LagState | Unknown:
    """Return what the lag of a row means, or why it is unknown."""
    if row.lag is None:
        return row.reasons["lag"]
    if row.lag > 0:
        return LagState.BEHIND
    if row.consumer_offset is None:
        return LagState.NO_MESSAGES
    return LagState.EXPIRED if row.lost else LagState.CAUGHT_UP


def uncommitted_count(row: QueueProgress) -> int:
    """Return the number of messages in a queue without a stored offset, 0 for other queues."""
    if row.reasons.get("consumerOffset") is not Unknown.NEVER_COMMITTED:
        return 0
    return max(0, (row.max_offset or 0) - (row.min_offset or 0)) if row.min_offset is not None else 0


def _lag(reading: QueueReading, reasons: dict[str, Unknown], *, is_broadcasting: bool) -> tuple[int | None, int | None]:
    consumer_offset, max_offset, min_offset = reading.consumer_offset, reading.max_offset, reading.min_offset
    if is_broadcasting:
        # Members of a broadcasting group keep their offsets in local files; one at a broker is a leftover.
        reason = Unknown.BROADCASTING
    elif consumer_offset is None:
        reason = reasons.get("consumerOffset", Unknown.NEVER_COMMITTED)
        if reason is Unknown.NEVER_COMMITTED and max_offset is not None and min_offset == max_offset:
            # Wherever a consumer starts, an empty queue has no messages for it.
            return 0, 0
    elif max_offset is None:
        reason = reasons.get("maxOffset", Unknown.NOT_REPORTED)
    elif min_offset is None and consumer_offset < max_offset and reading.last_timestamp_ms is None:
        # Some of the messages in between may have been deleted, unless the message before them still exists.
        reason = reasons.get("minOffset", Unknown.NOT_REPORTED)
    elif consumer_offset > max_offset:
        # The topic was recreated, or a reset went wrong: clients are sent back by PULL_OFFSET_MOVED.
        reason = Unknown.OFFSET_BEYOND_MAX
    else:
        if min_offset is None:
            if reading.last_timestamp_ms is not None:
                return max_offset - consumer_offset, 0
            reasons["lost"] = reasons.get("minOffset", Unknown.NOT_REPORTED)
        return compute_lag(min_offset, max_offset, consumer_offset)
    reasons["lag"] = reasons["lost"] = reason
    return None, None


def _inflight(reading: QueueReading, reasons: dict[str, Unknown], *, is_broadcasting: bool, is_pop: bool) -> int | None:
    if is_broadcasting:
        reasons["inflight"] = Unknown.BROADCASTING
    elif is_pop:
        # A pop advances the stored offset immediately; check points, not offsets, count the messages in flight.
        reasons["inflight"] = Unknown.POP
    elif reading.consumer_offset is None:
        reasons["inflight"] = reasons.get("consumerOffset", Unknown.NEVER_COMMITTED)
    elif reading.pull_offset is None:
        reasons["inflight"] = reasons.get("pullOffset", Unknown.NOT_REPORTED)
    else:
        return max(0, reading.pull_offset - reading.consumer_offset)
    return None


def _duplicate_risk(
    reading: QueueReading, reasons: dict[str, Unknown], *, is_broadcasting: bool, is_pop: bool
) -> int | None:
    """Count messages that are processed but not committed: those pulled, less those still in flight.

    With 2101 stuck and 2102 to 2200 processed, the stored offset is 2101 and pulled_to 2201: a crash redelivers 99.
    """
    if is_broadcasting:
        reasons["duplicateRisk"] = Unknown.BROADCASTING
    elif is_pop:
        reasons["duplicateRisk"] = Unknown.POP
    elif reading.consumer_offset is None:
        reasons["duplicateRisk"] = reasons.get("consumerOffset", Unknown.NEVER_COMMITTED)
    elif reading.pulled_to is None:
        reasons["duplicateRisk"] = reasons.get("pullOffset", Unknown.NOT_REPORTED)
    else:
        return max(0, reading.pulled_to - reading.consumer_offset - (reading.cached_count or 0))
    return None


def _time_lag(
    reading: QueueReading, lag: int | None, reasons: dict[str, Unknown]
) -> tuple[int | None, TimeLagSource | None]:
    if lag is None:
        reasons["timeLagMs"] = reasons["lag"]
        return None, None
    if lag == 0:
        return 0, TimeLagSource.NO_BACKLOG
    below_min = reading.min_offset is not None and (reading.consumer_offset or 0) < reading.min_offset
    age_ms = reading.oldest_age_ms if below_min else reading.head_age_ms
    if age_ms is None:
        reasons["timeLagMs"] = reasons.get("headAgeMs", Unknown.NOT_REPORTED)
        return None, None
    # A broker whose clock was set back can store "in the future".
    is_sure = reading.are_times_rising and age_ms >= 0
    return max(0, age_ms), TimeLagSource.HEAD_STORE_TIME if is_sure else TimeLagSource.UNORDERED_STORE_TIME


def _retention_left(
    reading: QueueReading, lag: int | None, time_lag_ms: int | None, reasons: dict[str, Unknown]
) -> int | None:
    if lag == 0:
        reasons["retentionLeftMs"] = Unknown.NOTHING_UNREAD
    elif lag is None or time_lag_ms is None:
        reasons["retentionLeftMs"] = reasons["timeLagMs"]
    elif reading.retention_ms is None:
        reasons["retentionLeftMs"] = reasons.get("retentionMs", Unknown.NOT_REPORTED)
    else:
        return reading.retention_ms - time_lag_ms
    return None


def pulled_to(
    broker_pull_offset: int | None, held: ProcessQueueInfo | None, max_offset: int | None, window: int
) -> tuple[int | None, PulledSource | None]:
    """Return up to which offset a queue was pulled, and the source of that; None twice when it is unknown.

    The broker's pull offset (5.x) is only known since its start, so a client's higher offset wins. Without a pull
    offset, a client that holds no messages has pulled up to its own position. One that holds messages has pulled at
    most `window` beyond the first of them (consumeConcurrentlyMaxSpan and one batch): its answer does not contain the
    messages that it has finished out of order.
    """
    if broker_pull_offset is not None:
        if held is not None and held.cached_count > 0 and held.cached_max_offset >= broker_pull_offset:
            return held.cached_max_offset + 1, PulledSource.CLIENT
        return broker_pull_offset, PulledSource.BROKER
    if held is None:
        return None, None
    if held.cached_count == 0:
        position = held.position
        return position, None if position is None else PulledSource.CLIENT
    bound = held.cached_min_offset + window
    if max_offset is not None:
        bound = min(bound, max_offset)
    return max(bound, held.cached_max_offset + 1), PulledSource.CLIENT_WINDOW


# Defaults of Java's push consumer (consumeConcurrentlyMaxSpan, pullBatchSize), for clients that do not report theirs.
_MAX_SPAN = 2000
_PULL_BATCH = 32


def pull_window(properties: Mapping[str, str]) -> int:
    """Return how far beyond its first unfinished message a client may have pulled, by its span limit.

    `properties` are from its running info.
    """
    try:
        span = int(properties.get("consumeConcurrentlyMaxSpan", _MAX_SPAN))
        return span + int(properties.get("pullBatchSize", _PULL_BATCH))
    except ValueError:
        return _MAX_SPAN + _PULL_BATCH


def retention_ms(reserved_hours: int, disk_used_ratio: float, forced_at_ratio: float) -> int:
    """Return how long a broker certainly keeps a message, in ms; ratios are 0 to 1.

    fileReservedTime is in hours. On a disk fuller than diskSpaceCleanForciblyRatio, files of any age are deleted, so
    the result is 0 (DefaultMessageStore.CleanCommitLogService; above diskMaxUsedSpaceRatio only expired files are).
    """
    if disk_used_ratio >= forced_at_ratio:
        return 0
    return reserved_hours * 3_600_000
