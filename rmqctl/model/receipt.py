"""A receipt: the result of a plan, item by item. It contains only what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from rmqctl.errors import NotAuthorisedError, UnreachableError

from .failure import Failure
from .plan import Operation, Plan, Route, Subject
from .queue import MessageQueue

# The note of an offset that is stored for a group without members.
WAITS_FOR_MEMBER = "stored; takes effect when the next member starts"


class Result(StrEnum):
    """What is known of one item.

    CONFIRMED: read back, and, in a running group, taken up by the group itself. UNCHANGED: answered, read back, and
    as before. UNKNOWN: it was sent, and its effect was not seen; without an answer it may still take effect.
    An undo that looked for an earlier write and did not see it is UNKNOWN, too; its `before` equals its `target`.
    NOT_ATTEMPTED: nothing was sent.
    """

    CONFIRMED = "CONFIRMED"
    UNCHANGED = "UNCHANGED"
    UNKNOWN = "UNKNOWN"
    NOT_ATTEMPTED = "NOT_ATTEMPTED"


class ChangeState(StrEnum):
    """How far the process is that makes a change.

    INTERRUPTED: it ended in the middle. ELSEWHERE: it runs on another host, whose processes cannot be seen, and may
    still be running.
    """

    DONE = "DONE"
    RUNNING = "RUNNING"
    INTERRUPTED = "INTERRUPTED"
    ELSEWHERE = "ELSEWHERE"


class Who(Struct, frozen=True):
    """Who makes a change, and from where, for the journal."""

    user: str
    host: str
    pid: int
    context: str | None


class ReturnReceipt(Struct, frozen=True, rename="camel"):
    """The result for one message that was to be sent back. CONFIRMED: its copy was seen at the broker."""

    queue_offset: int
    message_id: str = field(name="msgId")
    result: Result
    note: str = ""


class ReceiptItem(Struct, frozen=True):
    """One queue. `before` was stored at the moment of writing, `after` was read back; None without an offset.

    `is_pending`: the broker has stored it, and no client has resumed from there yet. `note` says why it is not
    confirmed.
    `is_after_known` is false if `after` could not be read; if true, an `after` of None means no offset.
    `reconsumed_at_least` is how many messages the group had passed when it moved back to the target, None if members
    did not report it. `messages` are those that were to be sent back first.
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
        """Whether it is stored, and the group has no members left that could resume there."""
        return self.is_pending and self.note == WAITS_FOR_MEMBER

    @property
    def may_have_changed(self) -> bool:
        """Whether an undo has something to revert: not for an acknowledgement, nor if nothing had to be written."""
        if self.route is Route.POP_ACK:
            return False
        # Nothing was written, even if before and target differ: the group had moved past the target by itself.
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
    """The result of applying a plan once. `brokers` are the masters' addresses by name, as in the plan.

    `ended_at_ms`: None if the journal shows it interrupted or still running. `who`: None in receipts of older releases.
    `topic` and `broker` as in the plan.
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
    topic: str | None = None
    broker: str | None = None

    @property
    def subject(self) -> Subject:
        """What was changed."""
        return Subject(self.group, self.topic, self.broker)

    def facts(self) -> tuple[Any, ...]:
        """Return what was changed, and where: all that an undo depends on, in no order."""
        changed: dict[Any, Any] = {
            item.mq: (item.route, item.before, item.target, item.result, item.after, item.is_after_known)
            for item in self.items
        }
        changed |= {
            item.broker_name: (item.before, item.target, item.result, item.after, item.is_after_known)
            for item in self.configs
        }
        return self.operation, self.cluster, self.brokers, self.subject, changed


class ReceiptReport(Struct, frozen=True):
    """The receipt of a plan, and what failed on the way.

    `returned_count`: messages that this change sent back, without those that an earlier one had sent.
    """

    receipt: Receipt
    failures: tuple[Failure, ...]
    returned_count: int = 0

    @property
    def exit_code(self) -> int:
        """0 if all is confirmed, 8 if only a part was done, 9 if something is not confirmed, else an error's code."""
        results = {item.result for item in self.receipt.items} | {item.result for item in self.receipt.configs}
        # Of a queue that did not move, messages may have been sent back.
        left = [item for item in self.receipt.items if item.result is not Result.CONFIRMED]
        results |= {each.result for item in left for each in item.messages} & {Result.CONFIRMED, Result.UNKNOWN}
        codes = {failure.error.exit_code for failure in self.failures}
        if NotAuthorisedError.exit_code in codes:
            return NotAuthorisedError.exit_code
        if results <= {Result.CONFIRMED}:
            return 8 if self.failures else 0
        if results & {Result.UNCHANGED, Result.NOT_ATTEMPTED}:
            if results & {Result.CONFIRMED, Result.UNKNOWN}:
                return 8
            return UnreachableError.exit_code if codes == {UnreachableError.exit_code} else 1
        return 9


def receipt_of(
    plan: Plan, receipt_id: str, plan_sha256: str, started_at_ms: int, ended_at_ms: int, who: Who, *,
    items: tuple[ReceiptItem, ...], configs: tuple[ConfigReceiptItem, ...] = (),
) -> Receipt:  # fmt: skip
    """Return the receipt of a plan, with the result of each item."""
    return Receipt(
        id=receipt_id,
        plan_id=plan.id,
        plan_sha256=plan_sha256,
        operation=plan.operation,
        started_at_ms=started_at_ms,
        ended_at_ms=ended_at_ms,
        cluster=plan.cluster,
        brokers=plan.brokers,
        group=plan.group,
        route=plan.route,
        asked=plan.asked,
        reason=plan.reason,
        who=who,
        items=items,
        configs=configs,
        topic=plan.topic,
        broker=plan.broker,
    )
