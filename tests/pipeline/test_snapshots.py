"""What is decided without Spark: ids, labels, what a row says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.errors import UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import QueueReading, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, OwnerSample, QueueSample
from rmqctl.observe.recording import QueueDetail, RecordedSample, write_sample
from rmqctl.observe.recording_files import read_recordings
from rmqctl.observe.sampled_progress import is_held, is_none_stored
from rmqctl.pipeline.jobs.cluster_label import check_label, default_label
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.snapshot.job import JOB
from rmqctl.pipeline.jobs.snapshot.rows import (
    check_run_id,
    default_run_id,
    most_behind,
    sample_rows,
    sample_run,
    summary_row,
)
from rmqctl.pipeline.tables.hours import day_of
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS, columns_of
from rmqctl.rules.progress import compute_progress

A0 = MessageQueue("T", "broker-a", 0)
AT_MS = 1_795_345_920_123  # 2026-11-22T11:12:00.123Z
COLUMNS = list(columns_of(OFFSET_SNAPSHOTS))


@pytest.mark.parametrize("run_id", ["20261122T105200Z", "a", "9.b_c-d", "a" * 64, "merged"])
def test_ids_that_a_run_may_have(run_id: str) -> None:
    check_run_id(run_id)


@pytest.mark.parametrize(
    "run_id",
    ["", "a" * 65, "a/b", "..", ".a", "_a", "-a", "a b", "a\n", "é", "a=b", "__HIVE_DEFAULT_PARTITION__"],
)
def test_ids_that_a_run_may_not_have(run_id: str) -> None:
    with pytest.raises(UsageError):
        check_run_id(run_id)


def test_days_are_in_utc_and_default_ids_differ() -> None:
    assert day_of(1_795_391_999_999) == "2026-11-22"
    assert day_of(1_795_392_000_000) == "2026-11-23"
    assert day_of(0) == "1970-01-01"
    run_id = default_run_id(AT_MS)
    assert run_id.startswith("20261122T111200.123Z-")
    check_run_id(run_id)
    assert default_run_id(AT_MS) != run_id


def _recorded(queue: QueueSample, detail: QueueDetail | None = None, **more: Any) -> RecordedSample:
    sample = GroupSample(AT_MS, 1.5, "G", GroupState.ONLINE, ("one", "two"), {queue.mq: queue})
    return RecordedSample(replace(sample, **more), "C", {} if detail is None else {queue.mq: detail})


def test_a_sample_is_the_same_run_whoever_reads_it() -> None:
    recorded = _recorded(QueueSample(A0, 5, 9))
    at = sample_run(recorded)
    assert at.at_ms == AT_MS
    assert at.run_id.startswith("20261122T111200.123Z-")
    check_run_id(at.run_id)
    assert sample_run(replace(recorded, details={A0: QueueDetail(1)})) == at
    others = [
        replace(recorded, cluster="D"),
        _recorded(QueueSample(A0, 5, 9), group="H"),
        _recorded(QueueSample(A0, 5, 9), at_ms=AT_MS + 1),
    ]
    assert len({at, *map(sample_run, others)}) == 4


def _row(queue: QueueSample, detail: QueueDetail | None = None, **more: Any) -> dict[str, Any]:
    (row,) = sample_rows(_recorded(queue, detail, **more), "L")
    return dict(zip(COLUMNS, row, strict=True))


def _owner(client_id: str, *, is_dropped: bool = False) -> OwnerSample:
    return OwnerSample(client_id, 5, 0, 0, is_dropped=is_dropped)


def test_the_row_of_a_sample() -> None:
    detail = QueueDetail(min_offset=2, last_timestamp_ms=AT_MS - 7, is_none_stored=False)
    recorded = _recorded(QueueSample(A0, 5, 9, (_owner("one"),)), detail)
    assert _row(QueueSample(A0, 5, 9, (_owner("one"),)), detail) == {
        "cluster_label": "L",
        "run_id": sample_run(recorded).run_id,
        "snapshot_ts": AT_MS * 1000,
        "cluster": "C",
        "consumer_group": "G",
        "topic": "T",
        "broker_name": "broker-a",
        "queue_id": 0,
        "min_offset": 2,
        "max_offset": 9,
        "consumer_offset": 5,
        "lag_messages": 4,
        "lag_state": "BEHIND",
        "last_consume_ts": (AT_MS - 7) * 1000,
        "client_id": "one",
        "is_held": True,
        "is_none_stored": False,
        "is_subscribed": None,
        "is_configured": None,
        "dt": "2026-11-22",
    }


_NONE = {"consumerOffset": Unknown.NEVER_COMMITTED}


@pytest.mark.parametrize(
    ("queue", "detail", "expected"),
    [
        # Deleted unread: lost, not lag; without min that is not known.
        (QueueSample(A0, 5, 9), QueueDetail(7), (5, 2, False)),
        (QueueSample(A0, 5, 9), None, (5, None, False)),
        (QueueSample(A0, 9, 9), None, (9, 0, False)),
        (QueueSample(A0, 10, 9), QueueDetail(0), (10, None, False)),
        # A broker's 0 is a 0 only where somebody made sure.
        (QueueSample(A0, 0, 9), QueueDetail(0), (None, None, None)),
        (QueueSample(A0, 0, 9), QueueDetail(0, is_none_stored=False), (0, 9, False)),
        (QueueSample(A0, 0, 9), QueueDetail(0, is_none_stored=True), (None, None, True)),
        (QueueSample(A0, -1, 9), QueueDetail(0), (None, None, True)),
        (QueueSample(A0, None, 9, reasons=_NONE), QueueDetail(0), (None, None, True)),
        (QueueSample(A0, None, 9, reasons=_NONE), QueueDetail(9), (None, 0, True)),
        (QueueSample(A0, None, None, reasons={"consumerOffset": Unknown.BROKER_UNREACHABLE}), None, (None, None, None)),
        (QueueSample(A0, None, None), None, (None, None, None)),
        (QueueSample(A0, 5, None), None, (5, None, False)),
    ],
)
def test_what_is_unknown_is_no_number(
    queue: QueueSample, detail: QueueDetail | None, expected: tuple[int | None, int | None, bool | None]
) -> None:
    row = _row(queue, detail)
    assert (row["consumer_offset"], row["lag_messages"], row["is_none_stored"]) == expected


@pytest.mark.parametrize(
    ("owners", "reasons", "silent_ids", "expected"),
    [
        ((_owner("one"),), {}, (), ("one", True)),
        ((_owner("one"), _owner("two")), {}, (), (None, True)),
        ((_owner("one"), _owner("two", is_dropped=True)), {}, (), ("one", True)),
        ((_owner("one", is_dropped=True),), {}, (), (None, False)),
        ((_owner("one", is_dropped=True),), {}, ("two",), (None, None)),
        ((), {"clientId": Unknown.NOT_ASSIGNED}, (), (None, False)),
        ((), {"clientId": Unknown.NO_MEMBERS}, (), (None, False)),
        ((), {"clientId": Unknown.CLIENT_SILENT}, ("two",), (None, None)),
        ((), {"clientId": Unknown.BEHIND_PROXY}, (), (None, None)),
        ((), {"clientId": Unknown.BROKER_UNREACHABLE}, (), (None, None)),
    ],
)
def test_who_holds_a_queue(
    owners: tuple[OwnerSample, ...],
    reasons: Mapping[str, Unknown],
    silent_ids: tuple[str, ...],
    expected: tuple[str | None, bool | None],
) -> None:
    row = _row(QueueSample(A0, 5, 9, owners, reasons=reasons), silent_ids=silent_ids)
    assert (row["client_id"], row["is_held"]) == expected
    # One that pops does not tell which queues it has.
    popped = _row(QueueSample(A0, 5, 9, owners, is_popped=True, reasons=reasons), silent_ids=silent_ids)
    assert popped["is_held"] is (True if expected[1] else None)


def test_an_unknown_offset_is_not_one_that_is_not_stored() -> None:
    for reason, expected in ((Unknown.NEVER_COMMITTED, True), (Unknown.NOT_REPORTED, None)):
        row = compute_progress(QueueReading(A0, max_offset=9, reasons={"consumerOffset": reason}))
        assert is_none_stored(row) is expected
        assert is_held(row) is None


def test_names_and_times_that_no_table_takes() -> None:
    row = _row(QueueSample(A0, 5, 9, (_owner("\ud800x"),)), QueueDetail(last_timestamp_ms=2**62))
    assert (row["client_id"], row["last_consume_ts"]) == ("?x", None)


def test_groups_are_summed_up_and_the_largest_lag_stands_first() -> None:
    one, two, unknown = (
        compute_progress(QueueReading(A0, min_offset=0, max_offset=9, consumer_offset=at, reasons=_NONE))
        for at in (8, 7, None)
    )
    rows = [
        summary_row("a", "ONLINE", [one, two]),
        summary_row("b", "EMPTY", [two, unknown, two]),
        summary_row("c", "EMPTY", []),
    ]
    topics: dict[str, list[str]] = {"leftTopics": [], "goneTopics": []}
    assert most_behind(rows, 2) == [
        {"group": "b", "state": "EMPTY", "queueCount": 3, "lag": None, "lagAtLeast": 4, "unknownCount": 1, **topics},
        {"group": "a", "state": "ONLINE", "queueCount": 2, "lag": 3, "lagAtLeast": 3, "unknownCount": 0, **topics},
    ]
    assert most_behind(rows, 9)[-1]["lag"] is None
    partial = summary_row("d", "UNKNOWN", [one, two], Unknown.BROKER_NOT_REGISTERED)
    assert (partial["lag"], partial["lagAtLeast"], partial["unknownCount"]) == (None, 3, 0)


def test_options_of_the_job() -> None:
    assert JOB.check is not None
    assert JOB.asks_cluster(JobOptions(now_ms=0))
    assert not JOB.asks_cluster(JobOptions(now_ms=0, recordings=("a.jsonl",)))
    JOB.check(JobOptions(now_ms=0, cluster_label="L", run_id="nightly"))
    with pytest.raises(UsageError, match="unknown which cluster"):
        JOB.check(JobOptions(now_ms=0, recordings=("a.jsonl",)))
    with pytest.raises(UsageError, match="run id 'a/b'"):
        JOB.check(JobOptions(now_ms=0, cluster_label="L", run_id="a/b"))
    with pytest.raises(UsageError, match="--run-id and --recording"):
        JOB.check(JobOptions(now_ms=0, cluster_label="L", run_id="a", recordings=("a.jsonl",)))


def test_a_recording_of_other_groups_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "watched.jsonl"
    path.write_text(
        "\n".join(write_sample(_recorded(QueueSample(A0, 5, 9), group=group).sample) for group in ("pay", "other"))
    )

    def read(*groups: str) -> list[str]:
        return [recorded.sample.group for recorded in read_recordings([str(path)], groups)]

    assert (read(), read("p*"), read("other", "pay")) == (["pay", "other"], ["pay"], ["pay", "other"])
    for groups in (("orders",), ("pay", "orders"), ("x*",)):
        with pytest.raises(UsageError, match=r"^The recording is for group other, pay, not (orders|x\*)\.$"):
            read(*groups)


@pytest.mark.parametrize(
    ("name_servers", "label"),
    [
        ("10.0.0.6:9876;10.0.0.5:9876", "10.0.0.5:9876;10.0.0.6:9876"),
        ("10.0.0.5, 10.0.0.5:9876", "10.0.0.5:9876"),
        ("127.0.0.1:9876", "localhost:9876"),
        ("NS.example:1", "ns.example:1"),
        ("http://user:secret@conf.example:8080/rocketmq/nsaddr", "http://conf.example:8080/rocketmq/nsaddr"),
    ],
)
def test_name_servers_label_a_cluster(name_servers: str, label: str) -> None:
    assert default_label(name_servers) == label
    check_label(label)
    assert JobOptions(now_ms=0, name_servers=name_servers).label() == label
    assert JobOptions(now_ms=0, name_servers=name_servers, cluster_label="prod").label() == "prod"


@pytest.mark.parametrize("label", ["", " ", " a", "a\0b", "a\nb", "x" * 201])
def test_labels_that_are_refused(label: str) -> None:
    with pytest.raises(UsageError, match="Invalid --cluster-label"):
        check_label(label)
