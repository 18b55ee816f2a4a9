"""Tables of the pipeline: Parquet in one folder, plain enough for duckdb and polars, partitioned by UTC hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqctl.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFSET_SNAPSHOTS = "offset_snapshots"
LAG_TREND = "lag_trend"
AUDIT = "audit"
DEAD_LETTERS = "dead_letters"
ALLOC_WHATIF = "alloc_whatif"

# Columns and their types for Spark; all can be null. The partitions' columns come last, as Spark reads them back.
SCHEMAS = {
    OFFSET_SNAPSHOTS: (
        "run_id string, snapshot_ts timestamp, cluster string, consumer_group string, topic string, broker_name string,"
        " queue_id int, min_offset bigint, max_offset bigint, consumer_offset bigint, lag_messages bigint,"
        " last_consume_ts timestamp, client_id string, is_held boolean, is_none_stored boolean,"
        " dt string, hr int, part string"
    ),
    LAG_TREND: (
        "window_start timestamp, window_end timestamp, cluster string, consumer_group string, topic string,"
        " broker_name string, queue_id int, sample_count int, known_count int, lag_first bigint, lag_last bigint,"
        " lag_max bigint, lag_avg double, slope_msgs_per_s double, produce_rate double, consume_rate double,"
        " eta_s double, growth_per_minute bigint, burrow_rule int, status string, cause string, is_stuck boolean,"
        " still_from_ts timestamp, behind_lowest bigint, behind_last bigint, offset_last bigint, offset_highest bigint,"
        " lost_highest bigint, has_max_gone_back boolean, client_id string, client_ids array<string>,"
        " owner_change_count int, window_s int, dt string, hr int"
    ),
    ALLOC_WHATIF: (
        "snapshot_ts timestamp, run_id string, cluster string, consumer_group string, topics array<string>,"
        " strategy string, change string, state string, reason_code string, reason string, queue_count int,"
        " client_count int, least_queues int, most_queues int, queue_deviation double, queue_imbalance double,"
        " lag_messages bigint, least_lag bigint, most_lag bigint, lag_deviation double, lag_imbalance double,"
        " queue_imbalance_before double, lag_imbalance_before double, moved_count int, most_moved_count int,"
        " added_count int, removed_count int, idle_client_count int, unowned_count int, shared_count int,"
        " concern_codes array<string>, concerns string, dt string, hr int"
    ),
    AUDIT: (
        "window_start timestamp, consumer_group string, tier string, state string, count bigint,"
        " distinct_uniq_key bigint, duplicate_count bigint, lost_count bigint, waiting_count bigint,"
        " failed_count bigint, filtered_count bigint, unknown_count bigint, p50_latency_ms bigint,"
        " p99_latency_ms bigint, dt string, hr int, topic string"
    ),
    DEAD_LETTERS: (
        "store_ts timestamp, born_ts timestamp, origin_topic string, tags string, keys string, uniq_key string,"
        " origin_msg_id string, reason string, reconsume_times int, max_reconsume_times int, topic string,"
        " broker_name string, queue_id int, queue_offset bigint, msg_id string, body_size_bytes int,"
        " dt string, hr int, consumer_group string"
    ),
}
PARTITIONS = {
    OFFSET_SNAPSHOTS: ("dt", "hr", "part"),
    # Windows of one length do not replace those of another.
    LAG_TREND: ("window_s", "dt", "hr"),
    ALLOC_WHATIF: ("dt", "hr"),
    # A run is for some topics, or some groups: the others of the same hour stay.
    AUDIT: ("dt", "hr", "topic"),
    DEAD_LETTERS: ("dt", "hr", "consumer_group"),
}


def table_path(folder: str | None, name: str) -> str:
    """Return the path of a table. Raises UsageError without a folder."""
    if not folder:
        raise UsageError("--tables is missing.", hint="Add --tables DIR, the folder or URI of the tables.")
    return f"{folder.rstrip('/')}/{name}"


def replace_partitions(frame: DataFrame, path: str, partitions: Sequence[str]) -> None:
    """Write rows, replacing those of the same partitions; all other partitions stay unchanged."""
    writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*partitions).parquet(path)


def read_table(spark: SparkSession, path: str, schema: str) -> DataFrame:
    """Return a table's rows. Raises NotFoundError when the table does not exist."""
    from pyspark.errors import AnalysisException

    try:
        frame = spark.read.schema(schema).parquet(path)
        # Spark Connect checks a path only on first use.
        _ = frame.columns
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        hint = "Create it with rmqctl pipeline run snapshot." if path.endswith(OFFSET_SNAPSHOTS) else None
        raise NotFoundError("Table", path, hint=hint) from None
    return frame
