"""What the job lag looks at, decided of its options alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.lag.groups import skew
from rmqctl.pipeline.jobs.lag.job import JOB
from rmqctl.pipeline.jobs.lag.series import group_series
from rmqctl.pipeline.jobs.lag.span import LagSpan, fitting_window_ms, given_window_ms, span_of
from rmqctl.pipeline.report.lag_series import LagPoint

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
DAWN_MS = 1_794_268_800_000  # 2026-11-10T00:00:00Z
NEWEST_MS = DAWN_MS + 10 * HOUR_MS + 5 * MINUTE_MS


def _options(**options: Any) -> JobOptions:
    return JobOptions(now_ms=DAWN_MS + 20 * HOUR_MS, tables="/t", **options)


def _span(newest_ms: int = NEWEST_MS, **options: Any) -> LagSpan:
    given = _options(**options)
    return span_of(given, newest_ms, given_window_ms(given) or HOUR_MS)


@pytest.mark.parametrize(
    ("text", "wanted_ms"),
    [("1m", MINUTE_MS), ("90s", 90_000), ("112.5s", None), ("20m", 20 * MINUTE_MS), ("25m", None),
     ("90m", None), ("6h", 6 * HOUR_MS), ("7d", 7 * DAY_MS), ("30s", None), ("0", None), ("soon", None)],
)  # fmt: skip
def test_windows_fit_into_hours(text: str | None, wanted_ms: int | None) -> None:
    if wanted_ms is not None:
        assert given_window_ms(_options(window=text)) == wanted_ms
        return
    with pytest.raises(UsageError, match="--window"):
        given_window_ms(_options(window=text))


@pytest.mark.parametrize(
    ("interval_ms", "wanted_ms"),
    [(None, HOUR_MS), (1, 5 * MINUTE_MS), (15_000, 5 * MINUTE_MS), (30_001, 6 * MINUTE_MS), (60_400, 12 * MINUTE_MS),
     (5 * MINUTE_MS, HOUR_MS), (6 * MINUTE_MS, HOUR_MS), (10 * MINUTE_MS, 2 * HOUR_MS), (HOUR_MS, 12 * HOUR_MS),
     (DAY_MS, DAY_MS)],
)  # fmt: skip
def test_by_default_a_window_has_ten_snapshots(interval_ms: int | None, wanted_ms: int) -> None:
    assert fitting_window_ms(interval_ms) == wanted_ms


@pytest.mark.parametrize(
    ("options", "since_h", "until_h", "end_ms", "is_newest"),
    [
        # A day back from the newest, in whole hours.
        ({}, -14, 11, NEWEST_MS + 1, True),
        ({"window": "5m"}, -14, 11, NEWEST_MS + 1, True),
        ({"window": "6h"}, -18, 12, NEWEST_MS + 1, True),
        # Windows count from 1970, not from today: 2026-11-10 is the 20767th day, the third of a window of 4.
        ({"window": "4d"}, -168, 24, NEWEST_MS + 1, True),
        ({"until": "2026-11-10T08:00Z"}, -16, 8, DAWN_MS + 8 * HOUR_MS, False),
        ({"until": "2026-11-10T08:00:00.001Z"}, -16, 9, DAWN_MS + 8 * HOUR_MS + 1, False),
        ({"since": "2026-11-10T01:59Z", "until": "2026-11-10T02:01Z"}, 1, 3, DAWN_MS + 121 * MINUTE_MS, False),
        ({"since": "earliest"}, -DAWN_MS // HOUR_MS, 11, NEWEST_MS + 1, True),
        ({"until": "now"}, -4, 20, DAWN_MS + 20 * HOUR_MS, False),
    ],
)
def test_what_is_looked_at_is_whole(
    options: dict[str, str], since_h: int, until_h: int, end_ms: int, is_newest: bool
) -> None:
    span = _span(**options)
    now_ms = NEWEST_MS if is_newest else end_ms
    assert span == LagSpan(DAWN_MS + since_h * HOUR_MS, DAWN_MS + until_h * HOUR_MS, end_ms, now_ms)


def test_a_sample_at_a_full_hour_begins_a_window() -> None:
    assert _span(DAWN_MS).until_ms == DAWN_MS + HOUR_MS


def test_nothing_is_no_stretch() -> None:
    with pytest.raises(UsageError, match="--since is not before --until"):
        _span(since="2026-11-10T02:00Z", until="2026-11-10T02:00Z")
    with pytest.raises(UsageError, match="--since is after the last snapshot"):
        _span(since="1h")


def test_a_span_begins_with_its_first_sample() -> None:
    span = _span(since="earliest")
    assert span.begun_with(NEWEST_MS - HOUR_MS, HOUR_MS).since_ms == DAWN_MS + 9 * HOUR_MS
    assert _span().begun_with(0, HOUR_MS).since_ms == DAWN_MS - 14 * HOUR_MS


def test_mistakes_are_found_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert JOB.check is not None
    page = _options(html=str(tmp_path / "new.html"))
    monkeypatch.setattr("rmqctl.pipeline.session.find_spec", lambda name: None if name == "matplotlib" else name)
    with pytest.raises(UsageError, match=r"Matplotlib is not installed\."):
        JOB.check(page)
    monkeypatch.setattr("rmqctl.pipeline.session.find_spec", lambda name: name)
    JOB.check(page)
    for options, said in (
        ({"html": str(tmp_path)}, "--html"),
        ({"html": str(tmp_path / "no" / "new.html")}, "--html"),
        ({"window": "7m"}, "--window"),
        ({"since": "soon"}, "--since"),
    ):
        with pytest.raises(UsageError, match=said):
            JOB.check(_options(**options))


def test_series_are_by_snapshot_and_window() -> None:
    def window(hour: int, queue_id: int, lag: int | None, status: str = "OK") -> dict[str, Any]:
        start_ms = DAWN_MS + hour * HOUR_MS
        return {
            "window_start_ms": start_ms, "window_end_ms": start_ms + HOUR_MS, "topic": "T", "broker_name": "b",
            "queue_id": queue_id, "lag_max": lag, "status": status,
        }  # fmt: skip

    def run(at: int, lag: int | None, *counts: int) -> dict[str, Any]:
        set_back, changes = counts or (0, 0)
        at_ms = DAWN_MS + at * 600_000
        return {
            "run_id": f"r{at}", "at_ms": at_ms, "lag": lag, "set_back_count": set_back, "owner_change_count": changes
        }  # fmt: skip

    facts = [
        window(-1, 0, 9, "STALL"), window(1, 0, 5, "WARN"), window(0, 0, 3), window(0, 1, 4, "LEFT"),
        window(2, 0, None, "LEFT"), window(2, 1, 8, "GONE"),
    ]  # fmt: skip
    until_ms = DAWN_MS + 2 * HOUR_MS + 1
    # The brokers of the second snapshot were of two clusters, or of one and an unknown one.
    series = group_series([run(0, 7), run(6, 1, 1, 0), run(6, 2, 1, 3), run(7, None)], facts, DAWN_MS, until_ms)
    assert series.points == (
        LagPoint(DAWN_MS, 7),
        LagPoint(DAWN_MS + HOUR_MS, 3, 2, 3),
        LagPoint(DAWN_MS + 7 * 600_000, None),
    )
    # The first is not whole, the last is not over; a queue that the group left says nothing about its health.
    assert [(each.start_ms, each.end_ms, each.health) for each in series.windows] == [
        (DAWN_MS, DAWN_MS + HOUR_MS, "OK"),
        (DAWN_MS + HOUR_MS, DAWN_MS + 2 * HOUR_MS, "WARN"),
        (DAWN_MS + 2 * HOUR_MS, until_ms, "LEFT"),
    ]
    assert series.queues[MessageQueue("T", "b", 1)] == {
        DAWN_MS: (4, "LEFT"),
        DAWN_MS + 2 * HOUR_MS: (8, "GONE"),
    }
    # The only window is shown, though it begins before the first snapshot.
    (only,) = group_series([run(0, 7)], [window(-1, 0, 9, "STALL")], DAWN_MS, until_ms).windows
    assert only.health == "STALL"


@pytest.mark.parametrize(
    ("values", "wanted"),
    [([1, 1, 1], 1.0), ([6, 0, 0], 3.0), ([3, 1], 1.5), ([5], 1.0), ([0, 0], None), ([], None), ([3, None], None)],
)
def test_skew_is_the_most_over_the_mean(values: list[float | None], wanted: float | None) -> None:
    assert skew(values) == wanted
