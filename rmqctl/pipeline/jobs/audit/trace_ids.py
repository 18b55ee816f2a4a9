"""Whether clients have lost traces: each trace takes a number of its process, so a lost one leaves a gap.

Clients number the ids that a process creates (MessageClientIDSetter): those of messages that it sends, among them the
trace messages, and one for each trace (TraceContext). The traces name the ids of messages and of the beginnings of
deliveries. The other traces have a time, but no id. So between two ids, all numbers are accounted for, or something is
missing: a trace, or a message that was sent without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

# An id ends with the ms since its month began (8 hex digits) and a number of 16 bits (4); before these is the process.
_ID = "^([0-9A-F]{32}|[0-9A-F]{56})$"
_TAIL_DIGITS = 12
_NUMBER_COUNT = 1 << 16
# Threads take numbers in another order than times, but only by a few.
_MOST_OUT_OF_ORDER = 1_000
# Numbers start again after _NUMBER_COUNT. In a gap in which a process could take that many, at so many times the rate
# of its busiest 10 s, any count may be missing.
_FASTER, _BUSY_MS = 2, 10_000
_ANY_COUNT = 1 << 40
# Months begin at midnight of the client's time zone, which differs from UTC by a multiple of this.
_ZONE_MS = 900_000
# Listener threads start messages out of order by less than this.
_MARGIN_MS = 1_000
# What is taken within one ms blurs a level; among this many ids, one is clear.
_NEAR_COUNT = 256
# A thread may take the time of a trace and its number in different ms.
_BLUR = 2
MISSING = "request_id string, process string, missing_before bigint, missing_after bigint, most_at_once bigint"


def process_of(ids: Column) -> Column:
    """Return what the ids of a process have in common; null for other ids."""
    return F.when(ids.rlike(_ID), F.substr(ids, F.lit(1), F.length(ids) - _TAIL_DIGITS))


def missing_numbers(records: DataFrame) -> DataFrame:
    """Return how many numbers are missing around the begin of each delivery, with the columns MISSING.

    `records` comes from trace_rows.trace_records(). At most missing_after of one delivery minus missing_before of an
    earlier one of the same process are missing in between. A delivery takes two; a listener gets up to most_at_once
    messages with it. Processes that number otherwise are left out.
    """
    kind = F.col("kind")
    began_ms = F.when(kind == "SubAfter", F.col("at_ms") - F.col("cost_ms")).otherwise(F.col("at_ms"))
    named = F.when(kind == "Pub", F.split("id", ",")).otherwise(F.array("request_id"))
    # What identifies a trace whose number is in no id: clients may write a trace twice.
    nameless = F.concat_ws(" ", "kind", F.coalesce("request_id", "id"), "offset_msg_id")

    def event(id_: Column, nameless: Column, at_ms: Column, is_begin: Column) -> Column:
        columns = {"id": id_, "nameless": nameless, "at_ms": at_ms, "is_begin": is_begin.cast("int")}
        return F.struct(*(column.alias(name) for name, column in columns.items()))

    is_begin, no, none = kind == "SubBefore", F.lit(False), F.lit(None).cast("string")
    # Of traces, only the begins of deliveries have an id; the trace message has one of its own.
    others = F.array(event(F.col("trace_id"), F.when(~is_begin, nameless), F.col("at_ms"), no))
    every = F.concat(F.transform(named, lambda each: event(each, none, began_ms, is_begin)), others)
    events = records.select(process_of(F.col("trace_id")).alias("process"), F.explode(every).alias("event"))
    events = events.select("process", "event.*").where("process is not null and at_ms is not null")
    return events.groupBy("process").applyInArrow(_missing_of_process, MISSING)


def _missing_of_process(events: pa.Table) -> pa.Table:
    process = events["process"][0].as_py()
    ids = events.group_by("id").aggregate([("at_ms", "max"), ("is_begin", "sum")])
    ids = ids.filter(pc.starts_with(ids["id"], process))
    tails = np.array([int(each[-_TAIL_DIGITS:], 16) for each in ids["id"].to_pylist()], dtype=np.int64)
    others = events.group_by(["nameless", "at_ms"]).aggregate([])
    others = others.filter(others["nameless"].is_valid())
    found = missing_around(
        tails % _NUMBER_COUNT, tails // _NUMBER_COUNT, ids["at_ms_max"].to_numpy(), others["at_ms"].to_numpy()
    )
    count = len(ids) if found.is_understood else 0
    most_at_once = max(1, pc.max(ids["is_begin_sum"]).as_py() or 0)
    columns = [
        ids["id"].take(pa.array(found.order[:count])),
        pa.array([process] * count, pa.string()),
        pa.array(found.before[:count]),
        pa.array(found.after[:count]),
        pa.array([most_at_once] * count, pa.int64()),
    ]
    return pa.table(columns, names=[part.split()[0] for part in MISSING.split(", ")])


class MissingNumbers(NamedTuple):
    """How many numbers are missing from the first id of a process to each one, in the given `order` of the ids.

    `before` is a lower bound for some time before the id, `after` an upper bound for some time after it.
    """

    order: Ints
    before: Ints
    after: Ints

    @property
    def is_understood(self) -> bool:
        """Whether missing numbers never get fewer: clients of other makers may take fewer numbers."""
        return bool(np.all(np.maximum.accumulate(self.before) <= self.after + _BLUR))


def missing_around(numbers: Ints, since_month_ms: Ints, near_ms: Ints, nameless_ms: Ints) -> MissingNumbers:
    """Return how many numbers of a process are missing.

    Ids have a number of 16 bits, a time since the start of their month, and roughly the same as epoch ms, `near_ms`.
    `nameless_ms` are the times at which other numbers were taken.
    """
    if not len(numbers):
        return MissingNumbers(numbers, numbers, numbers)
    at_ms = since_month_ms + np.rint((near_ms - since_month_ms) / _ZONE_MS).astype(np.int64) * _ZONE_MS
    by_time = np.lexsort((numbers, at_ms))
    steps = (np.diff(numbers[by_time]) + _MOST_OUT_OF_ORDER) % _NUMBER_COUNT - _MOST_OUT_OF_ORDER
    counts = np.concatenate([[0], np.cumsum(steps)])
    busy_count = _busiest(counts, at_ms[by_time])
    most = _FASTER * busy_count * np.ceil(np.diff(at_ms[by_time]) / _BUSY_MS)
    counts[1:] += np.cumsum(np.where(most >= _NUMBER_COUNT, _ANY_COUNT, 0))
    again = np.argsort(counts, kind="stable")
    order, counts = by_time[again], counts[again]
    at_ms = at_ms[order]
    nameless_ms = np.sort(nameless_ms)
    unnamed = counts - np.arange(len(counts))
    # Numbers that were taken in the same ms may be before or after the id.
    low = unnamed - np.searchsorted(nameless_ms, at_ms, side="right")
    high = unnamed - np.searchsorted(nameless_ms, at_ms, side="left")
    low, high = _highest_before(low), -_highest_before(-high[::-1])[::-1]
    ascending_ms = np.maximum.accumulate(at_ms)
    first = np.maximum(np.searchsorted(ascending_ms, ascending_ms - _MARGIN_MS, side="right") - 1, 0)
    last = np.minimum(np.searchsorted(ascending_ms, ascending_ms + _MARGIN_MS, side="left"), len(counts) - 1)
    return MissingNumbers(order, low[first], high[last])


def _busiest(counts: Ints, at_ms: Ints) -> int:
    """Return the most numbers that were taken within _BUSY_MS; both are in order of time."""
    ends = np.searchsorted(at_ms, at_ms + _BUSY_MS, side="left") - 1
    return max(1, int((counts[ends] - counts).max()))


def _highest_before(values: Ints) -> Ints:
    """Return the maximum of each value and the _NEAR_COUNT before it."""
    padded = np.concatenate([np.full(_NEAR_COUNT, np.iinfo(np.int64).min), values])
    return np.lib.stride_tricks.sliding_window_view(padded, _NEAR_COUNT + 1).max(axis=1)
