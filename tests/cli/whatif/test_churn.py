"""whatif churn: members that come and go, with protection mode and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqctl.model.group import GroupState
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import ClientSample, GroupSample, OwnerSample, QueueSample
from rmqctl.observe.recording import write_sample
from tests.cli.calls import call
from tests.page.reader import PageReader

Captured = pytest.CaptureFixture[str]
_SIZE = ("--brokers", "5", "--queues", "2", "--consumers", "3", "--runs", "2")


def test_a_flapping_client_moves_queues_once_when_it_is_not_counted(capsys: Captured) -> None:
    times = ("--rate", "100", "--protect", "0", "--protect", "5s", "--protect", "60s", "--protect", "5s")
    result = call(capsys, "whatif", "churn", *_SIZE, "--flap", "10s:client-2", *times, "-o", "json")
    document = json.loads(result.out)

    assert result.code == 0
    assert (document["scenario"], document["forMs"], document["seed"]) == ("flap", 600_000, 1)
    unprotected, short, long = document["items"]
    assert [item["protectMs"] for item in document["items"]] == [0, 5000, 60_000]
    # A time that is shorter than the client stays does not help.
    assert short["moveCount"] == pytest.approx(unprotected["moveCount"], rel=0.3)
    assert long["moveCount"] * 20 < unprotected["moveCount"]
    assert long["duplicateCountMost"] <= unprotected["duplicateCountLeast"]
    assert unprotected["messageCount"] == pytest.approx(60_000, rel=0.01)


def test_the_table_has_a_row_for_each_protection_time_and_ranges(capsys: Captured) -> None:
    result = call(capsys, "whatif", "churn", *_SIZE, "--leave", "kill", "-o", "wide")
    heading, *rows = result.out.splitlines()
    assert heading.split() == [
        "PROTECT", "REBALANCES", "MOVES", "TWO-OWNERS", "NO-OWNER", "DUPLICATES", "SETTLED", "UNSETTLED", "MOST",
        "START-WAIT",
    ]  # fmt: skip
    assert [row.split()[0] for row in rows] == ["none", "1m00s"]
    assert "3 clients and 10 queues: every 30s another client is killed, and rejoins after 10s" in result.err
    assert "DUPLICATES is unknown" in result.err


def test_the_same_seed_gives_the_same_document(capsys: Captured) -> None:
    words = ("whatif", "churn", *_SIZE, "--scale", "-1", "--rate", "500", "-o", "json")
    first, again, other = (call(capsys, *words, "--seed", seed).out for seed in ("1", "1", "2"))
    assert first == again != other


def test_a_description_is_taken(capsys: Captured, tmp_path: Path) -> None:
    queues = [{"topic": "T", "brokerName": "a", "queueId": queue_id} for queue_id in range(4)]
    one = {"queues": queues, "clients": ["c1", "c2"], "strategy": "circle"}
    file = tmp_path / "group.json"
    file.write_text(json.dumps(one))
    document = json.loads(call(capsys, "whatif", "churn", "--spec", str(file), "--same-ids", "-o", "json").out)
    assert [item["mostQueues"] for item in document["items"]] == [4, 4]
    assert (document["group"], document["strategy"]) == (None, "circle")
    file.write_text(json.dumps([one, one]))
    result = call(capsys, "whatif", "churn", "--spec", str(file))
    assert (result.code, result.out) == (2, "")
    assert "has 2 groups" in result.err


def test_a_time_is_chosen_from_a_range(capsys: Captured) -> None:
    words = ("whatif", "churn", *_SIZE, "--flap", "10s", "--for", "3m", "--rate", "500", "--sweep", "protect=5s..30s")
    document = json.loads(call(capsys, *words, "-o", "json").out)
    sweep = document["sweep"]
    assert [item["protectMs"] for item in document["items"]] == [0, 5000, 10_000, 15_000, 20_000, 30_000]
    assert (sweep["leastMs"], sweep["mostMs"], sweep["measure"]) == (5000, 30_000, "duplicateCount")
    assert sweep["protectMs"] == 15_000
    costs = [
        (cost["event"], cost["unprotected"]["protectMs"], cost["protected"]["protectMs"]) for cost in sweep["costs"]
    ]
    assert costs == [(event, 0, 15_000) for event in ("simulated", "client-vanishes", "client-replaced", "all-restart")]
    assert document["timelines"] is None

    table = call(capsys, *words, "-q", "--columns", "protectMs,moveCount").out
    assert "\n15s is the shortest protection time from 5s to 30s" in table
    assert table.count("all clients restart at once") == 2
    rows = call(capsys, *words, "-o", "csv")
    assert "shortest" not in rows.out
    assert "15s is the shortest protection time" in rows.err
    none = call(capsys, "whatif", "churn", *_SIZE, "--scale", "+1", "--sweep", "protect=1s..2s").out
    assert "No protection time from 1s to 2s has clearly fewer duplicates or queue moves" in none
    assert "IF" not in none


def test_a_timeline_has_a_row_per_client_and_protection_time(capsys: Captured) -> None:
    words = ("whatif", "churn", *_SIZE, "--flap", "20s:client-2", "--for", "1m20s", "--protect", "1m", "--timeline")
    words += ("--client-version", "rmqctl")
    document = json.loads(call(capsys, *words, "-o", "json").out)
    plain, protected = document["timelines"]
    assert (plain["protectMs"], protected["protectMs"], plain["partMs"]) == (0, 60_000, 1000)
    assert [client["clientId"] for client in plain["clients"]] == ["client-1", "client-2", "client-3"]
    counts = plain["clients"][1]["queueCounts"]
    assert (counts[0], counts[30], counts[50] > 0) == (3, None, True)
    assert protected["clients"][1]["queueCounts"][50] == 0

    table = call(capsys, *words, "-q").out
    title = table.index("Protection 1m, seed 1\n")
    assert table.index("Without protection, seed 1\n") < title
    flapping = next(line for line in table[title:].splitlines() if line.startswith("client-2"))
    assert [set(part) for part in flapping.split()[1:]] == [{"3"}, {"·"}]
    for markup, begin in (("markdown", "```\n"), ("html", "<pre>\n")):
        assert f"{begin}Protection 1m, seed 1\n" in call(capsys, *words, "-o", markup).out


def test_a_page_has_the_result_and_the_timelines(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "churn.html"
    words = ("--rate", "100", "--flap", "10s", "--for", "2m", "--sweep", "protect=0s..30s", "--html", str(file))
    result = call(capsys, "whatif", "churn", *_SIZE, *words)
    assert f"Written to {file}." in result.err
    page = PageReader(file.read_text())
    said = "".join(page.words)
    for text in (
        "client-1 leaves and rejoins every 10s",
        "15s is the shortest",
        "all clients restart at once",
        "Protection 15s",
    ):
        assert text in said, text
    cells = [attributes["title"] for attributes in page.all("i")]
    assert "0s: 4.0 queues" in cells
    file.unlink()
    refused = call(capsys, "whatif", "churn", *_SIZE, "--html", str(tmp_path / "none" / "x.html"))
    assert (refused.code, refused.out) == (2, "")


def _recording(path: Path, *groups: str) -> str:
    mq = MessageQueue("T", "broker-a", 0)
    lines = [
        write_sample(
            GroupSample(
                at_s * 1000, at_s, group, GroupState.ONLINE, client_ids,
                {mq: QueueSample(mq, 0, at_s * 10, (OwnerSample(client_ids[-1], 0, 0, 0),))},
                clients={"a": ClientSample("JAVA", 473), "b": ClientSample("PYTHON", 473)},
            )
        )
        for group in groups
        for at_s, client_ids in ((0, ("a",)), (20, ("a", "b")), (60, ("a",)))
    ]  # fmt: skip
    path.write_text("\n".join(lines))
    return str(path)


def test_a_recording_is_simulated(capsys: Captured, tmp_path: Path) -> None:
    file = _recording(tmp_path / "one.jsonl", "pay")
    result = call(capsys, "whatif", "churn", "--trace", file, "--runs", "3", "-o", "json")
    document = json.loads(result.out)
    assert result.code == 0
    assert (document["group"], document["scenario"], document["forMs"]) == ("pay", "trace", 60_000)
    assert [item["changeCount"] for item in document["items"]] == [2, 2]
    assert document["items"][0]["messageCount"] == pytest.approx(600, abs=1)
    # Protection is not what the Java client can have.
    assert document["unprotectedClientCount"] == 1
    assert "1 of 2 clients cannot have it" in result.err
    counts = {"sampleCount": 3, "partialSampleCount": 0, "intervalMs": 30_000, "longestGapMs": 40_000}
    counts |= {"startCount": 1, "endCount": 1, "silenceCount": 0, "brokerStopCount": 0, "moveCount": 2}
    assert document["trace"] == {**counts, "unknownRateCount": 0, "strategyFitCount": 3, "strategySampleCount": 3}
    short = call(capsys, "whatif", "churn", "pay", "--trace", file, "--for", "30s", "--runs", "1")
    assert "1 start and 1 end of clients as recorded every 30s, with at least 1 queue move, for 30s" in short.err

    several = _recording(tmp_path / "two.jsonl", "pay", "ship")
    for words, says in (
        (("--trace", several), "has 2 groups: pay, ship"),
        (("mail", "--trace", several), "for group pay, ship, not mail"),
        (("--trace", file, "--flap", "10s"), "--trace and --flap cannot be combined"),
        (("--trace", file, "--same-ids"), "--trace and --same-ids cannot be combined"),
        (("--trace", file, "--leave", "vanish"), "--leave vanish and --trace cannot be combined"),
        (("--trace", file, "--topic", "U"), "no queues of the group"),
    ):
        refused = call(capsys, "whatif", "churn", *words)
        assert (refused.code, refused.out) == (2, ""), refused.err
        assert says in refused.err
    assert call(capsys, "whatif", "churn", "--trace", str(tmp_path / "none")).code == 5


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "Name one group, or give --spec"),
        (("--brokers", "1", "--queues", "1"), 2, "--consumers is missing"),
        ((*_SIZE, "--rolling", "0"), 2, "--rolling 0: the time must be greater"),
        ((*_SIZE, "--flap", "10s", "--scale", "+1"), 2, "Use only one of --flap, --scale"),
        ((*_SIZE, "--flap", "10s", "--down", "1s"), 2, "--down is for --rolling only"),
        ((*_SIZE, "--leave", "go"), 2, "--leave go: use stop, kill or vanish"),
        ((*_SIZE, "--scale", "some"), 2, "--scale: 'some' is not a whole number"),
        ((*_SIZE, "--scale", "-4"), 2, "--scale -4: the group has only 3 clients"),
        ((*_SIZE, "--rate", "-1"), 2, "--rate -1: the rate must not be negative"),
        ((*_SIZE, "--client-version", "6"), 2, "--client-version 6: use one of 4.9, 5.0, 5.2, rmqctl"),
        ((*_SIZE, "--version-rule", "newest"), 2, "--version-rule newest: use rocketmq or refuse-older"),
        ((*_SIZE, "--sample", "1s"), 2, "--sample needs a running group"),
        ((*_SIZE, "--skew", "1s"), 2, "--skew is for --version-rule refuse-older only"),
        ((*_SIZE, "--flap", "1h", "--for", "10m"), 2, "--flap: nothing happens within 10m"),
        ((*_SIZE, "--partition", "1m", "--same-ids"), 2, "--same-ids is for clients that rejoin"),
        ((*_SIZE, "--scale", "+1", "--leave", "kill"), 2, "--leave is for clients that leave"),
        ((*_SIZE, "--scale", "+100000"), 2, "would take about"),
        ((*_SIZE, "--timeline", "-o", "csv"), 2, "--timeline needs a table, json or yaml"),
        ((*_SIZE, "--html", "-"), 2, "it is written to a file only"),
        ((*_SIZE, "--runs", "0"), 2, "--runs, --for and --commit-every must be"),
        ((*_SIZE, "--flap", "1ms", "--for", "1d"), 2, "would take about"),
        ((*_SIZE, "--down", "soon"), 2, "--down: invalid duration 'soon'"),
        ((*_SIZE, "--protect", "x"), 2, "--protect: invalid duration 'x'"),
        ((*_SIZE, "--sweep", "protect=1m"), 2, "--sweep protect=1m: a range of protection times is needed"),
        ((*_SIZE, "--sweep", "skew=0s..1m"), 2, "a range of protection times is needed"),
        ((*_SIZE, "--sweep", "protect=1m..1m"), 2, "the second time must be longer"),
        ((*_SIZE, "--sweep", "protect=0..5"), 2, "--sweep: '5' has no unit"),
        ((*_SIZE, "--sweep", "protect=0s..5m", "--protect", "1m"), 2, "--sweep and --protect cannot be combined"),
        ((*_SIZE, "--flap", "10s:client-9"), 5, "Client client-9 does not exist."),
        ((*_SIZE, "--strategy", "pop-share"), 2, "pop-share cannot be simulated: brokers share queues this way"),
        ((*_SIZE, "--strategy", "sticky"), 2, "sticky cannot be simulated: it depends on the previous owner"),
        ((*_SIZE, "--strategy", "avg"), 2, "Unknown strategy 'avg'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(words: tuple[str, ...], code: int, says: str, capsys: Captured) -> None:
    result = call(capsys, "whatif", "churn", *words)
    assert (result.code, result.out) == (code, "")
    assert says in result.err
