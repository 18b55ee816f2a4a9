"""What became of messages: the transforms of `audit`, on rows made here, beside the same in plain Python."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rmqctl.admin.messages.rules.trace import trace_steps
from rmqctl.model.names import DELAY_TOPIC, TIMER_TOPIC
from rmqctl.model.trace import TraceEvent
from rmqctl.pipeline.jobs.audit import passed, rows, trace_rows
from rmqctl.pipeline.tables.hours import HOUR_MS
from rmqctl.pipeline.tables.schemas import AUDIT, columns_of
from rmqctl.protocol.trace import decode_trace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_0 = 1_795_341_600_000  # 2026-11-22T10:00Z
_MINUTE = 60_000
PUBLISHED = (
    "topic string, id string, published_count bigint, failed_count bigint, at_ms bigint, cost_ms bigint,"
    " is_delayed boolean, is_undecided boolean, is_later boolean"
)
DELIVERED = (
    "id string, deliveries array<struct<consumer_group:string,delivery_count:bigint,success_count:bigint,"
    "failed_count:bigint,consumed_ms:bigint,first:struct<began_ms:bigint,process:string,missing_before:bigint,"
    "missing_after:bigint,most_at_once:bigint>>>"
)


def _at(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _record(*fields: object) -> bytes:
    return "\x01".join(map(str, fields)).encode() + b"\x02"


def _pub(at: object, topic: str, ids: str, *, cost: object = 3, kind: object = 0, ok: str = "true") -> bytes:
    return _record("Pub", at, "R", "P", topic, ids, "A", "k", "h:1", 5, cost, kind, "OFFSETID", ok)


def _before(at: int, group: str, call: str, msg_id: str, retry: int = 0) -> bytes:
    return _record("SubBefore", at, "null", group, call, msg_id, retry, "k")


def _after(call: str, msg_id: str, cost: int, ok: str, *more: object) -> bytes:
    return _record("SubAfter", call, msg_id, cost, ok, "k", *more)


def _ended(msg_id: str, state: str) -> bytes:
    return _record("EndTransaction", 10, "R", "P", "T", msg_id, "A", "k", "h:1", 2, "TX", state, "false")


BODIES = [
    _pub(1000, "T", "M1") + _before(1010, "G", "R1", "M1") + _after("R1", "M1", 7, "true", 0, 1017, "G"),
    _pub(1000, "T", "M1"),  # the same once more
    _pub(1001, "T", "M1"),  # sent again
    _pub(1002, "T", "M2,M3"),
    _pub(1003, "T", "M4", ok="false") + _pub(1004, "U", "M5", kind=3) + _pub(1005, "T", "M6", kind=1),
    _pub("x", "T", "M7") + _pub(1, "T", "M8", cost="") + _record("Pub", 1, "R", "P", "T", "M9"),
    _before(1020, "G", "R2", "M2", 1) + _before(1020, "G", "R2", "M3", 1),
    _after("R2", "M2", 30, "false", 4),  # no time, no group
    _after("R3", "M3", 30, "true", 0, 1060, "H") + _record("SubBefore", 1999, "R", "G", "R4", "M1", 0),
    _ended("M6", "COMMIT_MESSAGE"), _ended("M10", "ROLLBACK_MESSAGE"), _ended("M11", "UNKNOW"),
    _record("Recall", 11, "R", "P", "T", "M12", "true") + _record("Recall", 11, "R", "P", "T", "M13", "false"),
    b"", b"\x02\x02", b"\x01\x01", b"\xff\xfe\x02" + _pub(1006, "T", "M14"), _record("Unheard", 1, 2),
    _pub(1007, "T", "M15").rstrip(b"\x02"),
]  # fmt: skip


def test_traces_are_read_as_one_by_one(spark: SparkSession) -> None:
    traces = spark.createDataFrame([(body, None) for body in BODIES], trace_rows.TRACES)
    records = trace_rows.trace_records(traces)
    decoded = [record for body in BODIES for record in decode_trace(body, "h:1")[0]]
    steps = trace_steps(decoded)

    published = [
        (step.topic, msg_id, step.at_ms, step.cost_ms, step.result == "SUCCESS", step.message_type == "DELAY",
         step.message_type == "TRANS_HALF")
        for step in steps if step.event is TraceEvent.PUBLISHED for msg_id in step.msg_id.split(",")
    ]  # fmt: skip
    assert Counter(map(tuple, trace_rows.publications(records).collect())) == Counter(published)
    assert len(published) == 9

    delivered = {
        (step.msg_id, step.group, None if step.result is None else step.result == "SUCCESS")
        for step in steps if step.event is TraceEvent.DELIVERED
    }  # fmt: skip
    read = trace_rows.deliveries(records).collect()
    assert {(row.id, row.consumer_group, row.is_success) for row in read} == delivered
    # Of M2 the end has no time: it began at 1020 and took 30 ms.
    assert {(row.id, row.consumer_group, row.ended_ms) for row in read} == {
        ("M1", "G", 1017), ("M1", "G", None), ("M2", "G", 1050), ("M3", "G", None), ("M3", "H", 1060),
    }  # fmt: skip

    assert {tuple(row) for row in trace_rows.decisions(records).collect()} == {
        ("T", "M6", True, False), ("T", "M10", False, True), ("T", "M11", False, False), ("T", "M12", False, True),
        ("T", "M13", False, False),
    }  # fmt: skip


def test_brokers_hold_back_what_is_not_due(spark: SparkSession) -> None:
    """Timers are due at a time, delay levels are delivered up to an offset; the broker b2 has not said up to where."""
    timers = {"M1": "1001", "M2": "1000", "M3": "soon", "M4": None, "M5": "700", "M6": "699"}
    held: list[tuple[Any, ...]] = [
        (TIMER_TOPIC, "b1", 4, at, msg_id, {"REAL_TOPIC": "T", "TIMER_OUT_MS": due})
        for at, (msg_id, due) in enumerate(timers.items())
    ]
    held += [held[0], (TIMER_TOPIC, "b1", 4, 9, "M7", {"REAL_TOPIC": "U", "TIMER_OUT_MS": "9000"})]
    held += [(TIMER_TOPIC, "b1", 4, 10, "M8", {})]
    levels = [("b1", 4, 0, "L1"), ("b1", 4, 1, "L2"), ("b1", 4, 2, "L3"), ("b2", 4, 0, "L4")]
    held += [(DELAY_TOPIC, *place, {"REAL_TOPIC": "T"}) for place in levels]
    given = spark.createDataFrame(held, rows.HELD), spark.createDataFrame([("b1", 4, 2)], rows.DELIVERED)
    ids = [f"M{number}" for number in range(1, 9)] + [f"L{number}" for number in range(1, 6)]
    # By their traces L5, which no broker holds, L1 and M6 are delayed.
    sent = [("T", msg_id, 1, 0, 10, 5, msg_id in ("L1", "L5", "M6"), False, False) for msg_id in ids]
    published = spark.createDataFrame(sent, PUBLISHED)
    ahead = {"M1", "L3", "L4"}
    for read_until_ms, has_levels, is_delayed, is_later in (
        (None, True, ahead, set()),
        (None, False, ahead | {"L1", "L5", "M6"}, set()),
        (700, True, ahead, {"M1", "M2", "M5", "L1", "L2", "L3", "L4"}),
    ):
        back = rows.held_back(*given, rows.AuditSpan(0, HOUR_MS, 0, 1_000, read_until_ms))
        marked = rows.with_held_back(published, back, has_levels=has_levels)
        assert sorted(marked.columns) == sorted(published.columns)
        told = marked.collect()
        assert len(told) == len(ids)
        assert {row.id for row in told if row.is_delayed} == is_delayed
        assert {row.id for row in told if row.is_later} == is_later


class _History:
    """Messages, offsets and traces made at random, and what an audit of them must count."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.span = rows.AuditSpan(_HOUR_0, _HOUR_0 + HOUR_MS, _HOUR_0 + 15 * _MINUTE, _HOUR_0 + 45 * _MINUTE)
        self.tags: dict[tuple[str, str], list[str] | None] = {
            ("T", "all"): [], ("T", "a"): ["A"], ("T", "offline"): None, ("T", "silent"): [], ("U", "all"): [],
            ("V", "all"): [],
        }  # fmt: skip
        self.marks = {
            (topic, broker, queue, group): dice.randrange(0, 60)
            for topic, group in self.tags for broker in ("b1", "b2") for queue in (0, 1) if dice.random() < 0.9
        }  # fmt: skip
        self.messages: list[tuple[Any, ...]] = []
        self.published: list[tuple[Any, ...]] = []
        self.deliveries: dict[str, dict[str, tuple[int, int, int, int | None]]] = {}
        self.tally: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        ends: Counter[tuple[str, str, int]] = Counter()
        made = [self._message(dice, number, ends) for number in range(400)]
        # A change skipped these offsets of one group.
        self.skips = [("T", "all", "b1", queue, 2, 40, _HOUR_0 + HOUR_MS) for queue in (0, 1)]
        traced = {(each["topic"], group) for each in made if each["stored"] for group in each["got"]}
        producing = {each["topic"] for each in made if each["sent"] or each["refused"]}
        for each in made:
            self._count(
                each, traced, producing, {other["topic"] for other in made if other["stored"] and other["region"]}
            )

    def _message(self, dice: random.Random, number: int, ends: Counter[tuple[str, str, int]]) -> dict[str, Any]:
        topic = dice.choice("TTTUUV")
        each: dict[str, Any] = {
            "id": f"M{number}", "topic": topic,
            "born_ms": _HOUR_0 + dice.randrange(-5 * _MINUTE, HOUR_MS + 5 * _MINUTE),
            "tag": dice.choice(["A", "B", None]), "region": dice.random() < 0.7,
            "sent": dice.choice([0, 1, 1, 1, 2]), "refused": dice.choice([0, 0, 0, 1]),
            "delayed": dice.random() < 0.1, "undecided": dice.random() < 0.1, "later": dice.random() < 0.05,
            "stored": [], "got": {},
        }  # fmt: skip
        for _ in range(dice.choice([0, 0, 1, 1, 1, 1, 2, 3])):
            queue = (topic, dice.choice(["b1", "b2"]), dice.choice([0, 1]))
            each["stored"].append((*queue, ends[queue]))
            ends[queue] += 1
        if not each["stored"] and not each["sent"] and not each["refused"]:
            each["sent"] = 1
        if topic == "V":  # nobody traces
            each |= {"sent": 0, "refused": 0, "stored": each["stored"] or [("V", "b1", 7, number)]}
        for group in ("all", "a", "offline", "unseen"):
            if dice.random() < (0.6 if each["stored"] else 0.1) and topic != "V":
                successes, failures = dice.choice([0, 1, 1, 2]), dice.choice([0, 0, 1])
                running = 0 if successes + failures else 1
                consumed_ms = each["born_ms"] + dice.randrange(10, 5000) if successes else None
                each["got"][group] = (successes + failures + running, successes, failures, consumed_ms)
        for topic_, broker, queue_id, offset in each["stored"]:
            properties = {"MSG_REGION": "R"} if each["region"] else {}
            self.messages.append(
                (topic_, broker, queue_id, offset, "x", each["id"], each["tag"], properties, _at(each["born_ms"]),
                 _at(each["born_ms"] + 20))
            )  # fmt: skip
        if each["sent"] or each["refused"]:
            self.published.append(
                (
                    topic,
                    each["id"],
                    each["sent"],
                    each["refused"],
                    each["born_ms"],
                    5,
                    each["delayed"],
                    each["undecided"],
                    each["later"],
                )
            )
        if each["got"]:
            self.deliveries[each["id"]] = each["got"]
        return each

    def _count(self, each: dict[str, Any], traced: set[Any], producing: set[str], with_regions: set[str]) -> None:
        born_ms, topic = each["born_ms"], each["topic"]
        if not self.span.since_ms <= born_ms < self.span.until_ms:
            return
        window_ms = born_ms - born_ms % (10 * _MINUTE)
        state = (
            "CUT" if window_ms < _HOUR_0 + 15 * _MINUTE else "OPEN" if window_ms >= _HOUR_0 + 40 * _MINUTE else "CLOSED"
        )
        is_closed = state == "CLOSED"
        sent, stored = self.tally[window_ms, topic, "produced", None], self.tally[window_ms, topic, "stored", None]
        stored["seen"] += 1
        if topic in producing:
            sent["count"] += each["sent"]
            sent["distinct_uniq_key"] += each["sent"] > 0
        else:
            sent["is_unknown"] = 1
        sent["failed_count"] += not each["sent"] and each["refused"] > 0
        sent["unknown_count"] += not each["sent"] and not each["refused"]
        stored["count"] += len(each["stored"])
        stored["distinct_uniq_key"] += bool(each["stored"])
        if not each["stored"] and each["sent"]:
            if each["undecided"] or each["got"] or state == "CUT":
                stored["unknown_count"] += 1
            elif each["delayed"] or state == "OPEN":
                stored["waiting_count"] += 1
            elif each["later"]:
                stored["unknown_count"] += 1
            else:
                stored["lost_count"] += 1
        if not each["stored"]:
            return
        for group in {group for of_topic, group in self.tags if of_topic == topic} | set(each["got"]):
            consumed = self.tally[window_ms, topic, "consumed", group]
            consumed["seen"] += 1
            consumed["is_unknown"] = (topic, group) not in traced
            _, successes, failures, _ = each["got"].get(group, (0, 0, 0, None))
            if successes:
                consumed["count"] += successes
                consumed["distinct_uniq_key"] += 1
            elif failures:
                consumed["failed_count"] += 1
            elif group in each["got"]:
                is_passed = is_closed and all(
                    offset < self.marks.get((*queue, group), -1) for *queue, offset in each["stored"]
                )
                consumed["untraced_count" if is_passed else "waiting_count"] += 1
            elif (topic, group) not in self.tags:
                consumed["unknown_count"] += 1
            else:
                tags = self.tags[topic, group]
                if tags and each["tag"] not in tags:
                    consumed["filtered_count"] += 1
                elif state == "OPEN" or any(
                    offset >= self.marks.get((*queue, group), -1) for *queue, offset in each["stored"]
                ):
                    consumed["waiting_count"] += 1
                elif (
                    tags is None
                    or state == "CUT"
                    or (topic, group) not in traced
                    or (topic in with_regions and not each["region"])
                ):
                    consumed["unknown_count"] += 1
                else:
                    is_skipped = any(
                        (topic, group, broker, queue) == skip[:4] and skip[4] <= offset < skip[5]
                        for _, broker, queue, offset in each["stored"] for skip in self.skips
                    )  # fmt: skip
                    consumed["skipped_count" if is_skipped else "untraced_count"] += 1
                    assert is_closed

    def frames(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        offsets = [
            (topic, broker, queue, group, offset) for (topic, broker, queue, group), offset in self.marks.items()
        ]
        stored = rows.stored_messages(
            spark.createDataFrame(self.messages, rows.MESSAGES), spark.createDataFrame(offsets, rows.OFFSETS)
        )
        delivered = [
            (msg_id, [(group, *counts, None) for group, counts in got.items()])
            for msg_id, got in self.deliveries.items()
        ]
        audited = rows.audited_messages(
            stored,
            spark.createDataFrame(self.published, PUBLISHED),
            spark.createDataFrame(delivered, DELIVERED),
            self.span,
        )
        groups = [(topic, group, tags) for (topic, group), tags in self.tags.items()]
        pairs = rows.audited_pairs(audited, spark.createDataFrame(groups, rows.GROUPS))
        return audited, passed.settled_pairs(pairs, spark.createDataFrame(self.skips, passed.SKIPS))


@pytest.fixture(scope="module")
def history() -> _History:
    return _History(1)


@pytest.fixture(scope="module")
def audited(spark: SparkSession, history: _History) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Messages, and pairs of messages and groups."""
    messages, pairs = history.frames(spark)
    messages.persist()
    pairs.persist()
    yield messages, pairs
    pairs.unpersist()
    messages.unpersist()


def test_windows_are_as_counted_by_hand(history: _History, audited: tuple[DataFrame, DataFrame]) -> None:
    windows = rows.windows(*audited)
    kinds = {field.name: field.dataType.simpleString() for field in windows.schema}
    assert {"cluster_label": "string", **kinds} == columns_of(AUDIT)
    found = {
        (round(row.window_start.replace(tzinfo=UTC).timestamp() * 1000), row.topic, row.tier, row.consumer_group): row
        for row in windows.collect()
    }
    assert found.keys() == history.tally.keys()
    kinds: Counter[str] = Counter()
    for (window_ms, topic, tier, group), row in found.items():
        tally = history.tally[window_ms, topic, tier, group]
        is_closed = _HOUR_0 + 20 * _MINUTE <= window_ms < _HOUR_0 + 40 * _MINUTE
        is_known = not tally["is_unknown"]
        expected = {
            "count": tally["count"] if is_known else None,
            "distinct_uniq_key": tally["distinct_uniq_key"] if is_known else None,
            "duplicate_count": tally["count"] - tally["distinct_uniq_key"] if is_known else None,
            "lost_count": tally["lost_count"] if is_closed and tier != "produced" else None,
            "skipped_count": tally["skipped_count"] if is_closed and tier == "consumed" else None,
            "untraced_count": tally["untraced_count"] if is_closed and tier != "stored" else None,
            "waiting_count": tally["waiting_count"] if tier != "produced" else None,
            "failed_count": tally["failed_count"] if tier != "stored" else None,
            "filtered_count": tally["filtered_count"] if tier == "consumed" else None,
            "unknown_count": tally["unknown_count"],
        }
        assert {name: row[name] for name in expected} == expected, (topic, tier, group, row)
        assert row.dt == "2026-11-22"
        kinds.update({(tier, name): value for name, value in expected.items() if value})
    # The dice must have thrown everything: each count that a tier can have.
    assert len(kinds) == 5 + 6 + 9, kinds


def test_latencies_are_of_the_first_success(spark: SparkSession) -> None:
    born_ms = _HOUR_0 + 20 * _MINUTE
    messages = [
        ("T", "b1", 0, at, "x", f"M{at}", None, {"MSG_REGION": "R"}, _at(born_ms), _at(born_ms + at))
        for at in range(101)
    ]
    stored = rows.stored_messages(
        spark.createDataFrame(messages, rows.MESSAGES), spark.createDataFrame([], rows.OFFSETS)
    )
    delivered = [(f"M{at}", [("G", 2, 2, 0, born_ms + 10 * at, None)]) for at in range(101)]
    audited = rows.audited_messages(
        stored, spark.createDataFrame([], PUBLISHED), spark.createDataFrame(delivered, DELIVERED),
        rows.AuditSpan(_HOUR_0, _HOUR_0 + HOUR_MS, 0, _HOUR_0 + HOUR_MS),
    )  # fmt: skip
    pairs = rows.audited_pairs(audited, spark.createDataFrame([], rows.GROUPS))
    found = {row.tier: (row.p50_latency_ms, row.p99_latency_ms) for row in rows.windows(audited, pairs).collect()}
    assert found == {"produced": (None, None), "stored": (50, 99), "consumed": (500, 990)}


def test_samples_tell_where_messages_are(history: _History, audited: tuple[DataFrame, DataFrame]) -> None:
    found = rows.samples(*audited, 2).collect()
    by_kind = Counter(row.kind for row in found)
    assert by_kind == {
        "STORED_TWICE": 2, "CONSUMED_TWICE": 2, "NOT_STORED": 2, "SKIPPED": 2, "PASSED_UNTRACED": 2,
    }  # fmt: skip
    places = defaultdict(set)
    for topic, broker, queue_id, offset, _, msg_id, *_ in history.messages:
        places[topic, msg_id].add((broker, queue_id, offset))
    for row in found:
        told = {tuple(place) for place in row.places or ()}
        assert told <= places[row.topic, row.id]
        assert (row.kind == "NOT_STORED") == (not places[row.topic, row.id])
        if row.kind == "STORED_TWICE":
            assert (row.times, len(told)) == (len(places[row.topic, row.id]), 2)
