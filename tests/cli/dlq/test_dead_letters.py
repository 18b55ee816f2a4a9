"""Whole runs of the `dlq` commands against a scripted cluster behind real sockets."""

from __future__ import annotations

import base64
import csv
import json
import sys
from pathlib import Path

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.admin.message_store import NOW_MS, MessageStore, damaged, message_cluster
from tests.cli.calls import call
from tests.cli.scripted_server import Serve
from tests.schemas import check_document, check_item

Captured = pytest.CaptureFixture[str]
HOUR_MS = 3_600_000
TOPIC = "%DLQ%G"
# Body, tag, origin topic and retries of each, in turn on broker-a and broker-b, a minute apart.
_LETTERS = (
    (b'{"id": 0, "to": {"region": "EU"}}', "created", "orders", 3),
    (b'{"id": 1, "to": {"region": "US"}}', "created", "orders", 3),
    (b"\xff\xfe no text", "paid", "orders", 1),
    (b'{"id": 3, "to": {"region": "EU"}, "note": ""}', "paid", "payments", 3),
    (b"plain \xe2\x82\xac, \"quoted\"\nlines", None, "payments", 2),
)  # fmt: skip


class _Scene:
    """Two brokers with dead letters of G; H has an empty dead-letter topic, K none."""

    def __init__(self) -> None:
        self.stores = [
            MessageStore(BrokerState(name, configured={"G", "H", "K"}, topics={"%DLQ%H": [Queue()]}))
            for name in ("broker-a", "broker-b")
        ]
        for number, (body, tag, topic, times) in enumerate(_LETTERS):
            self.stores[number % 2].put(
                TOPIC, 0, body=body, tag=tag, keys=f"k{number} all", uniq=f"ID{number}", at_ms=NOW_MS + number * 60_000,
                reconsume_times=times, more={"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": f"FIRST{number}"},
            )  # fmt: skip
        self.cluster: Cluster = message_cluster(*self.stores)


@pytest.fixture
def scene(serve: Serve) -> _Scene:
    scene = _Scene()
    serve(scene.cluster)
    return scene


def _ids(capsys: Captured, *words: str) -> list[str]:
    result = call(capsys, "dlq", "show", "G", *words, "-o", "json")
    document = json.loads(result.out)
    check_document(document)
    return [item["msgId"] for item in document["items"]]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ([], "01234"),
        (["--topic", "orders"], "012"),
        (["--topic", "orders", "--topic", "payments", "--tag", "paid"], "23"),
        (["--id", "ID3", "--id", "FIRST1"], "13"),
        (["--key", "k2"], "2"),
        (["--property", "RETRY_TOPIC=payments"], "34"),
        (["--contains", "region"], "013"),
        (["--body-match", "to.region == 'EU'"], "03"),
        (["--body-match", "id > `0`"], "13"),
        (["--body-match", "note"], ""),  # empty is false
        (["--since", str(NOW_MS + 60_000), "--until", str(NOW_MS + 120_000)], "12"),
        (["--limit", "2"], "01"),
    ],
)
def test_show_by_condition(words: list[str], numbers: str, scene: _Scene, capsys: Captured) -> None:
    assert _ids(capsys, *words) == [f"ID{number}" for number in numbers]


def test_show_in_a_table_in_full_and_as_lines(scene: _Scene, capsys: Captured) -> None:
    result = call(capsys, "dlq", "show", "G", "--limit", "3")
    assert (result.code, result.out.split()[:3]) == (0, ["STORED", "TOPIC", "RECONSUMED"])
    assert "--limit" in result.err
    full = call(capsys, "dlq", "show", "G", "--id", "FIRST0")
    assert full.code == 0
    assert '"region": "EU"' in full.out
    assert "originTopic" in full.out
    lines = call(capsys, "dlq", "show", "G", "--limit", "0", "-o", "jsonl").out.splitlines()
    for line in lines:
        check_item("DeadLetterList", json.loads(line))
    items = [json.loads(line) for line in lines]
    assert [(item["originTopic"], item["givenUp"]) for item in items[2:4]] == [
        ("orders", "FIRST_FAILURE"), ("payments", "AFTER_RETRIES"),
    ]  # fmt: skip
    # What a condition on the body could not be asked of is said.
    assert "2 messages" in call(capsys, "dlq", "show", "G", "--body-match", "id").err


def test_stats_count_everything_once(scene: _Scene, capsys: Captured) -> None:
    result = call(capsys, "dlq", "stats", "G", "--by", "topic", "--by", "tag", "--by", "reconsume", "-o", "json")
    document = json.loads(result.out)
    check_document(document)
    counts = {(item["by"], item["value"]): item["count"] for item in document["items"]}
    assert counts == {
        ("topic", "orders"): 3, ("topic", "payments"): 2, ("tag", "created"): 2, ("tag", "paid"): 2, ("tag", None): 1,
        ("reconsume", "1"): 1, ("reconsume", "2"): 1, ("reconsume", "3"): 3,
    }  # fmt: skip
    assert (document["summary"]["count"], document["summary"]["readCount"]) == (5, 5)
    assert "5 dead letters" in call(capsys, "dlq", "stats", "G").err


def test_list_has_groups_with_dead_letters_and_those_that_are_named(scene: _Scene, capsys: Captured) -> None:
    document = json.loads(call(capsys, "dlq", "list", "-o", "json").out)
    check_document(document)
    (item,) = document["items"]
    assert (item["group"], item["count"], item["countAtLeast"], item["isReadable"]) == ("G", 5, 5, True)
    assert [(each["brokerName"], each["count"]) for each in item["brokers"]] == [("broker-a", 3), ("broker-b", 2)]
    assert item["keptUntilTimestamp"] == item["earliestTimestamp"] + 72 * HOUR_MS
    named = json.loads(call(capsys, "dlq", "list", "*", "-o", "json").out)
    assert [(each["group"], each["count"]) for each in named["items"]] == [("G", 5), ("H", 0), ("K", 0)]
    assert call(capsys, "dlq", "list", "X").code == 5


def test_list_counts_what_is_new(scene: _Scene, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: (NOW_MS + 5 * 60_000) * 1_000_000)
    (item,) = json.loads(call(capsys, "dlq", "list", "--new", "150s", "-o", "json").out)["items"]
    assert (item["newCount"], item["count"]) == (2, 5)


def test_a_group_without_dead_letters_is_no_error_and_one_that_there_is_not_is(scene: _Scene, capsys: Captured) -> None:
    for group in ("H", "K"):
        result = call(capsys, "dlq", "show", group)
        assert (result.code, result.out) == (0, "")
        assert "no dead letters" in result.err
    assert call(capsys, "dlq", "show", "X").code == 5
    assert call(capsys, "dlq", "export", "X", "--to", "-").code == 5


@pytest.mark.parametrize("name", ["letters.jsonl", "letters.csv"])
def test_an_export_is_lossless(name: str, scene: _Scene, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / name
    document = json.loads(call(capsys, "dlq", "export", "G", "--to", str(path), "-o", "json").out)
    check_document(document)
    assert (document["items"][0]["count"], document["items"][0]["sizeBytes"]) == (5, path.stat().st_size)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    rows = (
        [json.loads(line) for line in text.splitlines()]
        if name.endswith("l")
        else list(csv.DictReader(text.splitlines(keepends=True)))
    )
    assert [base64.b64decode(row["bodyBase64"]) for row in rows] == [body for body, *_ in _LETTERS]
    assert rows[4]["body"] == _LETTERS[4][0].decode()
    assert not rows[2]["body"]
    properties = rows[4]["properties"]
    assert (json.loads(properties) if isinstance(properties, str) else properties) == {
        "KEYS": "k4 all", "UNIQ_KEY": "ID4", "RETRY_TOPIC": "payments", "ORIGIN_MESSAGE_ID": "FIRST4",
    }  # fmt: skip
    again = call(capsys, "dlq", "export", "G", "--to", str(path))
    assert again.code == 2
    assert path.read_text() == text
    assert call(capsys, "dlq", "export", "G", "--to", str(path), "--force", "--tag", "paid").code == 0
    assert len(path.read_text()) < len(text)


def test_an_export_to_stdout_has_nothing_else_there(scene: _Scene, capsys: Captured) -> None:
    result = call(capsys, "dlq", "export", "G", "--to", "-", "--tag", "paid")
    assert [json.loads(line)["msgId"] for line in result.out.splitlines()] == ["ID2", "ID3"]
    assert (result.code, "2 dead letters" in result.err) == (0, True)


@pytest.mark.parametrize(
    "words",
    [
        ["show", "G", "--body-match", "to."], ["show", "G", "--limit", "0"], ["stats", "G", "--by", "colour"],
        ["export", "G", "--to", "letters"], ["export", "G", "--to", "-", "--format", "parquet"],
        ["export", "G", "--to", "x.csv", "--format", "xml"], ["list", "--new", "soon"], ["show", "G", "--since", "x"],
        ["show", "G", "--yes"],
    ],
)  # fmt: skip
def test_what_can_not_be_asked(words: list[str], scene: _Scene, capsys: Captured) -> None:
    result = call(capsys, "dlq", *words)
    assert (result.code, result.out) == (2, "")


def test_without_pyarrow_parquet_says_what_to_install(
    scene: _Scene, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "rmqctl.pipeline.tables.letter_parquet", raising=False)
    result = call(capsys, "dlq", "export", "G", "--to", str(tmp_path / "letters.parquet"))
    assert (result.code, "pyarrow" in result.err) == (2, True)
    assert not [*tmp_path.glob("*letters*"), *tmp_path.glob(".rmqctl-*")]


# What can't be read


def _errors(capsys: Captured, *words: str) -> tuple[int, list[str]]:
    result = call(capsys, "dlq", *words, "-o", "json")
    return result.code, [error["what"] for error in json.loads(result.out)["errors"]]


def test_messages_that_can_not_be_read_are_named_by_their_place(
    scene: _Scene, capsys: Captured, tmp_path: Path
) -> None:
    stored = scene.stores[0].queues[TOPIC, 0][1]
    stored.record = damaged(stored.record)
    path = tmp_path / "letters.jsonl"
    for words in (["show", "G"], ["stats", "G"], ["export", "G", "--to", str(path)]):
        code, errors = _errors(capsys, *words)
        assert code == 8
        assert len(errors) == 1
        assert "offset 1" in errors[0]
    assert [json.loads(line)["msgId"] for line in path.read_text().splitlines()] == ["ID0", "ID1", "ID3", "ID4"]
    for form in ("table", "yaml"):
        result = call(capsys, "dlq", "export", "G", "--to", "-", "-o", form)
        assert (result.code, len(result.out.splitlines()), "offset 1" in result.err) == (8, 4, True)


def test_what_expires_during_the_reading_is_named(scene: _Scene, capsys: Captured) -> None:
    store = scene.stores[0]
    table = scene.cluster.servers["broker-a"].table
    pull = table[Q.PULL_MESSAGE]

    def deleting(request: Command) -> Command:
        store.first[TOPIC, 0] = 2
        assert callable(pull)
        return pull(request)  # type: ignore[return-value]

    table[Q.PULL_MESSAGE] = deleting
    code, errors = _errors(capsys, "show", "G")
    assert code == 8
    assert len(errors) == 1
    assert "offsets 0 to 1" in errors[0]


def test_a_broker_that_is_down_makes_it_partial(serve: Serve, capsys: Captured) -> None:
    scene = _Scene()
    serve(scene.cluster, down=["broker-b"])
    for words in (["show", "G"], ["stats", "G"], ["list"]):
        result = call(capsys, "dlq", *words, "-o", "json")
        assert result.code == 8
        document = json.loads(result.out)
        assert {error["brokerName"] for error in document["errors"]} == {"broker-b"}
        if words[0] == "stats":
            summary = document["summary"]
            assert (summary["count"], summary["countAtLeast"], [*summary["reasons"]]) == (None, 3, ["count"])
            assert "at least 3 dead letters" in call(capsys, "dlq", *words).err
    # Of H nothing is known to be there, and it may be on the other broker.
    items = {item["group"]: item for item in json.loads(result.out)["items"]}
    assert {group: (item["count"], item["countAtLeast"]) for group, item in items.items()} == {
        "G": (None, 3), "H": (None, 0),
    }  # fmt: skip
    assert items["G"]["reasons"]["count"]


def test_with_all_brokers_down_nothing_is_called_empty(serve: Serve, capsys: Captured, tmp_path: Path) -> None:
    scene = _Scene()
    path = tmp_path / "letters.jsonl"
    serve(scene.cluster, down=["broker-a", "broker-b"])
    for words in (["show", "G"], ["stats", "G"], ["list"], ["export", "G", "--to", str(path)]):
        result = call(capsys, "dlq", *words)
        assert (result.code, result.out) == (6, "")
    assert not [*tmp_path.glob("*letters*"), *tmp_path.glob(".rmqctl-*")]


def test_a_topic_that_is_write_only_is_explained(scene: _Scene, capsys: Captured) -> None:
    scene.stores[1].state.topic_configs[TOPIC] = {"perm": 2}
    code, errors = _errors(capsys, "show", "G")
    assert (code, errors) == (8, ["dead letters"])
    result = call(capsys, "dlq", "list")
    assert "--fix-permission" in result.err
    (item,) = json.loads(call(capsys, "dlq", "list", "-o", "json").out)["items"]
    assert (item["count"], item["isReadable"]) == (5, False)
    scene.stores[0].state.topic_configs[TOPIC] = {"perm": 2}
    result = call(capsys, "dlq", "show", "G")
    assert (result.code, result.out) == (1, "")
    assert "--fix-permission" in result.err
