"""A receipt: what came of a plan, item by item. Nothing stands in it that was not seen."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from .plan import Operation, Route
from .queue import MessageQueue

# The note of an offset that a group without members left behind.
WAITS_FOR_MEMBER = "stored; takes effect when the next member starts"


class Result(StrEnum):
    """What is known of one item.

    CONFIRMED: read back, and for a group that runs, taken up by the group itself. UNCHANGED: answered, read back, and
    as before. UNKNOWN: it was sent, and what came of it was not seen: without an answer it may still take effect.
    So it is with an undo that looked for a write of before and did not see it, of which `before` is `target`.
    NOT_ATTEMPTED: nothing was sent.
    """

    CONFIRMED = "CONFIRMED"
    UNCHANGED = "UNCHANGED"
    UNKNOWN = "UNKNOWN"
    NOT_ATTEMPTED = "NOT_ATTEMPTED"


class ChangeState(StrEnum):
    """How far the process is that makes a change.

    INTERRUPTED: it ended in the middle. ELSEWHERE: it is another host's, whose processes can't be seen, and may be at
    it still.
    """

    DONE = "DONE"
    RUNNING = "RUNNING"
    INTERRUPTED = "INTERRUPTED"
    ELSEWHERE = "ELSEWHERE"


class Who(Struct, frozen=True):
    """Who changes something, from where: for the journal."""

    user: str
    host: str
    pid: int
    context: str | None


class ReturnReceipt(Struct, frozen=True):
    """What came of one message that was to be sent back. CONFIRMED: its copy was seen at the broker."""

    queue_offset: int
    message_id: str
    result: Result
    note: str = ""


class ReceiptItem(Struct, frozen=True):
    """One queue. `before` is what was stored at the moment of writing, `after` what was read back; None for none.

    `is_pending`: the broker has stored it, and no client has gone there yet. `note` says why it is not confirmed.
    `is_after_known` tells an `after` of None that is none from one that could not be read. `reconsumed_at_least` is how
    many messages the group had passed when it went back to the target, None where members did not tell. `messages` are
    those that were to be sent back before.
    """

    mq: MessageQueue
    before: int | None
    target: int | None
    route: Route
    result: Result
    after: int | None = None
    is_after_known: bool = False
    is_pending: bool = False
    note: str = ""
    reconsumed_at_least: int | None = None
    messages: tuple[ReturnReceipt, ...] = ()

    @property
    def waits_for_member(self) -> bool:
        """Whether it is stored, and the group has no member any more that could go there."""
        return self.is_pending and self.note == WAITS_FOR_MEMBER

    @property
    def may_have_changed(self) -> bool:
        """Whether an undo has something to take back: not where nothing had to be written, though the group went on.

        Nor can an acknowledgement be taken back.
        """
        if self.route is Route.POP_ACK:
            return False
        if self.result is Result.CONFIRMED and self.is_after_known and self.after == self.before:
            return False
        return self.result in (Result.CONFIRMED, Result.UNKNOWN) and self.before != self.target


class ConfigReceiptItem(Struct, frozen=True):
    """One broker's configuration, as ReceiptItem; see ConfigItem."""

    broker_name: str
    before: Mapping[str, Any] | None
    target: Mapping[str, Any] | None
    result: Result
    after: Mapping[str, Any] | None = None
    is_after_known: bool = False
    note: str = ""
    route: Route = Route.GROUP_CONFIG


class Receipt(Struct, frozen=True):
    """What came of one application of a plan. `brokers` are the masters' addresses by name, as in the plan.

    `ended_at_ms` is None for one that was interrupted or still runs, as its journal tells it; `who` is None in receipts
    that were saved before they told it.
    """

    id: str
    plan_id: str
    plan_sha256: str
    operation: Operation
    started_at_ms: int
    ended_at_ms: int | None
    cluster: str
    brokers: Mapping[str, str]
    group: str
    route: Route
    asked: str = ""
    reason: str | None = None
    who: Who | None = None
    state: ChangeState = ChangeState.DONE
    items: tuple[ReceiptItem, ...] = ()
    configs: tuple[ConfigReceiptItem, ...] = ()
