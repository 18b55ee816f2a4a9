"""The job `audit`: when a message that a group has passed without a trace counts as lost."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pyspark.sql import SparkSession

from rmqctl.pipeline.jobs.audit import passed, rows
from rmqctl.pipeline.jobs.audit.trace_ids import missing_around

# 2026-11-22T10:00Z, and the start of its month three hours west of UTC.
_START_MS, _MONTH_MS = 1_795_341_600_000, 1_793_502_000_000
_PAIRS = (
    "topic string, id string, consumer_group string, fate string,"
    " places array<struct<broker_name:string,queue_id:int,queue_offset:bigint,store_ms:bigint>>,"
    " first struct<began_ms:bigint,process:string,missing_before:bigint,missing_after:bigint,most_at_once:bigint>"
)
# By queue: the delivery before 10 messages that were not seen, stored from 1 s on, the one after them, and their fates.
# A delivery: when it began, the process, how many numbers are missing before and after it, messages at once.
_QUEUES = {
    "no trace is missing": ((2_000, "P", 7, 7, 1), (60_000, "P", 7, 7, 1), "LLLLLLLLLL"),
    "one delivery is missing": ((2_000, "P", 7, 7, 1), (60_000, "P", 9, 9, 1), "ULLLLLLLLU"),
    "a trace message is missing": ((2_000, "P", 0, 0, 1), (60_000, "P", 7, 7, 1), "UUULLLLUUU"),
    "listeners get two at once": ((2_000, "P", 0, 0, 2), (60_000, "P", 4, 4, 2), "UUUULLUUUU"),
    "all may be missing": ((2_000, "P", 0, 0, 1), (60_000, "P", 90, 90, 1), "UUUUUUUUUU"),
    "it was not behind": ((1_900, "P", 7, 7, 1), (60_000, "P", 7, 7, 1), "UUUUUUUUUU"),
    "another process consumes": ((2_000, "P", 7, 7, 1), (60_000, "Q", 7, 7, 1), "UUUUUUUUUU"),
    "nothing is known of a process": ((2_000, None, None, None, None), (60_000, "P", 7, 7, 1), "UUUUUUUUUU"),
    "nothing before": (None, (60_000, "P", 7, 7, 1), "UUUUUUUUUU"),
    "nothing after": ((2_000, "P", 7, 7, 1), None, "UUUUUUUUUU"),
    "a change skipped some": ((2_000, "P", 7, 7, 1), (60_000, "P", 7, 7, 1), "LLSSSLLLLL"),
}


def test_what_became_of_messages_without_a_trace(spark: SparkSession) -> None:
    pairs = []
    for name, (before, after, _) in _QUEUES.items():
        for offset in range(12):
            first = before if offset == 0 else after if offset == 11 else None
            fate = rows.NOT_SEEN if 0 < offset < 11 else None
            pairs.append((name, f"{name} {offset}", "G", fate, [("b", 0, offset, 1_000 + offset - 1)], first))
    # What has a fate keeps it.
    pairs.append(("failed", "F", "G", rows.FAILED, [("b", 0, 5, 0)], None))
    # The second one was made when other messages had these offsets.
    skips = [("a change skipped some", "G", "b", 0, 3, 6, 2_000), ("no trace is missing", "G", "b", 0, 3, 6, -1)]
    found = passed.settled_pairs(
        spark.createDataFrame(pairs, _PAIRS), spark.createDataFrame(skips, passed.SKIPS)
    ).collect()
    assert len(found) == len(pairs)
    fates = {(row.topic, row.places[0].queue_offset): row.fate for row in found}
    assert fates.pop(("failed", 5)) == rows.FAILED
    letters = {rows.LOST: "L", rows.UNTRACED: "U", rows.SKIPPED: "S"}
    told = {name: "".join(letters[fates[name, offset]] for offset in range(1, 11)) for name in _QUEUES}
    assert told == {name: expected for name, (_, _, expected) in _QUEUES.items()}
    assert {fates[name, offset] for name in _QUEUES for offset in (0, 11)} == {None}


@pytest.mark.parametrize("rate", [0.2, 5, 100, 1_000])
def test_a_gap_is_seen_whatever_the_rate(rate: float) -> None:
    """Numbers wrap, times are of another zone, and traces end in the same ms as others begin."""
    dice = random.Random(3)
    events, at_ms = [], float(_START_MS)
    for call in range(3_000):
        at_ms += dice.expovariate(rate / 1_000)
        events += [(at_ms, call), (at_ms + dice.choice([0, 1, 20]), None)]
    events.sort(key=lambda event: event[0])
    kept = [(number, int(ms), call) for number, (ms, call) in enumerate(events) if call not in (1_000, 1_001)]
    begun = [each for each in kept if each[2] is not None]
    numbers, times, calls = (np.array(column) for column in zip(*begun, strict=True))
    ended = np.array([ms for _, ms, call in kept if call is None])
    found = missing_around((numbers + 64_000) % 65_536, times - _MONTH_MS, times + 3, ended)
    assert found.is_understood
    place = {call: at for at, call in enumerate(calls[found.order])}

    def missing(first: int, second: int) -> int:
        return int(found.after[place[second]] - found.before[place[first]])

    assert missing(999, 1_002) >= 2
    assert missing(0, 2_999) >= 2
    far = [missing(first, first + 2) for first in range(2_100, 2_800, 10)]
    assert sum(each <= 0 for each in far) >= len(far) - 2


@pytest.mark.parametrize("gap_count", [10, 20_000, 65_536, 65_546, 200_000])
def test_as_many_are_missing_as_numbers_may_hide(gap_count: int) -> None:
    """Numbers have 16 bits: at 200 per second, they start again when traces are lost for 5 minutes."""
    begun = np.array([*range(0, 4_000, 2), *range(4_000 + gap_count, 8_000 + gap_count, 2)])
    times = _START_MS + begun * 5
    found = missing_around(begun % 65_536, times - _MONTH_MS, times, times + 5)
    missing = int(found.after[-1_500] - found.before[1_500])
    assert missing == gap_count if gap_count <= 20_000 else missing >= gap_count


def test_a_client_that_numbers_otherwise_proves_nothing() -> None:
    """A client whose ends of deliveries take no number."""
    numbers = np.arange(0, 2_000)
    times = _START_MS + numbers * 10
    assert not missing_around(numbers, times - _MONTH_MS, times, times + 2).is_understood
