"""Parts shared by plans of all kinds."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import StaleError, UnreachableError
from rmqctl.model.failure import SLAVE_ANSWERED, Failure
from rmqctl.model.plan import AwaitedWrite, ConfigItem, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.text.words import counted

# The reasons of a plan that only deletes offsets, and does not look up what these numbers are.
NOT_LOOKED_UP = dict.fromkeys(
    (
        "minOffset", "maxOffset", "change", "reconsumed", "reconsumedMin", "reconsumedMax", "skipped", "skippedMin",
        "skippedMax", "lost", "firstStoreTimestamp",
    ),
    "NOT_LOOKED_UP",
)  # fmt: skip


# Failures that leave no part of the group unseen.
WAITING, CLOCK = "waiting messages", "clock"
_HARMLESS = ("first message", SLAVE_ANSWERED, WAITING, CLOCK)
_SHOWN = 5


def is_harmless(failure: Failure) -> bool:
    """Return whether a failure leaves no part of the group unseen."""
    return failure.what.startswith(_HARMLESS)


_NOT_SEEN = "not seen"
# The failure of a broker whose offsets could be read, but which did not report whether it has the group configured.
GROUPS = "configurations of groups"


def broker_of(brokers: Mapping[str, BrokerData], name: str) -> BrokerData:
    """Return a broker of a group that was read. Raises UnreachableError for one that was not read.

    Names of queues come from members, plans and earlier reads: their brokers may be silent, removed or renamed by now.
    """
    if name not in brokers:
        raise not_read(name)
    return brokers[name]


def not_read(name: str) -> UnreachableError:
    """Return the error for a broker that was not read with the rest of its group, for an unknown reason."""
    return UnreachableError(name, "not registered, or it does not answer")


def reason_words(failure: Failure) -> str:
    """Return, in words, why a queue's broker counts as not seen."""
    return f"{failure.what}: {failure.error.sentence}" if failure.what == GROUPS else failure.error.sentence


def unseen_note(why: str) -> str:
    """Return the note of what should exist and could not be read."""
    return f"{_NOT_SEEN}: {why.rstrip('.')}" if why else _NOT_SEEN


def unseen_item(mq: MessageQueue, why: str, *, reason: str = "NOT_THERE", before: int | None = None) -> PlanItem:
    """Return the item of a queue that should exist and could not be read; nothing will be sent for it."""
    reasons = dict.fromkeys((*NOT_LOOKED_UP, "target"), reason)
    if before is None:
        reasons["before"] = reason
    return PlanItem(mq, before, None, Route.UNSEEN, note=unseen_note(why), reasons=reasons)


def unseen_config(broker_name: str, why: str) -> ConfigItem:
    """Return the item of a broker that should exist and could not be read; nothing will be sent there."""
    return ConfigItem(broker_name, None, None, unseen_note(why), Route.UNSEEN)


def awaiting(item: PlanItem, awaits: AwaitedWrite) -> PlanItem:
    """Return an item that stays where it is, unless the write that it awaits is seen: then it is moved back there."""
    counts = ("reconsumed", "reconsumed_min", "reconsumed_max", "skipped", "skipped_min", "skipped_max")
    return replace(
        item,
        target=item.before,
        awaits=awaits,
        note=_awaits_words(awaits),
        first_store_time_ms=None,
        reasons={**item.reasons, "firstStoreTimestamp": "NOT_LOOKED_UP"},
        **dict.fromkeys(counts, None if item.before is None else 0),
    )


def awaiting_config(
    broker_name: str, now: Mapping[str, Any] | None, awaits: AwaitedWrite, route: Route = Route.GROUP_CONFIG
) -> ConfigItem:
    """Return an item as awaiting() does, for a configuration."""
    return ConfigItem(broker_name, now, now, _awaits_words(awaits), route, awaits)


def _awaits_words(awaits: AwaitedWrite) -> str:
    return f"awaits the write of {awaits.receipt_id}"


class PlanReport(Struct, frozen=True):
    """A plan, and the failures of reading for it."""

    plan: Plan
    failures: tuple[Failure, ...]

    @property
    def unseen(self) -> str | None:
        """What of the group was not seen, in words; None when all of it was seen."""
        counts: dict[str, int] = {}
        notes: dict[str, str] = {}
        for item in self.plan.items:
            if item.route is Route.UNSEEN:
                name = item.mq.broker_name
                counts[name] = counts.get(name, 0) + 1
                notes.setdefault(name, _reason(item.note))
        said = [f"{counted(count, 'queue')} at {name} ({notes[name]})" for name, count in sorted(counts.items())]
        for config in self.plan.configs:
            if config.route is Route.UNSEEN and config.broker_name not in counts:
                said.append(f"configuration at {config.broker_name} ({_reason(config.note)})")
                counts[config.broker_name] = 0
        said += [
            f"{failure.what}{'' if failure.broker_name is None else f' at {failure.broker_name}'} "
            f"({failure.error.sentence.rstrip('.')})"
            for failure in self.failures
            if not is_harmless(failure) and failure.broker_name not in counts
        ]
        return "; ".join(dict.fromkeys(said)) or None


def _reason(note: str) -> str:
    return note.removeprefix(_NOT_SEEN).removeprefix(": ") or _NOT_SEEN


def stale(drift: Sequence[str], *, has_moved: bool = False) -> StaleError:
    """Return the error of a plan that is out of date, with the first changes.

    `has_moved`: a broker has another address.
    """
    more = f" And {len(drift) - _SHOWN} more." if len(drift) > _SHOWN else ""
    sentence = f"The plan is out of date. {' '.join(drift[:_SHOWN])}{more}"
    hint = "Nothing was changed. Make a new plan and review it."
    if has_moved:
        hint += " If a broker has only moved, add --assume-same-cluster to apply this plan."
    return StaleError(sentence, hint=hint)


# The number of offsets that are journaled and written together.
_BATCH = 64


def write_batches(queues: Mapping[int, MessageQueue], known_topics: Collection[str]) -> list[list[int]]:
    """Return in which order offsets are written at one broker: lists of numbers that may be written together.

    `known_topics` are the topics for which the broker stores an offset of the group. Of the other topics one queue is
    written first: brokers create a topic's table with its first offset. If two arrive concurrently, the later table
    replaces the earlier one, whose offset is lost though it was acknowledged (ConsumerOffsetManager.commitOffset).
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


def is_id(text: str) -> bool:
    """Return whether a text has the form of an id of new_id()."""
    return re.fullmatch(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{6}", text) is not None


def cluster_label(brokers: Iterable[BrokerData], name_servers: Sequence[str]) -> str:
    """Return a cluster's name in plans and in the journal; it does not depend on which name server answered."""
    names = ",".join(sorted({broker.cluster for broker in brokers}))
    return f"{names}@{';'.join(sorted(name_servers))}"
