"""Plans changes of offsets: reads the group, and determines each queue's target and what the change costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.results import ask_all, failed_by_name, not_found
from rmqctl.changes.offsets.rules.drift import is_unseen_yet
from rmqctl.changes.offsets.rules.reset import Aim
from rmqctl.changes.offsets.rules.route import describe_routes, require_resettable
from rmqctl.changes.plan_parts import Planned, awaiting, cluster_label, new_id, reason_words, unseen_item
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
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted, listed

from .found import Found, find_configured, find_group, find_untold, require_configured
from .items import new_item
from .retry_topics import describe_waiting, find_retry_routes
from .targets import Looked, Wish, look_up_targets, resolve_ago, route_of


async def plan_offsets(client: Client, group: str, wish: Wish) -> Planned:
    """Return the plan for a wish, with resolved numbers.

    Raises NotFoundError for a group or topic that does not exist, RefusedError for a group that cannot be changed, and
    the brokers' error when none of them answers.
    """
    wish = await _readable(client, wish)
    found = await _find_group(client, group, wish.topics)
    if wish.with_retry:
        found, wish = await _with_retry(client, found, wish)
    rows = _chosen(found, wish)
    readable = [
        row for row in rows if row.mq in found.offsets and row.min_offset is not None and row.max_offset is not None
    ]
    names = sorted({row.mq.broker_name for row in readable or rows})
    found.require_settings(names)
    require_resettable(
        found.situation,
        assume_offline=wish.assume_offline,
        is_server_side=[found.is_server_side.get(name, False) for name in names],
    )
    await require_configured(client, found, names, hint=f"Configure it: rmqctl group create {group}")
    untold, hidden = await find_untold(client, found, names)
    readable = [row for row in readable if row.mq.broker_name not in untold and row.mq not in wish.unread]
    brokers = {name: found.brokers[name] for name in names if name in found.brokers}
    spec, of_clocks = await resolve_ago(client, brokers, wish.spec)
    since = "" if spec.ago_ms is None else f" (since {iso_time(spec.value)})"
    wish = replace(wish, spec=spec, asked=f"{wish.asked}{since}")
    looked, failures = await look_up_targets(client, found, wish, readable)
    known = {failure.broker_name for failure in found.failures if failure.broker_name is not None}
    failures += [*untold.values(), *(each for each in wish.failures if each.broker_name not in known)]
    _require_count(wish, len(looked))
    seen = _seen_items(found, wish, readable, looked)
    _require_pushable(found, seen)
    unseen = _unseen_items(found, wish, [row for row in rows if row.mq not in looked], (*failures, *found.failures))
    items = (*seen, *unseen)
    routes = {item.route for item in seen}
    planned = {item.mq for item in seen}
    left = Counter(each.choice.note for mq, each in looked.items() if mq not in planned)
    consequences = (
        *describe_routes(found.situation, routes),
        *describe_ahead(items, readable),
        *(Consequence("LEFT_ALONE", f"{_are(count)} left alone: {note}.") for note, count in sorted(left.items())),
        *_not_read(found),
        *_unseen_consequences(unseen),
        *_time_ahead(client, wish),
        *describe_targets({mq: each.order for mq, each in looked.items()}),
        *of_clocks,
        *hidden,
        *wish.consequences,
        *_unsubscribed(found, {row.mq.topic for row in rows}),
        *await _retry_left(client, found, wish),
    )
    plan = await new_plan(
        client, found, items, consequences, operation=wish.operation, asked=wish.asked, reason=wish.reason,
        time_ms=wish.spec.value if wish.spec.aim is Aim.TIME else None,
    )  # fmt: skip
    return Planned(plan, (*found.failures, *failures))


async def new_plan(
    client: Client, found: Found, items: tuple[PlanItem, ...], consequences: tuple[Consequence, ...], *,
    operation: Operation, asked: str, reason: str | None, time_ms: int | None = None,
) -> Plan:  # fmt: skip
    """Return the plan of these items, for a group as it was found."""
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
        brokers={name: found.brokers[name].master_address or "" for name in names},
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
        consequences=consequences,
        name_servers=tuple(sorted(client.name_servers)),
        time_ms=time_ms,
        filters=narrowing(found.filters, topics),
        configured_at=tuple(name for name in names if name in configured_at),
    )


async def _readable(client: Client, wish: Wish) -> Wish:
    """Return a wish for the topics that can be read: a topic that no longer exists must not block an undo of the rest.

    Neither must a topic whose brokers are all missing: its queues are unread.
    """
    routes = await ask_all(wish.topics, client.route)
    gone = {topic for topic, error in routes.failed.items() if isinstance(error, NotFoundError)}
    shut = {topic: route for topic, route in routes.ok.items() if not route.queue_data}
    left = tuple(topic for topic in wish.topics if topic not in shut)
    if wish.spec.aim is Aim.BEFORE:
        left = tuple(topic for topic in left if topic not in gone)
    if not shut or not left:
        return replace(wish, topics=left or tuple(shut))  # reading these raises the reason
    now_ms = client.clock.now_ms()
    errors = {broker.broker_name: not_registered(broker, now_ms) for route in shut.values() for broker in route.brokers}
    is_given = wish.spec.aim in (Aim.GIVEN, Aim.BEFORE)
    unread = {
        mq: errors[mq.broker_name].sentence
        for route in shut.values()
        for mq in route.missing_queues()
        if mq in wish.given or not is_given
    }
    return replace(
        wish,
        topics=left,
        given={mq: offset for mq, offset in wish.given.items() if mq not in unread},
        unread={**wish.unread, **unread},
        failures=(*wish.failures, *(Failure(name, "offsets", error) for name, error in sorted(errors.items()))),
    )


async def _with_retry(client: Client, found: Found, wish: Wish) -> tuple[Found, Wish]:
    """Return a group with its retry topics, and the wish that names them. Raises the error of a silent name server."""
    routes, errors = await find_retry_routes(client, found)
    if errors:
        raise errors[0]
    if routes.keys() <= {mq.topic for mq in found.rows}:
        return found, wish
    named = tuple(sorted({topic for topic, _ in found.read_queue_counts} | routes.keys()))
    return await find_group(client, found.situation.group, named), replace(wish, topics=named)


def _require_pushable(found: Found, items: Sequence[PlanItem]) -> None:
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


def _not_read(found: Found) -> Iterator[Consequence]:
    names = sorted(
        {
            failure.broker_name
            for failure in found.failures
            if failure.what.startswith("offsets") and failure.broker_name
        }
    )
    if names:
        yield Consequence("NOT_READ", f"{', '.join(names)} could not be read: queues there will not be changed.")


def _require_count(wish: Wish, count: int) -> None:
    """Raise RefusedError unless the number of queues is the expected one."""
    if wish.expect_queues is not None and wish.expect_queues != count:
        sentence = f"The plan has {counted(count, 'queue')}, but --expect-queues is {wish.expect_queues}."
        hint = "List them with rmqctl offset show GROUP, and check the brokers with rmqctl doctor."
        raise RefusedError(sentence, hint=hint)


def _seen_items(
    found: Found, wish: Wish, rows: Sequence[QueueProgress], looked: Mapping[MessageQueue, Looked]
) -> tuple[PlanItem, ...]:
    items = []
    for row in rows:
        if row.mq not in looked:
            continue
        each, route = looked[row.mq], route_of(row.mq.broker_name, found, wish)
        item = new_item(
            row, each.choice.target, route, note=each.note, first_store_time_ms=each.first_store_time_ms,
            is_consumed=found.is_consumed(row.mq.topic),
        )  # fmt: skip
        awaits = wish.awaits.get(row.mq) if row.mq in found.offsets else None
        if awaits is not None and is_unseen_yet(awaits, wish.given[row.mq], item.before, route):
            items.append(awaiting(item, awaits))
        elif not each.choice.is_left:
            items.append(item)
    return tuple(items)


def _unseen_items(
    found: Found, wish: Wish, rows: Sequence[QueueProgress], failures: Sequence[Failure]
) -> list[PlanItem]:
    """Return the items of queues that could not be read, and of given queues that do not exist now."""
    reasons = {failure.broker_name: reason_words(failure) for failure in failures}
    items = [
        unseen_item(
            row.mq, wish.unread.get(row.mq) or reasons.get(row.mq.broker_name, ""), before=row.consumer_offset,
            reason=str(row.reasons.get("maxOffset", Unknown.NOT_REPORTED)),
        )
        for row in rows
    ]  # fmt: skip
    gone = [mq for mq in (*wish.given, *wish.unread) if mq not in found.rows]
    return items + [
        unseen_item(mq, wish.unread.get(mq) or reasons.get(mq.broker_name, "it does not exist now"))
        for mq in sorted(gone)
        if not wish.queues or any(choice.has(mq) for choice in wish.queues)
    ]


def _unseen_consequences(unseen: Sequence[PlanItem]) -> Iterator[Consequence]:
    """Yield the queues that could not be read, so that a saved plan names them as well."""
    if unseen:
        names = listed([item.mq for item in unseen])
        text = f"{counted(len(unseen), 'queue')} could not be read and will not be changed: {names}."
        yield Consequence("LEFT_OUT", text)


def _time_ahead(client: Client, wish: Wish) -> Iterator[Consequence]:
    if wish.spec.aim is Aim.TIME and wish.spec.ago_ms is None and wish.spec.value > client.clock.now_ms():
        yield Consequence("TIME_AHEAD", "That time is in the future: every queue moves to its end.")


def _chosen(found: Found, wish: Wish) -> list[QueueProgress]:
    """Return the rows of a wish. Raises UsageError for a queue that does not exist, NotFoundError without any row."""
    rows = [
        row
        for mq, row in sorted(found.rows.items())
        if mq.topic in wish.topics
        or not mq.topic.startswith((DLQ_PREFIX, RETRY_PREFIX))
        or (wish.with_retry and mq.topic.startswith(RETRY_PREFIX))
    ]
    if not rows:
        sentence = f"Group {found.situation.group} has no queue to change: it has no offsets and no subscription."
        error = NotFoundError("Queue", found.situation.group).reworded(
            sentence, hint="Name a topic that it will consume with --topic."
        )
        raise not_found(error, failed_by_name(found.failures))
    for choice in wish.queues:
        if not any(choice.has(row.mq) for row in rows):
            there = ", ".join(sorted({row.mq.broker_name for row in rows}))
            raise UsageError(f"--queue {choice} does not match any queue.", hint=f"The queues are at {there}.")
    if wish.spec.aim in (Aim.GIVEN, Aim.BEFORE):
        rows = [row for row in rows if row.mq in wish.given or row.mq in wish.unread]
    return [row for row in rows if not wish.queues or any(choice.has(row.mq) for choice in wish.queues)]


async def _find_group(client: Client, group: str, topics: Sequence[str]) -> Found:
    """Return what find_group returns. For a group that does not exist, the hint says how to create it first."""
    try:
        return await find_group(client, group, topics)
    except NotFoundError as error:
        if error.kind != "Group":
            raise
        known = f"{error.hint} " if error.hint else ""
        raise error.reworded(error.sentence, hint=f"{known}To create it first: rmqctl group create {group}") from None


def _unsubscribed(found: Found, topics: Collection[str]) -> tuple[Consequence, ...]:
    if found.situation.state is not GroupState.ONLINE:
        return ()
    return tuple(describe_unsubscribed(topics, found.filters, found.unheard))


async def _retry_left(client: Client, found: Found, wish: Wish) -> tuple[Consequence, ...]:
    if wish.operation not in (Operation.OFFSET_RESET, Operation.OFFSET_SKIP):
        return ()
    if wish.with_retry or any(topic.startswith(RETRY_PREFIX) for topic in wish.topics):
        return (describe_delayed(),)
    return await describe_waiting(client, found, wish.topics)


def _are(count: int) -> str:
    return f"{counted(count, 'queue')} {'is' if count == 1 else 'are'}"
