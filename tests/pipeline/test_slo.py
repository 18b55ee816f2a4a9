"""The job slo: limits, objectives and weeks, decided of its options alone."""

from __future__ import annotations

from typing import Any

import pytest

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.slo.job import JOB, objective_of, span_of
from rmqctl.pipeline.jobs.slo.limits import LagLimits, parse_limits
from rmqctl.text.times import iso_time

NOW_MS = 1_795_348_800_000  # Sunday 2026-11-22T12:00Z


def _options(**options: Any) -> JobOptions:
    return JobOptions(now_ms=NOW_MS, tables="/t", **options)


def test_the_last_limit_that_names_a_group_applies() -> None:
    given = parse_limits(("1000", "pay-*=50", "pay-slow=0"), ("pay-*=90s",))
    assert given.of_groups(["orders", "pay-fast", "pay-slow"]) == {
        "orders": LagLimits(1000, None), "pay-fast": LagLimits(50, 90_000), "pay-slow": LagLimits(0, 90_000),
    }  # fmt: skip
    assert [str(each) for each in given.of_groups(["orders", "pay-fast", "pay-slow"]).values()] == [
        "lag 1000", "lag 50, 1m30s", "lag 0, 1m30s",
    ]  # fmt: skip
    # A group without a limit is left out, and a pattern without a group is a mistake.
    assert set(parse_limits(("pay-*=1",), ()).of_groups(["orders", "pay-fast"])) == {"pay-fast"}
    with pytest.raises(NotFoundError):
        given.of_groups(["orders"])
    assert parse_limits(("7",), ()).of_groups([]) == {}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "needs a limit"),
        ({"max_lags": ("many",)}, "--max-lag"),
        ({"max_lags": ("=5",)}, "names no group"),
        ({"max_lags": ("-5",)}, "--max-lag"),
        ({"max_time_lags": ("a=5",)}, "--max-time-lag"),
        ({"max_lags": ("5",), "objective": 100.0}, "--objective"),
        ({"max_lags": ("5",), "objective": 0.0}, "--objective"),
        ({"max_lags": ("5",), "since": "1h", "until": "2h"}, "--since is not before --until"),
    ],
)
def test_what_cannot_be_judged_is_refused(options: dict[str, Any], wanted: str) -> None:
    assert JOB.check is not None
    with pytest.raises(UsageError, match=wanted):
        JOB.check(_options(**options))


def test_weeks_start_on_monday_and_by_default_there_are_two() -> None:
    def span(**options: Any) -> tuple[str | None, str | None]:
        since_ms, until_ms = span_of(_options(**options))
        return iso_time(since_ms), iso_time(until_ms)

    assert span() == ("2026-11-09T00:00:00.000Z", "2026-11-22T12:00:00.000Z")
    assert span(until="2026-11-16T00:00Z") == ("2026-11-02T00:00:00.000Z", "2026-11-16T00:00:00.000Z")
    assert span(since="2026-11-05T07:00Z")[0] == "2026-11-02T00:00:00.000Z"
    assert (objective_of(_options()), objective_of(_options(objective=99.9))) == (0.99, 0.999)
