"""The job `read`: reads a range of messages, and writes them to Parquet or a table, or shows them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmqctl.admin.messages.search import check_sql
from rmqctl.admin.results import all_failed
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.pipeline import FORMAT
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable, always
from rmqctl.pipeline.source.options import options_of, read_source_options
from rmqctl.protocol.properties import split_keys
from rmqctl.text.times import time_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_SHOWN_COUNT = 20
# The options of the source by their names on the command line.
_FLAGS = {
    "startingOffsets": "--since", "endingOffsets": "--until", "consumerGroup": "--group", "tags": "--tag",
    "topic": "--topic",
}  # fmt: skip
# Values that hardly ever repeat. Dictionaries of them, and comparisons of whole bodies, cost a quarter of the time for
# Parquet, and are abandoned or useless in the end.
_UNIQUE = ("body", "queue_offset", "commit_log_offset", "msg_id", "uniq_key", "body_crc")
_PARQUET = {f"parquet.enable.dictionary#{name}": "false" for name in _UNIQUE}
_PARQUET["parquet.column.statistics.enabled#body"] = "false"
_FLAG = re.compile(rf"(?:[Tt]he option )?\b({'|'.join(_FLAGS)})\b")


def source_options(access: Access, options: JobOptions) -> dict[str, str]:
    """Return the options of format("rocketmq") for the options of a run."""
    given = {
        "topic": ",".join(options.topics),
        "startingOffsets": options.since,
        "endingOffsets": options.until,
        "tags": options.tags,
        "sql": options.sql,
        "consumerGroup": options.groups[0] if options.groups else None,
    }
    return options_of(access) | {name: value for name, value in given.items() if value is not None}


def shown(row: Row) -> dict[str, Any]:
    """Return a message as in JSON; a body that is not UTF-8 is only in `bodyBase64`."""
    body: bytes = bytes(row.body) if row.body is not None else b""
    try:
        text: str | None = body.decode()
    except UnicodeDecodeError:
        text = None
    stored_ms = None if row.store_ms is None else int(row.store_ms)
    return {
        "topic": row.topic,
        "brokerName": row.broker_name,
        "queueId": row.queue_id,
        "queueOffset": row.queue_offset,
        **time_fields("storeTimestamp", stored_ms),
        "msgId": row.uniq_key or row.msg_id,
        "tags": row.tags,
        "keys": split_keys(row["keys"]),
        "bodySize": len(body),
        "body": text,
        "bodyBase64": None if text is not None else base64.b64encode(body).decode(),
    }


def _frame(spark: SparkSession, options: JobOptions) -> DataFrame:
    access = options.cluster()
    return spark.read.format(FORMAT).options(**source_options(access, options)).load()


def _check(options: JobOptions) -> None:
    if options.to is not None and options.to_table is not None:
        raise UsageError("--to and --to-table cannot be combined.")
    if options.overwrite and options.to is None and options.to_table is None:
        raise UsageError("--overwrite requires --to or --to-table.")
    if len(options.groups) > 1:
        raise UsageError(
            "The job read accepts only one --group.", hint="Name the group whose offsets --since or --until group uses."
        )
    try:
        read_source_options(source_options(options.cluster(), options), options.now_ms)
    except UsageError as error:
        raise error.reworded(_FLAG.sub(lambda match: _FLAGS[match.group(1)], error.sentence)) from None


async def _look(client: Client, options: JobOptions) -> None:
    for topic in options.topics:
        route = await fetch_route(client, topic)
        if options.sql is not None:
            failures = await check_sql(client, route, options.sql)
            if failures:
                raise all_failed(failure.error for failure in failures)


def _run(spark: SparkSession, options: JobOptions) -> JobResult:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    frame = _frame(spark, options)
    if options.to is None and options.to_table is None:
        wanted = frame.withColumn("store_ms", F.unix_millis("store_ts"))
        limit = options.limit or _SHOWN_COUNT
        rows = wanted.limit(limit + 1).collect()  # one more, to see whether there are more
        note = f"Showing at most {limit} messages; write all with --to."
        return JobResult(rows=[shown(row) for row in rows[:limit]], notes=(note,), is_cut=len(rows) > limit)
    if options.to_table is not None:
        _require_lasting(spark, options.to_table)
    counted = Observation("written")
    writer = frame.observe(counted, F.count(F.lit(1)).alias("row_count")).write
    writer = writer.mode("overwrite" if options.overwrite else "error")
    if options.to is not None:
        writer.options(**_PARQUET).parquet(options.to)
    elif options.to_table is not None:
        writer.saveAsTable(options.to_table)
    found: Mapping[str, Any] = counted.get
    return JobResult(
        row_count=found["row_count"], written=(WrittenTable(options.to or str(options.to_table), found["row_count"]),)
    )


def _require_lasting(spark: SparkSession, table: str) -> None:
    """Raise UsageError for a catalog in memory, which would lose the table at the end of this session."""
    is_elsewhere = spark.conf.get(f"spark.sql.catalog.{table.partition('.')[0]}", None) is not None
    if not is_elsewhere and spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
        raise UsageError(
            f"--to-table {table} would be lost: the catalog of this session is in memory.",
            hint="Set a catalog with --conf (spark.sql.catalogImplementation=hive), or write with --to DIR.",
        )


JOB = Job(
    name="read",
    takes=frozenset({"topics", "groups", "since", "until", "tags", "sql", "to", "to_table", "overwrite"}),
    needs=frozenset({"topics"}),
    fields=(
        ReportField("topic", "TOPIC"),
        ReportField("brokerName", "BROKER"),
        ReportField("queueId", "QUEUE", ValueKind.NUMBER),
        ReportField("queueOffset", "OFFSET", ValueKind.NUMBER),
        ReportField("storeTimestamp", "STORED", ValueKind.TIME),
        ReportField("msgId", "ID"),
        ReportField("tags", "TAG"),
        ReportField("bodySize", "BYTES", ValueKind.NUMBER),
        ReportField("body", "BODY", is_wide=True),
    ),
    asks_cluster=always,
    check=_check,
    look=_look,
    run=_run,
)
