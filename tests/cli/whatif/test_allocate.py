"""Whole runs of `rmqctl whatif allocate`: descriptions, sizes, and running groups behind real sockets."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.render import render
from rmqctl.cli.whatif.shares import to_listing
from tests.admin.cluster import Cluster, Group
from tests.cli.calls import Result, call, closed_address, spawn
from tests.cli.output.hostile import raw_in
from tests.cli.scripted_server import served
from tests.rules.allocate.test_vectors import CASES
from tests.schemas import check_document, check_item
from tests.scripted_peer import refused
from tests.whatif.groups import AS_CIRCLE, CIRCLE, T, group_cluster, says, sharing, tried, tried_once

Captured = pytest.CaptureFixture[str]
SIZE = ("--brokers", "5", "--queues", "2", "--consumers", "3")
ITEM: dict[str, Any] = {
    "queues": [{"topic": "T", "brokerName": "broker-a", "queueId": queue_id} for queue_id in range(8)],
    "clients": ["c1", "c2", "c3"],
}


def _allocate(capsys: Captured, *argv: str) -> Result:
    return call(capsys, "whatif", "allocate", *argv)


def _described(tmp_path: Path, value: Any) -> str:
    path = tmp_path / "group.json"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return str(path)


def _counts(item: dict[str, Any]) -> list[int]:
    return [len(share) for share in item["allocation"].values()]


# A group of a size


def test_who_owns_what_is_shown_with_the_balance(capsys: Captured) -> None:
    result = _allocate(capsys, *SIZE)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "averagely: 10 queues, 3 clients",
        "queues             0 moved",
        "queues per client  3 to 4 (stdev 0.5)",
        "",
        "Clients",
        "CLIENT    BEFORE  AFTER  HOLDS",
        "client-1       4      4  broker-1:0-1 broker-2:0-1",
        "client-2       3      3  broker-3:0-1 broker-4:0",
        "client-3       3      3  broker-4:1 broker-5:0-1",
    ]


def test_a_change_shows_what_moves(capsys: Captured) -> None:
    result = _allocate(capsys, "--brokers", "1", "--queues", "8", "--consumers", "3", "--remove-clients", "client-3")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "averagely: 8 queues, 2 clients",
        "queues             3 moved",
        "queues per client  4 to 4 (stdev 0), before 2 to 3 (stdev 0.5)",
        "",
        "Clients",
        "CLIENT    BEFORE  AFTER  HOLDS         GAINS         LOSES",
        "client-1       3      4  broker-1:0-3  broker-1:3    -",
        "client-2       3      4  broker-1:4-7  broker-1:6-7  broker-1:3",
        "client-3       2      0  -             -             broker-1:6-7",
        "",
        "Queues that move",
        "TOPIC  BROKER    Q  FROM      TO",
        "topic  broker-1  3  client-2  client-1",
        "topic  broker-1  6  client-3  client-2",
        "topic  broker-1  7  client-3  client-2",
    ]


def test_strategies_beside_each_other_are_rows(capsys: Captured) -> None:
    result = _allocate(capsys, *SIZE, "--add-clients", "1", "--compare", "averagely,circle,consistent-hash")
    rows = [line.split()[:5] for line in result.out.splitlines()]
    assert rows == [
        ["STRATEGY", "QUEUES", "CLIENTS", "MOVE", "DUPLICATES"],
        ["averagely", "10", "4", "4", "-"],
        ["circle", "10", "4", "7", "-"],
        ["consistent-hash", "10", "4", "3", "-"],
    ]
    assert "averagely: Unnamed additions are assumed to sort last: 6 queues would move" in result.err
    assert result.err.count("Consistent hashing is uneven") == 1


def test_compare_all_is_every_strategy_that_needs_to_be_told_nothing(capsys: Captured) -> None:
    result = _allocate(capsys, *SIZE, "--compare", "all", "-o", "name")
    assert result.out.split() == ["averagely", "circle", "consistent-hash", "sticky", "lag-weighted"]
    both = _allocate(capsys, *SIZE, "--strategy", "circle", "--compare", "all,pop-share", "-o", "name")
    assert both.out.split() == ["circle", "averagely", "consistent-hash", "sticky", "lag-weighted", "pop-share"]


def test_changes_of_every_kind_at_once(capsys: Captured) -> None:
    argv = ("--queues", "+1", "--add-brokers", "x", "--remove-broker", "broker-1", "--add-clients", "c9")
    (item,) = json.loads(_allocate(capsys, *SIZE, *argv, "-o", "json").out)["items"]
    assert (item["queueCount"], item["clientCount"]) == (15, 4)
    assert len(item["addedQueues"]) == 4 + 3
    assert {queue["brokerName"] for queue in item["removedQueues"]} == {"broker-1"}


def test_long_lists_are_cut_for_people_and_whole_when_wide(capsys: Captured) -> None:
    size = ("--brokers", "1", "--queues", "50", "--consumers", "25", "--remove-clients", "1")
    out = _allocate(capsys, *size).out
    assert "Clients (20 of 25; -o wide shows all)" in out
    assert "Queues that move (20 of 47; -o wide shows all)" in out
    wide = _allocate(capsys, *size, "-o", "wide").out
    assert len(wide.splitlines()) == len(out.splitlines()) + 5 + 27
    assert "-o wide" not in wide


# A description


def test_json_has_an_item_for_each_group_in_their_order(tmp_path: Path, capsys: Captured) -> None:
    groups = [{**ITEM, "strategy": name} for name in ("circle", "averagely", "AVG_BY_CIRCLE")]
    result = _allocate(capsys, "--spec", _described(tmp_path, groups), "-o", "json")
    assert (result.code, result.err) == (0, "")
    items = json.loads(result.out)["items"]
    assert [item["strategy"] for item in items] == ["circle", "averagely", "circle"]
    shares = [[[queue["queueId"] for queue in share] for share in item["allocation"].values()] for item in items]
    assert shares == [[[0, 3, 6], [1, 4, 7], [2, 5]], [[0, 1, 2], [3, 4, 5], [6, 7]], [[0, 3, 6], [1, 4, 7], [2, 5]]]
    assert items[0]["allocation"]["c3"][0] == {"topic": "T", "brokerName": "broker-a", "queueId": 2}


def _as_described(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case of the golden file as a description."""
    params = case.get("params") or {}

    def queues(pairs: list[list[Any]]) -> list[dict[str, Any]]:
        return [{"topic": case["topic"], "brokerName": name, "queueId": queue_id} for name, queue_id in pairs]

    options: dict[str, Any] = {
        "virtualNodes": params.get("virtualNodeCnt", 10), "rooms": params.get("consumeridcs", []),
        "popShareQueueNum": params.get("popShareQueueNum", 0),
    }  # fmt: skip
    if "messageQueueList" in params:
        options["queues"] = queues(params["messageQueueList"])
    return {
        "strategy": case["strategy"], "options": options, "queues": queues(case["mqAll"]), "clients": case["cidAll"],
    }  # fmt: skip


def test_descriptions_of_all_kinds_give_what_rocketmqs_classes_gave(tmp_path: Path, capsys: Captured) -> None:
    # Queues and ids are sorted first, as clients do; what a class refuses is told by other tests.
    cases = [case for case in CASES if case["presort"] and "errors" not in case and case["id"] != "config-02-unset"]
    assert len(cases) > 30
    spec = _described(tmp_path, [_as_described(case) for case in cases])
    items = json.loads(_allocate(capsys, "--spec", spec, "-o", "json").out)["items"]
    for case, item in zip(cases, items, strict=True):
        for client_id, expected in case["result"].items():
            got = [[queue["brokerName"], queue["queueId"]] for queue in item["allocation"].get(client_id, [])]
            # The broker lists "all queues of the broker" once a queue.
            assert got == [pair for index, pair in enumerate(expected) if pair not in expected[:index]], case["id"]


def test_every_null_has_its_reason(tmp_path: Path, capsys: Captured) -> None:
    groups = [ITEM, {**ITEM, "strategy": "pop-share"}]
    spec = _described(tmp_path, groups)
    documents = [
        json.loads(_allocate(capsys, *argv, "-o", "json").out)
        for argv in (("--spec", spec), ("--spec", spec, "--add-clients", "1", "--queues", "+1"), SIZE)
    ]
    for document in documents:
        for item in document["items"]:
            _assert_explained(item)
            assert set(item["reasons"].values()) <= {"NOT_LIVE", "NAMES_KNOWN"}


def _assert_explained(value: Any) -> None:
    """Fail unless each null of a value, and of all inside, has its reason."""
    if isinstance(value, list):
        for part in value:
            _assert_explained(part)
    if isinstance(value, dict):
        nulls = {key for key, part in value.items() if part is None}
        assert nulls == set(value.get("reasons", {})), (nulls, value.get("reasons"))
        for part in value.values():
            _assert_explained(part)


def test_a_description_comes_from_stdin_too() -> None:
    done = spawn("whatif", "allocate", "--spec", "-", "-o", "name", input=json.dumps([ITEM, ITEM]))
    assert (done.returncode, done.stdout, done.stderr) == (0, "averagely\naveragely\n", "")


def test_several_groups_are_told_apart_in_what_is_said(tmp_path: Path, capsys: Captured) -> None:
    groups = [ITEM, {**ITEM, "clients": ["c1", "c1"]}]
    result = _allocate(capsys, "--spec", _described(tmp_path, groups))
    assert result.err.splitlines()[0].startswith("Group 2: Client id c1 is used twice: ")
    both = _allocate(capsys, "--spec", _described(tmp_path, groups), "--compare", "averagely,circle")
    assert len(both.out.splitlines()) == 1 + 4
    assert "Group 2: averagely: No client would consume" in both.err


def test_what_the_command_line_says_goes_before_the_description(tmp_path: Path, capsys: Captured) -> None:
    spec = _described(tmp_path, {**ITEM, "strategy": "pop-share", "options": {"popShareQueueNum": 0}})
    (popped,) = json.loads(_allocate(capsys, "--spec", spec, "-o", "json").out)["items"]
    assert popped["allocation"]["c1"] == [{"topic": "T", "brokerName": "broker-a", "queueId": -1}]
    (shared,) = json.loads(_allocate(capsys, "--spec", spec, "--pop-share", "1", "-o", "json").out)["items"]
    # Its own share and that of the next client: 3 + 3, 3 + 2, 2 + 3.
    assert _counts(shared) == [6, 5, 5]


@pytest.mark.parametrize("form", ["csv", "tsv", "plain", "wide", "jsonl", "yaml", "name", "table"])
def test_every_format_has_a_row_for_each_item(form: str, tmp_path: Path, capsys: Captured) -> None:
    spec = _described(tmp_path, [ITEM, {**ITEM, "strategy": "circle"}])
    out = _allocate(capsys, "--spec", spec, "-o", form).out
    if form == "jsonl":
        for line in out.splitlines():
            check_item("Allocation", json.loads(line))
    if form == "csv":
        first, second = csv.DictReader(io.StringIO(out))
        assert (first["strategy"], second["strategy"], first["movedCount"]) == ("averagely", "circle", "0")
        assert (first["duplicateRisk"], first["queueCountStdev"]) == ("", "0.471")
    if form != "yaml":
        assert len(out.splitlines()) == (2 if form in ("jsonl", "name") else 3)


def test_names_with_controls_reach_no_terminal(tmp_path: Path, capsys: Captured) -> None:
    evil = "\x1b[31mred\x07\u202e"
    queues = [{"topic": f"T{evil}", "brokerName": f"b{evil}", "queueId": queue_id} for queue_id in range(4)]
    spec = _described(tmp_path, {"queues": queues, "clients": [f"c1{evil}", f"c1{evil}", "c2"]})
    for form in ("table", "wide", "plain", "csv", "tsv", "json", "jsonl", "yaml", "name"):
        result = _allocate(capsys, "--spec", spec, "--remove-clients", "c2", "-o", form)
        assert result.code == 0
        assert raw_in(result.out + result.err) <= ({"\t"} if form == "tsv" else set())
    refusal = _allocate(capsys, "--spec", spec, "--remove-clients", f"c3{evil}")
    assert refusal.code == 5
    assert raw_in(refusal.err) == set()


# Bad input: one sentence, nothing on stdout


def _assert_refused(result: Result, code: int, sentence: str) -> None:
    assert (result.code, result.out) == (code, "")
    first, *hint = result.err.splitlines()
    assert first.startswith("rmqctl: ")
    assert sentence in first
    assert len(hint) <= 1
    assert all(line.startswith("        ") for line in hint)


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        ([], 2, "Name one group, or give --spec, or --brokers with --queues and --consumers."),
        (["G", "--brokers", "5"], 2, "Name one group, or give --spec"),
        (["--queues", "8"], 2, "Name one group, or give --spec"),
        (["--brokers", "5", "--queues", "2"], 2, "--consumers is missing"),
        (["--brokers", "5", "--consumers", "2"], 2, "--queues is missing"),
        (["--consumers", "5", "--queues", "2"], 2, "--brokers is missing"),
        (["--brokers", "0", "--queues", "2", "--consumers", "3"], 2, "--brokers 0: the number must be at least 1."),
        (["--brokers", "-1", "--queues", "2", "--consumers", "3"], 2, "--brokers -1: the number must be at least 1."),
        (["--brokers", "5", "--queues", "0", "--consumers", "3"], 2, "--queues 0: the number must be at least 1."),
        (["--brokers", "5", "--queues", "2", "--consumers", "0"], 2, "--consumers 0: the number must be at least 1."),
        (["--brokers", "x", "--queues", "2", "--consumers", "3"], 2, "--brokers"),
        (["--brokers", "9999999", "--queues", "2", "--consumers", "3"], 2, "at most 1000000 queues"),
        (["--brokers", "1", "--queues", "9" * 30, "--consumers", "3"], 2, "at most 1000000 queues"),
        (["--brokers", "1", "--queues", "1", "--consumers", "9" * 18], 2, "at most 1000000 queues"),
        (["--brokers", "1", "--queues", "2", "--queues", "3", "--consumers", "1"], 2, "--queues gives the number of"),
        ([*SIZE, "--queues", "nonsense"], 2, "Invalid --queues 'nonsense'."),
        ([*SIZE, "--queues", "+1", "--queues", "=2"], 2, "--queues changes the number of queues twice."),
        ([*SIZE, "--queues=-2"], 2, "No queue would be left."),
        ([*SIZE, "--queues", "=0"], 2, "No queue would be left."),
        ([*SIZE, "--queues", "=999999"], 2, "at most 1000000 are supported."),
        ([*SIZE, "--remove-clients", "4"], 2, "--remove-clients 4: there are only 3."),
        ([*SIZE, "--remove-clients", "3"], 2, "No client would be left."),
        ([*SIZE, "--remove-clients", "client-9"], 5, "Client client-9 does not exist."),
        ([*SIZE, "--add-clients", "client-1"], 2, "--add-clients client-1: this client already exists."),
        ([*SIZE, "--add-clients", "0"], 2, "--add-clients 0: the number must be 1 to 1000000."),
        ([*SIZE, "--add-clients", ""], 2, "--add-clients has neither a name nor a number."),
        ([*SIZE, "--remove-broker", "broker-9"], 5, "Broker broker-9 does not exist."),
        ([*SIZE, "--remove-broker", ""], 5, "Broker  does not exist."),
        ([*SIZE, "--add-brokers", "broker-1"], 2, "--add-brokers broker-1: this broker already exists."),
        ([*SIZE, "--strategy", "avergely"], 2, "Unknown strategy 'avergely'."),
        ([*SIZE, "--strategy", ""], 2, "Unknown strategy ''."),
        ([*SIZE, "--compare", ""], 2, "--compare names no strategy."),
        ([*SIZE, "--compare", " , "], 2, "--compare names no strategy."),
        ([*SIZE, "--compare", "averagely,zzz"], 2, "Unknown strategy 'zzz'."),
        ([*SIZE, "--strategy", "config"], 2, "The strategy config needs the queues of each client."),
        ([*SIZE, "--strategy", "machine-room"], 2, "The strategy machine-room needs the rooms."),
        ([*SIZE, "--strategy", "machine-room-nearby", "--site-of", "zone"], 2, "siteOf 'zone' is neither"),
        ([*SIZE, "--strategy", "pop-share", "--pop-share", "1", "--inner", "config"], 2, "'config' cannot be used"),
        ([*SIZE, "--strategy", "consistent-hash", "--virtual-nodes", "-1"], 2, "virtualNodes is -1"),
        ([*SIZE, "--strategy", "machine-room", "--room", "r1"], 5, "Room r1 has no queues: no broker is named r1@NAME"),
        ([*SIZE, "--room", "r1"], 2, "--room is for machine-room, not for averagely."),
        ([*SIZE, "--virtual-nodes", "9", "--compare", "averagely,circle"], 2, "--virtual-nodes is for consistent-hash"),
        ([*SIZE, "--site-of", "-"], 2, "--site-of is for machine-room-nearby, not for averagely."),
        ([*SIZE, "--inner", "AVG"], 2, "--inner is for machine-room-nearby and pop-share, not for averagely."),
        ([*SIZE, "--pop-share", "1"], 2, "--pop-share is for pop-share, not for averagely."),
        ([*SIZE, "--topic", "T"], 2, "--topic needs a running group."),
        ([*SIZE, "--sample", "1s"], 2, "--sample needs a running group."),
        ([*SIZE, "--plugin", "/nonexistent.py"], 2, "/nonexistent.py"),
        (["--spec", "/nonexistent"], 2, "--spec /nonexistent: no such file or directory."),
        (["--spec", "/"], 2, "--spec /: is a directory."),
        (["--spec", ""], 2, "--spec "),
    ],
)  # fmt: skip
def test_bad_words_are_one_sentence(argv: list[str], code: int, sentence: str, capsys: Captured) -> None:
    _assert_refused(_allocate(capsys, *argv), code, sentence)


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["--strategy", "avergely"], "Did you mean averagely?"),
        (["--remove-clients", "client-9"], "Did you mean client-3 or client-2 or client-1?"),
        (["--remove-broker", "broker-11"], "Did you mean broker-1"),
        (["--columns", "movdCount"], "Did you mean movedCount"),
    ],
)
def test_unknown_names_get_suggestions(argv: list[str], hint: str, capsys: Captured) -> None:
    result = _allocate(capsys, *SIZE, *argv)
    assert result.out == ""
    assert result.err.splitlines()[1].strip().startswith(hint)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"", "The description is not JSON ("), (b"\xff", "The description is not JSON ("),
        (b"[" * 200_000, "The description is not JSON ("), ([], "The description contains no group."),
        ([ITEM, {**ITEM, "clients": []}], "Group 2 has no clients."),
        ([ITEM, {**ITEM, "strategy": "config"}], "Group 2: The strategy config needs the queues of each client."),
        ([ITEM, {**ITEM, "strategy": "zzz"}], "Group 2: Unknown strategy 'zzz'."),
        ([ITEM, ITEM["queues"]], "Group 2 is invalid: Expected `object`, got `array`."),
        ({**ITEM, "queues": ITEM["queues"] * 2}, "The description has queue T@broker-a:0 twice."),
        ({**ITEM, "strategy": ""}, "Unknown strategy ''."),
        ({**ITEM, "options": {"virtualNodes": 10**12}, "strategy": "consistent-hash"}, "virtualNodes 1000000000000"),
        ({**ITEM, "options": {"virtualNodes": 10**25}, "strategy": "consistent-hash"}, ""),
        ({**ITEM, "options": {"queues": {"c9": []}}, "strategy": "config"}, "client c9, which is not in the group"),
    ],
)  # fmt: skip
def test_a_bad_description_is_one_sentence_and_fails_as_a_whole(
    value: Any, sentence: str, tmp_path: Path, capsys: Captured
) -> None:
    spec = _described(tmp_path, value)
    _assert_refused(_allocate(capsys, "--spec", spec), 2, sentence)
    error = _allocate(capsys, "--spec", spec, "-o", "json").error
    assert (error["name"], error["exitCode"]) == ("USAGE", 2)


def test_a_number_of_queues_is_for_a_size_only(tmp_path: Path, capsys: Captured) -> None:
    _assert_refused(
        _allocate(capsys, "--spec", _described(tmp_path, ITEM), "--queues", "4"), 2, "--queues 4 cannot be used"
    )
    _assert_refused(_allocate(capsys, "G", "--queues", "4", "-n", closed_address()), 2, "--queues 4 cannot be used")


def test_an_empty_stdin_is_no_description() -> None:
    done = spawn("whatif", "allocate", "--spec", "-", input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rmqctl: The description is not JSON (")


# A running group


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a way to serve a cluster; NAMESRV_ADDR names it."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(cluster: Cluster) -> Cluster:
            monkeypatch.setenv("NAMESRV_ADDR", stack.enter_context(served(cluster)))
            return cluster

        yield start


def _live(capsys: Captured, *argv: str) -> Result:
    return _allocate(capsys, "G", "--sample", "0", *argv)


def test_a_group_as_it_is(serve: Any, capsys: Captured) -> None:
    serve(sharing())
    result = _live(capsys)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "G by averagely: 8 queues, 3 clients",
        "queues             0 moved",
        "queues per client  2 to 3 (stdev 0.5)",
        "lag per client     40 to 60 (stdev 9.4)",
        "msg/s per client   unknown",
        "now                as computed by the group's strategy; looks like averagely",
        "consumed twice     up to 0 messages",
        "",
        "Clients",
        "CLIENT  BEFORE  AFTER  LAG  MSG/S  HOLDS",
        "c1           3      3   60      -  broker-a:0-2",
        "c2           3      3   60      -  broker-a:3 broker-b:0-1",
        "c3           2      2   40      -  broker-b:2-3",
    ]


def test_queues_are_told_with_the_topic_where_the_group_has_several(capsys: Captured, tmp_path: Path) -> None:
    queues = [{"topic": topic, "brokerName": "broker-a", "queueId": queue_id} for topic in "TU" for queue_id in (0, 1)]
    spec = _described(tmp_path, {"queues": queues[:3], "clients": ["c1", "c2"]})
    result = _allocate(capsys, "--spec", spec)
    assert result.out.splitlines()[-2:] == [
        "c1           2      2  T@broker-a:0 U@broker-a:0",
        "c2           1      1  T@broker-a:1",
    ]
    one = _described(tmp_path, {"queues": queues[:1], "clients": ["c1"]})
    assert _allocate(capsys, "--spec", one).out.splitlines()[0] == "averagely: 1 queue, 1 client"


def test_a_running_group_in_json(serve: Any, capsys: Captured) -> None:
    serve(sharing(AS_CIRCLE))
    (item,) = json.loads(_live(capsys, "-o", "json").out)["items"]
    assert (item["group"], item["strategy"], item["movedCount"], item["duplicateRisk"]) == ("G", "averagely", 6, 0)
    assert (item["isAsComputed"], item["looksLike"]) == (False, ["circle"])
    assert item["differingClientIds"] == ["c1", "c2", "c3"]
    assert [concern["code"] for concern in item["concerns"]] == ["NOT_AS_COMPUTED"]
    assert item["reasons"] == {
        "mostMovedCount": "NAMES_KNOWN", "rateMin": "NOT_SAMPLED", "rateMax": "NOT_SAMPLED", "rateStdev": "NOT_SAMPLED",
    }  # fmt: skip
    assert item["clients"][0]["reasons"] == {"rate": "NOT_SAMPLED"}
    _assert_explained(item)


def test_messages_a_second_are_counted_over_a_moment(serve: Any, capsys: Captured) -> None:
    serve(sharing())
    (item,) = json.loads(_allocate(capsys, "G", "--sample", "50ms", "-o", "json").out)["items"]
    assert (item["rateMin"], item["rateMax"], item["clients"][0]["rate"]) == (0, 0, 0)
    assert "rateMin" not in item["reasons"]


def test_counting_for_no_time_that_can_be_read_is_a_mistake(serve: Any, capsys: Captured) -> None:
    cluster = serve(sharing())
    _assert_refused(_allocate(capsys, "G", "--sample", "soon"), 2, "--sample: ")
    assert cluster.servers["broker-a"].asked == []


def test_a_broker_that_is_down_is_exit_code_8_and_nothing_looks_whole(serve: Any, capsys: Captured) -> None:
    cluster = sharing()
    cluster.addresses["broker-b"] = closed_address()
    serve(cluster)
    result = _live(capsys, "--remove-clients", "c3")
    assert result.code == 8
    assert "lag per client     unknown\n" in result.out
    assert "consumed twice     unknown" in result.out
    assert "No answer from broker-b: " in result.err
    assert "rmqctl: not read: broker-b: offsets: " in result.err
    quiet = _live(capsys, "--remove-clients", "c3", "-q")
    assert quiet.code == 8
    assert "rmqctl: not read: broker-b: " in quiet.err
    document = json.loads(_live(capsys, "--remove-clients", "c3", "-o", "json").out)
    (item,) = document["items"]
    assert {error["brokerName"] for error in document["errors"]} == {"broker-b"}
    assert (item["duplicateRisk"], item["reasons"]["duplicateRisk"]) == (None, "BROKER_UNREACHABLE")
    assert item["concerns"][0]["code"] == "SILENT_BROKERS"
    _assert_explained(item)


def test_a_silent_member_is_exit_code_8(serve: Any, capsys: Captured) -> None:
    serve(group_cluster({"c1": says(T[:4]), "c2": refused(207, "consumer timed out")}))
    result = _live(capsys)
    assert result.code == 8
    assert "now                not every client reported its queues; looks like averagely" in result.out
    assert "c2 did not report" in result.err


def test_unknown_groups_and_topics_are_exit_code_5(serve: Any, capsys: Captured) -> None:
    serve(sharing())
    _assert_refused(_allocate(capsys, "GG", "--sample", "0"), 5, "Group GG does not exist.")
    _assert_refused(_live(capsys, "--topic", "V"), 5, "Topic V does not exist.")


def test_nobody_online_is_said_and_clients_may_be_added(serve: Any, capsys: Captured) -> None:
    serve(group_cluster({}))
    _assert_refused(_live(capsys), 5, "Group G has no members that brokers can see.")
    result = _live(capsys, "--add-clients", "2")
    assert result.code == 0
    assert "now                no members" in result.out
    (item,) = json.loads(_live(capsys, "--add-clients", "2", "-o", "json").out)["items"]
    assert (item["before"]["allocation"], _counts(item)) == ({}, [4, 4])
    assert item["reasons"]["isAsComputed"] == "NO_MEMBERS"


def test_members_behind_proxies_are_not_known_to_be_there(serve: Any, capsys: Captured) -> None:
    cluster = group_cluster({})
    cluster.brokers["broker-a"].groups["CID_DefaultHeartBeatSyncerTopic"] = Group({"proxy": says([])}, ())
    serve(cluster)
    _assert_refused(_live(capsys), 5, "Group G has no members that brokers can see (BEHIND_PROXY).")
    assert "Proxies are connected: there may be members" in _live(capsys, "--add-clients", "1").err


def test_nobody_seen_while_a_broker_is_down_is_no_absence(serve: Any, capsys: Captured) -> None:
    cluster = group_cluster({})
    cluster.addresses["broker-b"] = closed_address()
    serve(cluster)
    _assert_refused(_live(capsys), 6, "but broker-b could not be read")


def test_a_broadcasting_group_shares_nothing(serve: Any, capsys: Captured) -> None:
    serve(group_cluster({"c1": says(T)}, message_model="BROADCASTING"))
    _assert_refused(_live(capsys), 2, "Group G is broadcasting")


def test_a_strategy_is_tried_on_what_members_hold(serve: Any, capsys: Captured) -> None:
    serve(sharing(AS_CIRCLE, strategy=CIRCLE))
    result = _live(capsys, "--compare", "circle,averagely")
    assert [line.split()[:4] for line in result.out.splitlines()[1:]] == [
        ["circle", "8", "3", "0"], ["averagely", "8", "3", "6"],
    ]  # fmt: skip


def test_unknown_strategies_are_found_before_the_cluster_is_asked(serve: Any, capsys: Captured) -> None:
    cluster = serve(sharing())
    assert _live(capsys, "--strategy", "zzz").code == 2
    assert cluster.name_server.asked == []


# On a terminal


def _on_a_terminal(width: int, *argv: str) -> list[str]:
    """Return the lines that a terminal of a width shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-m", "rmqctl", "whatif", "allocate", "--no-color", *argv],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().split("\r\n")


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_shows_who_has_what_at_any_width(width: int, tmp_path: Path) -> None:
    clients = [f"192.168.100.{number}@{10_000 + number}#1234567890123456" for number in range(1, 4)]
    lines = _on_a_terminal(width, "--spec", _described(tmp_path, {**ITEM, "clients": clients}), "--add-clients", "c9")
    assert max(map(len, lines)) <= width
    heading = next(line for line in lines if line.startswith("CLIENT")).split()
    assert heading[:4] == ["CLIENT", "BEFORE", "AFTER", "HOLDS"]
    assert ("LOSES" in heading) == (width == 200)
    # Nothing of a long id is cut, but it may be folded.
    assert sum(line.startswith("192.168.") for line in lines) >= 3
    if width == 200:
        assert all(any(line.startswith(f"{client_id} ") for line in lines) for client_id in clients)


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_shows_strategies_beside_each_other(width: int) -> None:
    lines = _on_a_terminal(width, *SIZE, "--compare", "averagely,circle", "-q")
    assert lines[0].split()[:4] == ["STRATEGY", "QUEUES", "CLIENTS", "MOVE"]
    assert [line.split()[0] for line in lines[1:3]] == ["averagely", "circle"]


def test_hostile_members_reach_no_terminal(capsys: Captured) -> None:
    evil = "\x1b[31mred\x07"
    cluster = sharing({f"c{evil}": T[:4], "c2": T[4:]}, strategy=f"com.example.{evil}")
    for trials in ([tried_once(cluster, "circle")], tried(cluster, "circle", "averagely")):
        for form in ("table", "json", "csv", "name"):
            render(to_listing(trials), Display(format=form))
            captured = capsys.readouterr()
            assert raw_in(captured.out + captured.err) == set()
            if form == "json":
                check_document(json.loads(captured.out))
