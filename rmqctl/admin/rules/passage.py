"""Whether a group's committed offset has passed a message, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from rmqctl.model.group import Subscription
from rmqctl.model.progress import Unknown


class Verdict(StrEnum):
    """What a committed offset shows about one message.

    PASSED: the group consumed it, sent it back, or skipped it. FILTERED: passed, and the group's filter does not match
    it. NOT_YET: not passed; a member may be processing it, or have finished it before earlier messages.
    """

    PASSED = "PASSED"
    FILTERED = "FILTERED"
    NOT_YET = "NOT_YET"


class GroupPassage(Struct, frozen=True):
    """One group and one message. `reasons` has why the verdict, the offset or the subscription is None, by that name.

    `consumer_offset` is committed at the message's broker for its queue, `subscription` is what that broker filters by.
    """

    group: str
    verdict: Verdict | None
    consumer_offset: int | None
    subscription: Subscription | None
    reasons: Mapping[str, Unknown]


def judge(
    queue_offset: int,
    consumer_offset: int | Unknown,
    max_offset: int | None,
    *,
    is_broadcasting: bool,
    is_pop: bool,
    is_match: bool | None,
) -> Verdict | Unknown:
    """Return the verdict on a message at `queue_offset`, or why there is none.

    `max_offset` is the end of its queue, `is_match` whether the group's filter matches the message; None is unknown.
    """
    if is_broadcasting:
        # Members of a broadcasting group keep their offsets in local files; one at a broker is a leftover.
        return Unknown.BROADCASTING
    if isinstance(consumer_offset, Unknown):
        return consumer_offset
    if consumer_offset <= queue_offset:
        return Verdict.NOT_YET
    if max_offset is not None and consumer_offset > max_offset:
        # The topic was created again: the offset counts the messages of the deleted one.
        return Unknown.OFFSET_BEYOND_MAX
    if is_pop:
        # A pop advances the offset immediately: the message may be in flight, or wait for its redelivery.
        return Unknown.POP
    return Verdict.FILTERED if is_match is False else Verdict.PASSED
