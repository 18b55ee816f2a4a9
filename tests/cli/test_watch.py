"""`rmqctl watch` on a sandbox: verdicts, recording, metrics, notifications and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from rmqctl.cli.watch.session import lateness
from rmqctl.model.group import GroupState
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, QueueSample
from rmqctl.observe.recording import read_recording, write_sample
from rmqctl.observe.sampled_progress import sample_progress
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.watch.metrics import Exporter
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.cli.scripted_server import served
from tests.schemas import check_document, check_item

from .calls import Result, call, closed_address

Captured = pytest.CaptureFixture[str]
# Fast enough for a test; the rate of a real watch is tested in tests/observe and tests/watch.
_QUICK = ("--every", "100ms", "--window", "40s", "--rate", "1000")


@pytest.fixture
def watch(shop: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run watch on that cluster, quickly, for one round unless more is asked for."""
    monkeypatch.setenv("NAMESRV_ADDR", shop.addr)

    def run(*words: str) -> Result:
        rounds = () if "--rounds" in words else ("--rounds", "1")
        return call(capsys, "watch", *_QUICK, *words, *rounds)

    return run


def _items(result: Result) -> list[dict[str, Any]]:
    items = [json.loads(line) for line in result.out.splitlines()]
    for item in items:
        check_item("GroupHealth", item)
    return items


def _past(path: Path, group: str, *, offset: int, end: int) -> None:
    """Write a recording of a group that has not moved in the last half minute."""
    mq = MessageQueue("orders", "broker-a", 0)
    now_ms = time.time_ns() // 1_000_000
    lines = [
        write_sample(
            GroupSample(now_ms - ago_ms, 0.0, group, GroupState.ONLINE, (), {mq: QueueSample(mq, offset, end)}),
            cluster="DefaultCluster",
        )
        for ago_ms in (36_000, 34_000, 18_000, 2_000)
    ]
    path.write_text("".join(f"{line}\n" for line in lines))


def test_each_round_shows_what_the_list_of_groups_shows(watch: Any, capsys: Captured) -> None:
    result = watch("--each-round", "-o", "jsonl", "--rounds", "2")
    assert result.code == 0, result.err
    items = _items(result)
    listed = {item["group"]: item for item in json.loads(call(capsys, "group", "list", "-o", "json").out)["items"]}
    assert [item["group"] for item in items] == [*sorted(listed)] * 2
    for item in items:
        shown = listed[item["group"]]
        assert (item["lag"], item["memberCount"]) == (shown["lag"], shown["memberCount"])
    shipping = next(item for item in reversed(items) if item["group"] == "shipping")
    assert shipping["timeLagMs"] >= listed["shipping"]["timeLagMs"] - 60_000
    assert {queue["rule"] for queue in shipping["queues"]} == {"TOO_FEW_SAMPLES"}


def test_a_round_that_takes_longer_than_it_should_is_late() -> None:
    assert lateness(2_900, 2, 10) is None
    assert "began 4500ms after the one before, not 2s (--every): at most 10" in (lateness(4_480, 2.0, 10.0) or "")


def test_only_changes_are_shown_and_filtered(watch: Any) -> None:
    result = watch("--rounds", "2", "-o", "jsonl")
    assert [(item["group"], item["health"], item["before"]) for item in _items(result)] == [("warehouse", "OK", None)]
    assert watch("--where", "health!=OK").out == ""


def test_a_recording_continues_after_a_restart(watch: Any, tmp_path: Path) -> None:
    path = tmp_path / "groups.jsonl"
    _past(path, "shipping", offset=1, end=9)
    result = watch("shipping", "--record", str(path), "-o", "jsonl")
    assert result.code == 0, result.err
    (item,) = _items(result)
    assert item["health"] == "STOP"
    with path.open("rb") as lines:
        samples = list(read_recording(lines, "groups.jsonl"))
    assert len(samples) == 5
    assert sum(row.lag or 0 for row in sample_progress(samples[-1])) == 200


def test_notifications_are_sent_once(watch: Any, tmp_path: Path) -> None:
    record, alerts = tmp_path / "groups.jsonl", tmp_path / "alerts.jsonl"
    _past(record, "shipping", offset=1, end=9)
    result = watch("shipping", "--record", str(record), "--notify", f"file:{alerts}", "--rounds", "3")
    assert result.code == 0, result.err
    (document,) = [json.loads(line) for line in alerts.read_text().splitlines()]
    check_document(document)
    assert [(item["group"], item["alert"], item["health"]) for item in document["items"]] == [
        ("shipping", "OPENED", "STOP")
    ]


def test_an_alert_that_is_delivered_late_is_delivered(watch: Any, tmp_path: Path) -> None:
    record, tried, out = (tmp_path / name for name in ("groups.jsonl", "tried", "out"))
    _past(record, "shipping", offset=1, end=9)
    script = f"test -e {tried} || {{ touch {tried}; exit 4; }}; cat >> {out}"
    result = watch("shipping", "--record", str(record), "--notify", f"command:sh -c '{script}'")
    assert result.code == 0, result.err
    assert "command: sh exited with 4. Not delivered yet; rmqctl tries again until it is." in result.err
    assert "command: delivered again after" in result.err
    assert json.loads(out.read_text())["items"][0]["alert"] == "OPENED"


def test_an_alert_that_was_not_delivered_makes_the_exit_code_8_and_is_delivered_after_a_restart(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, is_up, out = (tmp_path / name for name in ("groups.jsonl", "is_up", "out"))
    _past(record, "shipping", offset=1, end=9)
    words = ("shipping", "--record", str(record), "--notify", f"command:sh -c 'test -e {is_up} && cat >> {out}'")
    threads = set(threading.enumerate())
    with monkeypatch.context() as patched:
        patched.setattr("rmqctl.cli.watch.session._DELIVER_S", 0.0)
        result = watch(*words)
    assert result.code == 8
    assert "1 notification not delivered; the next start of this watch tries again." in result.err
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)  # its last attempt must not see the file
    is_up.touch()
    for _ in range(2):
        result = watch(*words, "--repeat-every", "1h")
        assert result.code == 0, result.err
    document = json.loads(out.read_text())  # the incident is still open, and is not reported again
    check_document(document)
    assert document["items"][0]["alert"] == "OPENED"


def test_metrics_are_served_while_it_runs(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    exporters: list[Exporter] = []
    found: list[str] = []

    class AnyPort(Exporter):
        def __init__(self, host: str, port: int) -> None:
            super().__init__(host, 0)
            exporters.append(self)

    def scrape() -> None:
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s and not any("lag_messages" in text for text in found):
            time.sleep(0.05)
            if exporters:
                with urllib.request.urlopen(f"http://127.0.0.1:{exporters[0].port}/metrics", timeout=30) as answer:
                    found.append(answer.read().decode())
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("rmqctl.watch.metrics.Exporter", AnyPort)
    thread = threading.Thread(target=scrape)
    thread.start()
    assert watch("--metrics", "127.0.0.1:9464", "--rounds", "100000").code == 0
    thread.join()
    assert 'consumer_group="shipping"' in found[-1]


def test_the_dashboard_needs_no_cluster(capsys: Captured) -> None:
    assert json.loads(call(capsys, "watch", "--dashboard").out)["panels"]


def test_a_broker_that_does_not_answer_is_named(capsys: Captured) -> None:
    a = BrokerState("broker-a", topics={"T": [Queue(9)]}, offsets={"pay": {"T": {0: 9}}}, configured={"pay"})
    cluster = Cluster(a, BrokerState("broker-b"))
    cluster.addresses["broker-b"] = closed_address()
    with served(cluster) as address:
        result = call(capsys, "watch", "-n", address, "--each-round", "-o", "jsonl", "--rounds", "1", *_QUICK)
    assert result.code == 8
    assert "broker-b: offsets:" in result.err
    (item,) = _items(result)
    assert (item["health"], item["rule"], item["lag"], item["lagAtLeast"]) == ("UNKNOWN", "BROKER_NEVER_SEEN", None, 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nope",), 5, "Group nope does not exist."),
        (("nope*",), 0, "No group matches nope* yet."),
        (("--every", "1s", "--window", "10s"), 2, "--window must be at least 31s"),
        (("--notify-at", "OK"), 2, "Invalid health 'OK'"),
        (("--notify", "pager:x"), 2, "Unknown notifier 'pager'"),
        (("--metrics", "9464"), 2, "Invalid address '9464'"),
        (("--record", "/missing/r"), 2, "Cannot write --record /missing/r"),
        (("--every", "0s"), 2, "--every must be above 0."),
        (("--repeat-every", "0s"), 2, "--repeat-every must be above 0."),
        (("-o", "json"), 2, "this output is a stream"),
        (("--sort", "lag"), 2, "--sort is not supported"),
        (("--columns", "no"), 2, "Unknown column 'no'"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], code: int, said: str, watch: Any) -> None:
    result = watch(*words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it(shop: ThreadedSandbox, number: signal.Signals, code: int) -> None:
    words = [sys.executable, "-m", "rmqctl", "watch", "-n", shop.addr, "--each-round", "-o", "jsonl", *_QUICK]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["group"]
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert all(json.loads(line) for line in out.splitlines())
    assert b"Traceback" not in err
