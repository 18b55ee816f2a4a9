"""Rows of the table of offsets, built from answers of brokers or from recorded samples, and the runs in it."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqctl.admin.offsets.fleet import FleetProgress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.errors import UsageError
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.observe.recording import RecordedSample
from rmqctl.observe.sampled_progress import is_held, is_none_stored, sample_progress
from rmqctl.pipeline.tables.conditions import any_of, of_cluster
from rmqctl.pipeline.tables.delta import TableVersion
from rmqctl.pipeline.tables.hours import day_of
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS, arrow_schema, columns_of
from rmqctl.rules.progress import lag_state
from rmqctl.rules.totals import total

from .gone import Gone, GroupTopic

if TYPE_CHECKING:
    import pyarrow

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_MS = 253_402_300_799_999  # the last ms of the year 9999


class SnapshotRun(NamedTuple):
    """A run: its id, and when it began. Each row has the time of its broker's answer, or this one without an answer."""

    run_id: str
    at_ms: int


def default_run_id(now_ms: int) -> str:
    """Return a new run id, for example 20261122T105200.123Z-5f0a9c31; no two runs have the same."""
    return f"{_stamp(now_ms)}-{secrets.token_hex(4)}"


def _stamp(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y%m%dT%H%M%S}.{at_ms % 1000:03}Z"


def check_run_id(run_id: str) -> None:
    """Raise UsageError for an invalid run id."""
    if _RUN_ID.fullmatch(run_id) is None:
        raise UsageError(
            f"Invalid run id {run_id!r}.",
            hint="Use up to 64 ASCII letters, digits, dots, - and _, starting with a letter or a digit.",
        )


def sample_run(recorded: RecordedSample) -> SnapshotRun:
    """Return the run of a recorded sample: always the same one, in any file and however often it is imported."""
    sample = recorded.sample
    identity = "\0".join((recorded.cluster or "", sample.group, str(sample.at_ms)))
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return SnapshotRun(f"{_stamp(sample.at_ms)}-{digest[:16]}", sample.at_ms)


def find_runs(version: TableVersion | None, label: str, run_ids: Collection[str], days: Iterable[str] = ()) -> set[str]:
    """Return those runs of a cluster that the table has, on some days or at all."""
    if version is None:
        return set()
    where = [of_cluster(label)]
    if days:
        where.append(any_of("dt", sorted(days)))
    if len(run_ids) == 1:
        where.append(any_of("run_id", list(run_ids)))
    return version.values("run_id", " and ".join(where)) & set(run_ids)


# Rows


def progress_rows(progress: GroupProgress, run: SnapshotRun, label: str, fleet: FleetProgress) -> list[tuple[Any, ...]]:
    """Return a group's rows, with values in the table's column order."""
    is_configured = None if fleet.configured is None else progress.group in fleet.configured
    return [
        _row(
            progress.group,
            row,
            run,
            label,
            fleet.clusters.get(row.mq.broker_name),
            is_configured=is_configured,
            is_subscribed=False if row.mq.topic in progress.left else row.mq.topic in progress.subscribed or None,
        )
        for row in progress.rows
    ]


def gone_row(key: GroupTopic, run: SnapshotRun, label: str) -> tuple[Any, ...]:
    """Return the row that says that a group, or a topic of it, is gone."""
    values = {
        "cluster_label": label,
        "run_id": run.run_id,
        "snapshot_ts": run.at_ms * 1000,
        "consumer_group": _text(key.group),
        "topic": _text(key.topic),
        "lag_state": str(Gone.GROUP_GONE if key.topic is None else Gone.TOPIC_GONE),
        "dt": day_of(run.at_ms),
    }
    return tuple(values.get(name) for name in columns_of(OFFSET_SNAPSHOTS))


def sample_rows(recorded: RecordedSample, label: str) -> list[tuple[Any, ...]]:
    """Return the rows of a sample, with values in the table's column order."""
    run, group = sample_run(recorded), recorded.sample.group
    return [_row(group, row, run, label, recorded.cluster) for row in sample_progress(recorded)]


def _row(
    group: str,
    row: QueueProgress,
    run: SnapshotRun,
    label: str,
    cluster: str | None,
    *,
    is_subscribed: bool | None = None,
    is_configured: bool | None = None,
) -> tuple[Any, ...]:
    at_ms = run.at_ms if row.at_ms is None else row.at_ms
    return (
        label,
        run.run_id,
        at_ms * 1000,
        _text(cluster),
        _text(group),
        _text(row.mq.topic),
        _text(row.mq.broker_name),
        row.mq.queue_id,
        row.min_offset,
        row.max_offset,
        row.consumer_offset,
        row.lag,
        str(lag_state(row)),
        _micros(row.last_timestamp_ms),
        _text(row.client_ids[0]) if len(row.client_ids) == 1 else None,
        is_held(row),
        is_none_stored(row),
        is_subscribed,
        is_configured,
        day_of(at_ms),
    )


def _text(text: str | None) -> str | None:
    """Return a name that a table can store: half a surrogate pair becomes a question mark, as in Java."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _micros(at_ms: int | None) -> int | None:
    """Return a time in us, None for a value before 1970 or after the year 9999."""
    return at_ms * 1000 if at_ms is not None and 0 <= at_ms <= _MAX_MS else None


def arrow_rows(rows: Sequence[tuple[Any, ...]]) -> pyarrow.Table:
    """Return rows as an Arrow table with the table's own types."""
    import pyarrow as pa

    schema = arrow_schema(OFFSET_SNAPSHOTS)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def summary_row(
    group: str, state: str, queues: Sequence[QueueProgress], hidden: Unknown | None = None
) -> dict[str, Any]:
    """Summarise a group; `hidden` is the reason why some queues may have no row."""
    lag = total(((row.lag, str(row.reasons.get("lag"))) for row in queues), hidden=hidden, nothing="NEVER_COMMITTED")
    return {
        "group": group,
        "state": state,
        "queueCount": len(queues),
        "lag": lag.value,
        "lagAtLeast": lag.at_least,
        "unknownCount": sum(row.lag is None for row in queues),
        "leftTopics": [],
        "goneTopics": [],
    }


def gone_summary(group: str) -> dict[str, Any]:
    """Return the summary of a group that is gone."""
    return {**summary_row(group, "GONE", ()), "lag": None}


def most_behind(rows: Iterable[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return at most limit summaries, the largest lag first."""
    return sorted(rows, key=lambda row: (-row["lagAtLeast"], -row["unknownCount"], row["group"]))[:limit]
