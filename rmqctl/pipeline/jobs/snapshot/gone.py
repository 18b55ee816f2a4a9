"""What earlier snapshots of a cluster have and the cluster no longer has: groups, and topics of groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec.structs import replace

from rmqctl.admin.offsets.fleet import FleetProgress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.errors import NotFoundError
from rmqctl.model.names import RETRY_PREFIX, is_system_group
from rmqctl.model.progress import QueueProgress, QueueReading, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.tables.conditions import of_cluster, since
from rmqctl.pipeline.tables.delta import TableVersion
from rmqctl.pipeline.tables.marks import whole_mark
from rmqctl.rules.progress import compute_progress
from rmqctl.text.wildcards import matching
from rmqctl.text.words import listed

# Without a complete snapshot, earlier ones count for this long.
_LOOK_BACK_MS = 86_400_000


class Gone(StrEnum):
    """The `lag_state` of a row that says what is gone; it has no queue.

    GROUP_GONE: no broker has the group or its offsets. TOPIC_GONE: the group has neither offsets in the topic nor a
    member that subscribes to it, or the topic was deleted.
    """

    GROUP_GONE = "GROUP_GONE"
    TOPIC_GONE = "TOPIC_GONE"


class GroupTopic(NamedTuple):
    """A topic of a group; the topic is None for all of them."""

    group: str
    topic: str | None


# What earlier snapshots have, and the queues in their rows.
SeenQueues = Mapping[GroupTopic, Collection[MessageQueue]]


def is_whole(fleet: FleetProgress) -> bool:
    """Return whether all groups of the cluster were read."""
    if fleet.names is None:
        return False
    return {name for name in fleet.names if not is_system_group(name)} <= {progress.group for progress in fleet.groups}


def seen_before(version: TableVersion | None, label: str, now_ms: int, run_id: str) -> SeenQueues:
    """Return the topics of groups in the last complete snapshot of a cluster and those since, without those gone.

    What the run itself has found gone counts as seen: when it is taken again, these rows are replaced, too.
    """
    if version is None:
        return {}
    begun_ms = version.mark(whole_mark(label))
    where = f"{of_cluster(label)} and {since('snapshot_ts', now_ms - _LOOK_BACK_MS if begun_ms is None else begun_ms)}"
    columns = ("consumer_group", "topic", "broker_name", "queue_id", "snapshot_ts", "lag_state", "run_id")
    return _not_gone(version.rows(columns, where), run_id)


def _not_gone(rows: Iterable[tuple[Any, ...]], run_id: str) -> SeenQueues:
    seen: dict[GroupTopic, Any] = {}
    gone: dict[GroupTopic, Any] = {}
    queues: defaultdict[GroupTopic, set[MessageQueue]] = defaultdict(set)
    states = frozenset(Gone)
    for group, topic, broker_name, queue_id, at, state, run in rows:
        last = gone if state in states and run != run_id else seen
        key = GroupTopic(group, topic)
        last[key] = max(at, last.get(key, at))
        if broker_name is not None:
            queues[key].add(MessageQueue(topic, broker_name, queue_id))
    return {
        key: queues[key]
        for key, at in seen.items()
        if all(at > gone[each] for each in (key, GroupTopic(key.group, None)) if each in gone)
    }


def find_gone(
    before: SeenQueues, fleet: FleetProgress, groups: Collection[str], topics: Collection[str]
) -> list[GroupTopic]:
    """Return what is surely gone, sorted; `groups` and `topics` are the patterns that were read, empty for all.

    What some server did not report is not gone, nor what had a queue on a broker that is not registered now.
    """
    topics_before: defaultdict[str, set[str]] = defaultdict(set)
    for group, topic in before:
        topics_before[group].update(() if topic is None else (topic,))
    names = matching(list(groups), topics_before) if groups else topics_before
    gone = [GroupTopic(name, None) for name in names if fleet.names is not None and name not in fleet.names]
    for progress in filter(_is_complete, fleet.groups):
        lacking = topics_before[progress.group] - _topics_of(progress)
        gone += [
            GroupTopic(progress.group, topic)
            for topic in (matching(list(topics), lacking) if topics else lacking)
            if not topic.startswith(RETRY_PREFIX)
        ]
    unread = {GroupTopic(key.group, each) for key, queues in before.items() for each in (key.topic, None)
              if any(mq.broker_name not in fleet.clusters for mq in queues)}  # fmt: skip
    return sorted({*gone} - unread, key=lambda key: (key.group, key.topic or ""))


def with_unlisted_queues(fleet: FleetProgress, before: SeenQueues) -> FleetProgress:
    """Return the fleet with rows of unknown values for queues on brokers that no name server lists.

    These are the queues that groups had before; others are not known.
    """
    if not fleet.unlisted:
        return fleet
    of_group: defaultdict[str, set[MessageQueue]] = defaultdict(set)
    for key, queues in before.items():
        of_group[key.group].update(mq for mq in queues if mq.broker_name in fleet.unlisted)
    return replace(fleet, groups=tuple(_with_rows(each, of_group[each.group]) for each in fleet.groups))


def _with_rows(progress: GroupProgress, queues: Iterable[MessageQueue]) -> GroupProgress:
    asked, there = list(progress.asked_topics), {row.mq for row in progress.rows}
    lacking = [mq for mq in queues if mq not in there and (not asked or matching(asked, [mq.topic]))]
    rows = sorted((*progress.rows, *map(_unknown, lacking)), key=lambda row: row.mq)
    return replace(progress, rows=tuple(rows))


def _unknown(mq: MessageQueue) -> QueueProgress:
    reasons = dict.fromkeys(("minOffset", "maxOffset", "consumerOffset"), Unknown.BROKER_NOT_REGISTERED)
    return compute_progress(QueueReading(mq, reasons=reasons))


def with_places(error: NotFoundError, before: SeenQueues) -> NotFoundError:
    """Return the error; for a group that earlier snapshots have, it names their brokers: one of them may be down."""
    names = {mq.broker_name for key, queues in before.items() if key.group == error.wanted for mq in queues}
    if error.kind != "Group" or not names:
        return error
    hint = f"Earlier snapshots have it on {listed(sorted(names))}. If such a broker is down, the group may still exist."
    return error.reworded(f"No broker that is registered has group {error.wanted}.", hint=hint)


def _is_complete(progress: GroupProgress) -> bool:
    return not progress.failures and progress.hidden_anywhere is None


def _topics_of(progress: GroupProgress) -> set[str]:
    return {
        *progress.subscribed,
        *(row.mq.topic for row in progress.rows),
        *(mq.topic for mq in progress.unreadable),
        *(cut.mq.topic for cut in progress.cut),
    }
