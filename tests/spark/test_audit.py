"""The job `audit`: what it counts of real topics and traces, beside what was planted in them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from pyspark.sql import SparkSession

from rmqctl.client.access import Access
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.pipeline.jobs.audit.job import JOB, audit
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult
from rmqctl.pipeline.run import check_cluster
from rmqctl.pipeline.source.options import TopicChoice
from rmqctl.pipeline.source.retained_queues import fetch_retained_queues
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.frames import replace_rows
from rmqctl.pipeline.tables.schemas import AUDIT, columns_of
from rmqctl.protocol.message import StoredMessage
from rmqctl.text.times import iso_time
from tests.real.harness.cluster import Cluster
from tests.real.harness.conditions import wait_until
from tests.real.harness.jars import VERSIONS
from tests.real.harness.rmqctl import Rmqctl

from .by_hand import ask, put_offset, send, stored
from .samples import rows_of

_HOUR_MS = 3_600_000
# Windows are closed 5 minutes after their end: the job is told that it is later than it is.
_LATER_MS = 20 * 60_000


def _traced(topic: str, msg_id: str, at_ms: int, *, ok: bool = True, kind: int = 0) -> str:
    fields = ("Pub", at_ms, "R", "P", topic, msg_id, "A", "k", "h:1", 5, 3, kind, "OFFSETID", str(ok).lower())
    return "\x01".join(map(str, fields)) + "\x02"


def _decided(topic: str, msg_id: str, at_ms: int, state: str) -> str:
    fields = ("EndTransaction", at_ms, "R", "P", topic, msg_id, "A", "k", "h:1", 2, "TX", state, "false")
    return "\x01".join(map(str, fields)) + "\x02"


def _options(cluster: Cluster, since_ms: int, *topics: str, **more: Any) -> JobOptions:
    now_ms = time.time_ns() // 1_000_000 + _LATER_MS
    access = Access(cluster.namesrv, 30)
    return JobOptions(now_ms=now_ms, access=access, topics=topics, since=iso_time(since_ms), **more)


def _summed(outcome: JobResult, tier: str, group: str | None) -> dict[str, int | None]:
    """Add up windows: messages of a test may stand on both sides of a window's end."""
    rows = [row for row in outcome.rows if (row["tier"], row["group"]) == (tier, group)]
    assert rows
    counts = [key for key in rows[0] if key.endswith("Count") or key == "count"]
    return {
        key: None if any(row[key] is None for row in rows) else sum(row[key] for row in rows)
        for key in counts
    }  # fmt: skip


class _Planted(Struct, frozen=True):
    """What is in the topic `Audited`, and what Java saw of it."""

    since_ms: int
    stored: list[tuple[MessageQueue, StoredMessage]]
    again: Counter[str]
    skipped: frozenset[str]
    failing: str
    late: list[Any]
    lost: frozenset[str]
    rewound: frozenset[tuple[MessageQueue, int]]


@pytest.fixture(scope="module")
def planted(cluster: Cluster) -> Iterator[_Planted]:
    """Send, send again, trace what never was, skip, rewind, fail."""
    java, topic = cluster.java, "Audited"
    cluster.create_topic(topic, queue_count=2)
    since_ms = time.time_ns() // 1_000_000
    java.consume("late", "LateGroup", topic, trace=1, collect=1)
    java.consume("all", "AllGroup", topic, trace=1, fail="fail")
    java.consume("tag", "TagGroup", topic, trace=1, expr="A")
    java.consume("silent", "SilentGroup", topic)
    java.produce(topic, 40, tag="A", trace=1, prefix="a", keys="a-")
    java.produce(topic, 10, tag="B", trace=1, prefix="b")
    java.wait_consumed("late", 50)
    late = java.attempts("late")
    java.stop("late")
    java.produce(topic, 6, tag="A", prefix="untraced")
    java.produce(topic, 4, tag="A", trace=1, prefix="p", batch=2)
    java.produce(topic, 1, tag="A", trace=1, prefix="fail")

    # Three messages are stored again, one of them twice.
    first = sorted(message.message_id for _, message in stored(cluster, topic) if message.body.startswith(b"a"))[:3]
    again = Counter({first[0]: 2, first[1]: 1, first[2]: 1})
    for msg_id, count in again.items():
        copy = OutgoingMessage(b"a-again", {"UNIQ_KEY": msg_id, "TAGS": "A"})
        send(cluster, topic, *[copy] * count)
    java.wait_consumed("all", 40 + 10 + 6 + 4 + 4)
    java.wait_consumed("tag", 40 + 6 + 4 + 4 + 1)
    java.wait_consumed("silent", 40 + 10 + 6 + 4 + 4 + 1)

    # One group goes back by three messages in a queue, and in another one skips seven that the others get.
    java.stop("all")
    queues: dict[MessageQueue, list[StoredMessage]] = {}
    for mq, message in stored(cluster, topic):
        queues.setdefault(mq, []).append(message)
    skipping, *others = sorted(queues)
    rewinding = max(others, key=lambda mq: len(queues[mq]))
    rewound = queues[rewinding][-3:]
    java.produce(topic, 7, tag="A", trace=1, prefix="s", queue=f"{skipping.broker_name}:{skipping.queue_id}")
    skipped = frozenset(message.message_id for _, message in stored(cluster, topic) if message.body.startswith(b"s"))
    put_offset(cluster, "AllGroup", rewinding, len(queues[rewinding]) - 3)
    put_offset(cluster, "AllGroup", skipping, len(queues[skipping]) + 7)
    java.consume("again", "AllGroup", topic, trace=1, fail="fail")
    java.produce(topic, 5, tag="A", trace=1, prefix="z")
    failing = next(message.message_id for _, message in stored(cluster, topic) if message.body.startswith(b"fail"))
    java.wait_consumed("again", 3 - [message.message_id for message in rewound].count(failing) + 5)
    java.wait_consumed("tag", 40 + 6 + 4 + 4 + 1 + 7 + 5)
    java.wait_consumed("silent", 40 + 10 + 6 + 4 + 4 + 1 + 7 + 5)

    # Traces of messages that never were: five that are lost, and one whose transaction was committed.
    now_ms = time.time_ns() // 1_000_000
    lost = frozenset([*(f"LOST{number}" for number in range(5)), "COMMITTED", "DELAYED"])
    traces = "".join(_traced(topic, msg_id, now_ms) for msg_id in lost if msg_id.startswith("LOST"))
    traces += _traced(topic, "COMMITTED", now_ms, kind=1) + _decided(topic, "COMMITTED", now_ms, "COMMIT_MESSAGE")
    traces += _traced(topic, "ROLLED_BACK", now_ms, kind=1) + _decided(topic, "ROLLED_BACK", now_ms, "ROLLBACK_MESSAGE")
    traces += _traced(topic, "HALF", now_ms, kind=1) + _traced(topic, "DELAYED", now_ms, kind=3)
    traces += _traced(topic, "REFUSED", now_ms, ok=False) + _traced("Elsewhere", "OTHER", now_ms)
    # A client may write a trace twice.
    send(cluster, "RMQ_SYS_TRACE_TOPIC", *[OutgoingMessage(traces.encode(), {})] * 2)
    for name in ("again", "tag", "silent"):
        java.persist(name)
    places = frozenset((rewinding, message.queue_offset) for message in rewound)
    yield _Planted(since_ms, stored(cluster, topic), again, skipped, failing, late, lost, places)
    for name in ("again", "tag", "silent"):
        java.stop(name)


def _expected(planted: _Planted, group: str, is_traced: Callable[[StoredMessage], bool]) -> dict[str, int]:
    """Count what a group must have consumed, message by message."""
    seen: Counter[str] = Counter()
    untraced, waiting, filtered = set(), set(), set()
    for mq, message in planted.stored:
        msg_id = message.message_id
        if group == "TagGroup" and message.tags != "A":
            filtered.add(msg_id)
        elif group == "LateGroup" and message.body[:1] not in (b"a", b"b"):
            waiting.add(msg_id)
        elif group == "LateGroup" and message.body == b"a-again":
            continue  # it was stored when the group had gone, which has the message
        elif group == "AllGroup" and (msg_id in planted.skipped or msg_id == planted.failing):
            continue
        elif not is_traced(message):
            untraced.add(msg_id)
        else:
            seen[msg_id] += 1 + (group == "AllGroup" and (mq, message.queue_offset) in planted.rewound)
    return {
        "count": sum(seen.values()),
        "distinctCount": len(seen),
        "duplicateCount": sum(seen.values()) - len(seen),
        "lostCount": 0,
        "skippedCount": 0,
        # The group was not behind when it skipped them, so another member may have consumed them.
        "untracedCount": len(planted.skipped) if group == "AllGroup" else 0,
        "waitingCount": len(waiting),
        "failedCount": 1 if group == "AllGroup" else 0,
        "filteredCount": len(filtered),
        "unknownCount": len(untraced),
    }


def test_planted_duplicates_and_losses_are_counted_exactly(
    cluster: Cluster, spark: SparkSession, planted: _Planted, tmp_path: Path
) -> None:
    other = _row_of_another_topic(spark, planted.since_ms, tmp_path)
    outcome = JOB.run(spark, _options(cluster, planted.since_ms, "Audited", tables=str(tmp_path), limit=100))
    ids = {message.message_id for _, message in planted.stored}
    batched = {message.message_id for _, message in planted.stored if message.body.startswith(b"p")}
    assert (len(planted.stored), len(ids), len(batched)) == (77, 73, 4)

    # 5.x clients do not trace that they consume what came in a batch.
    is_5 = cluster.version.startswith("5")

    def is_traced(message: StoredMessage) -> bool:
        return not (is_5 and message.message_id in batched)

    assert _summed(outcome, "produced", None) == {
        "count": 67 + 7 + 1, "distinctCount": 67 + 7 + 1, "duplicateCount": 0, "lostCount": None,
        "skippedCount": None, "untracedCount": 6,
        "waitingCount": None, "failedCount": 1, "filteredCount": None, "unknownCount": 0,
    }  # fmt: skip
    assert _summed(outcome, "stored", None) == {
        "count": 77, "distinctCount": 73, "duplicateCount": 4, "lostCount": 7, "waitingCount": 0,
        "skippedCount": None, "untracedCount": None,
        "failedCount": None, "filteredCount": None, "unknownCount": 1,
    }  # fmt: skip
    for group in ("AllGroup", "TagGroup", "LateGroup"):
        assert _summed(outcome, "consumed", group) == _expected(planted, group, is_traced), group
    assert _summed(outcome, "consumed", "SilentGroup") == {
        "count": None, "distinctCount": None, "duplicateCount": None, "lostCount": 0, "waitingCount": 0,
        "skippedCount": 0, "untracedCount": 0,
        "failedCount": 0, "filteredCount": 0, "unknownCount": 73,
    }  # fmt: skip

    samples: Mapping[str, list[dict[str, Any]]] = {
        kind: [each for each in outcome.facts["samples"] if each["kind"] == kind]
        for kind in ("STORED_TWICE", "NOT_STORED", "PASSED_UNTRACED", "CONSUMED_TWICE")
    }
    assert {each["msgId"] for each in samples["NOT_STORED"]} == planted.lost
    assert {(each["msgId"], each["group"]) for each in samples["PASSED_UNTRACED"]} == {
        (msg_id, "AllGroup") for msg_id in planted.skipped
    }
    places = {
        msg_id: [
            {"brokerName": mq.broker_name, "queueId": mq.queue_id, "queueOffset": message.queue_offset}
            for mq, message in planted.stored
            if message.message_id == msg_id
        ]
        for msg_id in planted.again
    }
    assert {each["msgId"]: each["times"] for each in samples["STORED_TWICE"]} == {
        msg_id: 1 + count for msg_id, count in planted.again.items()
    }
    for each in samples["STORED_TWICE"]:
        key = lambda place: sorted(place.items())  # noqa: E731
        assert sorted(each["places"], key=key) == sorted(places[each["msgId"]], key=key)
    assert any("7 messages were sent" in note and "not stored" in note for note in outcome.notes)
    assert any("7 messages are before" in note and "without a trace" in note for note in outcome.notes)

    # Java's listener knows how old each message was when it got it.
    ages_ms = [attempt.age_ms for attempt in planted.late]
    for row in outcome.rows:
        if row["group"] == "LateGroup" and row["count"]:
            assert min(ages_ms) - 5 <= row["p50LatencyMs"] <= row["p99LatencyMs"] <= max(ages_ms) + 100

    # The table has the same, and a second run, that shows some groups, changes nothing; another topic's rows stay.
    table = sorted(_table(spark, tmp_path), key=str)
    assert Counter(row[-2] for row in table) == {"Audited": outcome.row_count, "AnotherTopic": 1}
    assert other in table
    options = _options(cluster, planted.since_ms, "Audited", tables=str(tmp_path), groups=("Tag*",), limit=4)
    again = audit(spark, options, traces_after_s=0)
    assert {row["group"] for row in again.rows} <= {None, "TagGroup"}
    assert {each["group"] for each in again.facts["samples"]} <= {None, "TagGroup"}
    assert (again.facts["notConsumedCount"], again.facts["notStoredCount"]) == (0, 7)
    assert sorted(_table(spark, tmp_path), key=str) == table


def _table(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows_of(spark, folder, AUDIT).collect()]


def _names() -> list[str]:
    return list(columns_of(AUDIT))


def _row_of_another_topic(spark: SparkSession, at_ms: int, folder: Path) -> tuple[Any, ...]:
    """Write a row of the same hour into the table."""
    hour = iso_time(at_ms // _HOUR_MS * _HOUR_MS) or ""
    values = dict.fromkeys(_names(), "cast(null as string)") | {
        "window_start": f"timestamp '{hour}'", "tier": "'stored'", "count": "5", "dt": f"'{hour[:10]}'",
        "cluster_label": "'L'", "topic": "'AnotherTopic'",
    }  # fmt: skip
    types = columns_of(AUDIT)
    frame = spark.sql("select " + ", ".join(f"cast({value} as {types[name]}) {name}" for name, value in values.items()))
    replace_rows(Table(str(folder), AUDIT), frame, "false")
    return tuple(frame.collect()[0])


class _Passed(Struct, frozen=True):
    """What a group did with the topic `Passed`: the ids that it consumed, that were reset away, and that it skipped."""

    since_ms: int
    consumed: frozenset[str]
    lost: frozenset[str]
    skipped: frozenset[str]
    traces: list[tuple[bytes, str]]


def _pass(cluster: Cluster, state: str) -> _Passed:
    """A slow group is moved past its backlog twice: by mqadmin, and by rmqctl, which notes it in its journal."""
    java, topic, group = cluster.java, "Passed", "PassedGroup"
    cluster.create_topic(topic, queue_count=2)
    since_ms = time.time_ns() // 1_000_000
    java.consume("passing", group, topic, trace=1, each=50, threads=2, collect=1)
    consumed_count = 0
    for prefix in ("lost", "skipped"):
        after = f"after-{prefix}"
        java.produce(topic, 20, trace=1, prefix="before-" + prefix)
        java.wait_consumed("passing", consumed_count + 20)
        # Faster, and producers lose traces of 4.9 by themselves.
        java.produce(topic, 1_600, trace=1, prefix=prefix, rate=400)
        java.wait_consumed("passing", consumed_count + 100)
        if prefix == "lost":
            java.mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", str(time.time_ns() // 1_000_000))
        else:
            Rmqctl(cluster.namesrv, state=state).change("offset", "reset", group, "--topic", topic, "--to-latest")
        # The client stops for 10 s, and resumes at the end.
        time.sleep(15)
        java.produce(topic, 40, trace=1, prefix=after)
        wait_until(lambda after=after: sum(after in each.body for each in java.attempts("passing")) == 40, 60)
        consumed_count = len(java.attempts("passing"))
    bodies = Counter(each.body for each in java.attempts("passing"))
    java.persist("passing")
    # Clients send traces up to 5 s later.
    time.sleep(7)
    ids = {message.body.decode(): message.message_id for _, message in stored(cluster, topic)}
    assert max(bodies.values()) == 1
    left = {body: msg_id for body, msg_id in ids.items() if body not in bodies}
    return _Passed(
        since_ms,
        frozenset(ids[body] for body in bodies),
        *(frozenset(msg_id for body, msg_id in left.items() if body.startswith(kind)) for kind in ("lost", "skipped")),
        [(message.body, message.message_id) for _, message in stored(cluster, "RMQ_SYS_TRACE_TOPIC")],
    )


def test_losses_are_told_from_skips_and_from_lost_traces(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """With all traces, all losses are found. Without 1 % of them, no consumed message is lost, and few losses are."""
    told = _pass(cluster, str(tmp_path / "state"))
    assert min(len(told.lost), len(told.skipped)) > 100

    def found(trace_topic: str | None) -> tuple[dict[str, set[str]], Mapping[str, Any]]:
        more = {} if trace_topic is None else {"trace_topic": trace_topic}
        options = _options(cluster, told.since_ms, "Passed", limit=5_000, groups=("PassedGroup",), **more)
        facts = audit(spark, options, traces_after_s=0).facts
        kinds = ("NOT_CONSUMED", "SKIPPED", "PASSED_UNTRACED")
        return {kind: {each["msgId"] for each in facts["samples"] if each["kind"] == kind} for kind in kinds}, facts

    ids, facts = found(None)
    assert ids == {"NOT_CONSUMED": told.lost, "SKIPPED": told.skipped, "PASSED_UNTRACED": set()}
    assert (facts["consumedCount"], facts["untracedProducedCount"]) == (len(told.consumed), 0)

    dice = random.Random(7)
    kept = [
        (b"\x02".join(record for record in body.split(b"\x02") if dice.random() >= 0.01), msg_id)
        for body, msg_id in told.traces
    ]
    cluster.create_topic("SomeTraces", queue_count=1)
    send(cluster, "SomeTraces", *(OutgoingMessage(body, {"UNIQ_KEY": msg_id}) for body, msg_id in kept))
    ids, facts = found("SomeTraces")
    for kind, planted in (("NOT_CONSUMED", told.lost), ("SKIPPED", told.skipped)):
        assert ids[kind] <= planted
        assert len(ids[kind]) >= 0.8 * len(planted)
    assert ids["PASSED_UNTRACED"] - told.consumed == (told.lost | told.skipped) - ids["NOT_CONSUMED"] - ids["SKIPPED"]
    assert facts["consumedCount"] == len(told.consumed - ids["PASSED_UNTRACED"])
    assert facts["untracedProducedCount"] > 0
    cluster.java.stop("passing")


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a broker that deletes all but the newest of its small files when it is told to."""
    settings = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20 * 500, "fileReservedTime": 0}
    running = Cluster(VERSIONS[0], tmp_path_factory.mktemp("forgetful") / "home", settings=settings)
    try:
        yield running.wait()
    finally:
        running.stop()


def test_without_traces_only_what_is_stored_is_known(forgetful: Cluster, spark: SparkSession) -> None:
    """Runs first: nobody has written a trace to this cluster yet."""
    forgetful.create_topic("Untraced", queue_count=1)
    since_ms = time.time_ns() // 1_000_000
    forgetful.java.produce("Untraced", 10)
    forgetful.java.consume("untraced", "UntracedGroup", "Untraced")
    forgetful.java.wait_consumed("untraced", 10)
    forgetful.java.persist("untraced")
    options = _options(forgetful, since_ms, "Untraced")
    with pytest.raises(NotFoundError, match="Topic Untracd does not exist"):
        check_cluster([JOB], _options(forgetful, since_ms, "Untracd"))
    outcome = JOB.run(spark, options)
    forgetful.java.stop("untraced")

    told = {(row["tier"], row["group"]): row for row in outcome.rows}
    assert told.keys() == {("produced", None), ("stored", None), ("consumed", "UntracedGroup")}
    assert _summed(outcome, "stored", None)["count"] == 10
    for tier, group in (("produced", None), ("consumed", "UntracedGroup")):
        summed = _summed(outcome, tier, group)
        assert (summed["count"], summed["duplicateCount"], summed["unknownCount"]) == (None, None, 10)
    assert (outcome.facts["notStoredCount"], outcome.facts["notConsumedCount"]) == (0, 0)
    assert any("topic RMQ_SYS_TRACE_TOPIC does not exist" in note for note in outcome.notes)


def test_what_brokers_have_deleted_is_not_lost(forgetful: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    since_ms = time.time_ns() // 1_000_000
    forgetful.create_topic("Deleted", queue_count=1)
    forgetful.java.produce("Deleted", 20, trace=1)
    forgetful.java.produce("Deleted", 2500, size=1000, batch=50)
    options = _options(forgetful, since_ms, "Deleted", tables=str(tmp_path))
    whole = audit(spark, options, traces_after_s=10)
    assert (whole.facts["producedCount"], whole.facts["storedCount"], whole.facts["notStoredCount"]) == (20, 2520, 0)
    before = sorted(_table(spark, tmp_path), key=str)

    # The traces are written once more, so that they outlive the messages.
    traces = [message.body for _, message in stored(forgetful, "RMQ_SYS_TRACE_TOPIC")]
    forgetful.java.produce("Deleted", 2500, size=1000, batch=50)
    send(forgetful, "RMQ_SYS_TRACE_TOPIC", *(OutgoingMessage(body, {}) for body in traces))
    give_up_s = time.monotonic() + 60
    mq = MessageQueue("Deleted", "broker-a", 0)
    while (
        ask(forgetful, lambda client: fetch_retained_queues(client, TopicChoice(("Deleted",)))).spans[mq].min_offset
        < 20
    ):
        assert time.monotonic() < give_up_s
        forgetful.java.mqadmin("deleteExpiredCommitLog", "-b", forgetful.addresses["broker-a"])
        time.sleep(1)
    time.sleep(12)  # the queue's index follows every 10 s
    span = ask(forgetful, lambda client: fetch_retained_queues(client, TopicChoice(("Deleted",)))).spans[mq]

    cut = audit(spark, _options(forgetful, since_ms, "Deleted", tables=str(tmp_path)), traces_after_s=0)
    assert cut.facts["storedCount"] == span.max_offset - span.min_offset < 5000
    assert (cut.facts["producedCount"], cut.facts["notStoredCount"], cut.facts["cutWindowCount"] > 0) == (
        20,
        None,
        True,
    )
    assert any("losses in the" in note and "not written to the table" in note for note in cut.notes)
    assert sorted(_table(spark, tmp_path), key=str) == before


def test_what_brokers_hold_back_is_still_to_come(cluster: Cluster, spark: SparkSession) -> None:
    """Producers trace timers as any other message. Overdue ones are lost, and those of levels that no broker holds."""
    cluster.create_topic("Timed", queue_count=1)
    since_ms = time.time_ns() // 1_000_000
    cluster.java.produce("Timed", 3, trace=1, timer=2 * _HOUR_MS)
    cluster.java.produce("Timed", 2, trace=1, timer=_LATER_MS // 2)
    cluster.java.produce("Timed", 4, trace=1)
    cluster.java.produce("Timed", 5, trace=1, delay=18)
    cluster.java.produce("Timed", 6, trace=1, delay=1)
    now_ms = time.time_ns() // 1_000_000
    traces = "".join(_traced("Timed", f"NEVER{number}", now_ms, kind=3) for number in range(7))
    send(cluster, "RMQ_SYS_TRACE_TOPIC", OutgoingMessage(traces.encode(), {}))
    is_5 = cluster.version.startswith("5")
    stored_count = 4 + 6 if is_5 else 4 + 6 + 5  # 4.9 knows no timers, and stores such messages as any other
    wait_until(lambda: len(stored(cluster, "Timed")) >= stored_count, 20)
    outcome = JOB.run(spark, _options(cluster, since_ms, "Timed"))
    told = [_summed(outcome, tier, None) for tier in ("produced", "stored")]
    counts = [(each["count"], each["waitingCount"], each["lostCount"]) for each in told]
    assert counts == [(27, None, None), (10, 3 + 5, 2 + 7) if is_5 else (15, 5, 7)]
    lost = {each["msgId"] for each in outcome.facts["samples"] if each["kind"] == "NOT_STORED"}
    assert {f"NEVER{number}" for number in range(7)} <= lost


def test_traces_of_another_topic(cluster: Cluster, spark: SparkSession) -> None:
    cluster.create_topic("TracedElsewhere", queue_count=1)
    cluster.create_topic("OtherTraces", queue_count=1)
    since_ms = time.time_ns() // 1_000_000
    cluster.java.produce("TracedElsewhere", 2, trace=1)
    traces = "".join(_traced("TracedElsewhere", f"GONE{number}", since_ms) for number in range(3))
    send(cluster, "OtherTraces", OutgoingMessage(traces.encode(), {}))
    options = _options(cluster, since_ms, "TracedElsewhere", trace_topic="OtherTraces")
    facts = audit(spark, options, traces_after_s=0).facts
    assert (facts["producedCount"], facts["storedCount"], facts["notStoredCount"]) == (3, 2, 3)
    assert facts["notTracedAsProducedCount"] == 2
    with pytest.raises(NotFoundError, match="Topic OtherTrace does not exist"):
        check_cluster([JOB], _options(cluster, since_ms, "TracedElsewhere", trace_topic="OtherTrace"))


def test_what_can_not_be_audited_is_said() -> None:
    nothing = JobOptions(now_ms=1_795_345_697_000)
    assert JOB.check is not None
    for options, sentence in (
        ({"topics": ("Ord*",)}, "topic patterns like Ord"),
        ({"since": "1h", "until": "3h"}, "--until must be after --since"),
        ({"since": "soon"}, "--since: invalid time 'soon'"),
    ):
        with pytest.raises(UsageError, match=sentence):
            JOB.check(type(nothing)(now_ms=nothing.now_ms, **options))
