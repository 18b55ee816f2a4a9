"""The verdict on a group, from the verdicts on its queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rmqctl.model.queue import MessageQueue

from .verdict import Health, QueueVerdict

WORST_FIRST = tuple(Health)


class GroupVerdict(Struct, frozen=True):
    """A group is as healthy as its worst queues (`worst`). `counts` has every verdict, including those with 0."""

    health: Health
    counts: Mapping[Health, int]
    worst: tuple[MessageQueue, ...]


def worst_of(healths: Iterable[Health]) -> Health:
    """Return the worst of the verdicts, UNKNOWN without any."""
    return min(healths, key=WORST_FIRST.index, default=Health.UNKNOWN)


def judge_group(verdicts: Mapping[MessageQueue, QueueVerdict]) -> GroupVerdict:
    """Judge a group by its queues; a group without known queues is UNKNOWN."""
    health = worst_of(verdict.health for verdict in verdicts.values())
    counted = Counter(verdict.health for verdict in verdicts.values())
    worst = tuple(sorted(mq for mq, verdict in verdicts.items() if verdict.health is health))
    return GroupVerdict(health, {each: counted[each] for each in WORST_FIRST}, worst)
