"""What there is of the rows that the job lag examines: how many, since when, how often, and what is gone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqctl.pipeline.tables.codes import epoch_ms, name_parts, row_codes
from rmqctl.pipeline.tables.hours import HOUR_MS

from .groups import GoneTopic, UnseenGroup
from .rows import ROWS_AT_ONCE, Chosen, RowPart

_KNOWN = ("consumer_offset", "max_offset")
COLUMNS = ("cluster_label", "cluster", "consumer_group", "topic", "broker_name", "run_id", "snapshot_ts", *_KNOWN)
_DAY_MS = 24 * HOUR_MS
_RUN = ["cluster_label", "consumer_group", "run_id"]
_TOPIC = ["cluster_label", "consumer_group", "topic"]

_TopicKey = tuple[str, str, str | None]
# The label, the group, the topic, the broker's name and the id of a queue.
QueueKey = tuple[str, str, str, str, int]
_QUEUE = [*_TOPIC, "broker_name", "queue_id"]


class SampleExtent(NamedTuple):
    """Numbers of the rows of queues, and names in all rows. Without rows, `oldest_ms` is None.

    `interval_ms` is the usual time between two snapshots, of the cluster with the fewest; None when no group was read
    twice in the last day. `groups` and `hours` count rows, `gone` are what snapshots found gone, and
    `seen` when a topic of a group was last there, with its cluster. `known` are topics of which a row has an offset.
    """

    row_count: int
    snapshot_count: int
    oldest_ms: int | None
    interval_ms: int | None
    groups: Mapping[str, int]
    hours: Mapping[int, int]
    gone: Mapping[_TopicKey, int]
    seen: Mapping[_TopicKey, tuple[int, str | None]]
    known: Collection[_TopicKey]

    def names(self) -> tuple[set[str], set[str]]:
        """Return all groups and all topics, also those that are gone."""
        groups = {key[1] for key in (*self.seen, *self.gone)}
        return groups, {key[2] for key in (*self.seen, *self.gone) if key[2] is not None}

    def without_phantoms(self, whole_ms: Mapping[str, int]) -> SampleExtent:
        """Return the extent without topics of which no row has an offset, and the last complete snapshot has no row.

        `whole_ms` is by label when that snapshot began. A broker that does not answer leaves such rows: it may have the
        topic's queues.
        """
        times_ms = {key: whole_ms.get(key[0], at_ms) for key, (at_ms, _) in self.seen.items()}
        there = {key: last for key, last in self.seen.items() if key in self.known or last[0] >= times_ms[key]}
        return self._replace(seen=there)


def extent_of(tables: Iterable[pa.Table], until_ms: int) -> SampleExtent:
    """Return what there is in tables with the columns COLUMNS; `until_ms` is the time after the newest row."""
    groups: Counter[str] = Counter()
    hours: Counter[int] = Counter()
    runs: list[pa.Table] = []
    gone: dict[_TopicKey, int] = {}
    seen: dict[_TopicKey, tuple[int, str | None]] = {}
    known: set[_TopicKey] = set()
    oldest_ms: int | None = None
    for table in tables:
        is_queue = table.column("broker_name").is_valid()
        for at_ms, _, key, _ in _last_times(table.filter(pc.invert(is_queue))):
            gone[key] = max(at_ms, gone.get(key, at_ms))
        queues = table.filter(is_queue)
        if not queues.num_rows:
            continue
        for at_ms, cluster, key, is_known in _last_times(queues):
            known.update((key,) if is_known else ())
            if key not in seen or at_ms >= seen[key][0]:
                seen[key] = at_ms, cluster
        for counted in queues.column("consumer_group").value_counts().to_pylist():
            groups[counted["values"]] += counted["counts"]
        at = epoch_ms(queues.column("snapshot_ts")).to_numpy()
        for hour, count in zip(*np.unique(at // HOUR_MS, return_counts=True), strict=True):
            hours[int(hour) * HOUR_MS] += int(count)
        oldest_ms = min(int(at.min()), oldest_ms or int(at.min()))
        runs.append(queues.group_by(_RUN).aggregate([("snapshot_ts", "min")]))
    return SampleExtent(
        sum(hours.values()), _snapshot_count(runs), oldest_ms, _interval_ms(runs, until_ms), groups, hours, gone, seen,
        known,
    )  # fmt: skip


def _last_times(table: pa.Table) -> Iterator[tuple[int, str | None, _TopicKey, bool]]:
    """Yield the last time in epoch ms, the cluster, label, group and topic of each, and whether it has an offset."""
    counts = [(name, "count") for name in _KNOWN]
    found = table.group_by([*_TOPIC, "cluster"]).aggregate([("snapshot_ts", "max"), *counts])
    at_ms = epoch_ms(found.column("snapshot_ts_max")).to_pylist()
    known = pc.add(*(found.column(f"{name}_count") for name in _KNOWN)).to_pylist()
    names = (found.column(name).to_pylist() for name in (*_TOPIC, "cluster"))
    for label, group, topic, cluster, last_ms, count in zip(*names, at_ms, known, strict=True):
        yield last_ms, cluster, (label, group, topic), count > 0


def phantom_queues(table: pa.Table, whole_ms: Mapping[str, int]) -> set[QueueKey]:
    """Return queues as without_phantoms() returns topics, from all their rows of some time."""
    is_blank = pc.and_(*(table.column(name).is_null() for name in _KNOWN))
    blank = table.filter(is_blank).group_by(_QUEUE).aggregate([("snapshot_ts", "max")])
    at_ms = epoch_ms(blank.column("snapshot_ts_max")).to_pylist()
    found = {key for key, last_ms in zip(_keys(blank), at_ms, strict=True) if last_ms < whole_ms.get(key[0], 0)}
    if not found:
        return found
    groups = pa.array({key[1] for key in found}, pa.string())
    others = table.filter(pc.and_(pc.invert(is_blank), pc.is_in(table.column("consumer_group"), groups)))
    return found.difference(_keys(others.group_by(_QUEUE).aggregate([])))


def queue_key(row: Mapping[str, Any]) -> QueueKey:
    """Return the key of the queue of a row."""
    label, group, topic, broker_name, queue_id = (row[name] for name in _QUEUE)
    return label, group, topic, broker_name, queue_id


def _keys(table: pa.Table) -> Iterator[QueueKey]:
    return zip(*(table.column(name).to_pylist() for name in _QUEUE), strict=True)


def _snapshot_count(runs: Sequence[pa.Table]) -> int:
    if not runs:
        return 0
    return int(pa.concat_tables(runs).group_by(["cluster_label", "run_id"]).aggregate([]).num_rows)


def _interval_ms(runs: Sequence[pa.Table], until_ms: int) -> int | None:
    """Return the usual time between two snapshots of a group in the last day, of the cluster with the fewest."""
    since_ms = until_ms - _DAY_MS
    last = [each.filter(pc.greater_equal(epoch_ms(each.column("snapshot_ts_min")), since_ms)) for each in runs]
    if not last:
        return None
    read = pa.concat_tables(last).group_by(_RUN).aggregate([("snapshot_ts_min", "min")])
    read = read.rename_columns([*_RUN, "at"]).sort_by([(name, "ascending") for name in (*_RUN[:2], "at")])
    label, group = (row_codes(read, name) for name in _RUN[:2])
    is_same = (label[1:] == label[:-1]) & (group[1:] == group[:-1])
    gaps_ms, of = np.diff(epoch_ms(read.column("at")).to_numpy())[is_same], label[1:][is_same]
    usual = [np.percentile(gaps_ms[of == each], 50, method="inverted_cdf") for each in np.unique(of)]
    return int(max(usual)) if usual else None


# What is gone


def find_gone(extent: SampleExtent, chosen: Chosen) -> list[GoneTopic]:
    """Return the groups and topics of the chosen ones that are gone at the end of the rows.

    A group that is gone has no topic: it counts for a topic that an earlier row has.
    """
    groups, topics = chosen.get("consumer_group"), chosen.get("topic")
    of_group: defaultdict[tuple[str, str], list[tuple[str | None, int, str | None]]] = defaultdict(list)
    for (label, group, topic), last in extent.seen.items():
        if topics is None or topic in topics:
            of_group[label, group].append((topic, *last))
    found = []
    for (label, group, topic), at_ms in extent.gone.items():
        if (groups is not None and group not in groups) or (topics is not None and topic not in (*topics, None)):
            continue
        times = [(at, cluster) for name, at, cluster in of_group[label, group] if topic in (None, name)]
        newest = max(times, default=None, key=lambda each: each[0])
        last_ms, cluster = (None, None) if newest is None else newest
        if (last_ms is None and topics is None) or (last_ms is not None and last_ms < at_ms):
            found.append(GoneTopic(label, cluster, group, topic, last_ms, at_ms))
    return found


def find_unseen(extent: SampleExtent, chosen: Chosen, since_ms: int, gone: Iterable[GoneTopic]) -> list[UnseenGroup]:
    """Return the chosen groups whose last row is older than `since_ms`, except those that are gone."""
    groups, topics = chosen.get("consumer_group"), chosen.get("topic")
    known = {(each.label, each.group, each.topic) for each in gone}
    found: dict[tuple[str, str], UnseenGroup] = {}
    for (label, group, topic), (at_ms, cluster) in extent.seen.items():
        is_chosen = (groups is None or group in groups) and (topics is None or topic in topics)
        if is_chosen and known.isdisjoint({(label, group, None), (label, group, topic)}):
            last_ms = found[label, group].last_ms if (label, group) in found else at_ms
            if at_ms >= last_ms:
                found[label, group] = UnseenGroup(label, cluster, group, at_ms)
    return [each for each in found.values() if each.last_ms < since_ms]


# Parts


def parts_of(extent: SampleExtent, since_ms: int, until_ms: int, unit_ms: int) -> list[RowPart]:
    """Divide all rows into parts of whole units of time and of groups, none much larger than ROWS_AT_ONCE."""
    of_unit: Counter[int] = Counter()
    for hour_ms, count in extent.hours.items():
        of_unit[(hour_ms - since_ms) // unit_ms] += count
    parts: list[RowPart] = []
    begin_ms, row_count = since_ms, 0
    for number, start_ms in enumerate(range(since_ms, until_ms, unit_ms)):
        if row_count and row_count + of_unit[number] > ROWS_AT_ONCE:
            parts += group_parts(extent, {}, begin_ms, start_ms)
            begin_ms, row_count = start_ms, 0
        row_count += of_unit[number]
    return parts + group_parts(extent, {}, begin_ms, until_ms)


def group_parts(extent: SampleExtent, chosen: Chosen, since_ms: int, until_ms: int) -> list[RowPart]:
    """Divide the rows of the chosen groups in some time by group, none much larger than ROWS_AT_ONCE."""
    hours = sum(count for hour_ms, count in extent.hours.items() if since_ms - HOUR_MS < hour_ms < until_ms)
    share = hours / max(1, extent.row_count)
    wanted = chosen.get("consumer_group", extent.groups)
    counts = {name: count for name, count in extent.groups.items() if name in wanted}
    if share * sum(counts.values()) <= ROWS_AT_ONCE:
        return [RowPart(since_ms, until_ms)]
    here = {name: share * count for name, count in sorted(counts.items())}
    return [RowPart(since_ms, until_ms, names) for names in name_parts(here, ROWS_AT_ONCE)]
