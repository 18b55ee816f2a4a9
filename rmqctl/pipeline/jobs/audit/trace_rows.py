"""Bodies of trace messages as rows: does for whole tables what protocol/trace.py does one by one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

from .trace_ids import missing_numbers

_RECORD_END, _FIELD_END, _IDS_END = "\x02", "\x01", ","
TRACES = "body binary, uniq_key string"
_KINDS = ("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall")
# MessageType, by ordinal.
_TRANS_HALF, _DELAY = 1, 3


def trace_records(traces: DataFrame) -> DataFrame:
    """Return the records in the columns TRACES of trace messages, one per row: kind, trace_id, and the needed fields.

    Fields that a kind does not have, and invalid numbers, are null. Kinds that are not needed are left out.
    """
    text = F.make_valid_utf8(F.col("body").cast("string"))
    records = traces.select("uniq_key", F.explode(F.split(text, _RECORD_END)).alias("record"))
    records = records.select("uniq_key", F.split(F.col("record"), _FIELD_END).alias("fields"))
    records = records.withColumn("kind", F.trim(F.col("fields")[0])).where(F.col("kind").isin(*_KINDS))

    def where(**places: int) -> Column:
        """Return a field whose place depends on the kind."""
        at = F.lit(None).cast("int")
        for kind, place in places.items():
            at = F.when(F.col("kind") == kind, place).otherwise(at)
        return F.get("fields", at)

    return records.select(
        "kind",
        F.col("uniq_key").alias("trace_id"),
        _text(where(Pub=4, EndTransaction=4, Recall=4)).alias("topic"),
        _text(where(Pub=5, SubBefore=5, SubAfter=2, EndTransaction=5, Recall=5)).alias("id"),
        _text(where(SubBefore=3, SubAfter=8)).alias("consumer_group"),
        _text(where(SubBefore=4, SubAfter=1)).alias("request_id"),
        _number(where(Pub=1, SubBefore=1, SubAfter=7)).alias("at_ms"),
        _number(where(Pub=10, SubAfter=3)).alias("cost_ms"),
        _number(where(Pub=11)).alias("message_type"),
        _number(where(SubBefore=6)).alias("retry_times"),
        where(Pub=12).alias("offset_msg_id"),
        (where(Pub=13, SubAfter=4, Recall=6) == "true").alias("is_success"),
        where(EndTransaction=11).alias("decision"),
    )


def publications(records: DataFrame) -> DataFrame:
    """Return what producers sent, one row per message: topic, id, at_ms, cost_ms, is_success, is_delayed, is_half.

    A batch has one record for all its messages. A duplicate record counts once. Topics have the names that clients use,
    without a namespace.
    """
    fields = ["topic", "id", "at_ms", "cost_ms", "message_type", "is_success"]
    sent = records.where(F.col("kind") == "Pub").dropna(subset=fields).dropDuplicates([*fields, "offset_msg_id"])
    return sent.select(
        "topic",
        F.explode(F.split("id", _IDS_END)).alias("id"),
        "at_ms",
        "cost_ms",
        "is_success",
        (F.col("message_type") == _DELAY).alias("is_delayed"),
        (F.col("message_type") == _TRANS_HALF).alias("is_half"),
    )


def decisions(records: DataFrame) -> DataFrame:
    """Return the outcome of half and delayed messages, one row per message: topic, id, is_committed, is_withdrawn.

    Withdrawn are half messages that were rolled back, and delayed ones that were recalled.
    """
    is_recalled = (F.col("kind") == "Recall") & F.col("is_success")
    decision = F.coalesce("decision", F.lit(""))
    return (
        records.where(F.col("kind").isin("EndTransaction", "Recall"))
        .groupBy("topic", "id")
        .agg(
            F.max(decision == "COMMIT_MESSAGE").alias("is_committed"),
            F.max((decision == "ROLLBACK_MESSAGE") | F.coalesce(is_recalled, F.lit(False))).alias("is_withdrawn"),
        )
    )


def deliveries(records: DataFrame) -> DataFrame:
    """Return the deliveries to listeners, one per row: id, consumer_group, ended_ms, is_success, first.

    Start and end are matched by request id and message id, as in admin/messages/rules/trace.py. Without an end,
    is_success and ended_ms are null. Deliveries whose group is in no record are left out. `first` has began_ms and the
    columns of trace_ids.MISSING for a delivery that is not a retry.
    """
    is_begin = F.col("kind") == "SubBefore"
    one = (
        records.where(F.col("kind").isin("SubBefore", "SubAfter"))
        # All later steps work message by message, so rows are shuffled only once.
        .repartition("id")
        .groupBy("request_id", "id")
        .agg(
            F.max("consumer_group").alias("consumer_group"),
            F.max("is_success").alias("is_success"),
            F.max("cost_ms").alias("cost_ms"),
            F.min(F.when(is_begin, F.col("at_ms"))).alias("began_ms"),
            F.min(F.when(~is_begin, F.col("at_ms"))).alias("ended_ms"),
            F.bool_or(is_begin & (F.col("retry_times") == 0)).alias("is_first"),
        )
    )
    one = one.join(missing_numbers(records), "request_id", "left")
    is_first = F.col("is_first") & F.col("began_ms").isNotNull()
    return one.where("consumer_group is not null").select(
        "id",
        "consumer_group",
        # Clients that leave out the end time record the duration.
        F.coalesce("ended_ms", F.col("began_ms") + F.col("cost_ms")).alias("ended_ms"),
        "is_success",
        F.when(is_first, F.struct("began_ms", "process", "missing_before", "missing_after", "most_at_once")).alias(
            "first"
        ),
    )


def _text(field: Column) -> Column:
    """Return a field, null for the texts that Java writes for a missing value."""
    return F.when(~field.isin("", "null"), field)


def _number(field: Column) -> Column:
    return F.when(field.rlike("^([0-9]{1,18}|-[0-9]{1,17})$"), field.try_cast("bigint"))
