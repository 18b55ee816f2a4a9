"""Messages that died, were replayed and died again: two dead letters or more, of which the last one is sent."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes.dlq.ledger import Ledger, LedgerIdentity, LedgerRow
from rmqctl.changes.dlq.rules.replay import retry_target
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.topics.table import Topic
from tests.cli.calls import call

from .replays import COUNT, Captured, found, ledgers, letter, put, replay


def _die_again(sandbox: ThreadedSandbox, capsys: Captured, *, topic: str = "%RETRY%G", **more: str) -> None:
    """Make dead letters of all that was replayed to a topic, the last one first."""
    copies = found(capsys, topic)
    put(sandbox, [
        OutgoingMessage(item["body"].encode(), {"RETRY_TOPIC": "orders", **item["properties"], **more})
        for item in reversed(copies)
    ])  # fmt: skip


def _sent(capsys: Captured, topic: str) -> Counter[str]:
    return Counter(item["msgId"] for item in found(capsys, topic))


def test_another_ledger_sends_each_message_once(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    words = ("--to-topic", "payments", "--ledger")
    assert replay(capsys, "--max", "6", "--yes")[0].code == 0
    _die_again(sandbox, capsys)
    result, plan = replay(capsys, *words, "other", "--dry-run")
    assert (result.code, plan["count"], plan["againCount"], plan["notSent"]) == (0, COUNT, 6, {"DIED_AGAIN": 6})
    # Of a chain of three, and whatever --max leaves for later.
    result, receipt = replay(capsys, *words, "other", "--max", "3", "--yes")
    assert (result.code, receipt["summary"]["sentCount"]) == (0, 3)
    put(sandbox, [
        OutgoingMessage(b"x", {"RETRY_TOPIC": "orders", **item["properties"]}) for item in found(capsys, "payments")
    ])  # fmt: skip
    assert replay(capsys, *words, "third", "--max", "4", "--yes")[0].code == 0
    assert replay(capsys, *words, "third", "--yes")[0].code == 0
    sent = found(capsys, "payments")
    third = next(item["id"] for item in ledgers(capsys) if item["name"] == "third")
    by_third = Counter(item["msgId"] for item in sent if item["properties"]["RMQCTL_REPLAY"].startswith(third))
    assert by_third == Counter({f"ID{number}": 1 for number in range(COUNT)})


def _other_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """Continue as another machine, whose ledgers are elsewhere."""
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / name))


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_copies_of_two_replays_that_die_are_one_message(
    is_elsewhere: bool, sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert replay(capsys, "--max", "4", "--yes")[0].code == 0
    assert replay(capsys, "--to-origin", "--max", "4", "--yes")[0].code == 0
    _die_again(sandbox, capsys)
    _die_again(sandbox, capsys, topic="orders")
    if is_elsewhere:
        _other_state(monkeypatch, tmp_path, "other")
    before = _sent(capsys, "%RETRY%G")
    result, plan = replay(capsys, "--dry-run")
    assert (result.code, plan["count"], plan["againCount"]) == (0, COUNT, 4)
    assert replay(capsys, "--yes")[0].code == 0
    assert _sent(capsys, "%RETRY%G") - before == Counter({f"ID{number}": 1 for number in range(COUNT)})
    assert replay(capsys, "--dry-run")[1]["count"] == 0


def test_a_ledger_does_not_send_what_died_after_the_replay_of_another(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The later dead letter appears when this ledger has sent the first one: its broker was silent."""
    assert replay(capsys, "--max", "4", "--yes")[0].code == 0
    copies = found(capsys, "%RETRY%G")
    _other_state(monkeypatch, tmp_path, "other")
    assert replay(capsys, "--yes")[0].code == 0
    put(sandbox, [OutgoingMessage(b"x", {"RETRY_TOPIC": "orders", **item["properties"]}) for item in copies])
    result, plan = replay(capsys, "--dry-run")
    assert (result.code, plan["count"], sum(plan["notSent"].values())) == (0, 0, COUNT + 4)
    assert plan["notSent"]["TWICE"] == 4


def test_the_same_ledger_knows_them_as_sent(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    assert replay(capsys, "--yes")[0].code == 0
    _die_again(sandbox, capsys)
    result, plan = replay(capsys, "--dry-run")
    assert (result.code, plan["count"], plan["notSent"]) == (0, COUNT, {"DONE": COUNT})


def test_the_later_one_counts_even_if_it_is_not_wanted(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = str(tmp_path / "letters.jsonl")
    assert call(capsys, "dlq", "export", "G", "--to", path).code == 0
    assert replay(capsys, "--max", "4", "--yes")[0].code == 0
    _die_again(sandbox, capsys, TAGS="B")
    for words in (("--tag", "A"), ("--from-file", path)):
        plan = replay(capsys, *words, "--ledger", "other", "--dry-run")[1]
        assert (plan["count"], plan["notSent"]) == (COUNT - 4, {"DIED_AGAIN": 4}), words
    result, receipt = replay(capsys, "--from-file", path, "--to-topic", "orders", "--yes")
    assert (result.code, receipt["summary"]["sentCount"]) == (0, COUNT - 4)
    assert all(count == 1 for count in _sent(capsys, "orders").values())


def test_a_second_copy_of_a_replaced_delivery_is_not_sent_either(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    assert replay(capsys, "--max", "1", "--yes")[0].code == 0
    (copy,) = found(capsys, "%RETRY%G")
    # The broker had stored the dead letter twice.
    number = int(copy["msgId"].removeprefix("ID"))
    put(sandbox, [letter(number, "orders")])
    _die_again(sandbox, capsys)
    plan = replay(capsys, "--ledger", "other", "--dry-run")[1]
    assert (plan["count"], plan["notSent"]) == (COUNT, {"DIED_AGAIN": 1, "TWICE": 1})


def test_a_dead_letter_in_doubt_that_died_again_is_settled(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    """Its copy cannot be looked for any more, but its later dead letter proves that it was stored."""
    assert replay(capsys, "--max", "1", "--yes")[0].code == 0
    (copy,) = found(capsys, "%RETRY%G")
    _die_again(sandbox, capsys)
    broker_name, queue_id, offset = copy["properties"]["RMQCTL_REPLAY"].partition(" ")[2].split(":")
    addresses = _addresses(capsys)
    identity = LedgerIdentity("C", addresses, "G", retry_target("G"), "doubtful")
    ledger = Ledger(identity, 1)
    ledger.note(under_way=[
        LedgerRow(broker_name, int(queue_id), int(offset), copy["msgId"], "", "%RETRY%G", "gone", 0, 1, 0)
    ])  # fmt: skip
    ledger.close()
    plan = replay(capsys, "--ledger", "doubtful", "--dry-run")[1]
    assert (plan["count"], plan["notSent"]) == (COUNT, {"DIED_AGAIN": 1})
    result, receipt = replay(capsys, "--ledger", "doubtful", "--yes")
    assert (result.code, receipt["summary"]["sentCount"], receipt["summary"]["inDoubtCount"]) == (0, COUNT, 0)
    state = next(item for item in ledgers(capsys) if item["name"] == "doubtful")
    assert (state["inDoubtCount"], state["state"]) == (0, "DONE")


def _addresses(capsys: Captured) -> dict[str, str]:
    items: list[dict[str, Any]] = json.loads(call(capsys, "cluster", "list", "-o", "json").out)["items"]
    return {item["brokerName"]: item["brokerAddr"] for item in items}


def test_later_dead_letters_that_cannot_be_read_are_named(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = str(tmp_path / "letters.jsonl")
    assert call(capsys, "dlq", "export", "G", "--to", path).code == 0
    closed = Topic("%DLQ%G", 1, 1, perm=2)
    sandbox.call(lambda inner: [broker.topics.put(closed) for broker in inner.brokers.values()])
    result, plan = replay(capsys, "--from-file", path, "--dry-run")
    assert (result.code, plan["count"], len(plan["errors"])) == (8, COUNT, 2)


def test_a_broker_whose_later_dead_letters_are_unknown_is_named(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    """It may have the dead letter of a message that died again: an earlier one is sent for it."""
    closed = Topic("%DLQ%G", 1, 1, perm=2)
    sandbox.call(lambda inner: inner.brokers["broker-b"].topics.put(closed))
    for more in ("--dry-run", "--yes", "--yes"):
        result, document = replay(capsys, more)
        of_no_broker = [error["what"] for error in document["errors"] if error["brokerName"] is None]
        count = document.get("count", document.get("summary", {}).get("sentCount"))
        assert (result.code, ["broker-b" in what for what in of_no_broker]) == (8, [True] if count else []), more


@pytest.mark.parametrize("words", [("--to-origin",), ()])
def test_what_cannot_be_sent_is_not_success(words: tuple[str, ...], sandbox: ThreadedSandbox, capsys: Captured) -> None:
    put(sandbox, [letter(20, None), letter(21, None)])
    for more in (("--dry-run",), ("--yes",), ("--yes",)):
        result, document = replay(capsys, *words, *more)
        assert (result.code, [error["what"] for error in document["errors"]]) == (8, ["2 dead letters"]), more
        assert "2 dead letters" in call(capsys, "dlq", "replay", "G", *words, "--dry-run").err
    (ledger,) = ledgers(capsys)
    assert (ledger["state"], ledger["leftCount"], ledger["sentCount"]) == ("LEFT", 2, COUNT)
    status = call(capsys, "dlq", "status", "-o", "json")
    assert (status.code, [error["what"] for error in json.loads(status.out)["errors"]]) == (
        8, [f"2 dead letters of ledger {ledger['id']}"],
    )  # fmt: skip
    assert replay(capsys, "--to-topic", "orders", "--yes")[0].code == 0


def test_what_a_run_did_not_read_or_take_is_left(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    def status() -> tuple[str, int | None, list[tuple[str | None, str]]]:
        (ledger,) = ledgers(capsys)
        shown = call(capsys, "dlq", "status", "-o", "json")
        errors = [
            (error["brokerName"], error["what"].partition(" of ")[0]) for error in json.loads(shown.out)["errors"]
        ]
        assert shown.code == (8 if errors else 0)
        return ledger["state"], ledger["leftCount"], errors

    topics = sandbox.sandbox.brokers["broker-b"].topics
    sandbox.call(lambda _: topics.put(Topic("%DLQ%G", 1, 1, perm=2)))
    assert replay(capsys, "--max", "1", "--yes")[0].code == 8
    count = COUNT // 2
    assert status() == ("LEFT", None, [("broker-b", "dead letters"), (None, f"{count - 1} dead letters")])
    # No run follows, and broker-b is not read either.
    assert replay(capsys, "--yes")[0].code == 8
    assert replay(capsys, "--yes")[0].code == 8
    assert status() == ("LEFT", None, [("broker-b", "dead letters")])
    sandbox.call(lambda _: topics.put(Topic("%DLQ%G", 1, 1)))
    assert replay(capsys, "--max", "1", "--yes")[0].code == 0
    assert status() == ("LEFT", count - 1, [(None, f"{count - 1} dead letters")])
    assert replay(capsys, "--tag", "none", "--dry-run")[0].code == 0
    assert status()[0] == "LEFT"
    assert replay(capsys, "--yes")[0].code == 0
    assert status() == ("DONE", 0, [])
    # Nothing is sent, and it is known of more or fewer brokers.
    for perm, code, state in ((2, 8, "LEFT"), (6, 0, "DONE")):
        closed = Topic("%DLQ%G", 1, 1, perm=perm)
        sandbox.call(lambda _, closed=closed: topics.put(closed))
        assert (replay(capsys, "--yes")[0].code, status()[0]) == (code, state)


def test_the_ledger_has_a_name_and_a_file(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    assert replay(capsys, "--ledger", "second", "--yes")[0].code == 0
    (ledger,) = ledgers(capsys)
    assert (ledger["name"], Path(ledger["file"]).is_file()) == ("second", True)
    assert ledger["id"] in ledger["file"]
    status = call(capsys, "dlq", "status")
    assert (status.code, "second" in status.out, ledger["id"] in status.out) == (0, True, True)


@pytest.mark.parametrize(
    "topic",
    ["%DLQ%G", "%DLQ%H", "%RETRY%G", "%RETRY%H", "%RETRY%H_orders", "RMQ_SYS_TRACE_TOPIC", "OFFSET_MOVED_EVENT"],
)
def test_topics_of_rocketmq_are_refused_before_a_server_is_asked(topic: str, capsys: Captured) -> None:
    result = call(capsys, "dlq", "replay", "G", "--to-topic", topic, "--yes", "-n", "127.0.0.1:1", "-o", "json")
    assert (result.code, topic in result.error["message"], bool(result.error["hint"])) == (2, True, True)


@pytest.mark.parametrize("name", ["broker-b", "{cluster}", "{cluster}_REPLY_TOPIC"])
def test_topics_of_brokers_and_clusters_are_refused(name: str, sandbox: ThreadedSandbox, capsys: Captured) -> None:
    (cluster,) = {
        item["clusterName"] for item in json.loads(call(capsys, "cluster", "list", "-o", "json").out)["items"]
    }
    topic = name.format(cluster=cluster)
    sandbox.call(lambda inner: [broker.topics.put(Topic(topic, 1, 1)) for broker in inner.brokers.values()])
    for words in (("dlq", "replay", "G", "--to-topic", topic), ("message", "send", topic, "x")):
        for more in ("--dry-run", *(["--yes"] if words[0] == "dlq" else [])):
            result = call(capsys, *words, more, "-o", "json")
            assert (result.code, topic in result.error["message"], bool(result.error["hint"])) == (2, True, True), words
    assert call(capsys, "message", "send", topic, "x").code == 2
    put(sandbox, [letter(20, topic)])
    for more in ("--dry-run", "--yes"):
        result, document = replay(capsys, "--to-origin", more)
        assert (result.code, [topic in error["message"] for error in document["errors"]]) == (8, [True]), more
    assert found(capsys, topic) == []


@pytest.mark.parametrize("topic", ["%DLQ%G", "%RETRY%H", "SCHEDULE_TOPIC_XXXX"])
def test_an_origin_of_rocketmq_receives_nothing(topic: str, sandbox: ThreadedSandbox, capsys: Captured) -> None:
    put(sandbox, [letter(20, topic)])
    for more in ("--dry-run", "--yes"):
        result, document = replay(capsys, "--to-origin", more)
        assert (result.code, [topic in error["message"] for error in document["errors"]]) == (8, [True]), more
    assert document["summary"]["sentCount"] == COUNT
