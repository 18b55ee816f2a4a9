"""What earlier snapshots of a cluster have and the cluster no longer has: groups, and topics of groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from rmqctl.admin.offsets.fleet import FleetProgress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.model.names import RETRY_PREFIX, is_system_group
from rmqctl.pipeline.tables.conditions import of_cluster, since
from rmqctl.pipeline.tables.delta import TableVersion
from rmqctl.text.wildcards import matching

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


def whole_mark(label: str) -> str:
    """Return the name of the mark with the time, in epoch ms, when the last complete snapshot of a cluster began."""
    return f"whole snapshot of {label}"


def is_whole(fleet: FleetProgress) -> bool:
    """Return whether all groups of the cluster were read."""
    if fleet.names is None:
        return False
    return {name for name in fleet.names if not is_system_group(name)} <= {progress.group for progress in fleet.groups}


def seen_before(version: TableVersion | None, label: str, now_ms: int, run_id: str) -> set[GroupTopic]:
    """Return the topics of groups in the last complete snapshot of a cluster and those since, without those gone.

    What the run itself has found gone counts as seen: when it is taken again, these rows are replaced, too.
    """
    if version is None:
        return set()
    begun_ms = version.mark(whole_mark(label))
    where = f"{of_cluster(label)} and {since('snapshot_ts', now_ms - _LOOK_BACK_MS if begun_ms is None else begun_ms)}"
    return _not_gone(version.rows(("consumer_group", "topic", "snapshot_ts", "lag_state", "run_id"), where), run_id)


def _not_gone(rows: Iterable[tuple[Any, ...]], run_id: str) -> set[GroupTopic]:
    seen: dict[GroupTopic, Any] = {}
    gone: dict[GroupTopic, Any] = {}
    states = frozenset(Gone)
    for group, topic, at, state, run in rows:
        last = gone if state in states and run != run_id else seen
        key = GroupTopic(group, topic)
        last[key] = max(at, last.get(key, at))
    return {
        key
        for key, at in seen.items()
        if all(at > gone[each] for each in (key, GroupTopic(key.group, None)) if each in gone)
    }


def find_gone(
    before: Collection[GroupTopic], fleet: FleetProgress, groups: Collection[str], topics: Collection[str]
) -> list[GroupTopic]:
    """Return what is surely gone, sorted; `groups` and `topics` are the patterns that were read, empty for all.

    What some server did not report is not gone.
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
    return sorted(gone, key=lambda key: (key.group, key.topic or ""))


def _is_complete(progress: GroupProgress) -> bool:
    return not progress.failures and progress.hidden_anywhere is None


def _topics_of(progress: GroupProgress) -> set[str]:
    return {
        *progress.subscribed,
        *(row.mq.topic for row in progress.rows),
        *(mq.topic for mq in progress.unreadable),
        *(cut.mq.topic for cut in progress.cut),
    }
