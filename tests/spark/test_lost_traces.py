"""The job `audit`: messages that a group lost are told from those whose traces its clients lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from pyspark.sql import SparkSession

from rmqctl.pipeline.jobs.audit import passed, rows, trace_rows

# 2026-11-22T10:00Z, and the start of its month three hours west of UTC.
_START_MS, _MONTH_MS = 1_795_341_600_000, 1_793_502_000_000
_TOPIC = "T"


class _Process:
    """A client that consumes and traces, with the ids and times that Java's would have."""

    def __init__(self, name: str, first_number: int, seed: int) -> None:
        self.name = name
        self._number, self._dice = first_number, random.Random(seed)
        self._records: list[tuple[float, bool, list[object]]] = []

    def deliver(self, group: str, msg_id: str, at_ms: float) -> None:
        """Note the two traces of a delivery; the second one takes a number that is in no id."""
        call: list[object] = []
        cost_ms = self._dice.choice([0, 1, 4, 30])
        self._records.append((at_ms, True, ["SubBefore", int(at_ms), "R", group, call, msg_id, 0, "k"]))
        ended_ms = at_ms + cost_ms + self._dice.random()
        self._records.append(
            (ended_ms, False, ["SubAfter", call, msg_id, cost_ms, "true", "k", 0, int(ended_ms), group])
        )

    def traces(self, at_once: int) -> Iterator[tuple[bytes, str]]:
        """Yield bodies and ids of trace messages, each with so many traces; numbers are taken in order of time."""
        waiting: list[list[object]] = []
        for at_ms, is_begin, record in sorted(self._records, key=lambda each: each[0]):
            number = self._take(at_ms)
            if is_begin:
                record[4].append(number)  # type: ignore[attr-defined]
            waiting.append(record)
            if len(waiting) == at_once:
                yield self._message(waiting, at_ms)
                waiting = []
        yield self._message(waiting, at_ms)

    def _message(self, records: list[list[object]], at_ms: float) -> tuple[bytes, str]:
        texts = [
            "\x01".join(str(each[0]) if isinstance(each, list) else str(each) for each in record) for record in records
        ]
        return "".join(f"{text}\x02" for text in texts).encode(), self._take(at_ms)

    def _take(self, at_ms: float) -> str:
        self._number += 1
        return f"{self.name}{int(at_ms) - _MONTH_MS:08X}{self._number % 65536:04X}"


class _Scene(Struct):
    """Messages of a topic with two queues, and which of them each group never got, or got without a trace of it."""

    messages: list[tuple[object, ...]]
    lost: dict[str, set[str]]
    untraced: dict[str, set[str]]
    traces: list[tuple[bytes, str]]


def _scene() -> _Scene:
    """Two groups consume a backlog, and skip the same 80 messages of each queue; one loses traces."""
    scene = _Scene([], {}, {}, [])
    for queue_id in (0, 1):
        for offset in range(300):
            at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=_START_MS + offset)
            msg_id = f"M{queue_id}-{offset}"
            scene.messages.append((_TOPIC, "b", queue_id, offset, "x", msg_id, None, {"MSG_REGION": "R"}, at, at))
    for group, name, is_lossy in (("whole", "7F0000010C3A18B4AAC2", False), ("lossy", "7F0000010C3B18B4AAC2", True)):
        process = _Process(name, 65_000, seed=1)
        dice = random.Random(2)
        at_ms = _START_MS + 5_000.0
        scene.lost[group] = {f"M{queue_id}-{offset}" for queue_id in (0, 1) for offset in range(100, 180)}
        for offset in range(300):
            for queue_id in (0, 1):
                at_ms += dice.expovariate(1 / 12)
                if not 100 <= offset < 180:
                    process.deliver(group, f"M{queue_id}-{offset}", at_ms)
        every = list(process.traces(at_once=20))
        # One is lost while the offsets move, one elsewhere.
        dropped = {20, 37} if is_lossy else set()
        kept = [trace for number, trace in enumerate(every) if number not in dropped]
        seen = b"".join(body for body, _ in kept)
        scene.untraced[group] = {
            msg_id
            for msg_id in (str(message[5]) for message in scene.messages)
            if msg_id not in scene.lost[group] and f"\x01{msg_id}\x01".encode() not in seen
        }
        scene.traces += kept
    return scene


def test_what_a_group_lost_is_told_from_lost_traces(spark: SparkSession) -> None:
    scene = _scene()
    assert not scene.untraced["whole"]
    assert len(scene.untraced["lossy"]) > 5
    offsets = [(_TOPIC, "b", queue_id, group, 300) for queue_id in (0, 1) for group in scene.lost]
    records = trace_rows.trace_records(spark.createDataFrame(scene.traces, trace_rows.TRACES))
    stored = rows.stored_messages(
        spark.createDataFrame(scene.messages, rows.MESSAGES), spark.createDataFrame(offsets, rows.OFFSETS)
    )
    published = rows.published_messages(trace_rows.publications(records), trace_rows.decisions(records))
    audited = rows.audited_messages(
        stored, published, rows.deliveries_by_message(trace_rows.deliveries(records)),
        rows.AuditSpan(_START_MS, _START_MS + 3_600_000, 0, _START_MS + 3_600_000),
    )  # fmt: skip
    groups = spark.createDataFrame([(_TOPIC, group, []) for group in scene.lost], rows.GROUPS)
    pairs = rows.audited_pairs(audited, groups)
    settled = passed.settled_pairs(pairs, spark.createDataFrame([], passed.SKIPS)).collect()
    found = {
        (group, fate): {row.id for row in settled if (row.consumer_group, row.fate) == (group, fate)}
        for group in scene.lost for fate in (rows.LOST, rows.UNTRACED, None)
    }  # fmt: skip
    assert found["whole", rows.LOST] == scene.lost["whole"]
    assert len(found["whole", None]) == 600 - 160
    # Two traces of 20 are lost: of each queue, up to 21 / 2 messages on each side of the gap may be consumed.
    lost = found["lossy", rows.LOST]
    assert lost <= scene.lost["lossy"]
    assert len(lost) >= 160 - 2 * 2 * 11
    assert found["lossy", rows.UNTRACED] >= scene.untraced["lossy"] | (scene.lost["lossy"] - lost)
