"""What happens in a simulation and for how long, whether a scenario or a recording says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from rmqctl.text.durations import exact_duration, short_duration

from .changes import Change
from .group import ChurnGroup, broker_names
from .scenarios import ChurnScenario, varied
from .trace import ChurnTrace

_FLAP_FOR_MS, _AFTER_MS = 600_000, 180_000


class Story(Struct, frozen=True):
    """The changes of each run, by its seed. `change_count` is about how many there are, `words` say what happens."""

    kind: str
    words: str
    for_ms: int
    change_count: int
    changes_of: Callable[[int], Sequence[Change]]


def scenario_story(scenario: ChurnScenario, group: ChurnGroup, for_ms: int | None, protect_ms: int) -> Story:
    """Return what happens in a scenario; by default until the effects of its last change are over.

    Raises NotFoundError for a name that the group does not have; so does `changes_of`, and UsageError when more clients
    would leave than there are.
    """
    client_ids, names = group.client_ids, broker_names(group)
    if for_ms is None:
        last_ms = scenario.last_change_ms(client_ids)
        for_ms = _FLAP_FOR_MS if last_ms is None else last_ms + protect_ms + _AFTER_MS
    return Story(
        kind=scenario.kind.value,
        words=f"{scenario.words(client_ids, names)}, for {exact_duration(for_ms)}",
        for_ms=for_ms,
        change_count=scenario.change_count(client_ids, for_ms),
        changes_of=lambda seed: varied(scenario.changes(client_ids, names, for_ms), seed),
    )


def trace_story(trace: ChurnTrace, for_ms: int | None) -> Story:
    """Return what a recording shows, for its time or less."""
    for_ms = trace.for_ms if for_ms is None else min(trace.for_ms, for_ms)
    return Story(
        kind="trace",
        words=f"{trace.words()}, for {short_duration(for_ms)}",
        for_ms=for_ms,
        change_count=len(trace.steps),
        changes_of=trace.changes,
    )
