"""Stuck queues as JSON items and table rows, each with an explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rmqctl.cli.output.body import BodyStyle, excerpt
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.message_item import message_item
from rmqctl.cli.output.totals import total_items, total_words
from rmqctl.rules.health.positions import Motion
from rmqctl.rules.member_settings import MemberSettings
from rmqctl.rules.pop_checkpoints import HINDRANCES as POP_HINDRANCES
from rmqctl.rules.retry_places import HINDRANCES
from rmqctl.rules.stuck_queues import StuckReason
from rmqctl.rules.totals import total
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted, listed

if TYPE_CHECKING:
    from rmqctl.observe.member_threads import MemberThreads
    from rmqctl.observe.stuck_scan import StuckQueue, StuckScan
    from rmqctl.rules.health.positions import PositionPair

STUCK_EXIT_CODE = 10
# Limits for the body and for the stack.
_BODY = BodyStyle(max_bytes=256)
_FRAME_COUNT = 8
_OF_MESSAGE = (
    "msgId", "keys", "tags", "storeTimestamp", "storeTimestampIso", "reconsumeTimes", "bodySize", "body",
    "bodyTruncated",
)  # fmt: skip


def exit_code(scan: StuckScan, shown: int) -> int:
    """Return 10 if something is stuck, else 8 if a queue is undecided, else the exit code of the listing."""
    if scan.stuck:
        return STUCK_EXIT_CODE
    return 8 if shown == 0 and any(each.verdict.is_stuck is None for each in scan.queues) else shown


def to_listing(scan: StuckScan, older_than_ms: int | None) -> Listing:
    """Make the listing of queues that do not move or are slow."""
    counts = _counts(scan)
    return Listing(
        kind="StuckList",
        columns=COLUMNS,
        items=[_item(scan, each) for each in scan.queues],
        name=lambda item: f"{item['topic']}@{item['brokerName']}:{item['queueId']}",
        failures=scan.failures,
        extra={
            "group": scan.group,
            "state": scan.progress.state,
            "watchedMs": scan.watched_ms,
            "olderThanMs": older_than_ms,
            "summary": {
                "queueCount": scan.queue_count,
                "stuckCount": counts[True],
                "undecidedCount": counts[None],
            },
            "clients": [_client(member) for member in scan.members.values()],
        },
        notes=[*_summary(scan), *_stacks(scan)],
        warnings=scan.pop_notes,
        empty=f"Nothing is stuck or slow in group {scan.group}.",
    )


def _counts(scan: StuckScan) -> Counter[bool | None]:
    """Count queues by verdict; several popped messages of one count once."""
    return Counter(is_stuck for _, is_stuck in {(each.progress.mq, each.verdict.is_stuck) for each in scan.queues})


def _item(scan: StuckScan, found: StuckQueue) -> dict[str, Any]:
    row, verdict, held = found.progress, found.verdict, found.watched.last.held
    settings = found.settings or MemberSettings(None, None, None, None)
    message: dict[str, Any] = dict.fromkeys(_OF_MESSAGE)
    reasons = {name: str(reason) for name, reason in row.reasons.items() if name in _OF_ROW}
    if found.head is not None:
        whole = message_item(found.head, _BODY)
        message = {key: whole[key] for key in _OF_MESSAGE}
        reasons |= {key: reason for key, reason in whole["reasons"].items() if key in _OF_MESSAGE}
    item: dict[str, Any] = {
        "group": scan.group,
        "topic": row.mq.topic,
        "brokerName": row.mq.broker_name,
        "queueId": row.mq.queue_id,
        "why": str(verdict.why),
        "isStuck": verdict.is_stuck,
        "clientId": None if found.holder is None else found.holder.client_id,
        "headOffset": _head_offset(found),
        "ageAtLeastMs": verdict.at_least_ms,
        "ageAtMostMs": verdict.at_most_ms,
        "ageSource": verdict.source,
        "consumerOffset": row.consumer_offset,
        "maxOffset": row.max_offset,
        "advance": found.watched.advance,
        "lag": row.lag,
        "duplicateRisk": row.duplicate_risk,
        "cachedMsgCount": None if held is None else held.in_hand_count,
        "cachedMsgMinOffset": None if held is None else held.head_offset,
        "cachedMsgMaxOffset": held.cached_max_offset if held is not None and held.cached_count else None,
        "lastPullTimestamp": None if held is None else held.last_pull_at_ms,
        "lastPullTimestampIso": None if held is None else iso_time(held.last_pull_at_ms),
        "lastConsumeTimestamp": None if held is None else held.last_consume_at_ms,
        "lastConsumeTimestampIso": None if held is None else iso_time(held.last_consume_at_ms),
        "isOrderly": settings.is_orderly,
        "consumeTimeoutMs": settings.consume_timeout_ms,
        "flowControl": verdict.flow_control,
        **message,
    }
    item["explanation"] = " ".join(_sentences(scan, found))
    absent = "NOT_ASSIGNED" if found.holder is None else "NOT_REPORTED"
    for key in _NULLABLE:
        if item[key] is None:
            reasons.setdefault(key, absent if held is None else "NOTHING_IN_HAND" if _is_empty(found) else absent)
    if item["isStuck"] is None:
        reasons["isStuck"] = "WATCHED_TOO_SHORT" if verdict.needs_time else str(verdict.why)
    return {**item, "reasons": {key: reason for key, reason in reasons.items() if item.get(key, 0) is None}}


def _head_offset(found: StuckQueue) -> int | None:
    if found.popped is not None:
        return found.popped.queue_offset
    held = found.watched.last.held
    return None if held is None else held.head_offset


_OF_ROW = ("consumerOffset", "maxOffset", "lag", "duplicateRisk", "clientId")
_NULLABLE = (
    "clientId", "headOffset", "ageAtLeastMs", "ageAtMostMs", "ageSource", "advance", "cachedMsgCount",
    "cachedMsgMinOffset", "cachedMsgMaxOffset", "lastPullTimestamp", "lastConsumeTimestamp", "isOrderly",
    "consumeTimeoutMs", *(key for key in _OF_MESSAGE if not key.endswith("Iso")),
)  # fmt: skip


def _is_empty(found: StuckQueue) -> bool:
    held = found.watched.last.held
    return held is not None and held.head_offset is None


def _client(member: MemberThreads) -> dict[str, Any]:
    threads = None
    if member.threads is not None:
        threads = [{"name": each.name, "state": each.state, "frames": list(each.frames)} for each in member.threads]
    return {
        "clientId": member.client_id,
        "threadCount": member.thread_count,
        "busyThreadCount": member.busy_count,
        "threads": threads,
        "reasons": {
            **({} if threads is not None else {"threads": "NOT_REPORTED"}),
            **({} if member.busy_count is not None else {"busyThreadCount": _why_not_counted(member)}),
        },
    }


def _why_not_counted(member: MemberThreads) -> str:
    return "NOT_REPORTED" if member.threads is None else "GROUP_UNKNOWN"


def _sentences(scan: StuckScan, found: StuckQueue) -> Iterator[str]:
    """Yield why a queue does not move, what waits behind it, and what is uncertain about that."""
    row, verdict, watched = found.progress, found.verdict, found.watched
    since = "-" if verdict.at_least_ms is None else short_duration(verdict.at_least_ms)
    yield _first_sentence(scan, found, since)
    if verdict.is_stuck is None and not watched.first.is_heard and verdict.why is not StuckReason.MEMBER_SILENT:
        yield "The client did not answer before: whether it had the message then is unknown."
    if verdict.is_stuck is None and verdict.needs_time:
        most = "unknown" if verdict.at_most_ms is None else f"at most {short_duration(verdict.at_most_ms)}"
        yield f"Its age is uncertain ({most}): use --for to watch longer."
    if watched.motion is not Motion.RESTS or verdict.why in (StuckReason.SLOW, StuckReason.NOT_POLLED):
        return
    if row.duplicate_risk:
        processed = counted(row.duplicate_risk, "message")
        yield f"At most {processed} behind it {'is' if row.duplicate_risk == 1 else 'are'} processed but not committed."
    if verdict.flow_control is not None:
        yield f"The client has stopped pulling: its limit {verdict.flow_control} is reached."
    member = scan.members.get(found.holder.client_id) if found.holder is not None else None
    if member is not None and member.is_exhausted:
        yield f"All {member.thread_count} threads of the client are in its listener: the message may wait for one."


def _first_sentence(scan: StuckScan, found: StuckQueue, since: str) -> str:
    row, verdict, holder = found.progress, found.verdict, found.holder
    broker = row.mq.broker_name
    if found.popped is not None:
        redelivers = iso_time(found.popped.due_ms)
        return f"The message was popped {since} ago and is not acknowledged. {broker} redelivers it at {redelivers}."
    if verdict.why is StuckReason.POP and broker in scan.pop_hindrances:
        because = POP_HINDRANCES[scan.pop_hindrances[broker]]
        return f"Members pop, and {broker} {because}: whether a message is stuck is unknown."
    if verdict.why is StuckReason.POP and verdict.is_overdue:
        return f"Members pop, but popped nothing in {short_duration(found.watched.for_ms)}, although each may pop more."
    if verdict.why is StuckReason.NOT_POLLED and holder is not None and holder.polled_ago_ms is not None:
        polled = short_duration(holder.polled_ago_ms)
        return f"{_PLAIN[verdict.why]} It last polled messages of any queue {polled} ago."
    if verdict.why is StuckReason.SLOW:
        if verdict.at_least_ms is not None:
            member = scan.members.get(holder.client_id) if holder is not None else None
            if member is not None and member.is_exhausted:
                return f"The message waits for the client: all of its {member.thread_count} threads are busy."
            return f"The client has had the same message for at least {since}, which is below the limit."
        advance = counted(found.watched.advance or 0, "message")
        return f"The group advanced by {advance} in {short_duration(found.watched.for_ms)}."
    if verdict.why is StuckReason.LOCAL_RETRY:
        hindrance = scan.retry_hindrances.get(broker)
        because = "no broker stores it for a retry" if hindrance is None else f"{broker} {HINDRANCES[hindrance]}"
        return f"The listener fails on this message, and {because}: the client retries it locally."
    if verdict.why is StuckReason.MEMBER_SILENT and holder is not None:
        return f"{holder.client_id} holds the queue but did not answer before: whether it consumes is unknown."
    if verdict.why is StuckReason.MEMBER_SILENT:
        silent = listed(scan.silent_ids)
        return f"{silent} may hold the queue but did not answer. A dead client leaves the group after 120 s."
    if verdict.why is StuckReason.BLOCKED_IN_ORDER:
        return f"{_of_ordered(found.watched).format(since=since)}, and the queue is consumed in order."
    if verdict.why is StuckReason.NOT_PULLED and holder is not None:
        held = found.watched.last.held
        if holder.now_ms is not None and held is not None and held.last_pull_at_ms is not None:
            return f"The client has not pulled for {short_duration(max(0, holder.now_ms - held.last_pull_at_ms))}."
    if verdict.why is StuckReason.IN_CONSUMPTION and holder is not None and holder.is_exhausted:
        # Nothing shows that this is one of the messages that its threads have.
        return _PLAIN[StuckReason.IN_HAND].format(since=since)
    return _PLAIN[verdict.why].format(since=since, broker=broker)


def _of_ordered(watched: PositionPair) -> str:
    """Return what happened to the head of a queue that is consumed in order; it may never have been delivered."""
    first, last = watched.first.held, watched.last.held
    if last is not None and last.is_listening:
        return "The listener has had this message for at least {since}"
    if first is not None and last is not None and first.last_consume_at_ms != last.last_consume_at_ms:
        return "The client has retried this message for at least {since}"
    return "The client has had this message for at least {since} and did not call its listener meanwhile"


_PLAIN = {
    StuckReason.IN_CONSUMPTION: "The listener has had this message for at least {since}.",
    StuckReason.IN_HAND: "The client has had this message in flight for at least {since}. It may be in the listener.",
    StuckReason.PAUSED: "The client holds the queue but consumes no messages: it is paused, or its pulls fail.",
    StuckReason.PULLS_REFUSED: "{broker} refuses all pulls (consumeEnable=false).",
    StuckReason.FILTERED: "The next message does not pass the filter of the client, whose next pull passes it.",
    StuckReason.NOT_PULLED: "The client holds the queue but does not pull.",
    StuckReason.NOT_POLLED: "The client has prefetched this message, and its application has not polled it.",
    StuckReason.NOT_ASSIGNED: "No member holds the queue. A rebalance can take 20 s.",
    StuckReason.NO_MEMBERS: "The group has no members. Nothing is in consumption.",
    StuckReason.MEMBERS_UNKNOWN: "It is unknown whether the group has members.",
    StuckReason.NOT_REPORTED: "Members control their own pulls and do not report which messages are in flight.",
    StuckReason.POP: "Members pop: a message in flight does not block the queue. A stuck message has its own row.",
}


def _summary(scan: StuckScan) -> Iterator[str]:
    counts = _counts(scan)
    every = total_items({"queueCount": total([(scan.queue_count, "")], hidden=scan.progress.hidden_anywhere)})
    of = total_words(every, "queueCount", "queue")
    said = f"Group {scan.group}, watched for {short_duration(scan.watched_ms)}: {counts[True]} of {of} stuck"
    yield f"{said}, {counts[None]} undecided." if counts[None] else f"{said}."


def _stacks(scan: StuckScan) -> Iterator[str]:
    """Yield the stacks of threads in listeners with stuck messages; equal stacks are merged."""
    stuck_ids = {each.holder.client_id for each in scan.queues if each.verdict.is_stuck is not False and each.holder}
    for member in scan.members.values():
        if member.client_id not in stuck_ids or not member.threads:
            continue
        alike = Counter((each.is_own, each.state, each.frames) for each in member.threads)
        for (is_own, state, frames), count in alike.most_common(3):
            whose = "the listener" if is_own else "a listener, of this group or another one"
            yield f"{counted(count, 'thread')} of {member.client_id} ({state}) in {whose}:"
            yield from (f"    {frame}" for frame in frames[-_FRAME_COUNT:])


def _show_age(item: Item) -> str:
    return "-" if item["ageAtLeastMs"] is None else short_duration(item["ageAtLeastMs"])


def _show_stuck(item: Item) -> str:
    return {True: "yes", False: "no", None: "-"}[item["isStuck"]]


COLUMNS = (
    Column("STUCK", "isStuck", show=_show_stuck, is_alarm=lambda item: item["isStuck"] is not False),
    Column("WHY", "why"),
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    Column("HEAD", "headOffset", is_number=True),
    Column("FOR", "ageAtLeastMs", show=_show_age, is_number=True),
    Column("LAG", "lag", is_number=True),
    Column("DUP-RISK", "duplicateRisk", is_number=True, gives_way=True),
    Column("KEYS", "keys", show=lambda item: " ".join(item["keys"] or ()) or "-", gives_way=True),
    Column("CLIENT", "clientId", is_kept=True),
    Column("CONSUMER", "consumerOffset", is_number=True, is_wide=True),
    Column("MAX", "maxOffset", is_number=True, is_wide=True),
    Column("CACHED", "cachedMsgCount", is_number=True, is_wide=True),
    Column("LAST-PULL", "lastPullTimestamp", is_time=True, is_wide=True),
    Column("LAST-CONSUME", "lastConsumeTimestamp", is_time=True, is_wide=True),
    Column("STORED", "storeTimestamp", is_time=True, is_wide=True),
    Column("RECONSUMED", "reconsumeTimes", is_number=True, is_wide=True),
    Column("MSG-ID", "msgId", is_wide=True),
    Column("BODY", "body", show=excerpt, is_wide=True),
    Column("EXPLANATION", "explanation", is_sentence=True),
)
