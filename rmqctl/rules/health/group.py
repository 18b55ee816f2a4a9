"""What the verdicts of all queues come to for their group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rmqctl.model.queue import MessageQueue

from .verdict import Health, Verdict

WORST_FIRST = tuple(Health)


class GroupVerdict(Struct, frozen=True):
    """A group is as its worst queue. `counts` has every verdict, also with 0; `worst` are the queues that decided."""

    health: Health
    counts: Mapping[Health, int]
    worst: tuple[MessageQueue, ...]


def worst_of(healths: Iterable[Health]) -> Health:
    """Return the worst; UNKNOWN of none at all."""
    return min(healths, key=WORST_FIRST.index, default=Health.UNKNOWN)


def judge_group(verdicts: Mapping[MessageQueue, Verdict]) -> GroupVerdict:
    """Judge a group by its queues; one of which no queue is known is UNKNOWN."""
    health = worst_of(verdict.health for verdict in verdicts.values())
    counted = Counter(verdict.health for verdict in verdicts.values())
    worst = tuple(sorted(mq for mq, verdict in verdicts.items() if verdict.health is health))
    return GroupVerdict(health, {each: counted[each] for each in WORST_FIRST}, worst)
