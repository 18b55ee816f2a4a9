"""What `offset export` writes, and that it reads back as it was."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.changes.offsets.files import OffsetFile, parse_offsets
from rmqctl.changes.offsets.given_offsets import resolve_brokers
from rmqctl.cli.globals import TABLE_FORMATS
from rmqctl.cli.offset.export import Export, to_csv_listing, to_listing
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.render import render
from rmqctl.cli.output.text import printable
from rmqctl.model.group import GroupState
from rmqctl.model.progress import QueueReading, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.rules.progress import compute_progress
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.cli.scripted_server import Serve
from tests.schemas import check_document

from .calls import call, closed_address

Captured = pytest.CaptureFixture[str]
Place = tuple[str, str | None, int, int | None]


def _cluster() -> Cluster:
    """Return two brokers with a topic on both and one on broker-a alone; a queue each has nothing stored."""
    a, b = BrokerState("broker-a"), BrokerState("broker-b")
    for broker in (a, b):
        broker.topics["orders"] = [Queue(100, 10), Queue(100)]
        broker.configured |= {"payments", "idle"}
        broker.offsets["payments"] = {"orders": {0: 60}}
    a.topics["lone"] = [Queue(9)]
    a.offsets["payments"]["lone"] = {0: 0}
    return Cluster(a, b)


@pytest.fixture
def cluster(serve: Serve) -> Cluster:
    return serve(_cluster())


@pytest.fixture
def partial(serve: Serve) -> Cluster:
    return serve(_cluster(), down=["broker-b"])


def _places(file: OffsetFile) -> list[Place]:
    return [(entry.topic, entry.broker_name, entry.queue_id, entry.offset) for entry in file.entries]


_STORED: list[Place] = [("lone", "broker-a", 0, 0), ("orders", "broker-a", 0, 60), ("orders", "broker-b", 0, 60)]
_NOT_STORED: list[Place] = [("orders", "broker-a", 1, None), ("orders", "broker-b", 1, None)]


# JSON


@pytest.mark.parametrize("argv", [(), ("-o", "json"), ("-o", "wide"), ("-o", "plain")], ids=" ".join)
def test_json_is_what_comes_without_asking(argv: tuple[str, ...], cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "offset", "export", "payments", *argv)
    assert result.code == 0
    document = json.loads(result.out)
    check_document(document)
    assert (document["kind"], document["group"], document["cluster"]) == ("OffsetExport", "payments", "C")
    assert document["exportedAtMs"] > 1_700_000_000_000
    assert document["exportedAtIso"].endswith("Z")
    assert document["items"][1] == {
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": 0,
        "isReadable": True,
        "consumerOffset": 60,
        "minOffset": 10,
        "maxOffset": 100,
        "reasons": {},
    }
    file = parse_offsets(result.out.encode())
    assert file.group == "payments"
    assert sorted(_places(file), key=str) == sorted(_STORED + _NOT_STORED, key=str)


def test_queues_with_nothing_stored_are_null_and_named(cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "offset", "export", "payments")
    nulls = [item for item in json.loads(result.out)["items"] if item["consumerOffset"] is None]
    assert [item["reasons"] for item in nulls] == [{"consumerOffset": "NEVER_COMMITTED"}] * 2
    assert result.err == "Null (no offset is stored): orders@broker-a:1, orders@broker-b:1.\n"
    assert call(capsys, "offset", "export", "payments", "-q").err == ""


def test_what_could_not_be_read_is_said_whatever_the_format(partial: Cluster, capsys: Captured) -> None:
    for argv in (), ("-o", "csv"), ("--kafka",):
        result = call(capsys, "offset", "export", "payments", *argv, "-q")
        assert result.code == 8
        assert result.err.startswith("rmqctl: not read: broker-b: offsets: ")
        assert len(result.err.splitlines()) == 1
    result = call(capsys, "offset", "export", "payments")
    document = json.loads(result.out)
    check_document(document)
    assert [error["brokerName"] for error in document["errors"]] == ["broker-b"]
    assert "Null (not read: BROKER_UNREACHABLE): orders@broker-b:0, orders@broker-b:1." in result.err
    assert (
        "Left out (not read: BROKER_UNREACHABLE): orders@broker-b:0"
        in call(capsys, "offset", "export", "payments", "-o", "csv").err
    )


def test_what_a_slave_lacks_is_not_read_and_so_says_the_file(cluster: Cluster, capsys: Captured) -> None:
    cluster.slaves = {"broker-a"}
    cluster.brokers["broker-a"].offsets.clear()
    result = call(capsys, "offset", "export", "payments", "--topic", "orders")
    assert (result.code, "not read: broker-a: master, its slave answered" in result.err) == (8, True)
    document = json.loads(result.out)
    check_document(document)
    file = parse_offsets(result.out.encode())
    assert [bool(entry.unread) for entry in file.entries if entry.broker_name == "broker-a"] == [True, True]
    assert [bool(entry.unread) for entry in file.entries if entry.broker_name == "broker-b"] == [False, False]
    assert len(file.not_read) == 1
    # The reasons in a file are not believed against its errors.
    for item in document["items"]:
        item["reasons"] = {"consumerOffset": "NEVER_COMMITTED"} if item["consumerOffset"] is None else {}
    again = parse_offsets(json.dumps(document).encode())
    assert {entry.queue_id for entry in again.entries if entry.unread} == {0, 1}
    csv = call(capsys, "offset", "export", "payments", "--topic", "orders", "-o", "csv")
    assert (csv.code, len(parse_offsets(csv.out.encode()).not_read)) == (8, 1)


def _cut(cluster: Cluster) -> None:
    """Let broker-a have had three queues of orders; the group has not read all of the third one."""
    a = cluster.brokers["broker-a"]
    a.offsets["payments"]["orders"] |= {2: 5, 3: 9}
    a.cut_queues = {("orders", 2): Queue(9, 1), ("orders", 3): Queue(9)}


def test_offsets_of_queues_that_no_consumer_can_read_are_part_of_a_backup(cluster: Cluster, capsys: Captured) -> None:
    _cut(cluster)
    result = call(capsys, "offset", "export", "payments", "--topic", "orders", "-q")
    document = json.loads(result.out)
    check_document(document)
    cut = [item for item in document["items"] if not item["isReadable"]]
    assert [(item["queueId"], item["consumerOffset"], item["maxOffset"]) for item in cut] == [(2, 5, 9), (3, 9, 9)]
    assert (result.code, "4 messages of orders are in 1 queue that no consumer can read" in result.err) == (0, True)
    csv = call(capsys, "offset", "export", "payments", "--topic", "orders", "-o", "csv")
    assert (csv.code, "orders@broker-a:2 at 5" in csv.err) == (0, True)
    assert {entry.queue_id for entry in parse_offsets(csv.out.encode()).entries} == {0}


def test_an_import_leaves_out_what_no_consumer_can_read_until_it_can(
    cluster: Cluster, capsys: Captured, tmp_path: Path
) -> None:
    _cut(cluster)
    path = tmp_path / "payments.json"
    path.write_text(call(capsys, "offset", "export", "payments", "--topic", "orders").out)
    argv = ("offset", "import", str(path), "--dry-run", "-o", "json")

    def planned() -> tuple[int, set[tuple[str, int]], list[str]]:
        result = call(capsys, *argv)
        plan = json.loads(result.out)
        queues = {(item["brokerName"], item["queueId"]) for item in plan["items"]}
        return result.code, queues, [each["code"] for each in plan["consequences"]]

    code, queues, consequences = planned()
    assert (code, ("broker-a", 2) in queues, consequences.count("UNREADABLE_QUEUES")) == (0, False, 2)
    copied = call(capsys, "offset", "clone", "payments", "idle", "--dry-run", "-o", "json")
    assert "UNREADABLE_QUEUES" in [each["code"] for each in json.loads(copied.out)["consequences"]]
    cluster.brokers["broker-a"].topics["orders"] += [Queue(9, 1), Queue(9)]
    code, queues, consequences = planned()
    assert (code, ("broker-a", 2) in queues, "UNREADABLE_QUEUES" in consequences) == (0, True, False)


def test_nobody_there_is_an_error_and_leaves_no_file(capsys: Captured, tmp_path: Path) -> None:
    result = call(capsys, "offset", "export", "payments", "-n", closed_address(), "--outfile", str(tmp_path / "x"))
    assert (result.code, result.out) == (6, "")
    assert list(tmp_path.iterdir()) == []


def test_topics_are_picked_by_name_and_pattern(cluster: Cluster, capsys: Captured) -> None:
    for topic in ("lone", "lo*", "l?ne"):
        items = json.loads(call(capsys, "offset", "export", "payments", "--topic", topic).out)["items"]
        assert [item["topic"] for item in items] == ["lone"]
    result = call(capsys, "offset", "export", "payments", "--topic", "lune")
    assert (result.code, result.err.splitlines()[-1].strip()) == (5, "Did you mean lone?")


def test_a_group_that_never_consumed_has_an_empty_export_and_that_is_said(cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "offset", "export", "idle")
    assert (result.code, json.loads(result.out)["items"]) == (0, [])
    assert result.err == "Group idle has no offsets and no subscription: there is nothing to export.\n"


def test_that_a_group_has_members_is_said(cluster: Cluster, capsys: Captured) -> None:
    member = running({("orders", "broker-a", 0): held(commit=60)})
    cluster.brokers["broker-a"].groups["payments"] = Group({"c1": member}, ("orders", "lone"))
    err = call(capsys, "offset", "export", "payments").err
    assert "Group payments has members" in err


def test_nothing_is_asked_that_changes_a_broker(cluster: Cluster, capsys: Captured) -> None:
    call(capsys, "offset", "export", "payments", "--kafka")
    asked = {request.code for server in cluster.servers.values() for request in server.asked}
    assert Q.GET_CONSUME_STATS in asked
    assert asked <= {
        Q.GET_CONSUME_STATS,
        Q.GET_CONSUMER_CONNECTION_LIST,
        Q.GET_TOPIC_STATS_INFO,
        Q.QUERY_CONSUME_TIME_SPAN,
        Q.QUERY_CONSUMER_OFFSET,
        Q.GET_ALL_CONSUMER_OFFSET,
        Q.GET_BROKER_CONFIG,
        Q.GET_BROKER_RUNTIME_INFO,
    }


# CSV


def test_csv_has_a_heading_and_stored_offsets_only(cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "offset", "export", "payments", "-o", "csv")
    assert result.code == 0
    assert result.out.splitlines() == [
        "topic,brokerName,queueId,offset",
        "lone,broker-a,0,0",
        "orders,broker-a,0,60",
        "orders,broker-b,0,60",
    ]
    assert result.err == "Left out (no offset is stored): orders@broker-a:1, orders@broker-b:1.\n"
    assert _places(parse_offsets(result.out.encode())) == _STORED


def test_kafkas_csv_names_the_broker_where_there_are_several(cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "offset", "export", "payments", "--kafka")
    assert result.out.splitlines() == ["lone,0,0", "orders,broker-a:0,60", "orders,broker-b:0,60"]
    counts = {("lone", "broker-a"): 1, ("orders", "broker-a"): 2, ("orders", "broker-b"): 2}
    resolved = resolve_brokers(parse_offsets(result.out.encode()).entries, counts)
    assert [(*mq, entry.offset) for mq, entry in resolved.items()] == _STORED


def test_kafkas_csv_goes_by_the_route_and_not_by_the_rows(cluster: Cluster, capsys: Captured) -> None:
    # As a retry topic: on both brokers, with offsets and messages on one.
    retry = "%RETRY%payments"
    for broker in cluster.brokers.values():
        broker.topics[retry] = [Queue(0)]
    cluster.brokers["broker-a"].offsets["payments"][retry] = {0: 0}
    result = call(capsys, "offset", "export", "payments", "--kafka", "--topic", retry)
    assert result.out == f"{retry},broker-a:0,0\n"


def test_where_and_sort_go_by_what_stands_in_json(cluster: Cluster, capsys: Captured) -> None:
    for argv, expected in (
        (("--where", "minOffset=10"), ["orders,broker-a,0,60", "orders,broker-b,0,60"]),
        (("--sort", "-topic,-brokerName"), ["orders,broker-b,0,60", "orders,broker-a,0,60", "lone,broker-a,0,0"]),
    ):
        result = call(capsys, "offset", "export", "payments", "-o", "csv", *argv)
        assert result.out.splitlines()[1:] == expected


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("-o", "yaml"), "-o yaml is not supported"),
        (("-o", "tsv"), "-o tsv is not supported"),
        (("-o", "name"), "-o name is not supported"),
        (("--columns", "topic"), "--columns is not supported"),
        (("-o", "csv", "--no-headers"), "--no-headers is not supported"),
        (("--force",), "--force needs --outfile FILE."),
        (("--outfile", "-", "--force"), "--force needs --outfile FILE."),
    ],
)
def test_what_could_not_be_read_back_is_refused_before_anybody_is_asked(
    argv: tuple[str, ...], sentence: str, capsys: Captured
) -> None:
    result = call(capsys, "offset", "export", "payments", "-n", closed_address(), *argv)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"rmqctl: {sentence}")


def test_a_context_whose_output_is_a_table_does_not_change_an_export(cluster: Cluster, capsys: Captured) -> None:
    written = call(capsys, "offset", "export", "payments").out
    for form in TABLE_FORMATS:
        result = call(capsys, "offset", "export", "payments", "-o", form)
        exported = parse_offsets(result.out.encode())
        assert (result.code, exported.entries) == (0, parse_offsets(written.encode()).entries), form


def test_refusals_are_json_where_json_was_asked_for(capsys: Captured) -> None:
    for argv, sentence in (
        (("-o", "jsonl"), "-o jsonl is not supported: offset import cannot read it."),
        (("-o", "json", "--kafka"), "--kafka writes CSV, not JSON."),
    ):
        result = call(capsys, "offset", "export", "payments", "-n", closed_address(), *argv)
        assert (result.code, result.error["message"]) == (2, sentence)


def test_what_offset_show_prints_reads_back_as_well(cluster: Cluster, capsys: Captured) -> None:
    printed = call(capsys, "offset", "show", "payments", "-o", "json").out
    file = parse_offsets(printed.encode())
    exported = parse_offsets(call(capsys, "offset", "export", "payments").out.encode())
    assert (file.group, file.entries) == (exported.group, exported.entries)
    # A listing may be of several clusters, and names none.
    assert (file.clusters, exported.clusters) == ((), ("C",))
    printed = call(capsys, "offset", "show", "payments", "-o", "csv", "--where", "consumerOffset>=0").out
    assert _places(parse_offsets(printed.encode())) == _STORED


# Files


@pytest.mark.parametrize("argv", [(), ("-o", "csv"), ("--kafka",)], ids=" ".join)
def test_a_file_holds_what_stdout_would(
    argv: tuple[str, ...], cluster: Cluster, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "offsets"
    result = call(capsys, "offset", "export", "payments", *argv, "--outfile", str(path))
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines()[-1] == f"Written to {path}."
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir() if "offsets" in each.name or "rmqctl-" in each.name] == ["offsets"]
    printed = call(capsys, "offset", "export", "payments", *argv, "--outfile", "-").out
    assert _places(parse_offsets(path.read_bytes())) == _places(parse_offsets(printed.encode()))


def test_a_file_that_is_there_stays_unless_forced(cluster: Cluster, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text("mine")
    path.chmod(0o644)
    result = call(capsys, "offset", "export", "payments", "--outfile", str(path))
    assert (result.code, result.err.splitlines()[0]) == (2, f"rmqctl: {path} already exists.")
    assert not any(server.asked for server in cluster.servers.values())
    assert path.read_text() == "mine"
    assert call(capsys, "offset", "export", "payments", "--outfile", str(path), "--force").code == 0
    assert len(parse_offsets(path.read_bytes()).entries) == 5
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_comes_meanwhile_stays(cluster: Cluster, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    server = cluster.servers["broker-a"]
    answer = server.table[Q.GET_CONSUME_STATS]

    def come(request: object) -> object:
        path.write_text("theirs")
        return answer

    server.table[Q.GET_CONSUME_STATS] = come  # type: ignore[assignment]
    result = call(capsys, "offset", "export", "payments", "--outfile", str(path))
    assert (result.code, result.err.splitlines()[0]) == (2, f"rmqctl: {path} already exists.")
    assert path.read_text() == "theirs"
    assert list(tmp_path.glob(".rmqctl-*")) == []


def test_a_file_system_without_links_will_do(
    cluster: Cluster, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    path = tmp_path / "offsets"
    assert call(capsys, "offset", "export", "payments", "--outfile", str(path)).code == 0
    assert parse_offsets(path.read_bytes()).group == "payments"
    assert list(tmp_path.glob(".rmqctl-*")) == []


def test_a_link_stays_and_what_it_leads_to_is_replaced(cluster: Cluster, capsys: Captured, tmp_path: Path) -> None:
    path, link = tmp_path / "offsets", tmp_path / "newest"
    path.write_text("old")
    link.symlink_to(path)
    assert call(capsys, "offset", "export", "payments", "--outfile", str(link)).code == 2
    assert call(capsys, "offset", "export", "payments", "--outfile", str(link), "--force").code == 0
    assert link.is_symlink()
    assert parse_offsets(path.read_bytes()).group == "payments"


def test_what_is_no_file_is_never_replaced(capsys: Captured, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, reason in (
        (tmp_path, "is not a regular file"),
        (tmp_path / "pipe", "is not a regular file"),
        (tmp_path / "no" / "x", "does not exist"),
    ):
        result = call(
            capsys, "offset", "export", "payments", "-n", closed_address(), "--outfile", str(place), "--force"
        )
        assert result.code == 2
        assert reason in result.err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_folder_that_takes_no_file_is_said(cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "offset", "export", "payments", "--outfile", "/proc/offsets")
    assert result.code == 1
    assert result.err.startswith("rmqctl: Cannot write /proc/offsets: ")


# What is written reads back

_NAMES = st.sampled_from(["orders", "%RETRY%G", 'a"b', "a,b", "a b", "topic", "offset", "'", "ä"]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8
)
_ROWS = st.dictionaries(
    st.tuples(_NAMES, _NAMES, st.integers(0, (1 << 31) - 1)),
    st.none() | st.integers(0, (1 << 63) - 1),
    min_size=1,
    max_size=5,
)


def _written(rows: dict[tuple[str, str, int], int | None], form: str, *, is_kafka: bool = False) -> bytes:
    progress = GroupProgress(
        group="G",
        asked_topics=(),
        state=GroupState.EMPTY,
        client_ids=frozenset(),
        unseen_reason=None,
        message_model=None,
        consume_type=None,
        consume_tps=0.0,
        rows=tuple(
            compute_progress(
                QueueReading(
                    MessageQueue(*place),
                    min_offset=0,
                    max_offset=(1 << 63) - 1,
                    consumer_offset=offset,
                    reasons={} if offset is not None else {"consumerOffset": Unknown.NEVER_COMMITTED},
                )
            )
            for place, offset in sorted(rows.items())
        ),
        failures=(),
        notes=(),
    )
    brokers = {topic: frozenset(b for t, b, _ in rows if t == topic) for topic, _, _ in rows}
    export = Export(progress, "C", brokers, 1_795_238_122_995)
    listing = to_listing(export) if form == "json" else to_csv_listing(export, is_kafka=is_kafka)
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        assert render(listing, Display(format=form, with_headers=not is_kafka)) == 0
    return out.getvalue().encode()


def _sorted(places: Sequence[Place]) -> list[Place]:
    return sorted(places, key=str)


@given(_ROWS)
def test_json_reads_back(rows: dict[tuple[str, str, int], int | None]) -> None:
    file = parse_offsets(_written(rows, "json"))
    assert file.group == "G"
    assert _sorted(_places(file)) == _sorted([(*place, offset) for place, offset in rows.items()])


_PLAIN_ROWS = _ROWS.map(
    lambda rows: {
        place: offset
        for place, offset in rows.items()
        if offset is not None and all(printable(name) == name for name in place[:2])
    }
).filter(bool)


@given(_PLAIN_ROWS)
def test_csv_reads_back(rows: dict[tuple[str, str, int], int | None]) -> None:
    file = parse_offsets(_written(rows, "csv"))
    assert _sorted(_places(file)) == _sorted([(*place, offset) for place, offset in rows.items()])


# Without a heading, a first name that begins as JSON does is taken for it.
@given(_PLAIN_ROWS.filter(lambda rows: not any(topic.lstrip()[:1] in ("{", "[", "\ufeff", "") for topic, _, _ in rows)))
def test_kafkas_csv_reads_back(rows: dict[tuple[str, str, int], int | None]) -> None:
    file = parse_offsets(_written(rows, "csv", is_kafka=True))
    counts = {(topic, broker_name): 1 << 31 for topic, broker_name, _ in rows}
    resolved = [(*mq, entry.offset) for mq, entry in resolve_brokers(file.entries, counts).items()]
    assert _sorted(resolved) == _sorted([(*place, offset) for place, offset in rows.items()])


def test_a_name_that_csv_would_change_is_refused(cluster: Cluster, capsys: Captured) -> None:
    broker = cluster.brokers["broker-a"]
    broker.topics["\x1b[31m"] = [Queue(9)]
    broker.offsets["payments"]["\x1b[31m"] = {0: 5}
    result = call(capsys, "offset", "export", "payments", "-o", "csv")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[0] == "rmqctl: The name \\x1b[31m cannot be written as CSV."
    file = parse_offsets(call(capsys, "offset", "export", "payments").out.encode())
    assert ("\x1b[31m", "broker-a", 0, 5) in _places(file)
