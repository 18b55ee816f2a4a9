"""The job lag on tables of snapshots that are made up: its numbers and verdicts next to those of the rules."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult
from rmqctl.pipeline.jobs.lag.facts import window_facts
from rmqctl.pipeline.jobs.lag.groups import facts_of_row, queue_of
from rmqctl.pipeline.jobs.lag.growth import GROWTH_CAUSES, growth_causes, growth_per_minute
from rmqctl.pipeline.jobs.lag.job import JOB
from rmqctl.pipeline.jobs.lag.queue_samples import NumberColumn
from rmqctl.pipeline.jobs.lag.queue_windows import Windows
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.marks import whole_mark
from rmqctl.pipeline.tables.schemas import LAG_TREND
from rmqctl.rules.health import Cause, Health, Observation, QueueFacts, compute_trend, facts_of, find_stuck, judge
from rmqctl.rules.health.facts import PART_COUNT
from rmqctl.rules.health.verdict import lag_growth
from rmqctl.text.times import iso_time
from tests.spark.samples import (
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    Sample,
    snapshot_row,
    snapshot_table,
    store_rows,
    stored_rows,
)

NOW_MS = START_MS + 100 * HOUR_MS


def _run(folder: Path, **options: Any) -> JobResult:
    given = JobOptions(now_ms=NOW_MS, tables=str(folder), **{"window": "1h"} | options)
    assert JOB.check is not None
    JOB.check(given)
    return JOB.run(None, given)


def _trend(folder: Path) -> list[SimpleNamespace]:
    names = ("window_start", "consumer_group", "topic", "broker_name", "queue_id", "cluster")
    return sorted(stored_rows(folder, LAG_TREND), key=lambda row: [str(getattr(row, name)) for name in names])


def _hour(row: SimpleNamespace) -> int:
    return int(row.window_start.timestamp()) // 3600 % 24


def _files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in (folder / LAG_TREND).rglob("*.parquet")}


# Facts, trends and verdicts are those of the rules

_STEPS_MS = (0, 1, 5_000, 14_999, 15_000, 15_001, 30_000, 60_000, 450_000, 900_000, 1_000_000)
_EVEN_STEPS_MS = ((14_999, 15_000, 15_000, 15_001), (449_999, 450_000, 450_000, 450_001))
_COUNT = 4200


def _history(number: int) -> list[Observation]:
    """Return a few samples of a queue; kinds of histories take turns, so that all rules meet."""
    made = random.Random(number)
    kind = number % 7
    looks = _consumed(made, kind == 6) if kind > 4 else _looks(made, kind)
    if made.random() < 0.3:  # a row doubled, or another of the same moment
        again = made.choice(looks)
        end = again.max_offset or 0
        looks.append(made.choice((again, structs.replace(again, max_offset=made.choice((None, end + 1))))))
    made.shuffle(looks)
    if number % 2 or kind > 4:  # ends shortly before the end of the windows
        last_ms = max(look.at_ms for look in looks)
        span_ms = last_ms - min(look.at_ms for look in looks)
        by_ms = START_MS + 3 * HOUR_MS - made.choice((1, 1, 30_000, 30_001, span_ms, span_ms + 1)) - last_ms
        looks = [structs.replace(look, at_ms=look.at_ms + by_ms) for look in looks]
    return looks


def _looks(made: random.Random, kind: int) -> list[Observation]:
    base = made.choice((0, 1, 10**6, 10**12)) if kind else 0
    at_ms, offset, end = START_MS + made.randrange(HOUR_MS * 3), base + made.randrange(5), base + made.randrange(9)
    steps_ms = made.choice(_EVEN_STEPS_MS) if kind == 2 else _STEPS_MS
    looks = []
    for _ in range(made.choice((1, 2, 3, 3, 4, 5, 6, 8))):
        at_ms += made.choice(steps_ms)
        if kind == 0:  # anything
            offset, end = made.randrange(7), made.randrange(9)
        elif kind == 1:  # a queue that lives and is consumed at times
            end += made.randrange(4)
            offset = min(end, offset + made.choice((0, 0, 1, 3)))
        elif kind == 2:  # one that rests
            end += made.choice((0, 0, 0, 1))
            offset = made.choice((offset,) * 9 + (max(0, offset - 1),))
        elif kind == 3:  # large numbers
            end += made.randrange(10 ** made.choice((9, 12)))
            offset = min(end, offset + made.randrange(10 ** made.choice((9, 12))))
        else:  # jumps
            offset, end = base + made.randrange(10**3), base + made.randrange(10**3)
        is_none_stored = made.random() < 0.1
        is_known = not is_none_stored and made.random() < 0.9
        looks.append(
            Observation(
                at_ms, offset if is_known else None, end if made.random() < 0.93 else None,
                made.choice((None, base, offset, end, max(0, offset - 1), offset + 2)),
                made.choice((None, True, False, False)),
                made.choice((None, at_ms - made.randrange(10**6))), is_none_stored,
            )
        )  # fmt: skip
    return looks


def _consumed(made: random.Random, is_random: bool) -> list[Observation]:
    """Return samples, one every 5 to 20 s, of a queue that gets messages and commits offsets every 5 s.

    Its lag grows, stays or falls, and its rates can change on the way. It gets messages evenly or at random.
    """
    rate = made.choice((0.2, 1, 3, 20, 500, 10**5))
    consume_rates = [rate * made.choice((0.5, 0.98, 1, 1, 1, 1.01, 1.1, 2)) for _ in range(2)]
    count, step_ms = made.choice((3, 4, 6, 12, 20)), made.choice((5_000, 15_000, 20_000))
    turn, commit_ms = made.choice((count, count // 2, count * 3 // 4)), made.randrange(5_000)
    end, consumed, offset, at_ms = 10.0**6, 10.0**6 - rate * made.choice((2, 10, 100)), 0, 0
    looks = []
    for number in range(count):
        next_ms = at_ms + step_ms + made.choice((0, 0, 1, -1))
        while at_ms < next_ms:
            then_ms = min(next_ms, commit_ms)
            arrived = rate * (then_ms - at_ms) / 1000
            end += made.uniform(0, 2 * arrived) if is_random else arrived
            consumed = min(end, consumed + consume_rates[number >= turn] * (then_ms - at_ms) / 1000)
            if then_ms == commit_ms:
                offset, commit_ms = int(consumed), commit_ms + 5_000
            at_ms = then_ms
        known_offset = None if made.random() < 0.05 else offset or int(10.0**6 - rate * 200)
        looks.append(Observation(START_MS + at_ms, known_offset, int(end)))
    return looks


def _is_near(found: float | None, wanted: float | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=0.0)


@pytest.mark.parametrize("windows", [
    Windows(HOUR_MS, 0, START_MS + 4 * HOUR_MS), Windows(5 * MINUTE_MS, 7, START_MS + 2 * HOUR_MS + 9),
    Windows(24 * HOUR_MS, START_MS + 8 * HOUR_MS, START_MS + 3 * HOUR_MS),
], ids=["hours", "minutes", "one"])  # fmt: skip
def test_facts_trend_and_verdict_are_those_of_the_rules(windows: Windows) -> None:
    histories = {f"g{number}": _history(number) for number in range(_COUNT)}
    samples = [snapshot_row(group, look) for group, looks in histories.items() for look in looks]
    random.Random(1).shuffle(samples)
    found = {
        (row["consumer_group"], row["window_start_ms"]): row
        for table in window_facts([snapshot_table(samples)], windows)
        for row in table.to_pylist()
    }

    wanted: defaultdict[tuple[str, int], list[Observation]] = defaultdict(list)
    for group, looks in histories.items():
        for look in looks:
            wanted[group, look.at_ms - (look.at_ms - windows.offset_ms) % windows.length_ms].append(look)
    assert found.keys() == wanted.keys()
    causes = Counter[str]()
    stuck_count, undecided_count = 0, 0
    for (group, start_ms), looks in wanted.items():
        row = found[group, start_ms]
        facts = facts_of(looks, until_ms=min(start_ms + windows.length_ms, windows.until_ms))
        assert facts_of_row(row) == facts, looks
        verdict = judge(facts)
        assert (row["status"], row["cause"]) == (verdict.health, verdict.cause), looks
        assert row["is_stuck"] == (find_stuck(facts) is not None), looks
        assert row["growth_per_minute"] == facts.growth_per_minute, looks
        trend = compute_trend(looks)
        for name, number in zip(("slope_msgs_per_s", "produce_rate", "consume_rate", "eta_s"),
                                structs.astuple(trend), strict=True):  # fmt: skip
            assert _is_near(row[name], number), (name, row[name], number, looks)
        causes[row["cause"]] += 1
        stuck_count += row["is_stuck"]
        undecided_count += row["cause"] == "TOO_FEW_SAMPLES" and facts.known_count >= 3 and facts.span_ms >= 30_000
    # All results of lag_growth() occur; its TOO_FEW_SAMPLES is that of enough samples for the other rules.
    assert min(undecided_count, *(causes[name] for name in ("LAG_GROWS", "LAG_STEADY", "LAG_FALLS"))) > 40
    if windows.length_ms >= HOUR_MS:
        assert causes.keys() == {*Cause} - {Cause.NO_SAMPLES}
        assert stuck_count > 20


def test_a_lag_that_rises_after_a_fall_is_that_of_the_rules() -> None:
    """Histories with a lag that has risen for half of the time after a fall are rare above."""
    made = random.Random(5)
    lows = [[made.choice((None, *range(0, 900, 100))) for _ in range(PART_COUNT)] for _ in range(3_000)]
    lows += [[*row[:4], *sorted(row[4:], key=lambda low: low or 0)] for row in lows]
    every = [
        QueueFacts(
            sample_count=99, known_count=99, lag_from_ms=0, last_ms=made.choice((239_999, 240_000, 10**6)),
            lows=tuple(row), early_count=9, later_count=9, produced=made.choice((10, 10**4)),
        )
        for row in lows
    ]  # fmt: skip
    facts: dict[str, Any] = {
        name: np.array([getattr(each, name) for each in every]) for name in ("early_count", "later_count", "produced")
    }
    for name in ("lag_from_ms", "last_ms", "lows"):
        values = np.array([getattr(each, name) for each in every], object)
        facts[name] = NumberColumn(np.where(values == None, 0, values).astype(np.int64), values != None)  # noqa: E711
    growth = growth_per_minute(facts)
    assert [None if each.rise is None else each.growth_per_minute for each in every] == [
        int(value) if known else None for value, known in zip(growth.values, growth.known, strict=True)
    ]
    assert [lag_growth(each) for each in every] == [GROWTH_CAUSES[cause] for cause in growth_causes(facts)]
    assert sum(each.rise is not None and each.rise != each._rise_of_halves for each in every) > 100


# Each verdict through the whole job, reached and missed by one value

_CAUGHT_UP = ((10, 10), (10, 20), (10, 30))
_UNMOVED = ((10, 20), (10, 20), (10, 30))
_VERDICTS: dict[str, tuple[Sequence[tuple[int | None, int | None]], dict[str, Any], Health, Cause]] = {
    "caught-up": (_CAUGHT_UP, {}, Health.OK, Cause.CAUGHT_UP),
    "falls-behind": ((*_CAUGHT_UP, (10, 35), (10, 40), (10, 45)), {}, Health.WARN, Cause.FALLS_BEHIND),
    "hardly-falls-behind": ((*_CAUGHT_UP, (10, 35), (10, 40), (35, 45)), {}, Health.OK, Cause.CAUGHT_UP),
    "never-caught-up": (((10, 11), (10, 20), (10, 30)), {}, Health.STALL, Cause.STANDS_STILL),
    "lag-falls": (((8, 20), (12, 24), (18, 28)), {}, Health.OK, Cause.LAG_FALLS),
    "lag-hardly-falls": (((8, 20), (12, 24), (17, 28)), {}, Health.UNKNOWN, Cause.TOO_FEW_SAMPLES),
    "lag-stays": (((8, 20), (12, 24), (16, 28), (20, 32)), {}, Health.OK, Cause.LAG_STEADY),
    "lag-grows": (((8, 20), (11, 24), (14, 28), (17, 32)), {}, Health.WARN, Cause.LAG_GROWS),
    "lag-grows-by-1": (((8, 20), (11, 24), (15, 28), (17, 32)), {}, Health.OK, Cause.LAG_STEADY),
    "lag-fell-once": (((10, 20), (12, 21), (13, 40)), {}, Health.WARN, Cause.LAG_GROWS),
    "stall": (_UNMOVED, {}, Health.STALL, Cause.STANDS_STILL),
    "stall-moved": (((10, 20), (10, 20), (11, 30)), {}, Health.WARN, Cause.LAG_GROWS),
    "stop": (_UNMOVED, {"is_held": False}, Health.STOP, Cause.NOBODY_COMMITS),
    "stop-not-known": (_UNMOVED, {"is_held": None}, Health.STALL, Cause.STANDS_STILL),
    "stop-held": (_UNMOVED, {"is_held": True}, Health.STALL, Cause.STANDS_STILL),
    "rewind": (((20, 30), (10, 40), (19, 50)), {}, Health.REWIND, Cause.WENT_BACK),
    "rewind-made-up": (((20, 30), (10, 40), (20, 50)), {}, Health.WARN, Cause.LAG_GROWS),
    "too-few": (_UNMOVED[:2], {}, Health.UNKNOWN, Cause.TOO_FEW_SAMPLES),
    "beyond": ((*_UNMOVED, (31, 30)), {}, Health.UNKNOWN, Cause.OFFSET_BEYOND_MAX),
    "not-beyond": ((*_UNMOVED, (30, 30)), {}, Health.OK, Cause.CAUGHT_UP),
    "none-stored": (((None, 9),) * 3, {"is_none_stored": True}, Health.UNKNOWN, Cause.NONE_STORED),
    "not-read": (((None, 9),) * 3, {}, Health.UNKNOWN, Cause.OFFSET_UNKNOWN),
    "empty": (((None, 9),) * 3, {"is_none_stored": True, "min_offset": 9}, Health.OK, Cause.CAUGHT_UP),
    "max-not-read": (((9, None),) * 3, {}, Health.UNKNOWN, Cause.MAX_UNKNOWN),
    "anew": (((900, 1000), (900, 1010), (2, 5), (2, 6), (2, 7)), {}, Health.STALL, Cause.STANDS_STILL),
    "hardly-anew": (((900, 1000), (900, 1010), (2, 5), (2, 6)), {}, Health.UNKNOWN, Cause.TOO_FEW_SAMPLES),
}  # fmt: skip


def test_each_verdict_is_reached_and_missed_by_a_value(tmp_path: Path) -> None:
    samples = [
        # All end at one time, so that the same is known of all of them up to the end.
        snapshot_row(name, Observation(START_MS + (10 - len(offsets) + at) * MINUTE_MS, *pair, **every))
        for name, (offsets, every, _, _) in _VERDICTS.items()
        for at, pair in enumerate(offsets)
    ]
    # Rows that a crash has doubled count once.
    store_rows(tmp_path, samples)
    store_rows(tmp_path, samples[::2])

    outcome = _run(tmp_path, limit=100)

    wanted = {name: (health, cause) for name, (_, _, health, cause) in _VERDICTS.items()}
    assert {row["group"]: (row["health"], row["cause"]) for row in outcome.rows} == wanted
    stored = _trend(tmp_path)
    assert {row.consumer_group: (row.status, row.cause) for row in stored} == wanted
    counts = {row.consumer_group: (row.sample_count, row.known_count) for row in stored}
    assert (counts["anew"], counts["beyond"], counts["stall"]) == ((3, 3), (4, 3), (3, 3))
    rules = {row.cause: row.burrow_rule for row in stored if row.status != "UNKNOWN"}
    assert rules == {
        "CAUGHT_UP": 1, "FALLS_BEHIND": 1, "WENT_BACK": 2, "NOBODY_COMMITS": 3, "STANDS_STILL": 4, "LAG_GROWS": 5,
        "LAG_STEADY": 5, "LAG_FALLS": 5,
    }  # fmt: skip
    assert {row.burrow_rule for row in stored if row.status == "UNKNOWN"} == {None}
    growth = {row.consumer_group: row.growth_per_minute for row in stored}
    assert [growth[name] for name in ("lag-falls", "lag-stays", "lag-grows", "beyond", "none-stored")] == [
        -2, 0, 1, 10, None,
    ]  # fmt: skip
    # Worst first, and why.
    healths = [row["health"] for row in outcome.rows]
    assert healths == sorted(healths, key=[*Health].index)
    reasons = {row["group"]: row["reason"] for row in outcome.rows}
    assert reasons["stop"] == (
        "no member held the queue, and its offset 10 did not move in 2m00s; it is 20 messages behind"
    )
    assert reasons["rewind"] == "its offset went back from 20 to 19; it is 31 messages behind"
    assert reasons["lag-grows"] == "its offset moves, but the lag grows; it is 15 messages behind (+1 per minute)"
    assert outcome.facts["groupCounts"] == {
        **dict(Counter(health for health, _ in wanted.values())), "LEFT": 0, "GONE": 0,
    }  # fmt: skip


def test_silence_is_told_from_standing_still(tmp_path: Path) -> None:
    still = [Observation(START_MS + at * MINUTE_MS, 10, 20) for at in range(3)]
    others = [Observation(START_MS + at * MINUTE_MS, 10, 10) for at in range(6)]
    store_rows(
        tmp_path, [*(snapshot_row("silent", look) for look in still), *(snapshot_row("other", look) for look in others)]
    )

    def causes(**options: Any) -> dict[str, str]:
        return {row["group"]: row["cause"] for row in _run(tmp_path, **options).rows}

    # Watched for 2 minutes, and silent for 3 at the newest snapshot.
    assert causes() == {"silent": "NOT_SEEN_LATELY", "other": "CAUGHT_UP"}
    assert causes(until=str(START_MS + 4 * MINUTE_MS)) == {"silent": "STANDS_STILL", "other": "CAUGHT_UP"}
    assert causes(until=str(START_MS + 11 * MINUTE_MS))["other"] == "NOT_SEEN_LATELY"


# The table


def _steady(group: str, hours: range, per_hour: int = 4, shift: int = 0) -> list[Sample]:
    """Return a queue that gets 60 messages a minute and is read at 50, a sample every quarter of an hour."""
    step_ms = HOUR_MS // per_hour
    looks = []
    for number in range(hours.start * per_hour, hours.stop * per_hour):
        minutes = number * step_ms // MINUTE_MS
        looks.append(Observation(START_MS + number * step_ms, 50 * minutes + shift, 60 * minutes + 500, 0))
    return [snapshot_row(group, look) for look in looks]


def test_a_window_has_its_numbers(tmp_path: Path) -> None:
    store_rows(tmp_path, _steady("G", range(2)))
    outcome = _run(tmp_path)
    path = f"{tmp_path}/{LAG_TREND}"
    assert [(each.path, each.row_count) for each in outcome.written] == [(path, 2)]
    first, second = _trend(tmp_path)
    assert (iso_time(int(first.window_start.timestamp() * 1000)), first.window_s, first.dt) == (
        "2026-11-10T09:00:00.000Z", 3600, "2026-11-10",
    )  # fmt: skip
    assert first.window_end == second.window_start
    # 10 more each minute: 500, 650, 800, 950 at 0, 15, 30 and 45 minutes.
    assert (first.lag_first, first.lag_last, first.lag_max, first.lag_avg) == (500, 950, 950, 725.0)
    assert first.slope_msgs_per_s == pytest.approx(10 / 60, rel=1e-9)
    assert first.produce_rate == pytest.approx(1.0, rel=1e-9)
    assert first.consume_rate == pytest.approx(50 / 60, rel=1e-9)
    assert (first.eta_s, first.status, first.sample_count) == (None, "WARN", 4)
    assert second.lag_last == 500 + 105 * 10


def test_a_second_run_changes_nothing_and_an_hour_leaves_the_others(tmp_path: Path) -> None:
    store_rows(tmp_path, [*_steady("G", range(4)), *_steady("H", range(4))])
    first = _run(tmp_path)
    rows = _trend(tmp_path)
    assert len(rows) == 8

    again = _run(tmp_path)
    assert _trend(tmp_path) == rows
    assert again == first

    store_rows(tmp_path, _steady("H", range(1, 3), shift=7))
    begin, end = START_MS + HOUR_MS + 20 * MINUTE_MS, START_MS + HOUR_MS + 40 * MINUTE_MS
    outcome = _run(tmp_path, since=str(begin), until=str(end))
    # Half an hour is asked for; a window that is replaced has all of its samples.
    assert outcome.facts["sinceTimestampIso"] == "2026-11-10T10:00:00.000Z"
    assert outcome.facts["untilTimestampIso"] == "2026-11-10T11:00:00.000Z"
    after = _trend(tmp_path)
    changed_rows = [row for row, before in zip(after, rows, strict=True) if row != before]
    assert [(row.consumer_group, _hour(row), row.sample_count) for row in changed_rows] == [("H", 10, 4)]
    # Both answers of one moment: the further one counts.
    assert changed_rows[0].offset_last == 50 * 105 + 7


def test_many_rows_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read in parts, by time and by group, and results are written in parts too."""
    samples = [*_steady("G", range(30)), *_steady("H", range(3, 9), per_hour=12), *_steady("I", range(20, 21))]
    (tmp_path / "parts").mkdir()
    for folder in (tmp_path, tmp_path / "parts"):
        store_rows(folder, samples)
    whole = _run(tmp_path, since="earliest", html=str(tmp_path / "page.html"))
    for module in ("rows", "extent"):
        monkeypatch.setattr(f"rmqctl.pipeline.jobs.lag.{module}.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("rmqctl.pipeline.jobs.lag.run._COMMIT_ROWS", 5)
    for _ in range(2):
        parts = _run(tmp_path / "parts", since="earliest", html=str(tmp_path / "parts.html"))
        assert (parts.rows, parts.facts, parts.notes) == (whole.rows, whole.facts, whole.notes)
        assert _trend(tmp_path / "parts") == _trend(tmp_path)
        assert [each.row_count for each in parts.written] == [each.row_count for each in whole.written]
    assert (tmp_path / "parts.html").read_text() == (tmp_path / "page.html").read_text()
    version = Table(str(tmp_path / "parts"), LAG_TREND).version()
    assert version is not None
    assert version.number > 6


def test_by_default_windows_have_ten_snapshots_of_each_cluster(tmp_path: Path) -> None:
    def at(minutes: list[int], label: str) -> list[Sample]:
        looks = [Observation(START_MS + minute * MINUTE_MS, 10, 20) for minute in minutes]
        return [snapshot_row("G", look, cluster_label=label, run_id=f"{label}-{look.at_ms}") for look in looks]

    # One that is missing does not make the others rarer.
    store_rows(tmp_path, at([*range(8), *range(28, 36)], "L"))
    outcome = _run(tmp_path, window=None)
    assert (outcome.facts["windowMs"], {row.window_s for row in _trend(tmp_path)}) == (10 * MINUTE_MS, {600})
    assert "Health is that of the last 10m00s, in up to 8 snapshots" in outcome.notes[0]
    store_rows(tmp_path, at(list(range(0, 60, 15)), "Other"))
    outcome = _run(tmp_path, window=None)
    assert (outcome.facts["windowMs"], outcome.facts["sinceTimestampIso"]) == (3 * HOUR_MS, "2026-11-10T09:00:00.000Z")
    assert outcome.facts["snapshotCount"] == 20
    assert _run(tmp_path, window=None, cluster_label="L").facts["windowMs"] == 10 * MINUTE_MS


def test_windows_of_other_lengths_stand_beside(tmp_path: Path) -> None:
    store_rows(tmp_path, _steady("G", range(5), per_hour=12))
    hours = _run(tmp_path)
    quarters = _run(tmp_path, window="15m", until=str(START_MS + 3 * HOUR_MS + 1))
    longs = _run(tmp_path, window="3h")
    assert [sum(each.row_count or 0 for each in outcome.written) for outcome in (hours, quarters, longs)] == [5, 16, 2]
    rows = _trend(tmp_path)
    assert Counter(row.window_s for row in rows) == {3600: 5, 900: 16, 10800: 2}
    # 09:00 is the fourth 3 hours of a day in UTC.
    assert {_hour(row): row.sample_count for row in rows if row.window_s == 10800} == {9: 36, 12: 24}
    assert {row.sample_count for row in rows if row.window_s == 900} == {3}


def test_what_is_chosen_does_not_replace_hours_of_all(tmp_path: Path) -> None:
    store_rows(tmp_path, [*_steady("OrdersA", range(2)), *_steady("OrdersB", range(2)), *_steady("Pay", range(1))])
    _run(tmp_path)
    files = _files(tmp_path)
    for options, groups in (
        ({"groups": ("Orders?",)}, {"OrdersA", "OrdersB"}),
        ({"groups": ("OrdersA",), "topics": ("Ord*",)}, {"OrdersA"}),
    ):
        outcome = _run(tmp_path, **options)
        assert {row["group"] for row in outcome.rows} == groups
        assert outcome.written == ()
        assert "lag_trend was not written" in outcome.notes[0]
    # Known, and not in the last window.
    outcome = _run(tmp_path, groups=("Pay",), html=str(tmp_path / "page.html"))
    (row,) = outcome.rows
    assert (row["health"], row["cause"], row["lag"], row["stuckCount"]) == ("UNKNOWN", "NO_SAMPLES", None, None)
    assert (outcome.facts["stuckCount"], outcome.facts["queueCount"]) == (0, 0)
    assert row["reason"].endswith("2026-11-10T09:45:00.000Z")
    for options, name in (({"groups": ("Order",)}, "Group Order"), ({"topics": ("*x",)}, r"No topic matches \*x")):
        with pytest.raises(NotFoundError, match=name):
            _run(tmp_path, **options)
    assert _files(tmp_path) == files


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="offset_snapshots does not exist") as caught:
        _run(tmp_path)
    assert "rmqctl pipeline run snapshot" in (caught.value.hint or "")
    store_rows(tmp_path, _steady("G", range(1)))
    with pytest.raises(NotFoundError, match=r"between 2026-11-09T00:00:00.000Z and 2026-11-09T12:00:00.000Z\."):
        _run(tmp_path, since="2026-11-09T00:00Z", until="2026-11-09T12:00Z")
    with pytest.raises(UsageError, match="after the last snapshot"):
        _run(tmp_path, since="2026-11-11T00:00Z")
    assert not (tmp_path / LAG_TREND).exists()


# The report


def _group(name: str, queues: dict[MessageQueue, Sequence[tuple[int, int, str | None]]]) -> list[Sample]:
    """Return samples, one every 5 minutes, each of (consumer offset, max offset, client)."""
    samples = []
    for mq, looks in queues.items():
        for at, (offset, end, client_id) in enumerate(looks):
            look = Observation(START_MS + at * 5 * MINUTE_MS, offset, end, 0, client_id is not None)
            place = {"topic": mq.topic, "broker_name": mq.broker_name, "queue_id": mq.queue_id}
            samples.append(snapshot_row(name, look, client_id=client_id, **place))
    return samples


def test_a_group_is_summed_up(tmp_path: Path) -> None:
    orders = [MessageQueue("Orders", f"broker-{name}", 0) for name in "ab"]
    retry = MessageQueue("%RETRY%G", "broker-a", 0)
    samples = _group(
        "G",
        {
            # Stands still for 20 minutes with 300 to read, and changes hands twice.
            orders[0]: [(100, 100, "x"), (100, 400, "y"), (100, 400, None), (100, 400, "y"), (100, 400, "x")],
            # 20 in and 30 out a minute: 300, 250, 200, 150, 100 behind.
            orders[1]: [(100 + 150 * at, 400 + 100 * at, "x") for at in range(5)],
            retry: [(7, 7, "y")] * 5,
        },
    )
    quiet = _group("Quiet", {orders[0]: [(5, 5, "q")] * 5})
    store_rows(tmp_path, [*samples, *quiet])

    outcome = _run(tmp_path, html=str(tmp_path / "report.html"))

    row, other = outcome.rows
    assert (row["group"], row["cluster"], row["health"], other["group"], other["health"]) == (
        "G",
        "c1",
        "WARN",
        "Quiet",
        "OK",
    )
    assert row["counts"] == {"REWIND": 0, "STOP": 0, "STALL": 0, "WARN": 1, "UNKNOWN": 0, "OK": 2}
    assert (row["queueCount"], row["lag"], row["lagAtLeast"], row["unknownCount"], row["lagAtStart"]) == (
        3, 400, 400, 0, 300,
    )  # fmt: skip
    # By least squares: 0, 300, 300, 300, 300 every 300 s grows by 0.2 a second.
    assert row["slopeMsgsPerS"] == pytest.approx(0.2 - 50 / 300, rel=1e-9)
    assert row["consumeMsgsPerS"] == pytest.approx(0.5, rel=1e-9)
    assert (row["etaS"], row["etaMs"]) == (None, None)
    assert (row["worstQueue"], row["stuckCount"]) == ("Orders@broker-a:0", 1)
    (stuck,) = row["stuckQueues"]
    assert stuck == {
        "topic": "Orders", "brokerName": "broker-a", "queueId": 0, "consumerOffset": 100, "behind": 300,
        "sinceTimestamp": START_MS + 5 * MINUTE_MS, "sinceTimestampIso": "2026-11-10T09:05:00.000Z",
        "forMs": 15 * MINUTE_MS, "afterTimestamp": START_MS, "afterTimestampIso": "2026-11-10T09:00:00.000Z",
        "clientId": "x",
    }  # fmt: skip
    skews = {each["topic"]: (each["queueCount"], each["lag"], each["lagSkew"]) for each in row["topics"]}
    assert skews == {"Orders": (2, 400, 1.5), "%RETRY%G": (1, 0, None)}
    assert row["lagSkew"] == 1.5
    assert [(each["clientId"], each["queueCount"], each["lag"]) for each in row["members"]] == [
        ("x", 2, 400),
        ("y", 1, 0),
    ]
    assert row["memberLagSkew"] == 2.0
    assert (row["ownerChangeCount"], row["clientCount"]) == (2, 2)
    assert json.loads(json.dumps([dict(each) for each in outcome.rows])) == [dict(each) for each in outcome.rows]
    facts = outcome.facts
    assert (facts["snapshotCount"], facts["snapshotRowCount"], facts["groupCount"], facts["queueCount"]) == (
        5,
        20,
        2,
        4,
    )
    assert facts["newestSnapshotTimestampIso"] == "2026-11-10T09:20:00.000Z"
    assert (facts["windowMs"], facts["windowCount"], facts["stuckCount"]) == (HOUR_MS, 1, 1)
    page = (tmp_path / "report.html").read_text()
    assert [each.path for each in outcome.written][1] == str(tmp_path / "report.html")
    assert page.count("<svg") == page.count('<table class="heat">') == 2
    # Only one of the groups changed owners.
    assert page.count("changes of queue owners.</desc>") == 1
    assert "Orders@broker-a:0" in page


def test_a_queue_that_catches_up_says_when(tmp_path: Path) -> None:
    mq = MessageQueue("Orders", "broker-a", 0)
    store_rows(tmp_path, _group("G", {mq: [(100 + 150 * at, 400 + 100 * at, "x") for at in range(5)]}))
    (row,) = _run(tmp_path).rows
    # 100 behind, 50 fewer every 300 s.
    assert row["etaS"] == pytest.approx(600, rel=1e-9)
    assert row["etaMs"] == 600_000


def test_unknown_is_not_nothing(tmp_path: Path) -> None:
    known = [Observation(START_MS + at * MINUTE_MS, 10 + at, 20 + at) for at in range(4)]
    samples = [snapshot_row("G", look) for look in known]
    samples += [snapshot_row("G", structs.replace(look, consumer_offset=None), queue_id=1) for look in known]
    store_rows(tmp_path, samples)
    (row,) = _run(tmp_path).rows
    assert (row["lag"], row["lagAtLeast"], row["unknownCount"], row["lagAtStart"]) == (None, 10, 1, None)
    assert (row["slopeMsgsPerS"], row["etaS"], row["health"]) == (None, None, "UNKNOWN")
    assert row["counts"]["UNKNOWN"] == 1
    assert row["lagSkew"] is None


def test_what_only_an_incomplete_snapshot_has_is_not_there(tmp_path: Path) -> None:
    looks = [Observation(START_MS + at * MINUTE_MS, 10 + at, 10 + at, 0) for at in range(30)]
    blank = Observation(START_MS + MINUTE_MS, None, None)
    samples = [snapshot_row("G", look) for look in looks]
    # Two groups that never consumed, and a queue of a group that does; one that has values once.
    samples += [
        snapshot_row("phantom", blank), snapshot_row("G", blank, queue_id=1),
        snapshot_row("once", looks[0]), snapshot_row("once", blank),
        snapshot_row("elsewhere", blank, cluster_label="M"),
    ]  # fmt: skip
    store_rows(tmp_path, samples)

    def found(**options: Any) -> dict[str, tuple[str, int | None]]:
        return {row["group"]: (row["health"], row["lag"]) for row in _run(tmp_path, **options).rows}

    for options in ({"window": "1h"}, {"window": "5m"}):
        assert found(**options).keys() == {"G", "phantom", "once", "elsewhere"}
    outcome = _run(tmp_path, window="1h")
    assert {row["group"]: row["reason"] for row in outcome.rows}["phantom"].endswith("newest snapshot that has it")
    assert found(window="1h")["G"] == ("UNKNOWN", None)
    store_rows(tmp_path, [], {whole_mark("L"): START_MS + 2 * MINUTE_MS})
    for window in ("1h", "5m"):
        assert found(window=window) == {"G": ("OK", 0), "once": ("UNKNOWN", None), "elsewhere": ("UNKNOWN", None)}
    # Nothing is known of a complete snapshot after the end.
    assert "phantom" in found(window="1h", until=str(START_MS + 2 * MINUTE_MS))


def test_the_last_window_is_a_whole_one(tmp_path: Path) -> None:
    # The hour has begun 5 minutes ago; what was in the last one still counts.
    looks = [Observation(START_MS + at * 5 * MINUTE_MS, 10, 100) for at in range(14)]
    store_rows(tmp_path, [snapshot_row("G", look) for look in looks])
    outcome = _run(tmp_path)
    (row,) = outcome.rows
    assert (row["health"], row["stuckQueues"][0]["forMs"]) == ("STALL", 55 * MINUTE_MS)
    assert outcome.facts["windowStartTimestamp"] == START_MS + 5 * MINUTE_MS + 1
    assert [(each.status, each.sample_count) for each in _trend(tmp_path)] == [("STALL", 12), ("UNKNOWN", 2)]
    assert outcome.warnings == (f"The newest snapshot is older than usual at now: L ({iso_time(looks[-1].at_ms)}).",)
    assert _run(tmp_path, until=str(looks[-1].at_ms + 15 * MINUTE_MS)).warnings == ()
    page = tmp_path / "page.html"
    assert len(_run(tmp_path, until=str(looks[-1].at_ms + 15 * MINUTE_MS + 1), html=str(page)).warnings) == 1
    header, _, _ = page.read_text().partition("</header>")
    assert "The newest snapshot is older than usual at " in header
    assert "No queue has more than 1 snapshot in the last 5m00s" in _run(tmp_path, window="5m").notes[0]


def test_clusters(tmp_path: Path) -> None:
    looks = [Observation(START_MS + at * MINUTE_MS, 10, 20) for at in range(4)]
    samples = [snapshot_row("G", look, cluster="c1" if at != 2 else None) for at, look in enumerate(looks)]
    # The same names in two clusters are two queues.
    samples += [snapshot_row("Two", look, cluster=cluster) for look in looks for cluster in ("c1", "c2")]
    samples += [snapshot_row("None", look, cluster=None) for look in looks]
    # A broker that is not known at all is in the cluster of the others.
    samples += [snapshot_row("Half", look, cluster=("c1", None)[at], queue_id=at) for look in looks for at in range(2)]
    store_rows(tmp_path, samples)
    outcome = _run(tmp_path)
    assert sorted((row["group"], row["cluster"] or "", row["queueCount"]) for row in outcome.rows) == [
        ("G", "c1", 1), ("Half", "c1", 2), ("None", "", 1), ("Two", "c1", 1), ("Two", "c2", 1),
    ]  # fmt: skip
    counts = {(row.consumer_group, row.cluster): row.sample_count for row in _trend(tmp_path)}
    assert counts["G", "c1"] == 4
    assert (counts["Two", "c1"], counts["Two", "c2"], counts["None", None]) == (4, 4, 4)


def test_only_so_many_groups_are_shown(tmp_path: Path) -> None:
    store_rows(tmp_path, [sample for number in range(22) for sample in _steady(f"G{number:02}", range(1))])
    outcome = _run(tmp_path)
    assert (len(outcome.rows), outcome.row_count) == (20, 22)
    (note,) = outcome.notes
    assert "2 groups more" in note
    assert "--limit" in note
    assert len(_run(tmp_path, limit=30).rows) == 22


def test_names_of_the_cluster_are_no_html(tmp_path: Path) -> None:
    name = '<script>alert("x")</script>'
    mq = MessageQueue(name, name, 0)
    store_rows(tmp_path, _group(name, {mq: [(1, 9, f"{name}1"), (1, 99, f"{name}2"), (1, 999, f"{name}1")] * 2}))
    path = tmp_path / "report.html"
    path.write_text("old")
    (row,) = _run(tmp_path, html=str(path)).rows
    assert row["group"] == name
    page = path.read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".report")] == []


def test_queue_of_a_row() -> None:
    assert queue_of({"topic": "T", "broker_name": "b", "queue_id": 3}) == MessageQueue("T", "b", 3)
