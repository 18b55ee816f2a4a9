"""Plans changes of offsets: reads the group, and determines each queue's target and what the change costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.results import ask_all, failed_by_name, not_found
from rmqctl.changes.offsets.rules.drift import is_unseen_yet
from rmqctl.changes.offsets.rules.reset import TargetKind, new_item
from rmqctl.changes.offsets.rules.route import describe_routes, describe_silent, require_one_way, require_resettable
from rmqctl.changes.offsets.rules.skips import describe_skips, goes_back
from rmqctl.changes.plan_parts import (
    PlanReport,
    awaiting,
    broker_of,
    cluster_label,
    new_id,
    reason_words,
    unseen_item,
)
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX
from rmqctl.model.plan import Consequence, Operation, Plan, PlanItem, Route
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.cluster_memory import not_registered
from rmqctl.rules.plan_consequences import (
    describe_ahead,
    describe_delayed,
    describe_targets,
    describe_unsubscribed,
    narrowing,
)
from rmqctl.rules.readable_queues import describe_all_unreadable
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted, listed

from .group_lookup import (
    FoundGroup,
    describe_waiting,
    find_configured,
    find_group,
    find_retry_routes,
    find_unreported,
    require_configured,
)
from .targets import QueueTarget, ResetRequest, look_up_targets, resolve_request_time, route_of


async def plan_offsets(client: Client, group: str, request: ResetRequest) -> PlanReport:
    """Return the plan for a request, with resolved numbers.

    Raises NotFoundError for a group or topic that does not exist, RefusedError for a group that cannot be changed, and
    the brokers' error when none of them answers.
    """
    request = await _readable(client, request)
    began_s = client.clock.monotonic_s()
    found = await _find_group(client, group, request.topics)
    if request.with_retry:
        # Members that do not answer are waited for twice.
        client.deadline.extend(client.clock.monotonic_s() - began_s if found.situation.silent else 0.0)
        found, request = await _with_retry(client, found, request)
    rows = _chosen(found, request)
    readable = [
        row for row in rows if row.mq in found.offsets and row.min_offset is not None and row.max_offset is not None
    ]
    names = sorted({row.mq.broker_name for row in readable or rows})
    found.require_settings(names)
    require_resettable(
        found.situation,
        assume_offline=request.assume_offline,
        is_server_side=[found.is_server_side.get(name, False) for name in names],
    )
    require_one_way(found.situation, (row.mq for row in rows))
    await require_configured(client, found, names, hint=f"Configure it: rmqctl group create {group}")
    unreported, hidden = await find_unreported(client, found, names)
    readable = [row for row in readable if row.mq.broker_name not in unreported and row.mq not in request.unread]
    brokers = {name: found.brokers[name] for name in names if name in found.brokers}
    clocks = await resolve_request_time(client, brokers, request.spec)
    spec, now_ms = clocks.spec, clocks.now_ms
    since = "" if spec.ago_ms is None else f" (since {iso_time(spec.value)})"
    request = replace(request, spec=spec, asked=f"{request.asked}{since}")
    looked_up, failures = await look_up_targets(client, found, request, readable)
    known = {failure.broker_name for failure in found.failures if failure.broker_name is not None}
    failures += [*unreported.values(), *(each for each in request.failures if each.broker_name not in known)]
    _require_count(request, len(looked_up))
    seen = _seen_items(found, request, readable, looked_up)
    _require_pushable(found, seen)
    unseen = _unseen_items(
        found, request, [row for row in rows if row.mq not in looked_up], (*failures, *found.failures)
    )
    items = (*seen, *unseen)
    routes = {item.route for item in seen if not item.is_there}
    planned = {item.mq for item in seen}
    retry_left, unread_retries = await _retry_left(client, found, request)
    left = Counter(each.choice.note for mq, each in looked_up.items() if mq not in planned)
    consequences = (
        *describe_routes(found.situation, routes),
        *describe_silent(found.situation, [found.rows[item.mq] for item in seen]),
        *describe_ahead(items, readable),
        *(Consequence("LEFT_ALONE", f"{_are(count)} left alone: {note}.") for note, count in sorted(left.items())),
        *_not_read(found),
        *unseen_consequences(unseen),
        *_time_ahead(request, now_ms),
        *describe_targets({mq: each.order for mq, each in looked_up.items()}),
        *clocks.consequences,
        *hidden,
        *request.consequences,
        *_unsubscribed(found, {row.mq.topic for row in rows}),
        *_unreadable(found, {row.mq.topic for row in rows}),
        *retry_left,
    )
    plan = await new_plan(
        client, found, items, consequences, operation=request.operation, asked=request.asked, reason=request.reason,
        time_ms=request.spec.value if request.spec.kind is TargetKind.TIME else None,
        may_skip=request.allow_skip or not goes_back(request.spec, now_ms),
    )  # fmt: skip
    return PlanReport(plan, (*found.failures, *failures, *clocks.failures, *unread_retries))


async def new_plan(
    client: Client, found: FoundGroup, items: tuple[PlanItem, ...], consequences: tuple[Consequence, ...], *,
    operation: Operation, asked: str, reason: str | None, time_ms: int | None = None, may_skip: bool = True,
) -> Plan:  # fmt: skip
    """Return the plan of these items, for a group as it was found. What it skips is its first consequence."""
    cluster = await fetch_cluster(client)
    configured_at = await find_configured(client, found)
    now_ms, situation = client.clock.now_ms(), found.situation
    seen = [item for item in items if item.route is not Route.UNSEEN]
    routes = {item.route for item in seen} or {Route.UNSEEN}
    # The check does not read topics of which nothing was seen.
    topics, names = {item.mq.topic for item in seen}, sorted({item.mq.broker_name for item in seen})
    return Plan(
        id=new_id(now_ms),
        operation=operation,
        created_at_ms=now_ms,
        cluster=cluster_label(cluster.brokers, client.name_servers),
        brokers={name: broker_of(found.brokers, name).master_address or "" for name in names},
        group=situation.group,
        route=routes.pop() if len(routes) == 1 else Route.MIXED,
        asked=asked,
        reason=reason,
        state=situation.state,
        consume_type=situation.consume_type,
        message_model=situation.message_model,
        client_ids=found.client_ids,
        read_queue_counts={place: count for place, count in found.read_queue_counts.items() if place[0] in topics},
        items=items,
        consequences=(*describe_skips(items, may_skip=may_skip), *consequences),
        name_servers=tuple(sorted(client.name_servers)),
        time_ms=time_ms,
        filters=narrowing(found.filters, topics),
        configured_at=tuple(name for name in names if name in configured_at),
        may_skip=may_skip,
    )


async def _readable(client: Client, request: ResetRequest) -> ResetRequest:
    """Return a request for the topics that can be read: a topic that no longer exists must not block an undo.

    Neither must a topic whose brokers are all missing: its queues are unread.
    """
    routes = await ask_all(request.topics, client.route)
    gone = {topic for topic, error in routes.failed.items() if isinstance(error, NotFoundError)}
    shut = {topic: route for topic, route in routes.ok.items() if not route.queue_data}
    left = tuple(topic for topic in request.topics if topic not in shut)
    if request.spec.kind is TargetKind.BEFORE:
        left = tuple(topic for topic in left if topic not in gone)
    if not shut or not left:
        return replace(request, topics=left or tuple(shut))  # reading these raises the reason
    now_ms = client.clock.now_ms()
    errors = {broker.broker_name: not_registered(broker, now_ms) for route in shut.values() for broker in route.brokers}
    is_given = request.spec.kind in (TargetKind.GIVEN, TargetKind.BEFORE)
    unread = {
        mq: errors[mq.broker_name].sentence
        for route in shut.values()
        for mq in route.missing_queues()
        if mq in request.given or not is_given
    }
    return replace(
        request,
        topics=left,
        given={mq: offset for mq, offset in request.given.items() if mq not in unread},
        unread={**request.unread, **unread},
        failures=(*request.failures, *(Failure(name, "offsets", error) for name, error in sorted(errors.items()))),
    )


async def _with_retry(client: Client, found: FoundGroup, request: ResetRequest) -> tuple[FoundGroup, ResetRequest]:
    """Return a group with its retry topics, and a request that names them. Raises a silent name server's error."""
    routes, errors = await find_retry_routes(client, found)
    if errors:
        raise errors[0]
    if routes.keys() <= {mq.topic for mq in found.rows}:
        return found, request
    named = tuple(sorted({topic for topic, _ in found.read_queue_counts} | routes.keys()))
    return await find_group(client, found.situation.group, named), replace(request, topics=named)


def _require_pushable(found: FoundGroup, items: Sequence[PlanItem]) -> None:
    """Raise RefusedError if a broker would not push to the clients: it needs a stored offset for every queue."""
    places = {(item.mq.topic, item.mq.broker_name) for item in items if item.route is Route.CLIENT_PUSH}
    own = {item.mq for item in items}
    lacking = sorted(
        mq
        for mq, offset in found.offsets.items()
        if offset is None and (mq.topic, mq.broker_name) in places and mq not in own
    )
    if lacking:
        sentence = f"{lacking[0]} has no stored offset yet; until it has one, its broker does not push any reset."
        raise RefusedError(sentence, hint="Name that queue as well, or stop the members first.")


def _not_read(found: FoundGroup) -> Iterator[Consequence]:
    names = sorted(
        {
            failure.broker_name
            for failure in found.failures
            if failure.what.startswith("offsets") and failure.broker_name
        }
    )
    if names:
        yield Consequence("NOT_READ", f"{', '.join(names)} could not be read: queues there will not be changed.")


def _require_count(request: ResetRequest, count: int) -> None:
    """Raise RefusedError unless the number of queues is the expected one."""
    if request.expect_queues is not None and request.expect_queues != count:
        sentence = f"The plan has {counted(count, 'queue')}, but --expect-queues is {request.expect_queues}."
        hint = "List them with rmqctl offset show GROUP, and check the brokers with rmqctl doctor."
        raise RefusedError(sentence, hint=hint)


def _seen_items(
    found: FoundGroup,
    request: ResetRequest,
    rows: Sequence[QueueProgress],
    looked_up: Mapping[MessageQueue, QueueTarget],
) -> tuple[PlanItem, ...]:
    items = []
    for row in rows:
        if row.mq not in looked_up:
            continue
        each, route = looked_up[row.mq], route_of(row.mq.broker_name, found, request)
        item = new_item(
            row, each.choice.target, route, found.places.get(row.mq, ()), note=each.note,
            first_store_time_ms=each.first_store_time_ms, is_consumed=found.is_consumed(row.mq.topic),
        )  # fmt: skip
        awaits = request.awaits.get(row.mq) if row.mq in found.offsets else None
        if awaits is not None and is_unseen_yet(awaits, request.given[row.mq], item.before, route):
            items.append(awaiting(item, awaits))
        elif not each.choice.is_left:
            items.append(item)
    return tuple(items)


def _unseen_items(
    found: FoundGroup, request: ResetRequest, rows: Sequence[QueueProgress], failures: Sequence[Failure]
) -> list[PlanItem]:
    """Return the items of queues that could not be read, and of given queues that do not exist now."""
    reasons = {failure.broker_name: reason_words(failure) for failure in failures}
    items = [
        unseen_item(
            row.mq, request.unread.get(row.mq) or reasons.get(row.mq.broker_name, ""), before=row.consumer_offset,
            reason=str(row.reasons.get("maxOffset", Unknown.NOT_REPORTED)),
        )
        for row in rows
    ]  # fmt: skip
    gone = [mq for mq in (*request.given, *request.unread) if mq not in found.rows]
    return items + [
        unseen_item(mq, request.unread.get(mq) or reasons.get(mq.broker_name, "it does not exist now"))
        for mq in sorted(gone)
        if not request.queues or any(choice.has(mq) for choice in request.queues)
    ]


def unseen_consequences(unseen: Sequence[PlanItem]) -> Iterator[Consequence]:
    """Yield the queues that could not be read, so that a saved plan names them as well."""
    if unseen:
        names = listed([item.mq for item in unseen])
        text = f"{counted(len(unseen), 'queue')} could not be read and will not be changed: {names}."
        yield Consequence("LEFT_OUT", text)


def _time_ahead(request: ResetRequest, now_ms: int) -> Iterator[Consequence]:
    if request.spec.kind is TargetKind.TIME and request.spec.ago_ms is None and request.spec.value > now_ms:
        yield Consequence("TIME_AHEAD", "That time is in the future: every queue moves to its end.")


def _chosen(found: FoundGroup, request: ResetRequest) -> list[QueueProgress]:
    """Return the requested rows. Raises UsageError for a queue that does not exist, NotFoundError without any row."""
    rows = [
        row
        for mq, row in sorted(found.rows.items())
        if mq.topic in request.topics
        or not mq.topic.startswith((DLQ_PREFIX, RETRY_PREFIX))
        or (request.with_retry and mq.topic.startswith(RETRY_PREFIX))
    ]
    if not rows:
        sentence = f"Group {found.situation.group} has no queue to change: it has no offsets and no subscription."
        error = NotFoundError("Queue", found.situation.group).reworded(
            sentence, hint="Name a topic that it will consume with --topic."
        )
        raise not_found(error, failed_by_name(found.failures))
    for choice in request.queues:
        if not any(choice.has(row.mq) for row in rows):
            there = ", ".join(sorted({row.mq.broker_name for row in rows}))
            raise UsageError(f"--queue {choice} does not match any queue.", hint=f"The queues are at {there}.")
    if request.spec.kind in (TargetKind.GIVEN, TargetKind.BEFORE):
        rows = [row for row in rows if row.mq in request.given or row.mq in request.unread]
    return [row for row in rows if not request.queues or any(choice.has(row.mq) for choice in request.queues)]


async def _find_group(client: Client, group: str, topics: Sequence[str]) -> FoundGroup:
    """Return what find_group returns. For a group that does not exist, the hint says how to create it first."""
    try:
        return await find_group(client, group, topics)
    except NotFoundError as error:
        if error.kind != "Group":
            raise
        known = f"{error.hint} " if error.hint else ""
        raise error.reworded(error.sentence, hint=f"{known}To create it first: rmqctl group create {group}") from None


def _unsubscribed(found: FoundGroup, topics: Collection[str]) -> tuple[Consequence, ...]:
    if found.situation.state is not GroupState.ONLINE:
        return ()
    return tuple(describe_unsubscribed(topics, found.filters, found.unheard))


def _unreadable(found: FoundGroup, topics: Collection[str]) -> Iterator[Consequence]:
    """Yield the messages in queues that no consumer can read: a change leaves them alone."""
    unreadable = {mq: count for mq, count in found.unreadable.items() if mq.topic in topics}
    for sentence in describe_all_unreadable(unreadable):
        yield Consequence("UNREADABLE_QUEUES", f"{sentence} Their offsets are left alone.")


async def _retry_left(
    client: Client, found: FoundGroup, request: ResetRequest
) -> tuple[tuple[Consequence, ...], list[Failure]]:
    if request.operation not in (Operation.OFFSET_RESET, Operation.OFFSET_SKIP):
        return (), []
    if request.with_retry or any(topic.startswith(RETRY_PREFIX) for topic in request.topics):
        return (describe_delayed(),), []
    return await describe_waiting(client, found, request.topics)


def _are(count: int) -> str:
    return f"{counted(count, 'queue')} {'is' if count == 1 else 'are'}"
