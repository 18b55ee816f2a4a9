"""Scenarios: the changes of a member or broker that flaps, of restarts, of a partition, of members that come or go."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.whatif.churn.changes import BrokerStart, BrokerStop, CutBegin, CutEnd, Departure, MemberEnd, MemberStart
from rmqctl.whatif.churn.scenarios import ChurnScenario, ScenarioKind, require_possible, varied

IDS = ("c1", "c2", "c3")
BROKERS = ("a", "b")


def test_a_member_that_flaps_is_away_as_long_as_it_is_there() -> None:
    scenario = ChurnScenario(kind=ScenarioKind.FLAP, period_ms=10_000, client_id="c2")
    assert scenario.changes(IDS, BROKERS, 35_000) == [
        MemberEnd(10_000, "c2"), MemberStart(20_000, "c2~1", origin="c2"),
        MemberEnd(30_000, "c2~1"), MemberStart(40_000, "c2~2", origin="c2"),
    ]  # fmt: skip


def test_members_of_a_rolling_restart_leave_one_after_another() -> None:
    scenario = ChurnScenario(
        kind=ScenarioKind.ROLLING, period_ms=1000, down_ms=1500, new_ids=False, departure=Departure.KILL
    )
    assert scenario.changes(IDS, BROKERS, 60_000) == [
        MemberEnd(1000, "c1", Departure.KILL), MemberEnd(2000, "c2", Departure.KILL),
        MemberStart(2500, "c1", origin="c1"), MemberEnd(3000, "c3", Departure.KILL),
        MemberStart(3500, "c2", origin="c2"), MemberStart(4500, "c3", origin="c3"),
    ]  # fmt: skip
    assert (scenario.last_change_ms(IDS), scenario.change_count(IDS, 60_000)) == (4500, 6)


def test_members_join_or_leave_at_once() -> None:
    joins, leaves = (ChurnScenario(kind=ScenarioKind.SCALE, count=count).changes(IDS, BROKERS, 1) for count in (2, -2))
    assert joins == [MemberStart(10_000, "c3+1"), MemberStart(10_000, "c3+2")]
    assert leaves == [MemberEnd(10_000, "c2"), MemberEnd(10_000, "c3")]


def test_a_broker_flaps() -> None:
    scenario = ChurnScenario(kind=ScenarioKind.BROKER_FLAP, period_ms=10_000)
    assert scenario.changes(IDS, BROKERS, 25_000) == [BrokerStop(10_000, "a"), BrokerStart(20_000, "a")]


@pytest.mark.parametrize(
    ("client_id", "name", "cut"),
    [("c2", "c2", ("a", "b")), ("c2/b", "c2", ("b",)), ("/b", "c1", ("b",)), ("d/a", "d/a", ("a", "b"))],
)
def test_a_partition_cuts_a_member_off_once(client_id: str, name: str, cut: tuple[str, ...]) -> None:
    scenario = ChurnScenario(kind=ScenarioKind.PARTITION, period_ms=60_000, client_id=client_id)
    assert scenario.changes((*IDS, "d/a"), BROKERS, 1) == [CutBegin(10_000, name, cut), CutEnd(70_000, name, cut)]
    assert scenario.last_change_ms(IDS) == 70_000


def test_times_vary_by_a_tenth_and_what_happens_at_once_stays_so() -> None:
    flap = ChurnScenario(kind=ScenarioKind.FLAP, period_ms=10_000).changes(IDS, BROKERS, 60_000)
    runs = [varied(flap, seed) for seed in range(20)]
    assert varied(flap, 0) == runs[0] != runs[1]
    for changes in runs:
        times_ms = [0.0, *(change.at_ms for change in changes)]
        assert all(9000 <= after_ms - before_ms <= 11_000 for before_ms, after_ms in pairwise(times_ms))
    joins = varied(ChurnScenario(kind=ScenarioKind.SCALE, count=2).changes(IDS, BROKERS, 60_000), 1)
    assert len({change.at_ms for change in joins}) == 1


def test_what_cannot_happen_is_refused() -> None:
    for scenario in (
        ChurnScenario(kind=ScenarioKind.FLAP, period_ms=1000, client_id="c9"),
        ChurnScenario(kind=ScenarioKind.BROKER_FLAP, period_ms=1000, broker_name="c"),
        ChurnScenario(kind=ScenarioKind.PARTITION, period_ms=1000, client_id="c1/c"),
    ):
        with pytest.raises(NotFoundError):
            scenario.changes(IDS, BROKERS, 60_000)
    with pytest.raises(UsageError, match="has only 3"):
        ChurnScenario(kind=ScenarioKind.SCALE, count=-4).changes(IDS, BROKERS, 60_000)
    for kind in ScenarioKind:
        with pytest.raises(UsageError, match=f"--{kind} 0"):
            require_possible(ChurnScenario(kind=kind))


@pytest.mark.parametrize("kind", ScenarioKind)
def test_each_kind_says_what_happens(kind: ScenarioKind) -> None:
    assert ChurnScenario(kind=kind, period_ms=1000, count=1).words(IDS, BROKERS)
