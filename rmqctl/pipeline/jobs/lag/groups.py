"""Sums up the last window of all queues per group: from rows of queue_windows to values of a report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

from msgspec import convert

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health import WORST_FIRST, Cause, Health, QueueFacts, QueueVerdict, find_stuck, judge, judge_group
from rmqctl.text.times import iso_time, time_fields
from rmqctl.text.words import counted

from .standing import UNCONSUMED, Standing

# A row of queue_windows.MADE.
Row = Mapping[str, Any]
_LEFT, _GONE = (UNCONSUMED[standing][0] for standing in (Standing.LEFT, Standing.GONE))
# Of a group that is not in the last window, these are unknown.
_COUNTS = {"queueCount", "lagAtLeast", "lost", "unknownCount", "stuckCount", "ownerChangeCount", "clientCount"}
# Later snapshots may lack a queue.
_LATELY = " in the newest snapshot that has it"
# All words for the health of a group, worst first: the last two are of groups that consume nothing.
WORDS = (*map(str, WORST_FIRST), _LEFT, _GONE)


class GoneTopic(NamedTuple):
    """A group, or a topic of it (None for all), that is gone since the last row of a snapshot that has it.

    `last_ms` is the time of that row, None if it is older than what was read; `at_ms` is when it was found gone.
    """

    label: str
    cluster: str | None
    group: str
    topic: str | None
    last_ms: int | None
    at_ms: int


class UnseenGroup(NamedTuple):
    """A group without a row in the last window; `last_ms` is the time of its last row."""

    label: str
    cluster: str | None
    group: str
    last_ms: int


def group_rows(
    queues: Iterable[Row], gone: Sequence[GoneTopic] = (), unseen: Sequence[UnseenGroup] = ()
) -> list[dict[str, Any]]:
    """Return one row per group, worst first, from one row per queue in one window, and from what it lacks.

    A topic that the group does not consume any more is not part of its numbers. Numbers of messages are null when
    that of one queue is unknown, and all numbers of an unseen group; `lagAtLeast` is the sum of the known ones.
    `etaS` is the longest of the queues in seconds, null when one does not catch up. A skew is the maximum divided
    by the mean; 1 is even. Members are the clients that hold a queue in the last sample; snapshots do not record
    others.
    """
    is_gone = {(each.label, each.group, each.topic) for each in gone}
    of_group: defaultdict[tuple[str, str | None, str], list[Row]] = defaultdict(list)
    for row in _with_clusters(queues):
        key = row["cluster_label"], row["consumer_group"]
        if (*key, None) not in is_gone and (*key, row["topic"]) not in is_gone:
            of_group[row["cluster_label"], row["cluster"], row["consumer_group"]].append(row)
    rows = [
        {**_group_row(*names, found), "goneTopics": _topics_gone(names[0], names[2], gone)}
        for names, found in of_group.items()
    ]
    rows += [_gone_row(each) for each in gone if each.topic is None]
    rows += [_unseen_row(each) for each in unseen]
    return sorted(rows, key=_rank)


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the sort key: health, then stuck queues, then lag."""
    health = WORDS.index(row["health"])
    return (
        health,
        -(row["stuckCount"] or 0),
        -row["lagAtLeast"],
        row["group"],
        row["clusterLabel"],
        row["cluster"] or "",
    )


def _with_clusters(queues: Iterable[Row]) -> list[Row]:
    """Return the rows; a missing cluster is filled in when the group's other rows all have the same one."""
    rows = list(queues)
    known = defaultdict(set)
    for row in rows:
        if row["cluster"] is not None:
            known[row["cluster_label"], row["consumer_group"]].add(row["cluster"])
    return [
        {**row, "cluster": next(iter(known[row["cluster_label"], row["consumer_group"]]))}
        if row["cluster"] is None and len(known[row["cluster_label"], row["consumer_group"]]) == 1
        else row
        for row in rows
    ]


def _topics_gone(label: str, group: str, gone: Iterable[GoneTopic]) -> list[str]:
    return sorted(each.topic for each in gone if (each.label, each.group) == (label, group) and each.topic is not None)


def _gone_row(gone: GoneTopic) -> dict[str, Any]:
    at = iso_time(gone.at_ms)
    when = f"before {at}" if gone.last_ms is None else f"between {iso_time(gone.last_ms)} and {at}"
    verdict = (_GONE, "GROUP_GONE", f"the group was deleted with its offsets {when}")
    return _unjudged_row(gone.label, gone.cluster, gone.group, verdict)


def _unseen_row(unseen: UnseenGroup) -> dict[str, Any]:
    reason = f"no snapshot has it since {iso_time(unseen.last_ms)}"
    verdict = (str(Health.UNKNOWN), str(Cause.NO_SAMPLES), reason)
    row = _unjudged_row(unseen.label, unseen.cluster, unseen.group, verdict)
    return {**row, **dict.fromkeys(_COUNTS - {"lagAtLeast"})}


def _unjudged_row(label: str, cluster: str | None, group: str, verdict: tuple[str, str, str]) -> dict[str, Any]:
    """Return the row of a group without queues to judge: it has no lag, which is not the same as a lag of 0."""
    health, cause, reason = verdict
    unknown = (
        "lag", "lagAtStart", "slopeMsgsPerS", "produceMsgsPerS", "consumeMsgsPerS", "etaS", "etaMs", "worstQueue",
        "lagSkew", "memberLagSkew", "memberConsumeSkew",
    )  # fmt: skip
    lists = ("stuckQueues", "topics", "members", "leftTopics", "goneTopics")
    return {
        "clusterLabel": label,
        "cluster": cluster,
        "group": group,
        "health": health,
        "cause": cause,
        "reason": reason,
        "counts": {str(each): 0 for each in WORST_FIRST},
        **dict.fromkeys(unknown),
        **dict.fromkeys(_COUNTS, 0),
        **{name: [] for name in lists},
    }


def _group_row(label: str, cluster: str | None, group: str, found: Sequence[Row]) -> dict[str, Any]:
    queues = [row for row in found if row["status"] not in (_LEFT, _GONE)]
    left = sorted({row["topic"] for row in found if row["status"] == _LEFT})
    if not queues:
        behind = counted(sum(row["behind_last"] or 0 for row in found), "message")
        reason = f"no member subscribes to its topics any more; its offsets are {behind} behind"
        last = max(found, key=lambda row: WORDS.index(row["status"]))
        if last["status"] == _GONE:
            reason = f"no broker has its configuration; its offsets are left, {behind} behind"
        row = _unjudged_row(label, cluster, group, (last["status"], last["cause"], reason))
        return {**row, "leftTopics": left}
    by_queue = {queue_of(row): row for row in queues}
    verdict = judge_group(
        {mq: QueueVerdict(Health(row["status"]), Cause(row["cause"]), "") for mq, row in by_queue.items()}
    )
    worst = max((by_queue[mq] for mq in verdict.worst), key=lambda row: row["behind_last"] or 0)
    lag = [row["lag_last"] for row in queues]
    reason = judge(facts_of_row(worst)).reason
    if worst["lag_last"] is not None and None in lag:
        reason += f"; the lag of {counted(lag.count(None), 'other queue')} is unknown{_LATELY}"
    elif None in lag:
        reason += f"; its lag is unknown{_LATELY}"
    topics, members = _topics(queues), _members(queues)
    stuck = [queue for row in queues if row["is_stuck"] and (queue := _stuck(row)) is not None]
    return {
        "clusterLabel": label,
        "cluster": cluster,
        "group": group,
        "health": str(verdict.health),
        "queueCount": len(queues),
        "counts": {str(health): count for health, count in verdict.counts.items()},
        "lag": _sum(lag),
        "lagAtLeast": sum(each for each in lag if each is not None),
        "lost": sum(map(_lost, queues)),
        "unknownCount": lag.count(None),
        "lagAtStart": _sum(row["lag_first"] for row in queues),
        "slopeMsgsPerS": _sum(map(_slope, queues)),
        "produceMsgsPerS": _sum(row["produce_rate"] for row in queues),
        "consumeMsgsPerS": _sum(row["consume_rate"] for row in queues),
        **_eta(queues),
        "worstQueue": str(queue_of(worst)),
        "cause": worst["cause"],
        "reason": reason,
        "stuckCount": len(stuck),
        "stuckQueues": sorted(stuck, key=lambda queue: (-queue["forMs"], -queue["behind"])),
        "lagSkew": max((each["lagSkew"] for each in topics if each["lagSkew"] is not None), default=None),
        "memberLagSkew": skew([each["lag"] for each in members]),
        "memberConsumeSkew": skew([each["consumeMsgsPerS"] for each in members]),
        "ownerChangeCount": sum(row["owner_change_count"] for row in queues),
        "clientCount": len({client_id for row in queues for client_id in row["client_ids"]}),
        "topics": topics,
        "members": members,
        "leftTopics": left,
    }


def _lost(row: Row) -> int:
    """Return how many unread messages of a queue were deleted: they are behind, and not part of the lag."""
    lag, behind = row["lag_last"], row["behind_last"]
    return 0 if lag is None or behind is None else max(0, behind - lag)


def queue_of(row: Row) -> MessageQueue:
    """Return the queue of a row."""
    return MessageQueue(row["topic"], row["broker_name"], row["queue_id"])


def facts_of_row(row: Row) -> QueueFacts:
    """Return the facts in a row."""
    return convert(row, QueueFacts)


def skew(values: Sequence[float | None]) -> float | None:
    """Return the maximum divided by the mean; None when a value is unknown, or when all are 0."""
    known = [value for value in values if value is not None]
    total = fsum(known)
    return max(known) * len(known) / total if len(known) == len(values) and total > 0 else None


def _sum(values: Iterable[Any]) -> Any:
    """Return the sum, or None when a value is unknown."""
    every = list(values)
    if None in every:
        return None
    return fsum(every) if any(isinstance(value, float) for value in every) else sum(every)


def _slope(row: Row) -> float | None:
    """Return the growth of the lag; without a trend line it is 0 when the lag was always 0."""
    slope: float | None = row["slope_msgs_per_s"]
    return 0.0 if slope is None and row["lag_max"] == 0 and row["lag_last"] == 0 else slope


def _eta(queues: Iterable[Row]) -> dict[str, Any]:
    """Return the longest time of the queues; that of a queue whose lag is unknown now is unknown, too."""
    etas_s = [None if row["lag_last"] is None else row["eta_s"] for row in queues]
    eta_s = None if None in etas_s else max(each for each in etas_s if each is not None)
    return {"etaS": eta_s, "etaMs": None if eta_s is None else round(eta_s * 1000)}


def _stuck(row: Row) -> dict[str, Any] | None:
    stuck = find_stuck(facts_of_row(row))
    if stuck is None:
        return None
    return {
        "topic": row["topic"],
        "brokerName": row["broker_name"],
        "queueId": row["queue_id"],
        "consumerOffset": stuck.offset,
        "behind": stuck.behind,
        **time_fields("sinceTimestamp", stuck.since_ms),
        "forMs": stuck.for_ms,
        **time_fields("afterTimestamp", stuck.after_ms),
        "clientId": row["client_id"],
    }


def _topics(queues: Iterable[Row]) -> list[dict[str, Any]]:
    """Return how evenly the queues of each topic are used, by name."""
    of_topic: defaultdict[str, list[Row]] = defaultdict(list)
    for row in queues:
        of_topic[row["topic"]].append(row)
    return [
        {
            "topic": topic,
            "queueCount": len(rows),
            "lag": _sum(row["lag_last"] for row in rows),
            "lagSkew": skew([row["lag_last"] for row in rows]),
            "produceSkew": skew([row["produce_rate"] for row in rows]),
            "consumeSkew": skew([row["consume_rate"] for row in rows]),
        }
        for topic, rows in sorted(of_topic.items())
    ]


def _members(queues: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the queues, lag and rate of each client, by id."""
    of_client: defaultdict[str, list[Row]] = defaultdict(list)
    for row in queues:
        if row["client_id"] is not None:
            of_client[row["client_id"]].append(row)
    return [
        {
            "clientId": client_id,
            "queueCount": len(rows),
            "lag": _sum(row["lag_last"] for row in rows),
            "consumeMsgsPerS": _sum(row["consume_rate"] for row in rows),
        }
        for client_id, rows in sorted(of_client.items())
    ]


def count_health(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of groups of each health, worst first, including 0."""
    counts = Counter(row["health"] for row in rows)
    return {health: counts[health] for health in WORDS}
