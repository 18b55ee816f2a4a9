"""The tables of the pipeline: their names, columns and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmqctl.errors import UsageError

OFFSET_SNAPSHOTS = "offset_snapshots"
LAG_TREND = "lag_trend"
AUDIT = "audit"
DEAD_LETTERS = "dead_letters"
ALLOC_WHATIF = "alloc_whatif"
SLO_WEEKS = "slo_weeks"

# Columns and their types for Spark; all can be null. `cluster_label` is given, else the name servers; `cluster` is the
# name that brokers have for their cluster, often the same in several. `dt` is the day in UTC, by which each table is
# partitioned.
SCHEMAS = {
    OFFSET_SNAPSHOTS: (
        "cluster_label string, run_id string, snapshot_ts timestamp, cluster string, consumer_group string,"
        " topic string, broker_name string, queue_id int, min_offset bigint, max_offset bigint,"
        " consumer_offset bigint, lag_messages bigint, lag_state string, last_consume_ts timestamp, client_id string,"
        " is_held boolean, is_none_stored boolean, is_subscribed boolean, is_configured boolean,"
        " dt string"
    ),
    LAG_TREND: (
        "cluster_label string, window_s int, window_start timestamp, window_end timestamp, cluster string,"
        " consumer_group string, topic string, broker_name string, queue_id int, sample_count int, known_count int,"
        " lag_first bigint, lag_last bigint, lag_max bigint, lag_avg double, slope_msgs_per_s double,"
        " produce_rate double, consume_rate double, eta_s double, growth_per_minute bigint, burrow_rule int,"
        " status string, cause string, is_stuck boolean, still_from_ts timestamp, behind_lowest bigint,"
        " behind_last bigint, offset_last bigint, offset_highest bigint, lost_highest bigint,"
        " has_max_gone_back boolean, client_id string, client_ids array<string>, owner_change_count int, dt string"
    ),
    ALLOC_WHATIF: (
        "cluster_label string, snapshot_ts timestamp, run_id string, cluster string, consumer_group string,"
        " topics array<string>, strategy string, change string, state string, reason_code string, reason string,"
        " queue_count int, client_count int, least_queues int, most_queues int, queue_deviation double,"
        " queue_imbalance double, lag_messages bigint, least_lag bigint, most_lag bigint, lag_deviation double,"
        " lag_imbalance double, queue_imbalance_before double, lag_imbalance_before double, moved_count int,"
        " most_moved_count int, added_count int, removed_count int, idle_client_count int, unowned_count int,"
        " shared_count int, concern_codes array<string>, concerns string, dt string"
    ),
    AUDIT: (
        "cluster_label string, window_start timestamp, consumer_group string, tier string, state string,"
        " count bigint, distinct_uniq_key bigint, duplicate_count bigint, lost_count bigint, skipped_count bigint,"
        " untraced_count bigint, waiting_count bigint,"
        " failed_count bigint, filtered_count bigint, unknown_count bigint, p50_latency_ms bigint,"
        " p99_latency_ms bigint, topic string, dt string"
    ),
    DEAD_LETTERS: (
        "cluster_label string, store_ts timestamp, born_ts timestamp, origin_topic string, tags string, keys string,"
        " uniq_key string, origin_msg_id string, reason string, reconsume_times int, max_reconsume_times int,"
        " topic string, broker_name string, queue_id int, queue_offset bigint, msg_id string, body_size_bytes int,"
        " consumer_group string, dt string"
    ),
    SLO_WEEKS: (
        "cluster_label string, week_start timestamp, measured_until timestamp, consumer_group string, max_lag bigint,"
        " max_time_lag_ms bigint, objective double, state string, within double, budget_left double, within_ms bigint,"
        " outside_ms bigint, outside_count int, outside_max_ms bigint, unknown_ms bigint, unmeasured_ms bigint,"
        " absent_ms bigint, lag_max bigint, time_lag_max_ms bigint, dt string"
    ),
}
# The column of each table whose bounds tell which files a range of time needs.
TIMES = {
    OFFSET_SNAPSHOTS: "snapshot_ts",
    LAG_TREND: "window_start",
    ALLOC_WHATIF: "snapshot_ts",
    AUDIT: "window_start",
    DEAD_LETTERS: "store_ts",
    SLO_WEEKS: "week_start",
}


def columns_of(name: str) -> dict[str, str]:
    """Return the columns of a table with their types for Spark."""
    return dict(part.split(" ") for part in SCHEMAS[name].split(", "))


def arrow_schema(name: str, columns: Sequence[str] | None = None) -> Any:
    """Return the columns of a table as a schema of Arrow: all, or some of them in the given order."""
    import pyarrow as pa

    types = {
        "string": pa.string(), "timestamp": pa.timestamp("us", tz="UTC"), "int": pa.int32(), "bigint": pa.int64(),
        "double": pa.float64(), "boolean": pa.bool_(), "array<string>": pa.list_(pa.string()),
    }  # fmt: skip
    kinds = columns_of(name)
    return pa.schema([pa.field(column, types[kinds[column]]) for column in columns or kinds])


def table_path(folder: str | None, name: str) -> str:
    """Return the path of a table. Raises UsageError without a folder."""
    if not folder:
        raise UsageError("--tables is missing.", hint="Add --tables DIR, the folder or URI of the tables.")
    return f"{folder.rstrip('/')}/{name}"
