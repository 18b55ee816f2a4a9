"""Several runs of a simulation, with and without protection mode, summed up as ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from msgspec import Struct

from .changes import Change
from .group import ChurnGroup
from .simulation import ChurnRun, Simulation
from .track import Track


class Range(Struct, frozen=True):
    """The smallest, average and largest value of several runs."""

    least: float
    mean: float
    most: float


class ChurnOutcome(Struct, frozen=True):
    """What several runs with one protection time have in common; see ChurnRun for the values.

    `duplicate_count` is None when the rates of the queues are unknown. `settled_ms` is the longest time after a change
    until each queue had one owner, None if no change settled; `unsettled_count` counts changes that had not settled
    before the next one, of `change_count`.
    """

    protection_ms: int
    run_count: int
    change_count: int
    rebalance_count: Range
    move_count: Range
    shared_ms: Range
    unowned_ms: Range
    duplicate_count: Range | None
    message_count: int | None
    most_queues: Range
    waited_ms: Range
    settled_ms: Range | None
    unsettled_count: Range


def simulate_runs(
    group: ChurnGroup,
    changes_of: Callable[[int], Sequence[Change]],
    *,
    protections_ms: Iterable[int],
    for_ms: float,
    run_count: int,
    seed: int,
) -> list[ChurnOutcome]:
    """Simulate `run_count` runs per protection time, with seeds from `seed` on, which `changes_of` gets as well.

    Raises AllocationError.

    All protection times get the same seeds, so that they differ only by the mode.
    """
    outcomes = []
    for protection_ms in protections_ms:
        runs = [
            Simulation(group, protection_ms=protection_ms, seed=each).run(changes_of(each), for_ms=for_ms)
            for each in range(seed, seed + run_count)
        ]
        outcomes.append(_outcome(protection_ms, runs, with_messages=bool(group.rates)))
    return outcomes


def track_run(group: ChurnGroup, changes: Sequence[Change], *, protection_ms: int, for_ms: float, seed: int) -> Track:
    """Simulate one run, and return what its timeline shows. Raises AllocationError."""
    track = Track()
    Simulation(group, protection_ms=protection_ms, seed=seed, track=track).run(changes, for_ms=for_ms)
    return track


def _outcome(protection_ms: int, runs: Sequence[ChurnRun], *, with_messages: bool) -> ChurnOutcome:
    settled = [[at_ms for at_ms in run.settled_ms if at_ms is not None] for run in runs]
    slowest = [max(times) for times in settled if times]
    return ChurnOutcome(
        protection_ms=protection_ms,
        run_count=len(runs),
        change_count=len(runs[0].settled_ms),
        rebalance_count=_range(run.rebalance_count for run in runs),
        move_count=_range(run.move_count for run in runs),
        shared_ms=_range(run.shared_ms for run in runs),
        unowned_ms=_range(run.unowned_ms for run in runs),
        duplicate_count=_range(run.duplicate_count for run in runs) if with_messages else None,
        message_count=round(fmean(run.message_count for run in runs)) if with_messages else None,
        most_queues=_range(run.most_queues for run in runs),
        waited_ms=_range(run.waited_ms for run in runs),
        settled_ms=_range(slowest) if slowest else None,
        unsettled_count=_range(run.settled_ms.count(None) for run in runs),
    )


def _range(values: Iterable[float]) -> Range:
    values = list(values)
    return Range(min(values), fmean(values), max(values))
