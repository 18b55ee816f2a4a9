"""A group's progress, computed from the facts that were read about its offsets; sends no requests."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.errors import BrokerError, NotRegisteredError, RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.group import (
    CONSUME_POP,
    GroupState,
    ProcessQueueInfo,
    Proxies,
)
from rmqctl.model.names import RETRY_PREFIX, is_pop_retry_topic
from rmqctl.model.progress import QueueProgress, QueueReading, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.group_state import agreed, group_state, reason_of
from rmqctl.rules.member_settings import is_broadcasting_group, is_only_pulled, pops_from, pulls_by_itself
from rmqctl.rules.plan_consequences import narrowing
from rmqctl.rules.progress import compute_progress, pull_window, pulled_to
from rmqctl.text.words import counted, listed

from .reading import GroupProgress, GroupReading

_READ_FROM_BROKER = ("minOffset", "maxOffset", "consumerOffset", "pullOffset", "lastTimestamp", "headAgeMs")


def conclude(group: str, reading: GroupReading) -> GroupProgress:
    """Compute the rows from the facts that were read."""
    connected = reading.connections()
    client_ids = {member.client_id for item in connected for member in item.members}
    unseen = reading.unseen_reason()
    state = group_state(unseen, has_members=bool(client_ids))
    running, has_silent = reading.running.ok.values(), bool(reading.running.failed)
    is_broadcasting = is_broadcasting_group(running, (item.message_model for item in connected))
    may_pop = (
        any(item.consume_type == CONSUME_POP for item in connected)
        or any(info.pop_unacked for info in running)
        or any(is_pop_retry_topic(group, topic, reading.topics) for topic in reading.topics)
    )
    is_partial = bool(reading.failed_brokers or reading.orphans())
    rows = tuple(
        compute_progress(
            _read_queue(mq, reading, has_members=bool(client_ids)),
            is_broadcasting=is_broadcasting,
            is_pop=may_pop and (has_silent or not is_only_pulled(running, mq)),
        )
        for mq in sorted(reading.queues())
        if not _is_unused_retry_queue(mq, reading)
    )
    subscribed = frozenset(reading.filters())
    return GroupProgress(
        group=group,
        asked_topics=reading.asked_topics,
        state=state,
        client_ids=frozenset(client_ids),
        unseen_reason=unseen if state is GroupState.UNKNOWN else None,
        message_model=agreed(found.message_model for found in connected),
        consume_type=agreed(found.consume_type for found in connected),
        consume_tps=None if is_partial else sum(view.stats.consume_tps for view in reading.views.values()),
        rows=rows,
        failures=(*(_counted(failure, rows) for failure in reading.failures), *_missing_brokers(reading)),
        notes=tuple(_notes(reading, is_broadcasting=is_broadcasting, is_pop=may_pop)),
        unreadable=reading.unreadable(),
        cut=tuple(reading.cut.values()),
        hidden=reading.hidden,
        subscribed=subscribed,
        left=frozenset(row.mq.topic for row in rows) - subscribed - _perhaps_consumed(reading, state, unseen),
    )


def _perhaps_consumed(reading: GroupReading, state: GroupState, unseen: Unknown | None) -> frozenset[str]:
    """Return the topics that the group may consume without a subscription that was read: all, or its retry topics.

    A member that was not seen or asked can have any subscription. One that pulls by itself needs none.
    """
    running = reading.running
    is_unknown = unseen is not None or running.failed or reading.proxies is not Proxies.ABSENT
    if state is not GroupState.ONLINE or is_unknown or any(map(pulls_by_itself, running.ok.values())):
        return reading.topics
    return frozenset(topic for topic in reading.topics if topic.startswith(RETRY_PREFIX))


def _missing_brokers(reading: GroupReading) -> list[Failure]:
    names = sorted({mq.broker_name for mq in reading.orphans()} - reading.failed_brokers.keys())
    reason = "not registered with the name server, but members hold its queues"
    return [Failure(name, "offsets", UnreachableError(name, reason)) for name in names]


def _counted(failure: Failure, rows: Sequence[QueueProgress]) -> Failure:
    """Return the failure; for a broker that is not registered, add the number of its queues."""
    if not isinstance(failure.error, NotRegisteredError) or failure.what != "offsets":
        return failure
    count = sum(row.mq.broker_name == failure.broker_name for row in rows)
    return (
        Failure(failure.broker_name, f"offsets of its {counted(count, 'queue')}", failure.error) if count else failure
    )


def _notes(reading: GroupReading, *, is_broadcasting: bool, is_pop: bool) -> list[str]:
    notes = []
    if is_broadcasting:
        notes.append("Members of a broadcasting group store their offsets locally, so brokers cannot report its lag.")
    if is_pop:
        notes.append("Members pop: messages in flight count as consumed until they are redelivered.")
    narrowed = narrowing(reading.filters(), reading.topics)
    if narrowed:
        text = listed(f"{topic} ({' or '.join(expressions)})" for topic, expressions in narrowed.items())
        notes.append(f"Lag is counted before the members' filter: {text}.")
    closed = reading.closed_brokers()
    if closed:
        text = listed(f"{topic} ({', '.join(names)})" for topic, names in closed.items())
        notes.append(f"Topics without read permission, from which nothing is consumed: {text}.")
    if reading.proxies is Proxies.PRESENT and not reading.connections():
        notes.append("Proxies are connected to this cluster; brokers do not see members that connect through them.")
    if reading.closed_tables:
        text = listed(sorted(reading.closed_tables))
        notes.append(f"Queues that no consumer can read are unknown at {text}: this account may not list all offsets.")
    notes += [
        f"{topic} is a static topic: the rows are its physical queues."
        for topic, route in sorted(reading.routes.items())
        if route.is_static
    ]
    return notes


def _is_unused_retry_queue(mq: MessageQueue, reading: GroupReading) -> bool:
    """Return whether this is a retry queue that never had a message or an offset; mqadmin omits those too."""
    view = reading.views.get(mq.broker_name)
    if view is None or mq.broker_name in reading.silent_masters or mq in view.stats.queues:
        return False
    offsets = reading.topic_offsets.get(mq)
    is_unused = reading.stored.get(mq) is None and (offsets is None or offsets.max_offset == 0)
    return mq.topic.startswith(RETRY_PREFIX) and is_unused


def _read_queue(mq: MessageQueue, reading: GroupReading, *, has_members: bool) -> QueueReading:
    """Return the facts about one queue, with a reason for each that is missing."""
    reasons: dict[str, Unknown] = {}
    client_ids, held = _owners(mq, reading, reasons, has_members=has_members)
    view = reading.views.get(mq.broker_name)
    if view is None:
        is_named = mq.broker_name in reading.failed_brokers
        gone = reason_of([reading.failed_brokers[mq.broker_name]]) if is_named else Unknown.BROKER_NOT_REGISTERED
        reasons |= dict.fromkeys(_READ_FROM_BROKER, gone)
        return QueueReading(mq, client_ids=client_ids, reasons=reasons)

    wrapper = view.stats.queues.get(mq)
    offsets = reading.topic_offsets.get(mq)
    span = reading.spans.get(mq)
    consumer_offset = view.sure_offset(mq)
    if consumer_offset is None:
        consumer_offset = reading.stored.get(mq)
        if consumer_offset is None:
            reasons["consumerOffset"] = _no_offset(mq, reading)
    place = mq.broker_name, mq.topic
    if offsets is None:
        reasons["minOffset"] = _reason(reading.failed_bounds.get(place))
    if span is None:
        reasons["headAgeMs"] = _reason(reading.failed_ages.get(place))
    # Consume stats contain the max offset and the group's offset of the same moment ...
    max_offset, at_ms = (wrapper.broker_offset, view.at_ms) if wrapper else (None, None)
    if offsets is not None and (max_offset is None or mq in reading.stored):
        # ... unless the group's offset was read later.
        max_offset = max(max_offset or 0, offsets.max_offset)
        at_ms = max(at_ms or 0, reading.bounds_ms.get(place, view.at_ms))
    if max_offset is None:
        reasons["maxOffset"] = reasons["minOffset"]
    pull_offset = wrapper.pull_offset if wrapper else None
    if pull_offset is None:
        is_old = view.version < V5_0_0
        reasons["pullOffset"] = Unknown.BROKER_TOO_OLD if is_old else Unknown.NOT_REPORTED
    last_timestamp_ms = wrapper.last_timestamp_ms if wrapper else None
    if last_timestamp_ms is None:
        min_offset = offsets.min_offset if offsets else None
        reasons["lastTimestamp"] = (
            reasons["consumerOffset"]
            if consumer_offset is None
            else _no_last_message(min_offset, max_offset, consumer_offset)
        )
    window = pull_window(reading.running.ok[client_ids[0]].properties if client_ids else {})
    holders: list[ProcessQueueInfo | None] = [*held] or [None]
    up_to, source = max(
        (pulled_to(pull_offset, holder, max_offset, window) for holder in holders),
        key=lambda found: -1 if found[0] is None else found[0],
    )
    return QueueReading(
        mq=mq,
        at_ms=at_ms,
        min_offset=offsets.min_offset if offsets else None,
        max_offset=max_offset,
        consumer_offset=consumer_offset,
        pull_offset=pull_offset,
        last_timestamp_ms=last_timestamp_ms,
        head_age_ms=span.head_age_ms if span else None,
        oldest_age_ms=span.oldest_age_ms if span else None,
        are_times_rising=span is None or span.are_times_rising,
        retention_ms=reading.retention_ms.get(mq.broker_name),
        client_ids=client_ids,
        # With several owners, each may have finished messages that the others still have in flight.
        cached_count=held[0].in_hand_count if len(held) == 1 else None,
        pulled_to=up_to,
        pulled_source=source,
        first_unfinished=held[0].head_offset if len(held) == 1 else None,
        reasons=reasons,
    )


def _no_offset(mq: MessageQueue, reading: GroupReading) -> Unknown:
    """Return why a queue on a broker that answered has no stored offset. A slave may just not have copied it yet."""
    if mq.broker_name in reading.silent_masters:
        return Unknown.SLAVE_ANSWERED
    return Unknown.NEVER_COMMITTED if mq in reading.stored else _reason(reading.failed_stored.get(mq.broker_name))


def _reason(error: RmqctlError | None) -> Unknown:
    """Return why something was not read; a broker that answers with an error has not reported it."""
    return Unknown.NOT_REPORTED if error is None or isinstance(error, BrokerError) else reason_of([error])


def _no_last_message(min_offset: int | None, max_offset: int | None, consumer_offset: int) -> Unknown:
    """Return why the store time of the message before the stored offset is missing."""
    if consumer_offset == 0:
        return Unknown.NOTHING_CONSUMED
    if max_offset is not None and consumer_offset > max_offset:
        return Unknown.OFFSET_BEYOND_MAX
    is_deleted = min_offset is not None and consumer_offset <= min_offset
    return Unknown.MESSAGE_DELETED if is_deleted else Unknown.NOT_REPORTED


def _owners(
    mq: MessageQueue, reading: GroupReading, reasons: dict[str, Unknown], *, has_members: bool
) -> tuple[tuple[str, ...], list[ProcessQueueInfo]]:
    """Return the clients that report holding a queue now, and the process queue of each."""
    owners: list[str] = []
    held: list[ProcessQueueInfo] = []
    for client_id, info in sorted(reading.running.ok.items()):
        process_queue = info.process_queues.get(mq)
        if process_queue is not None and not process_queue.dropped:
            owners.append(client_id)
            held.append(process_queue)
        elif pops_from(info, mq):
            owners.append(client_id)
    if len(owners) > 1:
        reasons["clientId"] = Unknown.SEVERAL_OWNERS
    elif not owners and reading.running.failed:
        reasons["clientId"] = Unknown.CLIENT_SILENT
    elif not owners and has_members:
        # A member that no broker sees may hold it.
        behind = reading.proxies is Proxies.PRESENT
        reasons["clientId"] = Unknown.BEHIND_PROXY if behind else Unknown.NOT_ASSIGNED
    elif not owners:
        reasons["clientId"] = reading.unseen_reason() or Unknown.NO_MEMBERS
    return tuple(owners), held
