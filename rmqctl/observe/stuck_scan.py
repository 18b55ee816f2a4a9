"""Find stuck messages from outside: read a group twice, and ask more about the queues that did not move between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.admin.groups.retry_places import fetch_retry_places
from rmqctl.admin.messages.pull import FoundMessage, fetch_one
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.admin.results import Answers, ask_all
from rmqctl.admin.topics.queues import QueueChoice
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import (
    CONSUME_ACTIVELY,
    CONSUME_POP,
    GO,
    GroupState,
    RunningInfo,
    Subscription,
)
from rmqctl.model.progress import QueueProgress, QueueReading, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.health.idle import may_wait_for_polls
from rmqctl.rules.health.popped import Pops, pops_of_all
from rmqctl.rules.health.positions import Motion, Position, PositionPair
from rmqctl.rules.holder_report import Holder, HolderReport, holder_of, report_of
from rmqctl.rules.member_settings import MemberSettings, pulls_by_itself
from rmqctl.rules.message_filters.subscription import matches
from rmqctl.rules.pop_checkpoints import PopHindrance, PoppedRecord, is_popped_of
from rmqctl.rules.progress import compute_progress
from rmqctl.rules.retry_places import RetryHindrance, blocks_retries
from rmqctl.rules.stuck_queues import DEFAULT_OLDER_THAN_MS, StuckFacts, StuckVerdict, judge, judge_popped, needs_head

from .group_looks import GroupScan, between_ms, look_at_group, now_of, watch
from .member_threads import MemberThreads, fetch_member_threads
from .pop_scan import PoppedMessage, PopScan, scan_pops

# Queues that did not move in the first window are read again at this interval until they can be judged.
_AGAIN_S = 5.0


class StuckQueue(Struct, frozen=True):
    """One queue that is stuck, slow or not moving: its state, the verdict, and its head message.

    `progress` is from the last look. `head` is the message being processed, else the first unread one; None without a
    message, or when it was not fetched. `settings` are the holder's. With `popped`, the row is for one popped message.
    """

    progress: QueueProgress
    watched: PositionPair
    holder: Holder | None
    settings: MemberSettings | None
    verdict: StuckVerdict
    head: FoundMessage | None
    popped: PoppedRecord | None = None


class StuckScan(Struct, frozen=True):
    """The result of a scan; `queues` are only those that do not move or are slow, the stuck ones first.

    `queue_count` is the number of queues checked. `silent_ids` are members that did not report their queues.
    `looked_at_ms` is when the last look ended. `pop_hindrances` are by broker whose pops cannot be read, `pop_notes`
    are sentences about the others. `watched` are all queues that were checked, by queue and holding member.
    """

    group: str
    progress: GroupProgress
    queue_count: int
    watched_ms: int
    looked_at_ms: int
    queues: tuple[StuckQueue, ...]
    members: Mapping[str, MemberThreads]
    retry_hindrances: Mapping[str, RetryHindrance]
    silent_ids: tuple[str, ...]
    failures: tuple[Failure, ...]
    pop_hindrances: Mapping[str, PopHindrance] = {}
    pop_notes: tuple[str, ...] = ()
    watched: Mapping[tuple[MessageQueue, str | None], PositionPair] = {}

    @property
    def stuck(self) -> tuple[StuckQueue, ...]:
        """The queues with a stuck message; of popped messages, one row each."""
        return tuple(each for each in self.queues if each.verdict.is_stuck)


async def scan_group(
    client: Client,
    group: str,
    topics: Sequence[str] = (),
    choices: Sequence[QueueChoice] = (),
    *,
    older_than_ms: int | None = None,
    window_s: float = 10.0,
    patience_s: float | None = None,
    on_wait: Callable[[float, float], None] = lambda _, __: None,
) -> StuckScan:
    """Watch a group for window_s and judge each of its queues; if undecided, watch for at most patience_s.

    `older_than_ms`: how long a message may be in flight, see rmqctl.rules.stuck_queues.judge(). `on_wait` gets the time
    that has passed and the total time, in s. Changes nothing. Raises the errors of fetch_group_progress(), and
    UsageError for queues that the group does not have.
    """
    looks = [await look_at_group(client, group, topics, choices)]
    until_s, last_s = window_s, max(window_s, patience_s or 0.0)
    while True:
        await _wait(client, looks[0].ended_s, until_s, on_wait)
        last = await look_at_group(client, group, topics, choices)
        scan = await conclude_scans(client, group, looks, last, older_than_ms, choices)
        undecided = any(each.verdict.needs_time for each in scan.queues)
        if not undecided or until_s >= last_s:
            return scan
        looks.append(last)
        until_s = min(last_s, until_s + _AGAIN_S)


async def _wait(client: Client, began_s: float, until_s: float, on_wait: Callable[[float, float], None]) -> None:
    client.deadline.extend(max(0.0, began_s + until_s - client.clock.monotonic_s()))
    while (passed_s := client.clock.monotonic_s() - began_s) < until_s:
        on_wait(passed_s, until_s)
        await pause(client.clock, min(1.0, until_s - passed_s))


async def conclude_scans(
    client: Client, group: str, looks: Sequence[GroupScan], last: GroupScan, older_than_ms: int | None = None,
    choices: Sequence[QueueChoice] = (), *, with_pops: bool = True,
) -> StuckScan:  # fmt: skip
    """Judge each queue by the last look at its group, compared with the earliest one that shows its holder.

    Asks for more about the queues that do not move. `looks` are the earlier ones, at least one, in order.
    `with_pops`: also find popped messages that are not acknowledged, by reading the brokers' check-points.
    """
    for_ms = between_ms(looks[0], last)
    reports = {
        client_id: report_of(client_id, info, now_of(client_id, looks[0], last))
        for client_id, info in last.reading.running.ok.items()
    }
    holders = _holders(last.reading.running.ok)
    compared = {
        (mq, client_id): max(looks, key=lambda look: look.shows(mq, client_id))
        for mq in last.rows
        for client_id in holders.get(mq, (None,))
    }
    watched = {key: watch(*key, first, last, reports.get(key[1] or "")) for key, first in compared.items()}
    still = {
        key: each.motion
        for key, each in watched.items()
        if needs_head(each, older_than_ms) or (each.motion is Motion.UNHELD and _has_filter(last, key[0]))
    }
    heads = await ask_all(still, lambda key: _fetch_head(client, last, key[0], watched[key]))
    resting = {client_id for (_, client_id), motion in still.items() if motion is not Motion.IDLES and client_id}
    asked = {client_id: reports[client_id].settings for client_id in sorted(resting)}
    members, unheard = await fetch_member_threads(client, group, last.reading.views.values(), asked)
    hindrances: dict[str, RetryHindrance] = {}
    if any(_fails(last.reading.running.ok, key) for key in still):
        brokers = {name: view.broker for name, view in last.reading.views.items()}
        places = await fetch_retry_places(client, group, brokers)
        hindrances = {name: found for name in brokers if (found := blocks_retries(places, name)) is not None}
    closed = await _closed_brokers(client, group, last) if Motion.IDLES in still.values() else frozenset[str]()
    # A broker keeps the type of the last heartbeat; members may differ.
    types = {each.consume_type for each in last.reading.connections()}
    types |= {info.properties.get("PROP_CONSUME_TYPE", "") for info in last.reading.running.ok.values()}
    pops = await _scan_pops(client, group, last, types, older_than_ms, choices) if with_pops else PopScan()
    queues = [_popped_row(last, for_ms, each, reports) for each in pops.messages]
    lagging = _commits_late(last)
    unheld = {mq: each for (mq, client_id), each in watched.items() if client_id is None}
    popped = [mq for mq in unheld if _pops(last.rows[mq], types)]
    firsts = {mq: compared[mq, None].reading.running.ok for mq in popped}
    popping = pops_of_all(popped, unheld, firsts, last.reading.running.ok)
    has_moved = any(each.has_committed for each in unheld.values())
    waits = has_moved and may_wait_for_polls(last.reading.running.ok.values())
    unknown: dict[int, GroupScan] = {}
    for (mq, client_id), each in watched.items():
        member = None if client_id is None else reports[client_id]
        holder = None if member is None else _holder(mq, member, members.get(member.client_id))
        filters = _subscriptions(last, mq.topic) if member is None else member.info.subscriptions
        head = heads.ok.get((mq, client_id))
        facts = _facts(
            client, last, mq, each, holder, filters, head, hindrances.get(mq.broker_name), types,
            can_pull=mq.broker_name not in closed, hides_pops=mq.broker_name in pops.hindrances,
            commits_filtered=client_id not in lagging,
            waits_for_polls=waits,
            pops=popping.get(mq, Pops.UNKNOWN),
        )  # fmt: skip
        verdict = judge(facts, older_than_ms)
        if each.motion is Motion.UNKNOWN and (verdict is None or verdict.is_stuck is None):
            unknown[id(compared[mq, client_id])] = compared[mq, client_id]
        if verdict is not None:
            settings = None if member is None else member.settings
            queues.append(StuckQueue(last.rows[mq], each, holder, settings, verdict, head))
    rank = {True: 0, None: 1, False: 2}
    queues.sort(key=lambda each: (rank[each.verdict.is_stuck], each.progress.mq))
    silent_ids = tuple(sorted(last.reading.running.failed))
    failures = [*last.progress.failures, *_failed_heads(heads), *unheard, *pops.failures]
    # What a later look could read is a failure only where a queue stays unknown without it.
    known = {(each.broker_name, each.what) for each in failures}
    earlier = {(each.broker_name, each.what): each for look in unknown.values() for each in look.progress.failures}
    failures += [each for key, each in earlier.items() if key not in known]
    return StuckScan(
        group, last.progress, len(last.rows), for_ms, last.ended_at_ms, tuple(queues), members, hindrances, silent_ids,
        tuple(failures), pops.hindrances, pops.notes, watched,
    )  # fmt: skip


async def _scan_pops(
    client: Client, group: str, last: GroupScan, types: Collection[str], older_than_ms: int | None,
    choices: Sequence[QueueChoice],
) -> PopScan:  # fmt: skip
    if not any(_pops(row, types) for row in last.rows.values()):
        return PopScan()
    asked = last.reading.topics if last.reading.asked_topics else ()

    def is_asked(mq: MessageQueue) -> bool:
        is_topic = not asked or any(is_popped_of(mq.topic, group, topic) for topic in asked)
        return is_topic and (not choices or any(choice.has(mq) for choice in choices))

    limit_ms = DEFAULT_OLDER_THAN_MS if older_than_ms is None else older_than_ms
    return await scan_pops(client, group, last.reading.views, limit_ms, is_asked)


def _pops(row: QueueProgress, types: Collection[str]) -> bool:
    return row.reasons.get("inflight") is Unknown.POP or CONSUME_POP in types


def _popped_row(last: GroupScan, for_ms: int, found: PoppedMessage, reports: Mapping[str, HolderReport]) -> StuckQueue:
    mq = found.popped.mq
    row = last.rows.get(mq)
    if row is None:  # a retry topic of pops, which the look did not read
        reasons = dict.fromkeys(
            ("minOffset", "maxOffset", "consumerOffset", "pullOffset", "lastTimestamp", "clientId"),
            Unknown.NOT_REPORTED,
        )
        row = compute_progress(QueueReading(mq, reasons=reasons), is_broadcasting=False, is_pop=True)
    position = Position(row.consumer_offset, row.max_offset)
    watched = PositionPair(position, position, for_ms)
    # The record does not name the member; members of a group usually have the same settings.
    settings = next((reports[name].settings for name in (*row.client_ids, *reports) if name in reports), None)
    return StuckQueue(row, watched, None, settings, judge_popped(found.age_ms), found.message, found.popped)


async def _closed_brokers(client: Client, group: str, last: GroupScan) -> frozenset[str]:
    """Return the brokers that reject pulls of the group (consumeEnable=false)."""
    configs = await fetch_configs(client, {name: view.broker for name, view in last.reading.views.items()})
    return frozenset(
        name
        for name, table in configs.ok.items()
        if (config := table.get(group)) is not None and not config.consume_enable
    )


def _commits_late(last: GroupScan) -> frozenset[str]:
    """Return the members that commit past filtered messages only with a later message: Go, and lite pull consumers."""
    every = (member for connection in last.reading.connections() for member in connection.members)
    pulling = (client_id for client_id, info in last.reading.running.ok.items() if pulls_by_itself(info))
    return frozenset(member.client_id for member in every if member.language == GO) | frozenset(pulling)


def _holders(running: Mapping[str, RunningInfo]) -> dict[MessageQueue, list[str | None]]:
    """Return the members that hold each queue."""
    holders: dict[MessageQueue, list[str | None]] = {}
    for client_id, info in sorted(running.items()):
        for mq, held in info.process_queues.items():
            if not held.dropped:
                holders.setdefault(mq, []).append(client_id)
    return holders


_Key = tuple[MessageQueue, str | None]


async def _fetch_head(client: Client, last: GroupScan, mq: MessageQueue, watched: PositionPair) -> FoundMessage:
    """Return the head message of the queue. Raises RmqctlError when it cannot be read."""
    held = watched.last.held
    head = None if held is None else held.head_offset
    offset = watched.last.next_offset if head is None else head
    view = last.reading.views.get(mq.broker_name)
    if offset is None or view is None:
        raise NotFoundError("Message", str(mq))
    min_offset = last.rows[mq].min_offset
    offset = max(offset, min_offset or 0) if head is None else offset
    failed: list[RmqctlError] = []
    message = await fetch_one(client, view.address, mq, offset, on_unreadable=lambda _, error: failed.append(error))
    absent = failed[0] if failed else NotFoundError("Message", f"{mq} offset {offset}")
    return FoundMessage(mq, offset, message, absent if message is None else None)


def _failed_heads(heads: Answers[_Key, FoundMessage]) -> list[Failure]:
    return [
        Failure(mq.broker_name, f"head message of {mq}", error)
        for (mq, _), error in heads.failed.items()
        if not isinstance(error, NotFoundError)
    ]


def _fails(running: Mapping[str, RunningInfo], key: _Key) -> bool:
    """Return whether the holder's listener fails on messages of the topic."""
    mq, client_id = key
    status = None if client_id is None else running[client_id].statuses.get(mq.topic)
    return status is not None and (status.consume_failed_tps > 0 or status.consume_failed_count > 0)


def _holder(mq: MessageQueue, report: HolderReport, member: MemberThreads | None) -> Holder:
    if member is None:
        return holder_of(mq, report, None, None)
    return holder_of(mq, report, member.thread_count, member.busy_count)


def _facts(
    client: Client,
    last: GroupScan,
    mq: MessageQueue,
    watched: PositionPair,
    holder: Holder | None,
    filters: Collection[Subscription],
    head: FoundMessage | None,
    hindrance: RetryHindrance | None,
    types: Collection[str],
    *,
    can_pull: bool,
    hides_pops: bool,
    commits_filtered: bool,
    pops: Pops,
    waits_for_polls: bool | None,
) -> StuckFacts:
    row = last.rows[mq]
    message = None if head is None else head.message
    return StuckFacts(
        watched=watched,
        state=last.progress.state,
        holder=holder,
        has_silent=bool(last.reading.running.failed),
        reports_queues=CONSUME_ACTIVELY not in types,
        is_pop=_pops(row, types),
        pops=pops,
        waits_for_polls=waits_for_polls,
        hides_pops=hides_pops,
        head_age_ms=_age_ms(client, row, watched.last, message),
        is_wanted=_is_wanted(filters, mq.topic, message),
        commits_filtered=commits_filtered,
        can_pull=can_pull,
        retry_hindrance=hindrance,
    )


def _age_ms(client: Client, row: QueueProgress, last: Position, message: StoredMessage | None) -> int | None:
    """Return the head's age since it was stored: for the first unread one by its broker, else by our own clock.

    For the first unread one, an account that may not read messages knows it as well.
    """
    head = None if last.held is None else last.held.head_offset
    head = message.queue_offset if message is not None else last.next_offset if head is None else head
    if head is not None and head == row.consumer_offset and row.time_lag_source is not None:
        return row.time_lag_ms or 0
    return None if message is None else max(0, client.clock.now_ms() - message.stored_at_ms)


def _subscriptions(last: GroupScan, topic: str) -> tuple[Subscription, ...]:
    """Return the subscriptions to a topic of which any may be that of the member that consumes a queue."""
    named = [each for info in last.reading.running.ok.values() for each in info.subscriptions]
    named += [each for connection in last.reading.connections() for each in connection.subscriptions.values()]
    return tuple(each for each in named if each.topic == topic)


def _has_filter(last: GroupScan, mq: MessageQueue) -> bool:
    """Return whether members of an online group may leave out messages of a queue that none of them reports."""
    filters = _subscriptions(last, mq.topic)
    return last.progress.state is GroupState.ONLINE and not all(each.is_everything for each in filters)


def _is_wanted(filters: Collection[Subscription], topic: str, message: StoredMessage | None) -> bool | None:
    """Return whether any filter matches the message; None when that is not known."""
    found = [_passes(each, message) for each in filters if each.topic == topic]
    return True if True in found else None if None in found or not found else False


def _passes(subscription: Subscription, message: StoredMessage | None) -> bool | None:
    if subscription.is_everything:
        return True
    if message is None:
        return None
    try:
        return matches(subscription, message.tags, message.properties)
    except RmqctlError:
        return None
