"""The job `dlq-report`: dead letters by group, origin topic, tag, reason and time, with samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rmqctl.admin.messages.trace import fetch_trace
from rmqctl.admin.results import all_failed, ask_all
from rmqctl.admin.topics.queues import fetch_route, find_route
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.names import DLQ_PREFIX
from rmqctl.model.trace import TraceEvent
from rmqctl.pipeline import FORMAT
from rmqctl.pipeline.asking import ask_cluster
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable, always
from rmqctl.pipeline.jobs.retained_offsets import fetch_held_since, fetch_retained
from rmqctl.pipeline.source.options import options_of
from rmqctl.pipeline.tables.conditions import any_of, between, of_cluster
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.frames import replace_rows
from rmqctl.pipeline.tables.hours import ceil_hour_ms, floor_hour_ms
from rmqctl.pipeline.tables.schemas import DEAD_LETTERS
from rmqctl.text.times import iso_time, time_fields
from rmqctl.text.wildcards import require_matching
from rmqctl.text.words import agreeing, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_SHOWN_COUNT = 20
_EXCERPT_LENGTH = 80


class _Found(Struct, frozen=True):
    """The dead-letter topics with messages, and how many topics could be read; `failures` are the others.

    `brokers` are those that were read: the rows of others stay in the table.
    """

    topics: tuple[str, ...]
    brokers: tuple[str, ...]
    topic_count: int
    held_since_ms: int
    failures: tuple[Failure, ...]


def _range(options: JobOptions) -> tuple[int, int]:
    since_ms, until_ms = options.time_ms("since", 0), options.time_ms("until", options.now_ms)
    if until_ms <= since_ms:
        raise UsageError("--until must be after --since.")
    return since_ms, until_ms


def _check(options: JobOptions) -> None:
    _range(options)


async def _look(client: Client, options: JobOptions) -> None:
    await _names(client, options.groups)
    if options.trace_topic is not None:
        await fetch_route(client, options.trace_topic)


async def _names(client: Client, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the dead-letter topics of the groups that match patterns, or of all groups. Raises NotFoundError."""
    groups = [name.removeprefix(DLQ_PREFIX) for name in await client.topic_names() if name.startswith(DLQ_PREFIX)]
    if patterns:
        try:
            groups = list(require_matching("Group", patterns, groups))
        except NotFoundError as error:
            none_yet = "Brokers create it with the first dead letter of a group, so it may not exist yet."
            hint = None if error.suggestions else none_yet
            kind = "The dead-letter topic of"
            raise NotFoundError(kind, error.wanted, suggestions=error.suggestions, hint=hint) from None
    return tuple(DLQ_PREFIX + group for group in sorted(groups))


async def _ask(client: Client, options: JobOptions) -> _Found:
    names = await _names(client, options.groups)
    retained = await fetch_retained(client, names)
    if retained.failures and not retained.spans:
        raise all_failed(failure.error for failure in retained.failures.values())
    spans = [span for each in retained.spans.values() for span in each]
    return _Found(
        topics=retained.filled_topics(),
        brokers=tuple(sorted({span.mq.broker_name for span in spans})),
        topic_count=len(retained.spans),
        held_since_ms=await fetch_held_since(client, spans, options.now_ms),
        failures=tuple(retained.failures.values()),
    )


def _run(spark: SparkSession, options: JobOptions) -> JobResult:
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    from . import rows

    access = options.cluster()
    since_ms, until_ms = _range(options)
    found = ask_cluster(access, partial(_ask, options=options))
    if not found.topics:
        return _nothing(found, options, since_ms, until_ms)
    messages = _read(spark, access, found.topics, rows.MESSAGES, since_ms, until_ms, options.now_ms)
    letters = rows.dead_letters(messages).persist()
    kept = [letters]
    try:
        written = () if options.tables is None else _write(letters, options, found, since_ms, until_ms)
        wanted = letters.where((F.col("store_ms") >= since_ms) & (F.col("store_ms") < until_ms))
        limit = options.limit or _SHOWN_COUNT
        kinds = rows.by_kind(wanted).coalesce(1).persist()
        again = rows.twice(wanted).coalesce(1).persist()
        kept += [kinds, again]
        count, groups = F.sum("count").alias("letters"), F.countDistinct("consumer_group").alias("groups")
        (totals,) = kinds.agg(F.count("*").alias("rows"), count, groups).collect()
        items = [_item(row) for row in kinds.limit(limit).collect()]
        hours = rows.by_hour(wanted).orderBy("hour_ms", "consumer_group").collect()
        twice_count = again.count()
        twice = [_twice(row) for row in again.orderBy(F.col("count").desc(), "origin").limit(limit).collect()]
    finally:
        for frame in reversed(kept):
            frame.unpersist()
    if not totals.rows:
        return _nothing(found, options, since_ms, until_ms, written)
    ask_results = partial(_last_results, items=items, trace_topic=options.traces())
    results = ask_cluster(access, ask_results)
    for item in items:
        item["lastResult"] = results.get((item["group"], item["sample"]["msgId"]))
    facts = {
        **_period(since_ms, until_ms, found),
        "deadLetterCount": totals.letters,
        "groupCount": totals.groups,
        "twiceCount": twice_count,
        "byHour": [
            {**time_fields("hour", row.hour_ms), "group": row.consumer_group, "count": row["count"]} for row in hours
        ],
        "twice": twice,
    }
    return JobResult(
        rows=items, row_count=totals.rows, facts=facts, written=written,
        notes=tuple(_notes(facts, items, totals.rows, found, options)), failures=found.failures,
    )  # fmt: skip


def _read(
    spark: SparkSession, access: Access, topics: Sequence[str], schema: str, since_ms: int, until_ms: int, now_ms: int
) -> DataFrame:
    """Return the messages of the whole hours around a time range, because the table has only whole hours."""
    given = options_of(access) | {"topic": ",".join(topics)}
    if since_ms > 0:
        given["startingOffsets"] = str(iso_time(floor_hour_ms(since_ms)))
    if ceil_hour_ms(until_ms) < now_ms:
        given["endingOffsets"] = str(iso_time(ceil_hour_ms(until_ms)))
    return spark.read.format(FORMAT).schema(schema).options(**given).load()


def _write(
    letters: DataFrame, options: JobOptions, found: _Found, since_ms: int, until_ms: int
) -> tuple[WrittenTable, ...]:
    """Replace the hours that brokers still retain completely; a partly deleted hour would only lose rows."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    table, label = Table(options.tables, DEAD_LETTERS), options.label()
    first_ms = max(floor_hour_ms(since_ms), ceil_hour_ms(found.held_since_ms))
    end_ms = ceil_hour_ms(until_ms)
    whole = letters.where((F.col("store_ms") >= first_ms) & (F.col("store_ms") < end_ms))
    # A broker can have come back since then, with only a part of its dead letters read.
    whole = whole.where(F.col("broker_name").isin(*found.brokers))
    groups = [topic.removeprefix(DLQ_PREFIX) for topic in found.topics]
    where = [
        of_cluster(label),
        any_of("consumer_group", groups),
        any_of("broker_name", found.brokers),
        between("store_ts", first_ms, end_ms),
    ]
    rows = whole.withColumn("cluster_label", F.lit(label))
    return (WrittenTable(table.root, replace_rows(table, rows, " and ".join(where))),)


async def _last_results(
    client: Client, items: Sequence[Mapping[str, Any]], trace_topic: str
) -> dict[tuple[str, str], str | None]:
    """Return the last consume result of each sample according to its group's traces, None when it is unknown."""
    if await find_route(client, trace_topic) is None:
        return {}
    keys = {(item["group"], item["sample"]["msgId"]) for item in items}

    async def ask(key: tuple[str, str]) -> str | None:
        group, msg_id = key
        trace = await fetch_trace(client, trace_topic, key=msg_id)
        ended = [
            step for step in trace.steps
            if step.event is TraceEvent.DELIVERED and step.result is not None
            # Clients write groups without their namespace.
            and step.group in (group, group.partition("%")[2])
        ]  # fmt: skip
        return ended[-1].result if ended else None

    return dict((await ask_all(keys, ask, at_once=8)).ok)


def safe_text(body: bytes) -> str:
    """Return the start of a body as text that is safe to display: one line of printable characters."""
    text = "".join(sign if sign.isprintable() else "·" for sign in body.decode(errors="replace"))
    return text if len(text) <= _EXCERPT_LENGTH else text[:_EXCERPT_LENGTH] + "…"


def _item(row: Row) -> dict[str, Any]:
    newest = row.newest
    return {
        "group": row.consumer_group,
        "originTopic": row.origin_topic,
        "tags": row.tags,
        "reason": row.reason,
        "count": row["count"],
        "messageCount": row.message_count,
        "leastReconsumeTimes": row.least_reconsume_times,
        "mostReconsumeTimes": row.most_reconsume_times,
        "maxReconsumeTimes": row.max_reconsume_times,
        **time_fields("firstStoreTimestamp", row.first_ms),
        **time_fields("lastStoreTimestamp", row.last_ms),
        "lastResult": None,
        "keys": newest["keys"],
        "place": _place_words(newest),
        "excerpt": safe_text(bytes(newest.excerpt or b"")),
        "sample": {**_place(newest), "msgId": newest.uniq_key or newest.msg_id},
    }


def _place(place: Row) -> dict[str, Any]:
    return {
        "brokerName": place.broker_name,
        "queueId": place.queue_id,
        "queueOffset": place.queue_offset,
        **time_fields("storeTimestamp", place.store_ms),
    }


def _place_words(place: Row) -> str:
    return f"{place.broker_name}:{place.queue_id} {place.queue_offset}"


def _twice(row: Row) -> dict[str, Any]:
    return {
        "group": row.consumer_group,
        "originTopic": row.origin_topic,
        "originMsgId": row.origin,
        "msgId": row.uniq_key,
        "count": row["count"],
        "places": [_place(place) for place in row.places[:_SHOWN_COUNT]],
    }


def _period(since_ms: int, until_ms: int, found: _Found) -> dict[str, Any]:
    return {
        **time_fields("since", since_ms or None),
        **time_fields("until", until_ms),
        "topicCount": found.topic_count,
        "filledTopicCount": len(found.topics),
        **time_fields("heldSince", found.held_since_ms or None),
    }


def _nothing(
    found: _Found, options: JobOptions, since_ms: int, until_ms: int, written: tuple[WrittenTable, ...] = ()
) -> JobResult:
    whose = f" of {' '.join(options.groups)}" if options.groups else ""
    when = " in that time" if options.since is not None or options.until is not None else ""
    if found.topic_count:
        why = f"{counted(found.topic_count, 'dead-letter topic', 'was')} checked"
    else:
        why = "no group has a dead-letter topic"
    note = f"There are no dead letters{whose}{when}: {why}."
    facts = {**_period(since_ms, until_ms, found), "deadLetterCount": 0, "groupCount": 0, "twiceCount": 0}
    facts |= {"byHour": [], "twice": []}
    return JobResult(row_count=0, facts=facts, written=written, notes=(note,), failures=found.failures)


def _notes(
    facts: Mapping[str, Any], items: Sequence[Mapping[str, Any]], row_count: int, found: _Found, options: JobOptions
) -> list[str]:
    letters, groups = counted(facts["deadLetterCount"], "dead letter"), counted(facts["groupCount"], "group")
    topics = f"{facts['filledTopicCount']} of {counted(facts['topicCount'], 'dead-letter topic')}"
    notes = [f"{letters} of {groups}; {topics} {agreeing(facts['filledTopicCount'], 'has')} messages."]
    if facts["twice"]:
        first = facts["twice"][0]
        places = " and ".join(f"{at['brokerName']}:{at['queueId']} {at['queueOffset']}" for at in first["places"][:2])
        notes.append(
            f"{counted(facts['twiceCount'], 'message')} became a dead letter of the same group more than once, for"
            f" example {first['originMsgId']} of {first['group']} ({first['count']} times: {places})."
            " Replay each of them only once."
        )
    if options.tables is not None and found.held_since_ms:
        notes.append(
            f"Brokers retain all dead letters only since {facts['heldSinceIso']}: hours that started before that stay"
            " unchanged in the table."
        )
    if len(items) < row_count:
        notes.append(f"Showing {len(items)} of {counted(row_count, 'row')}, those with the most dead letters.")
    return notes


JOB = Job(
    name="dlq-report",
    takes=frozenset({"cluster_label", "groups", "since", "until", "tables", "trace_topic"}),
    fields=(
        ReportField("group", "GROUP"),
        ReportField("originTopic", "ORIGIN"),
        ReportField("tags", "TAG"),
        ReportField("reason", "REASON"),
        ReportField("count", "COUNT", ValueKind.NUMBER),
        ReportField("messageCount", "MESSAGES", ValueKind.NUMBER, is_wide=True),
        ReportField("mostReconsumeTimes", "RECONSUMED", ValueKind.NUMBER),
        ReportField("maxReconsumeTimes", "MAX-RECONSUME", ValueKind.NUMBER, is_wide=True),
        ReportField("firstStoreTimestamp", "FIRST", ValueKind.TIME, is_wide=True),
        ReportField("lastStoreTimestamp", "LAST", ValueKind.TIME, gives_way=True),
        ReportField("lastResult", "RESULT", is_wide=True),
        ReportField("place", "NEWEST"),
        ReportField("keys", "KEYS", gives_way=True),
        ReportField("excerpt", "BODY", is_wide=True),
    ),
    asks_cluster=always,
    check=_check,
    look=_look,
    run=_run,
)
