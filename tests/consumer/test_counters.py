"""Rates and counts of a consumer; detail 7.17 of the mission: pull RT/TPS, consume RT, ok/failed TPS, flow control."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.consumer.counters import Counters
from rmqctl.model.group import TopicConsumeStatus
from rmqctl.net.clock import VirtualClock
from rmqctl.rules.flow_control import FlowControl
from tests.scripted_peer import run

NOTHING = TopicConsumeStatus(0.0, 0.0, 0.0, 0.0, 0.0, 0)


async def test_rates_are_those_of_the_last_minute() -> None:
    clock = VirtualClock()
    counters = Counters(clock)
    for _ in range(30):  # one a second
        counters.pulled("T", 32, 5.0)
        counters.consumed("T", 30, 2, 64.0, 32)
        await clock.advance(1)
    assert counters.status("T") == TopicConsumeStatus(
        pull_rt_ms=5.0, pull_tps=32.0, consume_rt_ms=2.0, consume_ok_tps=30.0, consume_failed_tps=2.0,
        consume_failed_count=60,
    )  # fmt: skip
    assert counters.status("U") == NOTHING
    await clock.advance(60)
    assert counters.status("T").consume_ok_tps == 0.0
    assert counters.status("T").consume_failed_count == 60


async def test_the_first_seconds_are_no_burst() -> None:
    clock = VirtualClock()
    counters = Counters(clock)
    counters.consumed("T", 1000, 0, 10.0, 10)
    assert counters.status("T").consume_ok_tps == 100.0
    await clock.advance(0.5)
    assert counters.status("T").consume_ok_tps == 100.0


async def test_failures_count_for_an_hour_and_at_once() -> None:
    clock = VirtualClock()
    counters = Counters(clock)
    await clock.advance(100)
    counters.consumed("T", 0, 7, 70.0, 7)
    assert counters.status("T").consume_failed_count == 7
    await clock.advance(3600)
    assert counters.status("T").consume_failed_count == 7
    await clock.advance(60)
    assert counters.status("T") == NOTHING


async def test_the_time_of_a_batch_is_the_hours_where_the_minute_has_none() -> None:
    clock = VirtualClock()
    counters = Counters(clock)
    counters.consumed("T", 10, 0, 50.0, 5)
    await clock.advance(600)
    status = counters.status("T")
    assert (status.consume_rt_ms, status.consume_ok_tps) == (10.0, 0.0)
    counters.consumed("T", 1, 0, 3.0, 1)
    assert counters.status("T").consume_rt_ms == 3.0


@given(
    st.lists(
        st.tuples(st.integers(0, 200) | st.integers(0, 9000), st.sampled_from("TU"), st.integers(0, 9)), max_size=40
    ),
    st.integers(0, 5000),
)
def test_it_counts_what_a_list_of_all_events_has(events: list[tuple[int, str, int]], rest_s: int) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        counters = Counters(clock)
        log: list[tuple[float, str, int]] = []
        for wait_s, topic, failed in events:
            await clock.advance(wait_s)
            counters.consumed(topic, 0, failed, 0.0, 1)
            log.append((clock.monotonic_s(), topic, failed))
        await clock.advance(rest_s)
        now_s = clock.monotonic_s()
        for topic in "TU":
            status = counters.status(topic)
            minute_from_s = max(0, (now_s // 10 - 6) * 10)
            hour_from_s = max(0, (now_s // 60 - 60) * 60)
            in_minute = sum(failed for at_s, each, failed in log if each == topic and at_s >= minute_from_s)
            in_hour = sum(failed for at_s, each, failed in log if each == topic and at_s >= hour_from_s)
            assert status.consume_failed_count == in_hour
            assert status.consume_failed_tps == pytest.approx(in_minute / max(10, now_s - minute_from_s))

    run(scenario())


async def test_days_without_a_word_keep_no_more_than_the_window() -> None:
    clock = VirtualClock()
    counters = Counters(clock)
    counters.consumed("T", 0, 1, 0.0, 1)
    await clock.advance(30 * 86_400)
    assert counters.status("T") == NOTHING
    assert (len(counters._minute._samples), len(counters._hour._samples)) == (7, 61)


def test_each_flow_control_is_counted() -> None:
    counters = Counters(VirtualClock())
    for hold in (FlowControl.SPAN, FlowControl.QUEUE_COUNT, FlowControl.SPAN):
        counters.held(hold)
    assert counters.holds == {FlowControl.SPAN: 2, FlowControl.QUEUE_COUNT: 1}
