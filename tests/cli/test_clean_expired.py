"""`rmqctl clean-expired` on a sandbox: what it prints, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.cli.clean_expired.stuck_listing import exit_code, to_listing
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.scenarios.table import SCENARIOS
from tests.admin.cluster import held, running
from tests.cli.change.seeded_sandbox import join, seeded
from tests.observe.test_group_sampler import A0
from tests.observe.test_stuck_scan import NOW_MS, after, cluster, member, scan
from tests.schemas import check_item
from tests.scripted_peer import refused

from .calls import Result, call
from .scripted_server import Serve

# What hangs in a scenario does so for good: a window may be short.
QUICK = ("--for", "100ms", "--older-than", "50ms")


@pytest.fixture(scope="module")
def shop() -> Iterator[ThreadedSandbox]:
    with ThreadedSandbox(brokers=2) as sandbox:
        for name in ("stuck", "healthy", "lagging"):
            sandbox.run(SCENARIOS[name].run(sandbox.sandbox))
        yield sandbox


def find(capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox, *words: str) -> Result:
    return call(capsys, "clean-expired", *words, "-n", sandbox.addr)


def document(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.out)
    return found


def test_a_stuck_message_is_shown_with_what_waits_behind_it(
    capsys: pytest.CaptureFixture[str], shop: ThreadedSandbox
) -> None:
    done = find(capsys, shop, "mailing", *QUICK, "-o", "json")
    assert (done.code, done.err) == (10, "")
    found = document(done)
    assert (found["summary"]["stuckCount"], found["summary"]["undecidedCount"], found["olderThanMs"]) == (1, 0, 50)
    (item,) = found["items"]
    assert (item["isStuck"], item["body"], item["keys"]) == (True, "blocked 20", ["invoice-20"])
    assert item["headOffset"] == item["consumerOffset"] < item["maxOffset"]
    assert item["advance"] == 0
    assert item["ageAtLeastMs"] >= 100
    place = f"{item['brokerName']}:{item['queueId']}"

    shown = find(capsys, shop, "mailing", *QUICK, "--topic", "invoices", "--queue", place)
    assert shown.code == 10
    row = shown.out.splitlines()[1].split()
    assert row[:5] == ["yes", item["why"], "invoices", item["brokerName"], str(item["queueId"])]
    assert "1 of 1 queue stuck" in shown.err
    assert find(capsys, shop, "mailing", *QUICK, "-o", "name").out == f"invoices@{place}\n"


def test_other_queues_and_groups_have_nothing_stuck(capsys: pytest.CaptureFixture[str], shop: ThreadedSandbox) -> None:
    (item,) = document(find(capsys, shop, "mailing", *QUICK, "-o", "json"))["items"]
    other = "broker-a" if item["brokerName"] == "broker-b" else "broker-b"
    assert find(capsys, shop, "mailing", *QUICK, "--queue", other).code == 0
    healthy = find(capsys, shop, "warehouse", *QUICK)
    assert (healthy.code, healthy.out) == (0, "")
    assert "warehouse" in healthy.err


def test_an_offline_group_has_a_backlog_and_nothing_in_consumption(
    capsys: pytest.CaptureFixture[str], shop: ThreadedSandbox
) -> None:
    done = find(capsys, shop, "shipping", "--for", "1ms", "-o", "json")
    assert done.code == 0
    items = document(done)["items"]
    assert {(item["why"], item["isStuck"], item["clientId"]) for item in items} == {("NO_MEMBERS", False, None)}
    assert sum(item["lag"] for item in items) == 200
    assert items[0]["reasons"]["headOffset"] == "NOT_ASSIGNED"


def test_what_could_not_be_decided_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    with seeded() as sandbox:
        join(sandbox)
        silent = find(capsys, sandbox, "G", "--for", "1ms", "-o", "json")
        assert silent.code == 8
        assert {(item["why"], item["isStuck"]) for item in document(silent)["items"]} == {("MEMBER_SILENT", None)}
        assert "c1" in document(silent)["items"][0]["explanation"]
        words = ("--for", "1ms", "--watch", "--every", "1ms", "--rounds", "1", "-o", "jsonl")
        assert find(capsys, sandbox, "G", *words).code == 8


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("mailing", "--older-than", "15"), 2),
        (("mailing", "--for", "0"), 2),
        (("mailing", "--for", "1s", "--queue", "broker-a:99"), 2),
        (("mailing", "--columns", "x"), 2),
        (("mailin", "--for", "1s"), 5),
    ],
)
def test_what_can_not_be_asked(
    capsys: pytest.CaptureFixture[str], shop: ThreadedSandbox, words: tuple[str, ...], code: int
) -> None:
    done = find(capsys, shop, *words)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("rmqctl: ")


def test_rounds_are_a_line_each_and_send_nothing_back_twice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path))
    with ThreadedSandbox(brokers=1) as sandbox:
        sandbox.run(SCENARIOS["stuck"].run(sandbox.sandbox))
        words = ("mailing", *QUICK, "--watch", "--every", "1ms", "--rounds", "2", "-o", "jsonl")
        looked = find(capsys, sandbox, *words)
        assert (looked.code, [json.loads(line)["stuckCount"] for line in looked.out.splitlines()]) == (10, [1, 1])

        # The consumer of a scenario pulls nothing more, so that its queue waits for it: that is named each round.
        done = find(capsys, sandbox, *words, "--yes", "--wait-stable", "0", "--delay-level", "18")
        first, second = [json.loads(line) for line in done.out.splitlines()]
        for line in (first, second):
            check_item("CleanRound", line)
        assert (first["returnedCount"], first["freedCount"], first["pendingCount"]) == (1, 0, 1)
        assert (second["returnedCount"], second["freedCount"], second["pendingCount"]) == (0, 0, 1)
        assert (done.code, second["receiptId"], "mailing" in second["error"]) == (8, None, True)
        waiting = sandbox.call(lambda inner: inner.brokers["broker-a"].store.max_offset("SCHEDULE_TOPIC_XXXX", 17))
        assert waiting == 1
        assert "2 rounds" in done.err


def test_a_round_that_fails_does_not_end_them(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadedSandbox(brokers=1) as sandbox:
        done = find(capsys, sandbox, "nobody", *QUICK, "--watch", "--every", "1ms", "--rounds", "2", "-o", "jsonl")
        rounds = [json.loads(line) for line in done.out.splitlines()]
        assert (done.code, len(rounds), {each["stuckCount"] for each in rounds}) == (8, 2, {None})
        assert all("nobody" in each["error"] for each in rounds)


@pytest.mark.parametrize(
    "words",
    [
        ("--watch", "--dry-run", "--older-than", "1m"), ("--rounds", "2"), ("--every", "1s"),
        ("--watch", "--every", "0"), ("--watch", "-o", "json"), ("--watch", "--yes"),
    ],
)  # fmt: skip
def test_what_can_not_be_watched(
    capsys: pytest.CaptureFixture[str], shop: ThreadedSandbox, words: tuple[str, ...]
) -> None:
    assert find(capsys, shop, "mailing", *words).code == 2


def test_a_plan_names_clients_that_may_consume_nothing_more(
    capsys: pytest.CaptureFixture[str], shop: ThreadedSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The members of a scenario do not report their threads."""
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path))
    plan = document(find(capsys, shop, "mailing", *QUICK, "--dry-run", "-o", "json"))
    assert [item["cleaning"]["blockedBy"] for item in plan["items"]] == ["UNKNOWN"]
    (blocks,) = [each for each in plan["consequences"] if each["code"] == "LISTENER_MAY_BLOCK"]
    assert plan["items"][0]["cleaning"]["clientId"] in blocks["text"]


@pytest.mark.parametrize(
    ("in_order", "called_again", "is_retried"),
    [(1, False, False), (0, True, True), (0, False, False)],
    ids=["in-the-listener", "tried-again", "never-delivered"],
)
def test_only_a_message_that_the_listener_was_called_for_again_was_retried(
    in_order: int, called_again: bool, is_retried: bool
) -> None:
    def looked(called_ms: int) -> Command:
        fields = {"transactionMsgCount": in_order, "transactionMsgMinOffset": 5, "transactionMsgMaxOffset": 5}
        queue = held(1, 5, 5, 5, lastConsumeTimestamp=called_ms, lastPullTimestamp=NOW_MS, **fields)
        return running({A0: queue}, PROP_CONSUMEORDERLY="true", PROP_THREADPOOL_CORE_SIZE="20")

    again_ms = NOW_MS if called_again else NOW_MS - 5_000
    found = scan(cluster(after(looked(NOW_MS - 5_000), looked(again_ms))), older_than_ms=4_000)
    (item,) = to_listing(found, None).items
    assert (item["why"], "retried" in item["explanation"]) == ("BLOCKED_IN_ORDER", is_retried)


def test_a_member_that_does_not_answer_the_first_look_is_not_judged_healthy() -> None:
    found = scan(cluster(after(refused(R.CONSUME_MSG_TIMEOUT), member())))
    listing = to_listing(found, None)
    assert (listing.items[0]["isStuck"], listing.items[0]["reasons"]["isStuck"]) == (None, "WATCHED_TOO_SHORT")
    assert "did not answer before" in listing.items[0]["explanation"]
    assert ([each["what"] for each in listing.errors()], exit_code(found, 0)) == (["running info of one"], 8)


@pytest.mark.parametrize("options", [{"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"}, {"messageModel": "BROADCASTING"}])
def test_what_is_refused_whatever_is_found_is_refused_before_it_is_watched(
    options: dict[str, str], capsys: pytest.CaptureFixture[str], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(*_: object) -> None:
        pytest.fail("the group was watched")

    monkeypatch.setattr("rmqctl.observe.stuck_scan._wait", wait)
    serve(cluster(member(5, properties=options)))
    assert call(capsys, "clean-expired", "G", "--older-than", "1m", "--dry-run").code == 1
