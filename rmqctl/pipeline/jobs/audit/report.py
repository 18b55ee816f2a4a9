"""The report of an audit: rows, totals, samples, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmqctl.pipeline.jobs.definition import JobOptions, JobResult
from rmqctl.text.times import time_fields
from rmqctl.text.wildcards import matching
from rmqctl.text.words import counted

from .start import AuditStart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from .rows import AuditSpan

SHOWN_COUNT = 20

_COUNTS = {
    "count": "count",
    "distinct_uniq_key": "distinctCount",
    "duplicate_count": "duplicateCount",
    "lost_count": "lostCount",
    "skipped_count": "skippedCount",
    "untraced_count": "untracedCount",
    "waiting_count": "waitingCount",
    "failed_count": "failedCount",
    "filtered_count": "filteredCount",
    "unknown_count": "unknownCount",
    "p50_latency_ms": "p50LatencyMs",
    "p99_latency_ms": "p99LatencyMs",
}
_SUMMED = (
    "count", "distinct_uniq_key", "duplicate_count", "lost_count", "skipped_count", "untraced_count", "waiting_count",
    "failed_count", "unknown_count",
)  # fmt: skip


def audit_outcome(windows: DataFrame, samples: DataFrame, options: JobOptions, span: AuditSpan) -> JobResult:
    """Return rows and facts of the selected groups, the worst rows first."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    if options.groups:
        names = [row.consumer_group for row in windows.select("consumer_group").distinct().collect()]
        chosen = list(matching(options.groups, [name for name in names if name is not None]))
        is_chosen = F.col("consumer_group").isNull() | F.col("consumer_group").isin(chosen)
        windows, samples = windows.where(is_chosen), samples.where(is_chosen)
    sums = (F.sum(name).alias(name) for name in _SUMMED)
    totals = windows.groupBy("tier", "state").agg(
        *sums, F.countDistinct("window_start").alias("window_count"), F.count("*").alias("row_count")
    )
    found = totals.collect()

    def total(tier: str, name: str) -> int | None:
        known = [row[name] for row in found if row.tier == tier and row[name] is not None]
        return sum(known) if known else None

    def window_count(state: str) -> int:
        # Each window has a row in the tier stored, even when it only has messages that should be stored.
        return sum(row.window_count for row in found if (row.tier, row.state) == ("stored", state))

    bad = ("lost_count", "untraced_count", "duplicate_count")
    worst_first = sum((F.coalesce(name, F.lit(0)) for name in bad), F.lit(0))
    tier = F.expr("array_position(array('produced', 'stored', 'consumed'), tier)")
    order = (worst_first.desc(), F.col("window_start"), F.col("topic"), tier, F.col("consumer_group"))
    shown = windows.withColumn("start_ms", F.unix_millis("window_start")).orderBy(*order)
    facts: dict[str, Any] = {
        **time_fields("since", span.since_ms),
        **time_fields("until", span.until_ms),
        **time_fields("heldSince", span.held_since_ms or None),
        **{f"{state.lower()}WindowCount": window_count(state) for state in ("CLOSED", "OPEN", "CUT")},
        **{name: total(tier, column) for name, (tier, column) in _FACTS.items()},
        **{
            f"untraced{tier.title()}Share": _share(
                *(total(tier, name) for name in ("untraced_count", "distinct_uniq_key", "failed_count"))
            )
            for tier in ("produced", "consumed")
        },
        "samples": [_sample(row) for row in samples.collect()],
    }
    return JobResult(
        rows=[_item(row) for row in shown.limit(options.limit or SHOWN_COUNT).collect()],
        row_count=sum(row.row_count for row in found),
        facts=facts,
    )


_FACTS = {
    "producedCount": ("produced", "count"),
    "producedTwiceCount": ("produced", "duplicate_count"),
    "untracedProducedCount": ("produced", "untraced_count"),
    "notTracedAsProducedCount": ("produced", "unknown_count"),
    "storedCount": ("stored", "count"),
    "storedTwiceCount": ("stored", "duplicate_count"),
    "notStoredCount": ("stored", "lost_count"),
    "notStoredYetCount": ("stored", "waiting_count"),
    "consumedCount": ("consumed", "count"),
    "consumedTwiceCount": ("consumed", "duplicate_count"),
    "notConsumedCount": ("consumed", "lost_count"),
    "skippedCount": ("consumed", "skipped_count"),
    "untracedConsumedCount": ("consumed", "untraced_count"),
    "notConsumedYetCount": ("consumed", "waiting_count"),
    "failedCount": ("consumed", "failed_count"),
    "notKnownConsumedCount": ("consumed", "unknown_count"),
}


def _item(row: Row) -> dict[str, Any]:
    return {
        **time_fields("windowStart", row.start_ms),
        "topic": row.topic,
        "tier": row.tier,
        "group": row.consumer_group,
        "state": row.state,
        **{key: row[name] for name, key in _COUNTS.items()},
        "untracedShare": _share(row.untraced_count, row.distinct_uniq_key, row.failed_count),
    }


def _share(untraced_count: int | None, distinct_count: int | None, failed_count: int | None) -> float | None:
    """Return the share of sent or consumed messages that have no trace, None when it is unknown."""
    if untraced_count is None or distinct_count is None or failed_count is None:
        return None
    count = untraced_count + distinct_count + failed_count
    return round(untraced_count / count, 6) if count else None


def _sample(row: Row) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "topic": row.topic,
        "group": row.consumer_group,
        "msgId": row.id,
        **time_fields("bornTimestamp", row.born_ms),
        "times": row.times,
        "places": [
            {"brokerName": place.broker_name, "queueId": place.queue_id, "queueOffset": place.queue_offset}
            for place in row.places or ()
        ],
    }


_TOLD = {
    "STORED_TWICE": ("storedTwiceCount", "extra copy was", "extra copies were", "stored"),
    "CONSUMED_TWICE": (
        "consumedTwiceCount",
        "delivery was",
        "deliveries were",
        "for a message that the group had already consumed",
    ),
    "NOT_STORED": ("notStoredCount", "message was", "messages were", "sent according to the producer, but not stored"),
    "NOT_CONSUMED": (
        "notConsumedCount",
        "message is",
        "messages are",
        "before the offset of a group, and were not delivered to it",
    ),
    "SKIPPED": (
        "skippedCount",
        "message was",
        "messages were",
        "skipped by changes of offsets (rmqctl offset history)",
    ),
    "PASSED_UNTRACED": (
        "untracedConsumedCount",
        "message is",
        "messages are",
        "before the offset of a group, without a trace of the delivery: the trace was lost, or the message was skipped",
    ),
}


def audit_notes(outcome: JobResult, found: AuditStart, options: JobOptions, *, has_messages: bool) -> list[str]:
    """Return notes that explain the numbers."""
    facts = outcome.facts
    notes = []
    for kind, (fact, one, several, words) in _TOLD.items():
        if facts[fact]:
            examples = [_place_words(sample) for sample in facts["samples"] if sample["kind"] == kind]
            such = f", for example {examples[0]}" if examples else ""
            notes.append(f"{facts[fact]} {one if facts[fact] == 1 else several} {words}{such}.")
    if not has_messages:
        notes.append("The topics have no messages in this time range.")
    if not found.has_traces:
        notes.append(
            f"The trace topic {options.traces()} does not exist, so it is unknown what was produced and consumed."
            " Use --trace-topic to name another one."
        )
    elif facts["notTracedAsProducedCount"]:
        count = counted(facts["notTracedAsProducedCount"], "message")
        notes.append(
            f"No producer traced {count}, so it is unknown whether other messages were lost before they were stored."
        )
    for side, verb in (("Produced", "sent"), ("Consumed", "passed")):
        count, share = facts[f"untraced{side}Count"], facts[f"untraced{side}Share"]
        if count and share:
            such = counted(count, "message")
            notes.append(f"Clients that write traces have none for {such} that they {verb} ({100 * share:.2g} %).")
    if facts["notKnownConsumedCount"]:
        count = counted(facts["notKnownConsumedCount"], "pair")
        notes.append(
            f"For {count} of a message and a group, it is unknown whether the group got the message."
            " Either the group writes no traces, is offline (its filter is unknown) or stores its offsets locally,"
            " or the message was sent in a batch, whose deliveries 5.x clients do not trace."
        )
    if facts["openWindowCount"]:
        notes.append(
            f"{counted(facts['openWindowCount'], 'window')} ended less than 5 minutes ago: losses are not counted"
            " there yet."
        )
    if facts["cutWindowCount"]:
        unwritten = " and not written to the table" if options.tables is not None else ""
        notes.append(
            f"Brokers retain all messages only since {facts['heldSinceIso']}: losses in the"
            f" {counted(facts['cutWindowCount'], 'window')} before that are unknown{unwritten}."
        )
    if outcome.row_count is not None and len(outcome.rows) < outcome.row_count:
        notes.append(f"Showing {len(outcome.rows)} of {counted(outcome.row_count, 'row')}, the worst first.")
    return notes


def _place_words(sample: Mapping[str, Any]) -> str:
    places = [f"{each['brokerName']}:{each['queueId']} {each['queueOffset']}" for each in sample["places"][:2]]
    where = f" at {' and '.join(places)}" if places else ""
    group = f", group {sample['group']}" if sample["group"] is not None else ""
    return f"{sample['msgId']} ({sample['topic']}{where}{group})"
