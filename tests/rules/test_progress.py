from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rmqctl.model.group import ProcessQueueInfo
from rmqctl.model.progress import LagState, PulledSource, QueueProgress, QueueReading, TimeLagSource, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.progress import (
    compute_lag,
    compute_progress,
    lag_state,
    pull_window,
    pulled_to,
    retention_ms,
    uncommitted_count,
)

MQ = MessageQueue("T", "broker-a", 0)
HOUR_MS = 3_600_000


def _reading(**given: Any) -> QueueReading:
    """Return a reading of a queue that holds 100 to 299, committed up to 200, of a 5.x broker."""
    values: dict[str, Any] = {
        "min_offset": 100,
        "max_offset": 300,
        "consumer_offset": 200,
        "pull_offset": 232,
        "last_timestamp_ms": 1_800_000_000_000,
        "head_age_ms": 5_000,
        "retention_ms": 72 * HOUR_MS,
        "client_ids": ("c1",),
        "cached_count": 32,
        "pulled_to": 232,
        "pulled_source": PulledSource.BROKER,
    }
    return QueueReading(MQ, **{**values, **given})


def _held(**given: Any) -> ProcessQueueInfo:
    values: dict[str, Any] = {
        "cached_count": 0,
        "cached_min_offset": 0,
        "cached_max_offset": 0,
        "commit_offset": None,
        "dropped": False,
    }
    return ProcessQueueInfo(**{**values, **given})


def test_a_queue_in_full_swing() -> None:
    progress = compute_progress(_reading())
    assert (progress.lag, progress.lost, progress.inflight, progress.duplicate_risk) == (100, 0, 32, 0)
    assert (progress.time_lag_ms, progress.time_lag_source) == (5_000, TimeLagSource.HEAD_STORE_TIME)
    assert progress.retention_left_ms == 72 * HOUR_MS - 5_000
    assert progress.duplicate_risk_source is PulledSource.BROKER
    assert progress.client_ids == ("c1",)
    assert progress.reasons == {}


def test_what_was_read_stands_in_the_row_unchanged() -> None:
    reading = _reading()
    progress = compute_progress(reading)
    for name in ("mq", "min_offset", "max_offset", "consumer_offset", "pull_offset", "last_timestamp_ms", "client_ids"):
        assert getattr(progress, name) == getattr(reading, name)


# The duplicate-risk window


def test_a_stuck_head_puts_everything_done_behind_it_at_risk() -> None:
    # 2101 to 2200 pulled, 2101 stuck, 2102 to 2200 done: a crash repeats 99 messages.
    progress = compute_progress(
        _reading(consumer_offset=2101, max_offset=2201, pull_offset=2201, pulled_to=2201, cached_count=1)
    )
    assert progress.duplicate_risk == 99
    assert progress.inflight == 100
    assert progress.lag == 100


def test_a_stuck_head_on_4_9_is_bounded_by_the_clients_window_and_the_end_of_the_queue() -> None:
    held = _held(cached_count=1, cached_min_offset=2101, cached_max_offset=2101, commit_offset=2101)
    up_to, source = pulled_to(None, held, 2201, 2032)
    assert (up_to, source) == (2201, PulledSource.CLIENT_WINDOW)
    reading = _reading(
        consumer_offset=2101,
        max_offset=2201,
        pull_offset=None,
        pulled_to=up_to,
        pulled_source=source,
        cached_count=1,
        reasons={"pullOffset": Unknown.BROKER_TOO_OLD},
    )
    progress = compute_progress(reading)
    assert (progress.duplicate_risk, progress.duplicate_risk_source) == (99, PulledSource.CLIENT_WINDOW)
    assert progress.inflight is None
    assert progress.reasons["inflight"] is Unknown.BROKER_TOO_OLD


def test_messages_still_in_hand_are_in_flight_but_no_risk() -> None:
    progress = compute_progress(_reading(consumer_offset=200, pulled_to=232, pull_offset=232, cached_count=32))
    assert (progress.inflight, progress.duplicate_risk) == (32, 0)


def test_a_queue_that_nobody_holds_counts_everything_pulled_as_risk() -> None:
    assert compute_progress(_reading(cached_count=None, client_ids=())).duplicate_risk == 32


def test_a_client_that_cached_more_than_the_broker_saw_pulled_is_no_negative_risk() -> None:
    progress = compute_progress(_reading(pull_offset=190, pulled_to=190, cached_count=50))
    assert (progress.inflight, progress.duplicate_risk) == (0, 0)


def test_nothing_known_of_the_pulls_is_an_unknown_risk() -> None:
    progress = compute_progress(_reading(pull_offset=None, pulled_to=None, pulled_source=None))
    assert (progress.inflight, progress.duplicate_risk, progress.duplicate_risk_source) == (None, None, None)
    assert progress.reasons["duplicateRisk"] is Unknown.NOT_REPORTED


# None is not 0


def test_never_committed_is_not_zero() -> None:
    never = compute_progress(
        _reading(consumer_offset=None, last_timestamp_ms=None, reasons={"consumerOffset": Unknown.NEVER_COMMITTED})
    )
    for name, key in (
        ("lag", "lag"),
        ("lost", "lost"),
        ("inflight", "inflight"),
        ("duplicate_risk", "duplicateRisk"),
        ("time_lag_ms", "timeLagMs"),
        ("retention_left_ms", "retentionLeftMs"),
    ):
        assert getattr(never, name) is None
        assert never.reasons[key] is Unknown.NEVER_COMMITTED
    zero = compute_progress(_reading(consumer_offset=0, min_offset=0))
    assert (zero.lag, zero.lost) == (300, 0)
    assert "lag" not in zero.reasons


def test_an_empty_queue_has_nothing_for_a_group_that_never_committed() -> None:
    progress = compute_progress(
        _reading(
            consumer_offset=None, min_offset=300, max_offset=300, reasons={"consumerOffset": Unknown.NEVER_COMMITTED}
        )
    )
    assert (progress.consumer_offset, progress.lag, progress.lost, progress.time_lag_ms) == (None, 0, 0, 0)
    assert progress.reasons["consumerOffset"] is Unknown.NEVER_COMMITTED


def test_an_offset_that_could_not_be_read_hides_even_an_empty_queues_lag() -> None:
    progress = compute_progress(
        _reading(consumer_offset=None, min_offset=300, reasons={"consumerOffset": Unknown.NOT_REPORTED})
    )
    assert progress.lag is None
    assert progress.reasons["lag"] is Unknown.NOT_REPORTED


def test_a_broker_that_did_not_answer_is_the_reason_of_everything() -> None:
    names = ("minOffset", "maxOffset", "consumerOffset", "pullOffset", "lastTimestamp")
    progress = compute_progress(QueueReading(MQ, reasons=dict.fromkeys(names, Unknown.BROKER_UNREACHABLE)))
    assert set(progress.reasons.values()) == {Unknown.BROKER_UNREACHABLE}
    assert progress.lag is None


def test_an_unknown_end_of_the_queue_is_an_unknown_lag() -> None:
    progress = compute_progress(_reading(max_offset=None, reasons={"maxOffset": Unknown.NOT_REPORTED}))
    assert progress.lag is None
    assert progress.reasons["lag"] is Unknown.NOT_REPORTED


# Offsets outside of the queue


def test_an_offset_below_min_counts_deleted_messages_as_lost_and_not_as_lag() -> None:
    progress = compute_progress(_reading(consumer_offset=30, oldest_age_ms=9_000))
    assert (progress.lag, progress.lost) == (200, 70)
    # The first message that can still be read is the oldest that is left, not the one at the offset.
    assert progress.time_lag_ms == 9_000


def test_a_group_whose_whole_backlog_was_deleted_has_no_lag() -> None:
    progress = compute_progress(_reading(consumer_offset=30, min_offset=300, max_offset=300))
    assert (progress.lag, progress.lost, progress.time_lag_ms) == (0, 270, 0)
    assert progress.time_lag_source is TimeLagSource.NO_BACKLOG
    assert progress.retention_left_ms is None
    assert progress.reasons["retentionLeftMs"] is Unknown.NOTHING_UNREAD


def test_without_a_min_offset_the_lag_may_hold_deleted_messages_and_is_unknown() -> None:
    unread = {"minOffset": Unknown.NOT_REPORTED}
    progress = compute_progress(_reading(min_offset=None, last_timestamp_ms=None, reasons=unread))
    assert (progress.lag, progress.lost) == (None, None)
    assert progress.reasons["lag"] is progress.reasons["lost"] is Unknown.NOT_REPORTED


def test_without_a_min_offset_the_store_time_of_the_last_consumed_message_proves_that_nothing_was_lost() -> None:
    progress = compute_progress(_reading(min_offset=None, reasons={"minOffset": Unknown.NOT_REPORTED}))
    assert (progress.lag, progress.lost) == (100, 0)
    assert progress.reasons.keys().isdisjoint({"lag", "lost"})


def test_without_a_min_offset_nothing_is_unread_at_the_end_of_a_queue() -> None:
    reading = _reading(min_offset=None, reasons={"minOffset": Unknown.NOT_REPORTED})
    reading = structs.replace(reading, last_timestamp_ms=None)
    progress = compute_progress(structs.replace(reading, consumer_offset=reading.max_offset))
    assert (progress.lag, progress.lost) == (0, None)


def test_an_offset_beyond_max_is_no_negative_lag() -> None:
    progress = compute_progress(_reading(consumer_offset=301, pull_offset=301, pulled_to=301, cached_count=0))
    assert (progress.lag, progress.lost, progress.time_lag_ms, progress.retention_left_ms) == (None,) * 4
    assert progress.reasons["lag"] is Unknown.OFFSET_BEYOND_MAX
    assert progress.inflight == 0


def test_an_offset_at_max_is_no_lag_and_nothing_to_lose() -> None:
    progress = compute_progress(_reading(consumer_offset=300, pull_offset=300, pulled_to=300, cached_count=0))
    assert (progress.lag, progress.time_lag_ms, progress.time_lag_source) == (0, 0, TimeLagSource.NO_BACKLOG)
    assert progress.reasons == {"retentionLeftMs": Unknown.NOTHING_UNREAD}


@pytest.mark.parametrize(
    ("min_offset", "max_offset", "consumer_offset", "expected"),
    [
        (0, 0, 0, (0, 0)),
        (0, 10, 0, (10, 0)),
        (5, 10, 5, (5, 0)),
        (5, 10, 4, (5, 1)),
        (10, 10, 0, (0, 10)),
        (None, 10, 4, (6, None)),
    ],
)
def test_lag_and_losses_share_what_lies_between_the_offset_and_max(
    min_offset: int | None, max_offset: int, consumer_offset: int, expected: tuple[int, int | None]
) -> None:
    assert compute_lag(min_offset, max_offset, consumer_offset) == expected


# Groups of another kind


def test_what_the_broker_stores_of_a_broadcasting_group_says_nothing() -> None:
    progress = compute_progress(_reading(), is_broadcasting=True)
    derived = (progress.lag, progress.lost, progress.inflight, progress.duplicate_risk, progress.time_lag_ms)
    assert derived == (None,) * 5
    assert {progress.reasons[key] for key in ("lag", "lost", "inflight", "duplicateRisk", "timeLagMs")} == {
        Unknown.BROADCASTING
    }
    assert progress.consumer_offset == 200


def test_a_popping_groups_messages_out_can_not_be_told_by_offsets() -> None:
    progress = compute_progress(_reading(), is_pop=True)
    assert (progress.inflight, progress.duplicate_risk, progress.duplicate_risk_source) == (None, None, None)
    assert progress.reasons == {"inflight": Unknown.POP, "duplicateRisk": Unknown.POP}
    assert progress.lag == 100


# Time


def test_an_unknown_age_of_the_head_is_an_unknown_time_lag() -> None:
    progress = compute_progress(_reading(head_age_ms=None))
    assert progress.time_lag_ms is None
    assert progress.reasons["timeLagMs"] is progress.reasons["retentionLeftMs"] is Unknown.NOT_REPORTED


def test_a_head_stored_in_the_future_is_no_negative_time_lag() -> None:
    progress = compute_progress(_reading(head_age_ms=-5_000))
    assert (progress.time_lag_ms, progress.retention_left_ms) == (0, 72 * HOUR_MS)
    assert progress.time_lag_source is TimeLagSource.UNORDERED_STORE_TIME


def test_an_age_in_a_queue_whose_store_times_go_back_says_so() -> None:
    progress = compute_progress(_reading(are_times_rising=False))
    assert (progress.time_lag_ms, progress.time_lag_source) == (5_000, TimeLagSource.UNORDERED_STORE_TIME)
    at_the_end = structs.replace(_reading(are_times_rising=False), consumer_offset=300)
    assert compute_progress(at_the_end).time_lag_source is TimeLagSource.NO_BACKLOG


def test_a_head_that_is_overdue_has_a_negative_time_left() -> None:
    progress = compute_progress(_reading(head_age_ms=73 * HOUR_MS))
    assert progress.retention_left_ms == -HOUR_MS


def test_an_unknown_retention_is_an_unknown_time_left() -> None:
    progress = compute_progress(_reading(retention_ms=None))
    assert progress.retention_left_ms is None
    assert progress.reasons == {"retentionLeftMs": Unknown.NOT_REPORTED}


@pytest.mark.parametrize(
    ("used", "limit", "expected"), [(0.5, 0.75, 72 * HOUR_MS), (0.75, 0.75, 0), (0.9, 0.75, 0), (0.0, 0.0, 0)]
)
def test_a_broker_keeps_messages_its_reserved_time_unless_its_disk_is_too_full(
    used: float, limit: float, expected: int
) -> None:
    assert retention_ms(72, used, limit) == expected


# How far was pulled


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (None, (None, None)),
        (_held(), (None, None)),
        (_held(commit_offset=50), (50, PulledSource.CLIENT)),
        (_held(commit_offset=0), (0, PulledSource.CLIENT)),
        (_held(cached_count=3, cached_min_offset=10, cached_max_offset=90), (100, PulledSource.CLIENT_WINDOW)),
        (_held(cached_count=1, cached_min_offset=90, cached_max_offset=120), (121, PulledSource.CLIENT_WINDOW)),
    ],
    ids=["nobody", "no position", "position", "position 0", "bounded by max", "beyond max"],
)
def test_without_the_brokers_note_the_client_tells_how_far_it_pulled(
    held: ProcessQueueInfo | None, expected: tuple[int | None, PulledSource | None]
) -> None:
    assert pulled_to(None, held, 100, 2_032) == expected


def test_the_brokers_note_wins_over_the_clients_word() -> None:
    assert pulled_to(0, _held(commit_offset=50), 100, 2_032) == (0, PulledSource.BROKER)


def test_without_an_end_of_the_queue_the_window_alone_bounds() -> None:
    held = _held(cached_count=1, cached_min_offset=10, cached_max_offset=10)
    assert pulled_to(None, held, None, 2_032) == (2_042, PulledSource.CLIENT_WINDOW)


@pytest.mark.parametrize(
    ("properties", "window"),
    [
        ({}, 2_032),
        ({"consumeConcurrentlyMaxSpan": "500", "pullBatchSize": "10"}, 510),
        ({"pullBatchSize": "10"}, 2_010),
        ({"consumeConcurrentlyMaxSpan": "many"}, 2_032),
        ({"consumeConcurrentlyMaxSpan": ""}, 2_032),
    ],
)
def test_the_window_is_the_clients_span_and_one_batch(properties: dict[str, str], window: int) -> None:
    assert pull_window(properties) == window


# Whatever was read

OFFSETS = st.none() | st.integers(0, 2**63 - 1) | st.integers(0, 5_000)
AGES = st.none() | st.integers(-(10**10), 10**11)
READ_KEYS = {
    "min_offset": "minOffset",
    "max_offset": "maxOffset",
    "consumer_offset": "consumerOffset",
    "pull_offset": "pullOffset",
    "last_timestamp_ms": "lastTimestamp",
}
DERIVED_KEYS = {
    "lag": "lag",
    "lost": "lost",
    "inflight": "inflight",
    "duplicate_risk": "duplicateRisk",
    "time_lag_ms": "timeLagMs",
    "retention_left_ms": "retentionLeftMs",
}


@st.composite
def readings(draw: st.DrawFn) -> QueueReading:
    values: dict[str, Any] = {name: draw(OFFSETS) for name in READ_KEYS}
    reasons = {
        key: draw(st.sampled_from([Unknown.NEVER_COMMITTED, Unknown.NOT_REPORTED, Unknown.BROKER_UNREACHABLE]))
        for name, key in READ_KEYS.items()
        if values[name] is None
    }
    return QueueReading(
        MQ,
        **values,
        head_age_ms=draw(AGES),
        oldest_age_ms=draw(AGES),
        retention_ms=draw(st.none() | st.integers(0, 10**10)),
        cached_count=draw(st.none() | st.integers(0, 10_000)),
        pulled_to=draw(OFFSETS),
        pulled_source=draw(st.none() | st.sampled_from(PulledSource)),
        reasons=reasons,
    )


@given(readings(), st.booleans(), st.booleans())
def test_nothing_but_the_time_left_is_ever_negative(reading: QueueReading, is_broadcasting: bool, is_pop: bool) -> None:
    progress = compute_progress(reading, is_broadcasting=is_broadcasting, is_pop=is_pop)
    for name in QueueProgress.__annotations__:
        value = getattr(progress, name)
        if isinstance(value, int) and name != "retention_left_ms":
            assert value >= 0, name


@given(readings(), st.booleans(), st.booleans())
def test_every_none_has_a_reason_and_every_reason_a_none(
    reading: QueueReading, is_broadcasting: bool, is_pop: bool
) -> None:
    progress = compute_progress(reading, is_broadcasting=is_broadcasting, is_pop=is_pop)
    for name, key in {**READ_KEYS, **DERIVED_KEYS}.items():
        assert (getattr(progress, name) is None) == (key in progress.reasons), name
    assert (progress.duplicate_risk_source is None) >= (progress.duplicate_risk is None)
    assert (progress.time_lag_source is None) == (progress.time_lag_ms is None)


@given(readings())
def test_lag_and_losses_add_up_to_the_distance_from_the_offset_to_the_end(reading: QueueReading) -> None:
    progress = compute_progress(reading)
    if progress.lag is not None and progress.consumer_offset is not None and progress.max_offset is not None:
        assert progress.lag + (progress.lost or 0) == progress.max_offset - progress.consumer_offset


@given(readings())
def test_a_reading_is_left_as_it_was(reading: QueueReading) -> None:
    before = dict(reading.reasons)
    compute_progress(reading)
    assert reading.reasons == before


def test_a_client_that_holds_more_than_the_broker_noted_is_believed() -> None:
    """A note starts at 0 with its broker: after a restart a stuck client holds what the note does not know."""
    held = ProcessQueueInfo(cached_count=3, cached_min_offset=50, cached_max_offset=99, commit_offset=50, dropped=False)
    assert pulled_to(50, held, 200, 2_032) == (100, PulledSource.CLIENT)
    assert pulled_to(100, held, 200, 2_032) == (100, PulledSource.BROKER)


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({}, 0),
        ({"consumer_offset": None, "reasons": {"consumerOffset": Unknown.NEVER_COMMITTED}}, 200),
        ({"consumer_offset": None, "reasons": {"consumerOffset": Unknown.BROKER_UNREACHABLE}}, 0),
        ({"consumer_offset": None, "min_offset": None, "reasons": {"consumerOffset": Unknown.NEVER_COMMITTED}}, 0),
    ],
)
def test_messages_without_a_stored_offset_are_counted_where_that_is_known(given: dict[str, Any], count: int) -> None:
    assert uncommitted_count(compute_progress(_reading(**given))) == count


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, LagState.BEHIND),
        ({"consumer_offset": 300}, LagState.CAUGHT_UP),
        # Read, and deleted since.
        ({"consumer_offset": 300, "min_offset": 300}, LagState.CAUGHT_UP),
        ({"consumer_offset": 200, "min_offset": 300}, LagState.EXPIRED),
        # Some unread messages were deleted, but not all.
        ({"consumer_offset": 50}, LagState.BEHIND),
        ({"consumer_offset": None, "min_offset": 300}, LagState.NO_MESSAGES),
        ({"consumer_offset": None}, Unknown.NEVER_COMMITTED),
        ({"consumer_offset": 301}, Unknown.OFFSET_BEYOND_MAX),
        ({"max_offset": None, "reasons": {"maxOffset": Unknown.BROKER_UNREACHABLE}}, Unknown.BROKER_UNREACHABLE),
    ],
)
def test_what_a_lag_of_0_means(given: dict[str, Any], expected: LagState | Unknown) -> None:
    assert lag_state(compute_progress(_reading(**given))) is expected
