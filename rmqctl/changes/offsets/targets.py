"""The target of each queue: by the brokers' clocks, their indexes of store times, or numbers that are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.probe import measure_clock
from rmqctl.admin.messages.time_search import fetch_message_at, find_first_since
from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.queues import QueueChoice
from rmqctl.changes.offsets.rules.reset import ResetFacts, TargetKind, TargetOffset, TargetSpec, choose_target
from rmqctl.changes.offsets.rules.route import choose_route
from rmqctl.changes.plan_parts import CLOCK, broker_of
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.plan import AwaitedWrite, Consequence, Operation, Route
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.rules.plan_consequences import describe_clocks, middle_skew_ms, target_note
from rmqctl.rules.store_times import TimeOrder

from .group_lookup import FoundGroup


class ResetRequest(Struct, frozen=True):
    """What is to be changed: `topics`, or all that the group consumes if empty; their `queues`, or all if empty.

    `given` are offsets by queue for TargetKind.GIVEN, None for a queue without one; `awaits` are writes that an undo
    has to wait for if its queue is as before. `expect_queues` is how many queues the plan must be about, None for any
    number. `unread` are queues whose offset could not be read from the source, and why; `failures` and `consequences`
    are from reading the source. `allow_skip`: a request to go back may skip unread messages.
    """

    operation: Operation
    spec: TargetSpec
    topics: tuple[str, ...] = ()
    queues: tuple[QueueChoice, ...] = ()
    given: Mapping[MessageQueue, int | None] = {}
    awaits: Mapping[MessageQueue, AwaitedWrite] = {}
    unread: Mapping[MessageQueue, str] = {}
    failures: tuple[Failure, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    with_retry: bool = False
    allow_skip: bool = False
    assume_offline: bool = False
    expect_queues: int | None = None
    asked: str = ""
    reason: str | None = None


class RequestTime(Struct, frozen=True):
    """A target with its time resolved, the brokers' time now, and what to report about their clocks."""

    spec: TargetSpec
    now_ms: int
    consequences: tuple[Consequence, ...] = ()
    failures: tuple[Failure, ...] = ()


async def resolve_request_time(client: Client, brokers: Mapping[str, BrokerData], spec: TargetSpec) -> RequestTime:
    """Return a request with its time by the brokers' clocks, their time now, and what to report about these clocks.

    Requests without a relative time are unchanged. Brokers that do not report their time are left out; if no broker
    reports it, this machine's clock is used, as for a request without a time. Raises UsageError for a time before 1970.
    """
    if spec.kind is not TargetKind.TIME:
        return RequestTime(spec, client.clock.now_ms())
    answers = await ask_all(brokers, lambda name: measure_clock(client, client.require_master(brokers[name])))
    skews = {name: skew for name, skew in answers.ok.items() if skew is not None}
    now_ms = client.clock.now_ms() + middle_skew_ms(skews)
    if spec.ago_ms is None:
        return RequestTime(spec, now_ms)
    at_ms = now_ms - spec.ago_ms
    if at_ms < 0:
        raise UsageError(f"{spec.words} is before 1970.")
    consequences = tuple(describe_clocks(skews, brokers.keys() - skews.keys()))
    unread = tuple(Failure(name, CLOCK, error) for name, error in sorted(answers.failed.items()))
    return RequestTime(replace(spec, value=at_ms), now_ms, consequences, unread)


class QueueTarget(Struct, frozen=True):
    """A queue's target, and the store time of the first message there; `error` is why that could not be read.

    `order` is the order of the store times that a search by time saw.
    """

    choice: TargetOffset
    first_store_time_ms: int | None = None
    error: RmqctlError | None = None
    order: TimeOrder = TimeOrder.RISING

    @property
    def note(self) -> str:
        """The note about the target."""
        return self.choice.note or target_note(self.order)


async def look_up_targets(
    client: Client, found: FoundGroup, request: ResetRequest, rows: Sequence[QueueProgress]
) -> tuple[dict[MessageQueue, QueueTarget], list[Failure]]:
    """Return each queue's target; a queue that could not be looked up is left out, and a failure."""

    async def look_up(row: QueueProgress) -> QueueTarget:
        min_offset, max_offset = row.min_offset or 0, row.max_offset or 0
        address = client.require_master(broker_of(found.brokers, row.mq.broker_name))
        first, order = None, TimeOrder.RISING
        if request.spec.kind is TargetKind.TIME:
            first, order = await find_first_since(client, address, row.mq, request.spec.value, min_offset, max_offset)
        facts = ResetFacts(
            row.mq, min_offset, max_offset, row.consumer_offset,
            found=None if first is None else first.queue_offset, given=request.given.get(row.mq),
        )  # fmt: skip
        choice = choose_target(request.spec, facts)
        if choice.is_removed and route_of(row.mq.broker_name, found, request) is not Route.BROKER_WRITE:
            return QueueTarget(TargetOffset(None, "an offset of a running group cannot be deleted"))
        if choice.target is None or choice.target >= max_offset:
            return QueueTarget(choice, order=order)
        try:
            if first is None or first.queue_offset != choice.target:
                first = await fetch_message_at(client, address, row.mq, choice.target)
        except RmqctlError as error:
            return QueueTarget(choice, error=error, order=order)
        return QueueTarget(choice, None if first is None else first.stored_at_ms, order=order)

    by_queue = {row.mq: row for row in rows}
    answers = await ask_all(by_queue, lambda mq: look_up(by_queue[mq]))
    unread = {mq: each.error for mq, each in answers.ok.items() if each.error is not None}
    return dict(answers.ok), [*_failures("target", answers.failed), *_failures("first message", unread)]


def _failures(what: str, failed: Mapping[MessageQueue, RmqctlError]) -> list[Failure]:
    return [Failure(mq.broker_name, f"{what} of {mq.topic}:{mq.queue_id}", error) for mq, error in failed.items()]


def route_of(broker_name: str, found: FoundGroup, request: ResetRequest) -> Route:
    """Return the route by which a broker is changed."""
    is_server_side = found.is_server_side.get(broker_name, False)
    return choose_route(found.situation, assume_offline=request.assume_offline, is_server_side=is_server_side)
