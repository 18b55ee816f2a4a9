"""MessageRates of a queue and of a group, and what makes them unknown."""

from __future__ import annotations

import pytest

from rmqctl.rules.health import Observation
from rmqctl.watch.rates import MessageRates, compute_rates, consume_history, sum_rates

_Look = tuple[int | None, int | None]  # offset and end; an offset of -1 is "none stored"


def _observations(*looks: _Look, step_ms: int = 10_000) -> list[Observation]:
    return [
        Observation(at * step_ms, None if offset == -1 else offset, end, is_none_stored=offset == -1)
        for at, (offset, end) in enumerate(looks)
    ]


@pytest.mark.parametrize(
    ("looks", "rates"),
    [
        ([(0, 0), (20, 50), (40, 100)], MessageRates(5.0, 2.0)),
        ([(5, 5), (5, 5)], MessageRates(0.0, 0.0)),
        ([(50, 60), (10, 60)], MessageRates(0.0, -4.0)),  # a reset
        ([(5, 5)], MessageRates()),
        ([], MessageRates()),
        ([(0, 0), (None, None), (40, 100)], MessageRates(5.0, 2.0)),  # one answer was missing
        ([(0, 0), (40, 100), (None, None)], MessageRates()),  # the last one was: the rate now is unknown
        ([(-1, 0), (-1, 100)], MessageRates(10.0, 0.0)),
        ([(-1, 0), (900, 1000)], MessageRates(100.0, None)),  # a first commit may be the end of the queue
        ([(-1, 0), (900, 1000), (920, 1000)], MessageRates(50.0, 2.0)),
        ([(900, 1000), (0, 10), (20, 30)], MessageRates(2.0, 2.0)),  # the topic was recreated
    ],
)
def test_rates_of_a_queue(looks: list[_Look], rates: MessageRates) -> None:
    assert compute_rates(_observations(*looks)) == rates


def test_only_the_last_minute_counts() -> None:
    looks: list[_Look] = [(0, 0), (600, 600), (600, 1200), (600, 1800)]
    assert compute_rates(_observations(*looks, step_ms=30_000)) == MessageRates(20.0, 0.0)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([MessageRates(1.0, 2.0), MessageRates(3.0, 4.0)], MessageRates(4.0, 6.0)),
        ([MessageRates(1.0, 2.0), MessageRates(3.0, None)], MessageRates(4.0, None)),
        ([], MessageRates()),
    ],
)
def test_a_sum_with_an_unknown_part_is_unknown(parts: list[MessageRates], expected: MessageRates) -> None:
    assert sum_rates(parts) == expected


def test_the_history_of_a_group_has_a_gap_where_a_queue_is_unknown() -> None:
    one = _observations((0, 9), (10, 19), (30, 30), (None, None), (40, 40))
    other = _observations((0, 9), (10, 10), (10, 10), (20, 20), (20, 20))
    late = _observations((0, 0), (0, 0), (0, 0), (0, 0), (50, 50))[3:]
    assert consume_history([one, other, late], 40_000) == [2.0, 2.0, None, None]
    assert consume_history([other, late], 40_000) == [1.0, 0.0, 1.0, 5.0]
    assert consume_history([other, late], 30_000) == [1.0, 0.0, 1.0]
    assert consume_history([], 40_000) == []
