"""Chooses a protection time from a range, and what it costs when something else happens than the simulated changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial

from msgspec import Struct

from .changes import Change, Departure, MemberEnd, MemberStart
from .group import ChurnGroup
from .runs import ChurnOutcome, Range, simulate_runs

# Protection times that are tried, as people choose them; longer ones are whole hours.
_TRIED_S = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 2700)
_HOUR_MS = 3_600_000
_MOST_HOURS = 24
# A shorter time is preferred if it gains this share of what the best one gains.
_ENOUGH = 0.98

_AT_MS, _DOWN_MS, _AFTER_MS = 60_000, 10_000, 300_000
# No two processes start at the same moment.
_SPREAD_MS = 1000


class Measure(StrEnum):
    """What a protection time is chosen by."""

    DUPLICATES = "duplicateCount"
    MOVES = "moveCount"


class SweepEvent(StrEnum):
    """What can happen to the group."""

    SIMULATED = "simulated"
    """The changes that the time is chosen for."""
    DEATH = "client-vanishes"
    """A client vanishes for good: brokers keep it for 2 minutes."""
    REPLACEMENT = "client-replaced"
    """A client is killed, and a new one starts 10 s later."""
    RESTART = "all-restart"
    """All clients stop at once, and start 10 s later, within a second."""


_OTHER_EVENTS = (SweepEvent.DEATH, SweepEvent.REPLACEMENT, SweepEvent.RESTART)


class SweepCost(Struct, frozen=True):
    """How the group does in an event with the chosen time, and without protection."""

    event: SweepEvent
    protected: ChurnOutcome
    unprotected: ChurnOutcome


class SweepChoice(Struct, frozen=True):
    """The time that is chosen from a range, None if none of it is better than no protection; and by which measure."""

    least_ms: int
    most_ms: int
    measure: Measure
    protection_ms: int | None
    costs: tuple[SweepCost, ...] = ()


def tried_times_ms(least_ms: int, most_ms: int) -> list[int]:
    """Return the protection times of a range that are simulated, with both of its ends."""
    hours_ms = [hours * _HOUR_MS for hours in range(1, _MOST_HOURS + 1)]
    between = [at_ms for at_ms in (*(each * 1000 for each in _TRIED_S), *hours_ms) if least_ms < at_ms < most_ms]
    return list(dict.fromkeys((least_ms, *between, most_ms)))


def choose(
    group: ChurnGroup, outcomes: Sequence[ChurnOutcome], *, least_ms: int, most_ms: int, run_count: int, seed: int
) -> SweepChoice:
    """Choose a time of a range, of which these are the outcomes, and simulate what it costs. Raises AllocationError."""
    measure, protection_ms = chosen_time_ms(outcomes)
    if protection_ms is None:
        return SweepChoice(least_ms, most_ms, measure, None)
    chosen = next(outcome for outcome in outcomes if outcome.protection_ms == protection_ms)
    costs = (
        SweepCost(SweepEvent.SIMULATED, chosen, outcomes[0]),
        *(_cost(group, event, protection_ms, run_count=run_count, seed=seed) for event in _OTHER_EVENTS),
    )
    return SweepChoice(least_ms, most_ms, measure, protection_ms, costs)


def chosen_time_ms(outcomes: Sequence[ChurnOutcome]) -> tuple[Measure, int | None]:
    """Return by what a time is chosen, and the shortest one that gains most of what the best one gains.

    That is by duplicates if protection clearly avoids some, else by queue moves. The first outcome is the one without
    protection. The time is None if no average is below what every run without protection has: the difference may be
    chance. Of times that gain enough, those are preferred that also gain most of what can be gained of the time without
    an owner: a client that leaves just after it counts makes no duplicates yet.
    """
    without, protected = outcomes[0], outcomes[1:]
    for measure in Measure if without.duplicate_count is not None else (Measure.MOVES,):
        if gainful := _gainful(without, protected, partial(_measured, measure)):
            owned = _gainful(without, gainful, lambda outcome: outcome.unowned_ms)
            return measure, min(outcome.protection_ms for outcome in owned or gainful)
    return Measure.MOVES, None


def _gainful(
    without: ChurnOutcome, outcomes: Sequence[ChurnOutcome], value: Callable[[ChurnOutcome], Range]
) -> list[ChurnOutcome]:
    """Return the outcomes that gain most of what the best one gains, none if it can be chance."""
    plain = value(without)
    best = min((value(outcome).mean for outcome in outcomes), default=plain.mean)
    if best >= plain.least:
        return []
    enough = plain.mean - _ENOUGH * (plain.mean - best)
    return [outcome for outcome in outcomes if value(outcome).mean <= enough]


def _measured(measure: Measure, outcome: ChurnOutcome) -> Range:
    if measure is Measure.DUPLICATES and outcome.duplicate_count is not None:
        return outcome.duplicate_count
    return outcome.move_count


def _cost(group: ChurnGroup, event: SweepEvent, protection_ms: int, *, run_count: int, seed: int) -> SweepCost:
    """Simulate the group through an event, without other changes."""
    unprotected, protected = simulate_runs(
        group,
        _changes_of(event, group.client_ids),
        protections_ms=(0, protection_ms),
        for_ms=_AT_MS + _DOWN_MS + protection_ms + _AFTER_MS,
        run_count=run_count,
        seed=seed,
    )
    return SweepCost(event, protected, unprotected)


def _changes_of(event: SweepEvent, client_ids: Sequence[str]) -> Callable[[int], Sequence[Change]]:
    """Return the changes of each run; in each, another client ends."""

    def changes(seed: int) -> list[Change]:
        client_id = client_ids[seed % len(client_ids)]
        if event is SweepEvent.DEATH:
            return [MemberEnd(_AT_MS, client_id, Departure.VANISH)]
        ended = client_ids if event is SweepEvent.RESTART else (client_id,)
        departure = Departure.STOP if event is SweepEvent.RESTART else Departure.KILL
        draw = random.Random(seed).uniform  # noqa: S311 - a simulation must be repeatable
        starts = [MemberStart(_AT_MS + _DOWN_MS + draw(0, _SPREAD_MS), f"{each}~1", origin=each) for each in ended]
        return [*(MemberEnd(_AT_MS, each, departure) for each in ended), *sorted(starts, key=lambda start: start.at_ms)]

    return changes
