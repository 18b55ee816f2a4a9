"""The job slo: what its table and its report make of snapshots. It needs no Spark."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmqctl.errors import NotFoundError
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult
from rmqctl.pipeline.jobs.slo.job import JOB
from rmqctl.pipeline.jobs.slo.limits import LagLimits
from rmqctl.pipeline.jobs.slo.states import GroupSamples, LimitState, group_states
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.marks import whole_mark
from rmqctl.pipeline.tables.schemas import SLO_WEEKS
from rmqctl.rules.health import Observation
from rmqctl.rules.time_lag import interpolate_time_lag
from tests.spark.samples import HOUR_MS, MINUTE_MS, START_MS, Sample, snapshot_row, store_rows

WEEK_MS = 7 * 24 * HOUR_MS
MONDAY_MS = START_MS - 33 * HOUR_MS  # 2026-11-09T00:00Z
_STEP_MS = HOUR_MS


def _run(folder: Path, now_ms: int, **options: Any) -> JobResult:
    given = JobOptions(now_ms=now_ms, tables=str(folder), **options)
    assert JOB.check is not None
    JOB.check(given)
    return JOB.run(None, given)


def _stored(folder: Path) -> list[tuple[Any, ...]]:
    version = Table(str(folder), SLO_WEEKS).version()
    assert version is not None
    columns = ("cluster_label", "consumer_group", "dt", "state", "within_ms", "outside_ms", "outside_count")
    return sorted(version.rows(columns))


def _samples(group: str, lags: Sequence[int | None], start_ms: int = MONDAY_MS, **other: Any) -> list[Sample]:
    """Return a snapshot an hour; an unknown lag is None."""
    return [
        snapshot_row(
            group, Observation(start_ms + at * _STEP_MS, None if lag is None else 10**6 - lag, 10**6, 0), **other
        )
        for at, lag in enumerate(lags)
    ]


def test_two_weeks_side_by_side(tmp_path: Path) -> None:
    hours = 14 * 24
    lags: dict[str, list[int | None]] = {
        "always": [10] * hours,
        # 3 hours of the first week, and 1 + 2 of the second; 1 % of a week is 1.68 hours.
        "spells": [11 if at in (1, 2, 3, 200, 210, 211) else 0 for at in range(hours)],
        "unknown": [None if at > 300 else 0 for at in range(hours)],
    }
    samples = [row for group, each in lags.items() for row in _samples(group, each)]
    # Ended by a deletion, and a topic that was left: both count for nothing.
    gone = {"broker_name": None, "queue_id": None, "lag_messages": None, "lag_state": "GROUP_GONE"}
    samples += _samples("deleted", [0] * 10 + [99] * 10)
    samples += _samples("deleted", [None], MONDAY_MS + 20 * _STEP_MS, topic=None, **gone)
    samples += _samples("always", [10**5] * hours, topic="Left", is_subscribed=False)
    # Its unread messages expired: its lag is 0.
    samples += _samples("expired", [5] * hours, lag_messages=0, lag_state="EXPIRED")
    store_rows(tmp_path, samples)

    outcome = _run(tmp_path, MONDAY_MS + 2 * WEEK_MS, max_lags=("10",))
    found = {row["group"]: row for row in outcome.rows}
    assert {
        name: (row["stateBefore"], row["state"], row["outsideMs"] // HOUR_MS, row["outsideCount"])
        for name, row in found.items()
    } == {
        "always": ("MET", "MET", 0, 0),
        "spells": ("MISSED", "MISSED", 3, 2),
        "unknown": ("MET", "UNKNOWN", 0, 0),
        "deleted": ("MISSED", "UNKNOWN", 0, 0),
        "expired": ("MISSED", "MISSED", 7 * 24, 1),
    }
    assert [row["group"] for row in outcome.rows] == ["expired", "spells", "unknown", "deleted", "always"]
    spells = found["spells"]
    assert (spells["within"], spells["withinBefore"]) == (165 / 168, 165 / 168)
    assert spells["budgetLeft"] == pytest.approx(1 - 3 / 1.68)
    assert (spells["outsideMaxMs"], spells["lagMax"]) == (2 * HOUR_MS, 11)
    assert (found["unknown"]["unknownMs"], found["unknown"]["within"]) == (35 * HOUR_MS, 1.0)
    assert (found["deleted"]["within"], found["deleted"]["unmeasuredMs"]) == (None, WEEK_MS)
    (week, _) = found["deleted"]["weeks"]
    assert (week["withinMs"], week["outsideMs"], week["absentMs"]) == (10 * HOUR_MS, 10 * HOUR_MS, HOUR_MS)
    assert outcome.facts["groupCounts"] == {"MISSED": 2, "UNKNOWN": 2, "MET": 1}

    # A group that is judged alone replaces its own rows only; another objective replaces all.
    rows = _stored(tmp_path)
    assert len(rows) == 10
    _run(tmp_path, MONDAY_MS + 2 * WEEK_MS, max_lags=("11",), groups=("spells",))
    assert [row for row in _stored(tmp_path) if row not in rows] == [
        ("L", "spells", day, "MET", WEEK_MS, 0, 0) for day in ("2026-11-09", "2026-11-16")
    ]
    outcome = _run(tmp_path, MONDAY_MS + 2 * WEEK_MS, max_lags=("10",), objective=97.0)
    assert {row["group"]: row["state"] for row in outcome.rows}["spells"] == "MET"
    assert len(_stored(tmp_path)) == 10


def test_time_without_snapshots_is_not_measured(tmp_path: Path) -> None:
    # One snapshot is missing on the first day, and a day of them on the second; it starts late and ends early.
    begin_ms = MONDAY_MS + 10 * HOUR_MS
    samples = [row for at, row in enumerate(_samples("G", [0] * 96, begin_ms)) if at != 7 and not 24 <= at < 48]
    store_rows(tmp_path, samples)
    (row,) = _run(tmp_path, MONDAY_MS + WEEK_MS, max_lags=("10",), since="earliest").rows
    # Weeks begin with that of the first snapshot.
    assert [each["weekTimestamp"] for each in row["weeks"]] == [MONDAY_MS]
    assert (row["withinMs"], row["within"], row["state"]) == (72 * HOUR_MS, 1.0, "UNKNOWN")
    assert (row["unmeasuredMs"], row["withinBefore"]) == (WEEK_MS - 72 * HOUR_MS, None)
    # A week that is not over yet has only the time up to now.
    (row,) = _run(tmp_path, begin_ms + 24 * HOUR_MS, max_lags=("10",), since=str(MONDAY_MS)).rows
    assert (row["withinMs"], row["unmeasuredMs"]) == (24 * HOUR_MS, 10 * HOUR_MS)
    with pytest.raises(NotFoundError, match="No snapshot of X was taken"):
        _run(tmp_path, MONDAY_MS + WEEK_MS, max_lags=("10",), cluster_label="X")


def test_a_group_that_only_an_incomplete_snapshot_has_is_none(tmp_path: Path) -> None:
    blank = [row | {"max_offset": None, "min_offset": None} for row in _samples("phantom", [None])]
    store_rows(tmp_path, [*blank, *_samples("G", [0] * 5)])

    def groups(**options: Any) -> list[str]:
        outcome = _run(tmp_path, MONDAY_MS + WEEK_MS, max_lags=("10",), since=str(MONDAY_MS), **options)
        return sorted(row["group"] for row in outcome.rows)

    assert groups() == ["G", "phantom"]
    store_rows(tmp_path, [], {whole_mark("L"): MONDAY_MS + 2 * _STEP_MS})
    # The complete snapshot that lacks it was taken later.
    assert groups(until=str(MONDAY_MS + _STEP_MS)) == ["G", "phantom"]
    assert groups(groups=("phantom",)) == []
    assert groups() == ["G"]
    assert {row[1] for row in _stored(tmp_path)} == {"G"}


def test_clusters_are_told_apart(tmp_path: Path) -> None:
    for label, lag in (("A", 5), ("B", 50)):
        store_rows(tmp_path, _samples("G", [lag] * 168, cluster_label=label))
    outcome = _run(tmp_path, MONDAY_MS + WEEK_MS, max_lags=("10",), since=str(MONDAY_MS))
    assert [(row["clusterLabel"], row["state"]) for row in outcome.rows] == [("B", "MISSED"), ("A", "MET")]
    assert outcome.shows == {"clusterLabel"}
    _run(tmp_path, MONDAY_MS + WEEK_MS, max_lags=("90",), since=str(MONDAY_MS), cluster_label="B")
    assert [(row[0], row[3]) for row in _stored(tmp_path)] == [("A", "MET"), ("B", "MET")]


# States


def _rows(queues: Sequence[Sequence[Observation]]) -> GroupSamples:
    def numbers(values: Sequence[int | None]) -> Any:
        return np.array([-1 if value is None else value for value in values], np.int64)

    looks = [(queue, run, look) for queue, each in enumerate(queues) for run, look in enumerate(each)]
    return GroupSamples(
        queue=numbers([queue for queue, _, _ in looks]),
        run=numbers([run for _, run, _ in looks]),
        at_ms=numbers([look.at_ms for _, _, look in looks]),
        consumer=numbers([look.consumer_offset for _, _, look in looks]),
        max=numbers([look.max_offset for _, _, look in looks]),
        min=numbers([look.min_offset for _, _, look in looks]),
        is_none_stored=np.array([look.is_none_stored for _, _, look in looks]),
        is_expired=np.zeros(len(looks), np.bool_),
        is_counted=np.ones(len(looks), np.bool_),
    )


def test_a_known_part_exceeds_a_limit_but_meets_none() -> None:
    def states(limits: LagLimits, *pairs: tuple[int | None, int | None]) -> list[LimitState]:
        queues = [
            [Observation(START_MS, end and end - 1, end, 0), Observation(START_MS + MINUTE_MS, offset, end, 0)]
            for offset, end in pairs
        ]
        return [LimitState(each) for each in group_states(_rows(queues), limits).state][1:]

    lag = LagLimits(10, None)
    assert states(lag, (95, 100), (95, 100)) == [LimitState.WITHIN]
    assert states(lag, (95, 100), (94, 100)) == [LimitState.OUTSIDE]
    assert states(lag, (95, 100), (None, 100)) == [LimitState.UNKNOWN]
    assert states(lag, (80, 100), (None, 100)) == [LimitState.OUTSIDE]
    assert states(lag, (101, 100)) == [LimitState.UNKNOWN]
    # No snapshot knows the end of any queue: no broker that has one answered.
    for limits in (lag, LagLimits(None, 30_000)):
        assert states(limits, (None, None)) == [LimitState.UNKNOWN]
    # The message is older than the first snapshot, a minute ago: how much is unknown.
    assert states(LagLimits(None, 30_000), (98, 100)) == [LimitState.OUTSIDE]
    assert states(LagLimits(None, 90_000), (98, 100)) == [LimitState.UNKNOWN]
    assert states(LagLimits(None, 90_000), (100, 100)) == [LimitState.WITHIN]


def test_ages_are_those_of_the_watch() -> None:
    made = random.Random(7)
    for _ in range(300):
        looks, at_ms, offset, end = [], START_MS, 0, 5
        for _ in range(made.randrange(1, 12)):
            at_ms += made.randrange(1, 10**6)
            end = made.randrange(4) if made.random() < 0.1 else end + made.choice((0, 1, 7, 10**6))
            offset = min(end, made.choice((offset, offset + 1, end, end - 1, max(0, end - 9))))
            offset = max(offset, 0)
            is_known = made.random() < 0.9
            looks.append(
                Observation(at_ms, offset if is_known else None, end, made.choice((0, min(end, offset + 1))), None)
            )
        found = group_states(_rows([looks]), LagLimits(None, 10**12))
        for at, look in enumerate(looks):
            age = interpolate_time_lag(looks[: at + 1])
            assert abs(int(found.time_lag_ms[at]) - age.at_least_ms) <= 1, looks
            if look.behind is not None and look.min_offset <= look.consumer_offset:  # type: ignore[operator]
                assert (found.state[at] == LimitState.UNKNOWN) == (age.ms is None), looks
