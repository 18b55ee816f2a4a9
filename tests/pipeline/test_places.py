"""Where a read of Spark begins and ends, asked without Spark."""

from __future__ import annotations

import logging

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.source.options import ReadPosition, TopicChoice
from rmqctl.pipeline.source.retained_queues import fetch_read_offsets, fetch_retained_queues
from tests.admin.cluster import BrokerState
from tests.admin.message_store import NOW_MS, MessageStore, message_cluster
from tests.scripted_peer import V4_9_7, V5_4_0, passing, run

_HOUR_MS = 3_600_000


def _places(times: list[int], at_ms: int, version: int, *, is_start: bool) -> int:
    store = MessageStore(BrokerState("broker-a", version))
    for each in times:
        store.put("T", 0, at_ms=NOW_MS + each)
    cluster = message_cluster(store)

    async def scenario() -> int:
        async with cluster.client() as client:
            found = await fetch_retained_queues(client, TopicChoice(("T",)))
            place = ReadPosition(at_ms=NOW_MS + at_ms)
            placed = await fetch_read_offsets(client, found, place, None, is_start=is_start, on_loss=lambda loss: None)
            return placed[MessageQueue("T", "broker-a", 0)]

    return run(passing(cluster.clock, scenario()))


_RISING = [0, 10, 20, 20, 30]
_SET_BACK = [0, 10, 20, *range(30 - _HOUR_MS, 40 - _HOUR_MS), *range(40, 50)]


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7])
@pytest.mark.parametrize(
    ("times", "at_ms", "start", "end", "is_told"),
    [
        (_RISING, -1, 0, 0, False),
        (_RISING, 20, 2, 2, False),
        (_RISING, 31, 5, 5, False),
        # All from then on, and all before then: the same messages are in both where they go back.
        (_SET_BACK, 10, 1, 13, True),
        (_SET_BACK, 35 - _HOUR_MS, 0, 8, True),
        (_SET_BACK, 45, 18, 18, True),
    ],
)
def test_a_time_begins_with_the_first_message_then_and_ends_behind_the_last_one_before(
    times: list[int], at_ms: int, start: int, end: int, version: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert _places(times, at_ms, version, is_start=True) == start
        assert _places(times, at_ms, version, is_start=False) == end
    assert bool(caplog.records) is is_told
