"""whatif churn: what restarts move, with protection mode and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import call

Captured = pytest.CaptureFixture[str]
_SIZE = ("--brokers", "5", "--queues", "2", "--consumers", "3")


def test_a_flapping_client_moves_queues_once_when_it_is_not_counted(capsys: Captured) -> None:
    flaps = ("--client", "client-2", "--times", "5", "--every", "40s", "--protection", "20s", "--protection", "60s")
    result = call(capsys, "whatif", "churn", *_SIZE, *flaps, "-o", "json")
    document = json.loads(result.out)

    assert result.code == 0
    unprotected, short, long = document["items"]
    assert [item["protectionMs"] for item in document["items"]] == [0, 20_000, 60_000]
    # Away and back, five times; then away once and back once.
    assert (unprotected["shareCount"], short["shareCount"], long["shareCount"]) == (10, 10, 2)
    assert long["moveCount"] * 5 == unprotected["moveCount"]


def test_the_table_says_what_rocketmq_does_first(capsys: Captured) -> None:
    result = call(capsys, "whatif", "churn", *_SIZE)
    assert result.out.splitlines()[0].split() == [
        "PROTECTION", "SHARES", "MOVES", "DUP-MOVES", "MOST", "UNOWNED", "DURATION",
    ]  # fmt: skip
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == ["none", "1m00s"]


def test_a_time_that_is_named_twice_has_one_row(capsys: Captured) -> None:
    times = ("--protection", "0", "--protection", "5s", "--protection", "5s")
    result = call(capsys, "whatif", "churn", *_SIZE, *times)
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == ["none", "5s"]


def test_a_lone_client_leaves_queues_without_an_owner(capsys: Captured) -> None:
    size = ("--brokers", "1", "--queues", "4", "--consumers", "1")
    result = call(capsys, "whatif", "churn", *size, "--down", "10s", "-o", "json")
    assert [item["unownedMs"] for item in json.loads(result.out)["items"]] == [40_000, 40_000]


def test_a_description_is_taken(capsys: Captured, tmp_path: Path) -> None:
    queues = [{"topic": "T", "brokerName": "a", "queueId": queue_id} for queue_id in range(4)]
    one = {"queues": queues, "clients": ["c1", "c2"], "strategy": "sticky"}
    file = tmp_path / "group.json"
    file.write_text(json.dumps(one))
    items = json.loads(call(capsys, "whatif", "churn", "--spec", str(file), "-o", "json").out)["items"]
    assert [item["mostQueues"] for item in items] == [4, 4]
    file.write_text(json.dumps([one, one]))
    result = call(capsys, "whatif", "churn", "--spec", str(file))
    assert (result.code, result.out) == (2, "")
    assert "has 2 groups" in result.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "Name one group, or give --spec"),
        (("--brokers", "1", "--queues", "1"), 2, "--consumers is missing"),
        ((*_SIZE, "--every", "0"), 2, "--every and --times must be"),
        ((*_SIZE, "--times", "0"), 2, "--every and --times must be"),
        ((*_SIZE, "--times", "5000"), 2, "15000 restarts are more than 10000"),
        (
            (*_SIZE, "--client", "client-2", "--times", "2", "--every", "10s", "--down", "10s"), 2,
            "--down 10s: a client would stop again after 10s",
        ),
        (
            ("--brokers", "1000", "--queues", "100", "--consumers", "10000"), 2,
            "10000 restarts of a group with 100000 queues and 10000 clients would take too long.",
        ),
        ((*_SIZE, "--down", "soon"), 2, "--down: invalid duration 'soon'"),
        ((*_SIZE, "--protection", "x"), 2, "--protection: invalid duration 'x'"),
        ((*_SIZE, "--client", "client-9"), 5, "Client client-9 does not exist."),
        ((*_SIZE, "--strategy", "pop-share"), 2, "a queue may have several owners"),
        ((*_SIZE, "--strategy", "avg"), 2, "Unknown strategy 'avg'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(words: tuple[str, ...], code: int, says: str, capsys: Captured) -> None:
    result = call(capsys, "whatif", "churn", *words)
    assert (result.code, result.out) == (code, "")
    assert says in result.err


def test_what_the_clients_are_taken_to_share_by_is_said(capsys: Captured) -> None:
    document = json.loads(call(capsys, "whatif", "churn", *_SIZE, "-o", "json").out)
    assert (document["group"], document["strategy"]) == (None, "averagely")
    document = json.loads(call(capsys, "whatif", "churn", *_SIZE, "--strategy", "AVG_BY_CIRCLE", "-o", "json").out)
    assert document["strategy"] == "AVG_BY_CIRCLE"
