"""Where a reset leads each queue, and what that costs."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from rmqctl.model.queue import MessageQueue


class Aim(StrEnum):
    """How a target is found."""

    TIME = "TIME"
    EARLIEST = "EARLIEST"
    LATEST = "LATEST"
    OFFSET = "OFFSET"
    SHIFT = "SHIFT"
    CURRENT = "CURRENT"
    GIVEN = "GIVEN"  # by another group's offsets, or by a file's
    BEFORE = "BEFORE"  # where it was before a change, which can be nowhere


NONE_STORED = "RocketMQ can't take one offset away: -1 is stored, which brokers and clients take for none"


class Spec(Struct, frozen=True):
    """What was asked for: `value` is the time in ms, the offset, or the number of messages; `words` say it again.

    `ago_ms`: the time is counted back from now, so `value` is only known when the brokers have told their time.
    """

    aim: Aim
    value: int = 0
    words: str = ""
    ago_ms: int | None = None


class QueueFacts(Struct, frozen=True):
    """What a target is chosen by. `current` is the stored offset, None for none.

    `found` is the first message stored at the time or later, where that was asked; `given` another group's or a file's
    offset, None for none.
    """

    mq: MessageQueue
    min_offset: int
    max_offset: int
    current: int | None
    found: int | None = None
    given: int | None = None


class Choice(Struct, frozen=True):
    """The offset to store, None where the queue is left as it is, or with `is_removed` has none any more.

    `note` says what is worth knowing of either.
    """

    target: int | None
    note: str = ""
    is_removed: bool = False

    @property
    def is_left(self) -> bool:
        """Whether the queue is left as it is."""
        return self.target is None and not self.is_removed


class Range(NamedTuple):
    """A number of messages that lies between two others, which are the same where it is known."""

    low: int
    high: int

    @property
    def exact(self) -> int | None:
        """The number, None where only its bounds are known."""
        return self.low if self.low == self.high else None


class Effects(Struct, frozen=True):
    """Messages that are redelivered, never delivered, and deleted unread; None: no offset is stored."""

    reconsumed: Range | None
    skipped: Range | None
    lost: int | None


class Ahead(Struct, frozen=True):
    """What members have of a queue past the stored offset.

    They have pulled the messages below `pulled_to`, and consumed at most `consumed_count` of those. `first_unfinished`
    is the first one that they tell they are not through with, None where they tell of none.
    """

    pulled_to: int
    consumed_count: int
    first_unfinished: int | None = None


def choose_target(spec: Spec, facts: QueueFacts) -> Choice:
    """Return where a queue goes: always to a message that is there, or to the end.

    Brokers would store any number; from one outside the queue, clients are sent to its nearer end.
    """
    match spec.aim:
        case Aim.EARLIEST:
            return Choice(facts.min_offset)
        case Aim.LATEST:
            return Choice(facts.max_offset)
        case Aim.TIME:
            wanted = facts.max_offset if facts.found is None else facts.found
        case Aim.OFFSET:
            wanted = spec.value
        case Aim.SHIFT if facts.current is not None:
            wanted = facts.current + spec.value
        case Aim.CURRENT if facts.current is not None:
            wanted = facts.current
        case Aim.GIVEN if facts.given is not None:
            wanted = facts.given
        case Aim.GIVEN:
            return Choice(None, "no offset is given")
        case Aim.BEFORE if facts.given is not None:
            wanted = facts.given
        case Aim.BEFORE if facts.current is None:
            return Choice(None, "there is no offset, as before")
        case Aim.BEFORE:
            return Choice(None, NONE_STORED, is_removed=True)
        case _:
            return Choice(None, "no offset is stored")
    if wanted < facts.min_offset:
        if wanted < 0 or facts.min_offset == 0:
            return Choice(facts.min_offset, f"before the first message: {facts.min_offset}")
        return Choice(facts.min_offset, f"{wanted} is deleted: {facts.min_offset} is the first that is left")
    if wanted > facts.max_offset:
        return Choice(facts.max_offset, f"{wanted} is not written yet: {facts.max_offset} is the end")
    return Choice(wanted)


def find_effects(
    before: int | None, target: int | None, min_offset: int, max_offset: int, ahead: Ahead | None = None
) -> Effects:
    """Return what a queue's change does to messages that are still there.

    Without `ahead` just the messages below the stored offset are consumed. With it some of those past it are as well,
    and which ones is not known: they are redelivered from the target on, and not skipped below it.
    """
    lost = None if before is None else max(0, min(min_offset, max_offset) - before)
    if before is None or target is None:
        return Effects(None, None, lost)
    had, gets = _within(before, min_offset, max_offset), _within(target, min_offset, max_offset)
    again, passed = max(0, had - gets), max(0, gets - had)
    if ahead is None or before == target:  # nothing is written then, and members go on as they are
        return Effects(Range(again, again), Range(passed, passed), lost)
    pulled_to = max(had, _within(ahead.pulled_to, min_offset, max_offset))
    consumed_count = min(ahead.consumed_count, pulled_to - had)
    more = min(consumed_count, max(0, pulled_to - gets))
    is_one_open = ahead.first_unfinished is not None and had <= ahead.first_unfinished < gets
    surely = max(passed - consumed_count, int(is_one_open), 0)
    return Effects(Range(again, again + more), Range(surely, passed), lost)


def _within(offset: int, min_offset: int, max_offset: int) -> int:
    return max(min_offset, min(offset, max_offset))
