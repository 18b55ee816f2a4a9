"""What plans of all kinds are made with."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from rmqctl.errors import StaleError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker

# Why a plan that only takes something away does not tell what that is worth.
NOT_LOOKED_UP = dict.fromkeys(
    (
        "minOffset", "maxOffset", "change", "reconsumed", "reconsumedMin", "reconsumedMax", "skipped", "skippedMin",
        "skippedMax", "lost", "firstStoreTimestamp",
    ),
    "NOT_LOOKED_UP",
)  # fmt: skip


_SHOWN = 5


def stale(drift: Sequence[str], *, has_moved: bool = False) -> StaleError:
    """Return the error of a plan that no longer holds, with the first of what has changed.

    `has_moved`: a broker has another address.
    """
    more = f" And {len(drift) - _SHOWN} more." if len(drift) > _SHOWN else ""
    sentence = f"The plan no longer holds. {' '.join(drift[:_SHOWN])}{more}"
    hint = "Nothing was changed. Make a new plan, and look at it."
    if has_moved:
        hint += " If a broker has only moved, --assume-same-cluster goes on with this one."
    return StaleError(sentence, hint=hint)


# Written, and noted as being written, at once.
_BATCH = 64


def write_batches(queues: Mapping[int, MessageQueue], known_topics: Collection[str]) -> list[list[int]]:
    """Return in which order offsets are written at one broker: the numbers of those that may go out together.

    `known_topics` are those of which the broker stores an offset of the group. Of the others one queue goes first:
    brokers make a table for a topic with its first offset, and of two that come at once the table of the later one
    replaces the other's, whose offset is lost though it was answered with success (ConsumerOffsetManager.commitOffset).
    """
    first: dict[str, int] = {}
    for number, mq in queues.items():
        if mq.topic not in known_topics:
            first.setdefault(mq.topic, number)
    firsts = list(first.values())
    others = [number for number in queues if number not in set(firsts)]
    return [part[start : start + _BATCH] for part in (firsts, others) for start in range(0, len(part), _BATCH)]


def new_id(now_ms: int) -> str:
    """Return a new id, which sorts by time."""
    return f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def cluster_label(brokers: Iterable[Broker], name_servers: Sequence[str]) -> str:
    """Return what a cluster is called in plans and in the journal, whichever of its name servers answered."""
    names = ",".join(sorted({broker.cluster for broker in brokers}))
    return f"{names}@{';'.join(sorted(name_servers))}"
