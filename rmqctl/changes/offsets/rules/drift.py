"""Whether the situation that a plan was made for has changed, queue by queue."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from rmqctl.model.group import GroupState
from rmqctl.model.plan import AwaitedWrite, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted


class CurrentState(Struct, frozen=True):
    """The situation when a plan is to be applied, under the plan's own field names.

    `offsets` are the stored offsets of the plan's queues, None where none is stored; queues that could not be read are
    missing. `routes` are the ways that would be chosen now, by broker name. `bounds` are the smallest and the next
    offset of the plan's queues, where they were read; `store_times_ms` are the store times of the first messages at
    their targets. `lacking_config` are brokers without a configuration of the group, `unread_config` brokers that did
    not report it.
    """

    state: GroupState
    consume_type: str | None
    message_model: str | None
    brokers: Mapping[str, str]
    read_queue_counts: Mapping[tuple[str, str], int]
    offsets: Mapping[MessageQueue, int | None]
    routes: Mapping[str, Route]
    bounds: Mapping[MessageQueue, tuple[int, int]] = {}
    lacking_config: Collection[str] = ()
    unread_config: Collection[str] = ()
    store_times_ms: Mapping[MessageQueue, int] = {}


class ConsumedCount(Struct, frozen=True):
    """How many messages, in how many queues, a running group consumed since the plan; this is not drift."""

    message_count: int
    queue_count: int


def find_drift(plan: Plan, now: CurrentState, *, strict: bool) -> list[str]:
    """Return a sentence for every change that invalidates the plan; an empty list when the plan is still valid.

    Queues of a running group advance: only a queue whose offset went back, or passed its target, is drift. A queue that
    was to move to its end may be past it, and one that was to stay may have advanced. When the group has no members,
    and with `strict`, any other offset is drift.
    """
    group = group_drift(plan, now.state, now.consume_type, now.message_model)
    return [*group, *_broker_drift(plan, now), *_queue_drift(plan, now, strict=strict)]


def count_moved(plan: Plan, now: CurrentState) -> ConsumedCount:
    """Return how far the queues have advanced since the plan, except those that are already at their target."""
    moves = [
        after - item.before
        for item in plan.items
        if item.before is not None
        and item.route is not Route.UNSEEN
        and item.awaits is None
        and (after := now.offsets.get(item.mq)) is not None
        and after > item.before
        and (item.before == item.target or not (after == item.target or _has_passed_end(item, after)))
    ]
    return ConsumedCount(sum(moves), len(moves))


def group_drift(plan: Plan, state: GroupState, consume_type: str | None, message_model: str | None) -> Iterator[str]:
    """Yield what has changed of the group itself since the plan; None without members."""
    if state is not plan.state:
        yield f"The group was {plan.state} and is {state}."
        return
    for what, before, after in (
        ("consume type", plan.consume_type, consume_type),
        ("message model", plan.message_model, message_model),
    ):
        if before != after:
            yield f"The {what} was {before or 'unknown'} and is {after or 'unknown'}."


def _broker_drift(plan: Plan, now: CurrentState) -> Iterator[str]:
    for name, address in plan.brokers.items():
        if name not in now.brokers:
            yield f"Broker {name} is not registered or does not answer."
        elif now.brokers[name] != address:
            yield f"Broker {name} was at {address} and is at {now.brokers[name]}: it may be another cluster."
        elif name in now.routes:
            planned = {item.route for item in plan.items if item.mq.broker_name == name}
            planned -= {now.routes[name], Route.UNSEEN, Route.POP_ACK}
            for route in sorted(planned):
                yield f"Broker {name} was to be changed by {route}, and now by {now.routes[name]}."
        if name in now.lacking_config and name in plan.configured_at:
            yield f"Group {plan.group} was configured at {name} and no longer is."
        elif name in now.unread_config and name in plan.configured_at:
            yield f"Group {plan.group} was configured at {name}, which did not report whether it still is."
    topics = {topic for topic, _ in plan.read_queue_counts}
    places = plan.read_queue_counts.keys() | {place for place in now.read_queue_counts if place[0] in topics}
    for topic, name in sorted(places):
        before, after = (counts.get((topic, name), 0) for counts in (plan.read_queue_counts, now.read_queue_counts))
        if before != after and (name in now.brokers or name not in plan.brokers):
            yield f"Topic {topic} had {counted(before, 'queue')} at {name} and has {after}."


def _queue_drift(plan: Plan, now: CurrentState, *, strict: bool) -> Iterator[str]:
    for item in plan.items:
        # Offsets of popped queues advance by themselves, and decide nothing.
        if item.mq.broker_name not in now.brokers or item.route in (Route.UNSEEN, Route.POP_ACK):
            continue
        if item.mq not in now.offsets:
            yield f"{item.mq}: its stored offset could not be read."
            continue
        sentence = _moved(item, now.offsets[item.mq], strict=strict)
        if sentence is None:
            sentence = _out_of_bounds(item, now)
        if sentence is not None:
            yield f"{item.mq}: {sentence}"


def _out_of_bounds(item: PlanItem, now: CurrentState) -> str | None:
    """Return why the queue is not the plan's any more, or no longer has a message at the target.

    An end that went back also shows this where no offset was stored: the topic was deleted and created again, or its
    broker lost messages.
    """
    if item.max_offset is None:
        return None
    if item.mq not in now.bounds:
        return "its first and last offsets could not be read."
    min_offset, max_offset = now.bounds[item.mq]
    if max_offset < item.max_offset:
        return (
            f"its end went back from {item.max_offset} to {max_offset}: the topic was deleted and created again, or "
            "its broker lost messages."
        )
    if item.target is not None and item.target < min_offset and item.target != item.before:
        return f"its target {item.target} is deleted: the first message is now {min_offset}."
    stored_at_ms = now.store_times_ms.get(item.mq, item.first_store_time_ms)
    if stored_at_ms != item.first_store_time_ms:
        return (
            f"the message at its target {item.target} was stored at {iso_time(item.first_store_time_ms)}, and is "
            f"one of {iso_time(stored_at_ms)}: the topic was deleted and created again, or its broker lost messages."
        )
    return None


def compared_times(plan: Plan, now: CurrentState) -> list[PlanItem]:
    """Return the items whose message at the target shows whether the queue is still the plan's.

    An end that went back shows it too, until as many messages are written again. A target at the end has no message.
    """
    return [
        item
        for item in plan.items
        if item.first_store_time_ms is not None
        and not item.is_there
        and item.mq in now.bounds
        and (target := item.target) is not None
        and now.bounds[item.mq][0] <= target < now.bounds[item.mq][1]
    ]


def is_seen(awaits: AwaitedWrite, before: int | None, now: int | None) -> bool:
    """Tell whether an offset shows that an earlier write took effect since the queue was at `before`."""
    target = awaits.target
    if now == target:
        return now != before
    if before is None or now is None or not isinstance(target, int):
        return False
    return now >= target if target > before else now < before


def is_unseen_yet(awaits: AwaitedWrite, before: int | None, now: int | None, route: Route) -> bool:
    """Tell whether an offset that was `before` when a write was sent advances as if nothing had been written."""
    if now == before:
        return True
    if route is Route.BROKER_WRITE or before is None or now is None:
        return False
    return now > before and not is_seen(awaits, before, now)


def is_there(item: PlanItem, stored: int | None, places: Collection[int] = ()) -> bool:
    """Tell whether nothing is left to write: the group is at the target, or has advanced past it by itself.

    `places` are all offsets at which it may be, as in FoundGroup: what is stored is not where a running group is. A
    member commits its own position within 5 s, and one that is paused or hangs has not followed an earlier reset. One
    that was at the target when the plan was made can only have continued from there.
    """
    if item.awaits is not None or item.route is Route.UNSEEN:
        return False
    if item.route is Route.BROKER_WRITE:
        return stored == item.target
    if item.target is None or stored is None:
        return False
    if item.is_there:
        return stored >= item.target
    return bool(places) and (set(places) == {item.target} or _has_passed_end(item, min(places)))


def _has_passed_end(item: PlanItem, offset: int) -> bool:
    """Tell whether a queue that was to move to its end has got there by itself."""
    target = item.target
    if target is None or target != item.max_offset or (item.before is not None and item.before > target):
        return False
    return offset >= target


def _moved(item: PlanItem, after: int | None, *, strict: bool) -> str | None:
    before, target = item.before, item.target
    if after == before:
        return None
    if item.awaits is not None and (
        after == item.awaits.target or (item.route is not Route.BROKER_WRITE and is_seen(item.awaits, before, after))
    ):
        return None
    said = f"its offset was {'none' if before is None else before} and is {'none' if after is None else after}"
    if not strict and item.route is Route.BROKER_WRITE and after == target:
        return None  # an earlier run was interrupted after this write
    # The plan assumed that the group is offline, but a client consumes.
    if strict or item.route is Route.BROKER_WRITE or after is None:
        return f"{said}."
    if before is not None and after < before:
        return f"{said}: it went back."
    if target is None or (before is not None and before >= target) or after <= target or _has_passed_end(item, after):
        return None
    return f"{said}: it passed its target {target}."
