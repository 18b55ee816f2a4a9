"""The choice of a protection time from a range."""

from __future__ import annotations

import pytest

from rmqctl.rules.allocate.averagely import allocate_averagely
from rmqctl.whatif.churn.group import ChurnGroup
from rmqctl.whatif.churn.runs import ChurnOutcome, Range
from rmqctl.whatif.churn.sweep import Measure, SweepEvent, choose, chosen_time_ms, tried_times_ms
from rmqctl.whatif.churn.timing import RMQCTL
from rmqctl.whatif.sized_group import shape

_NOTHING = Range(0, 0, 0)


def _outcome(protect_s: int, moves: Range, duplicates: Range | None, *, unowned_ms: Range = _NOTHING) -> ChurnOutcome:
    return ChurnOutcome(
        protection_ms=protect_s * 1000, run_count=3, change_count=2, rebalance_count=_NOTHING, move_count=moves,
        shared_ms=_NOTHING, unowned_ms=unowned_ms, duplicate_count=duplicates, message_count=None, most_queues=_NOTHING,
        waited_ms=_NOTHING, settled_ms=None, unsettled_count=_NOTHING,
    )  # fmt: skip


def _spread(mean: float) -> Range:
    return Range(mean * 0.8, mean, mean * 1.2)


@pytest.mark.parametrize(
    ("means", "protect_s"),
    [
        ({0: 100, 5: 99, 10: 12, 15: 1, 30: 0, 60: 0}, 15),
        ({0: 100, 5: 50, 10: 40, 15: 60}, 10),
        ({0: 100, 5: 90, 10: 85, 15: 95}, None),  # within what differs by chance
        ({0: 100, 5: 100, 10: 130}, None),
        ({0: 0, 5: 0}, None),
        ({0: 100, 20: 10}, 20),
    ],
)
def test_the_shortest_time_that_gains_almost_all(means: dict[int, float], protect_s: int | None) -> None:
    expected = None if protect_s is None else protect_s * 1000
    by_moves = [_outcome(each, _spread(mean), None) for each, mean in means.items()]
    assert chosen_time_ms(by_moves) == (Measure.MOVES, expected)
    silent = [_outcome(each, _spread(mean), _NOTHING) for each, mean in means.items()]
    assert chosen_time_ms(silent) == (Measure.MOVES, expected)  # nothing is consumed twice where nothing arrives
    if means[0]:
        by_duplicates = [_outcome(each, _spread(7), _spread(mean)) for each, mean in means.items()]
        assert chosen_time_ms(by_duplicates) == (Measure.DUPLICATES if expected else Measure.MOVES, expected)
        # Where duplicates differ by chance, queue moves decide.
        by_both = [_outcome(each, _spread(mean), _spread(7)) for each, mean in means.items()]
        assert chosen_time_ms(by_both) == (Measure.MOVES, expected)


@pytest.mark.parametrize(
    ("unowned_s", "protect_s"),
    [
        ({0: 200, 10: 19, 15: 4, 20: 4}, 15),
        ({0: 200, 10: 190, 15: 180, 20: 170}, 10),  # within what differs by chance
        ({0: 20, 10: 40, 15: 50, 20: 60}, 10),
    ],
)
def test_of_times_that_gain_enough_one_that_also_shortens_the_time_without_an_owner(
    unowned_s: dict[int, float], protect_s: int
) -> None:
    outcomes = [
        _outcome(each, _NOTHING, _spread(1 if each else 100), unowned_ms=_spread(seconds * 1000))
        for each, seconds in unowned_s.items()
    ]
    assert chosen_time_ms(outcomes) == (Measure.DUPLICATES, protect_s * 1000)


def test_a_range_has_its_ends_and_round_times() -> None:
    assert tried_times_ms(0, 20_000) == [0, 1000, 2000, 5000, 10_000, 15_000, 20_000]
    assert tried_times_ms(17_500, 50_000) == [17_500, 20_000, 30_000, 45_000, 50_000]
    assert tried_times_ms(1_800_000, 8_000_000) == [1_800_000, 2_700_000, 3_600_000, 7_200_000, 8_000_000]


def test_a_choice_has_what_it_costs_when_something_else_happens() -> None:
    size = shape(2, 4, 3)
    group = ChurnGroup(
        queues=size.queues, client_ids=size.client_ids, allocate=allocate_averagely, timing=RMQCTL
    )  # fmt: skip
    outcomes = [_outcome(0, _spread(100), None), _outcome(60, _spread(1), None)]
    choice = choose(group, outcomes, least_ms=60_000, most_ms=120_000, run_count=3, seed=1)
    assert choice.protection_ms == 60_000
    costs = {cost.event: cost for cost in choice.costs}
    assert list(costs) == list(SweepEvent)
    assert (costs[SweepEvent.SIMULATED].unprotected, costs[SweepEvent.SIMULATED].protected) == tuple(outcomes)
    death, replaced, restart = (costs[event] for event in list(SweepEvent)[1:])
    # Brokers keep the client until 120 to 130 s after its last heartbeat; its two or three queues have no owner.
    assert 90_000 * 2 < death.unprotected.unowned_ms.least < 135_000 * 3
    assert death.protected.unowned_ms.mean == pytest.approx(death.unprotected.unowned_ms.mean, rel=0.1)
    assert replaced.protected.waited_ms.mean > 60_000 > replaced.unprotected.waited_ms.mean
    # The first one that starts has all queues until the others count.
    assert restart.protected.most_queues.mean == 8
    assert restart.protected.waited_ms.least > 2 * 60_000 > restart.unprotected.waited_ms.most
    none = choose(group, outcomes[:1], least_ms=0, most_ms=0, run_count=1, seed=1)
    assert (none.protection_ms, none.costs) == (None, ())
