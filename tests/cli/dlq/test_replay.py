"""Dead letters are replayed on a sandbox."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from rmqctl.changes import late_writes
from rmqctl.changes.dlq import run
from rmqctl.changes.dlq.copies import FoundCopies
from rmqctl.changes.dlq.lanes import BrokerLanes, Lanes
from rmqctl.changes.dlq.ledger import LedgerRow
from rmqctl.changes.dlq.run import Replay
from rmqctl.client.core import Client
from rmqctl.consumer.guards.retry_guard import RetryGuard
from rmqctl.consumer.rules.retry_locks import PossibleLocker
from rmqctl.errors import NotAuthorisedError, UnreachableError
from rmqctl.model.route import BrokerData
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call

from .replays import COUNT, Captured, found, ledgers, letter, put, replay

_SENDS = (Q.SEND_MESSAGE_V2, Q.SEND_BATCH_MESSAGE)


def test_what_was_being_sent_when_a_run_broke_off_is_not_sent_again(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = BrokerLanes.send

    async def break_off(sender: BrokerLanes, lanes: Lanes, *_: Any) -> None:
        await send(sender, lanes, lambda *_: None, set())
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(BrokerLanes, "send", break_off)
        # Nothing is found in time, as where Spark's tasks still run.
        patched.setattr(Replay, "_settle_own", AsyncMock())
        assert replay(capsys, "--to-topic", "orders", "--yes")[0].code == 1
    result, receipt = replay(capsys, "--to-topic", "orders", "--yes")
    # Only the first message was sent: it is alone, until the broker has proven that it stores them.
    assert (result.code, receipt["summary"]["earlierCount"], receipt["summary"]["sentCount"]) == (0, 1, COUNT - 1)
    assert len(found(capsys, "orders")) == COUNT


def test_to_the_retry_topic_and_a_second_time_nothing(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    result, plan = replay(capsys, "--dry-run")
    assert (result.code, plan["kind"], plan["count"], len(plan["sample"])) == (0, "ReplayPlan", 10, 5)
    assert {(item["originTopic"], item["targetTopic"], item["count"]) for item in plan["items"]} == {
        ("orders", "%RETRY%G", 5), ("payments", "%RETRY%G", 5),
    }  # fmt: skip
    assert found(capsys, "%RETRY%G") == []
    result, receipt = replay(capsys, "--yes", "--reason", "fixed")
    assert (result.code, receipt["kind"], receipt["summary"]["sentCount"]) == (0, "ReplayReceipt", 10)
    copies = {item["msgId"]: item for item in found(capsys, "%RETRY%G")}
    assert copies.keys() == {f"ID{number}" for number in range(COUNT)}
    properties = copies["ID3"]["properties"]
    assert {key: properties[key] for key in ("KEYS", "TAGS", "ORIGIN_MESSAGE_ID", "RETRY_TOPIC")} == {
        "KEYS": "k3", "TAGS": "A", "ORIGIN_MESSAGE_ID": "FIRST3", "RETRY_TOPIC": "payments",
    }  # fmt: skip
    assert (copies["ID3"]["reconsumeTimes"], "RMQCTL_REPLAY" in properties) == (0, True)
    result, plan = replay(capsys, "--yes")
    assert (result.code, plan["count"], plan["notSent"]) == (0, 0, {"DONE": 10})
    put(sandbox, [letter(11, "orders")])
    assert replay(capsys, "--yes")[1]["summary"]["sentCount"] == 1
    (ledger,) = ledgers(capsys)
    assert (ledger["group"], ledger["sentCount"], ledger["state"], len(ledger["runs"])) == ("G", 11, "DONE", 2)
    assert ledger["runs"][0]["reason"] == "fixed"


def test_to_their_origins_and_to_a_topic(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    put(sandbox, [letter(20, None), letter(21, "gone")])
    result, receipt = replay(capsys, "--to-origin", "--yes")
    assert (result.code, receipt["summary"]["sentCount"], receipt["summary"]["refusedCount"]) == (8, 10, 1)
    assert {item["targetTopic"]: item["count"] for item in receipt["items"]} == {"orders": 5, "payments": 5}
    assert len(found(capsys, "orders")) == 5
    # What was refused is sent once it can be; to another target all are.
    plan = replay(capsys, "--to-origin", "--dry-run")[1]
    assert (plan["count"], plan["notSent"]) == (1, {"DONE": 10, "NO_ORIGIN": 1})
    assert replay(capsys, "--to-topic", "orders", "--yes")[1]["summary"]["sentCount"] == 12
    assert replay(capsys, "--to-topic", "nowhere", "--yes")[0].code == 5


def test_origins_of_rocketmq_itself_receive_nothing(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    put(sandbox, [letter(20, "BenchmarkTest")])
    result, receipt = replay(capsys, "--to-origin", "--yes")
    assert (result.code, receipt["summary"]["sentCount"], receipt["summary"]["refusedCount"]) == (8, 10, 1)
    assert found(capsys, "BenchmarkTest") == []


def test_only_some_and_one_message_once(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    put(sandbox, [letter(0, "orders"), letter(0, "orders", RMQCTL_REPLAY="earlier gone:0:0")])
    plan = replay(capsys, "--dry-run", "--tag", "A", "--max", "4", "--topic", "orders")[1]
    # ID0 is there twice; the third of its dead letters is of another delivery.
    assert (plan["count"], plan["notSent"], plan["leftCount"]) == (4, {"TWICE": 1}, 2)
    assert replay(capsys, "--dry-run")[1]["againCount"] == 1
    assert replay(capsys, "--max", "4", "--rate", "100", "--yes")[1]["summary"]["sentCount"] == 4
    assert replay(capsys, "--yes")[1]["summary"]["sentCount"] == 7
    assert Counter(item["msgId"] for item in found(capsys, "%RETRY%G"))["ID0"] == 2


def test_a_file_of_export(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = str(tmp_path / "letters.jsonl")
    assert call(capsys, "dlq", "export", "G", "--to", path).code == 0
    assert replay(capsys, "--max", "3", "--yes")[1]["summary"]["sentCount"] == 3
    assert replay(capsys, "--from-file", path, "--yes")[1]["summary"]["sentCount"] == 7
    assert {item["body"] for item in found(capsys, "%RETRY%G")} == {f"body {number}" for number in range(COUNT)}
    lines = Path(path).read_text().splitlines()
    for wrong, said in (
        ("{}", "line 2"),
        (lines[0].replace('"group":"G"', '"group":"H"'), "H, not G."),
        (lines[0][:50], "line 2"),
    ):
        (tmp_path / "wrong.jsonl").write_text(f"{lines[1]}\n{wrong}\n")
        words = ("--to-topic", "orders", "--from-file", str(tmp_path / "wrong.jsonl"))
        result = call(capsys, "dlq", "replay", "G", *words, "--yes")
        assert (result.code, said in result.err) == (2, True)
    # Not even the line before it is sent.
    assert found(capsys, "orders") == []


def test_a_file_of_another_cluster(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "letters.jsonl"
    assert call(capsys, "dlq", "export", "G", "--to", str(path)).code == 0
    ours, gone = path.read_text(), path.read_text().replace('"broker-a"', '"broker-y"')
    path.write_text(gone.replace('"broker-b"', '"broker-z"'))
    result = call(capsys, "dlq", "replay", "G", "--from-file", str(path), "--yes")
    assert (result.code, result.out, found(capsys, "%RETRY%G")) == (2, "", [])
    assert "broker-y, broker-z, not broker-a, broker-b." in result.err
    # One of the brokers may be gone by now, and the same line twice is sent once.
    path.write_text(gone + gone)
    assert ours != gone
    receipt = replay(capsys, "--from-file", str(path), "--yes")[1]
    assert receipt["summary"]["sentCount"] == len(found(capsys, "%RETRY%G")) == COUNT


def test_a_transform_of_a_plugin(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    plugin = tmp_path / "fix.py"
    plugin.write_text(
        "from rmqctl.plugin import hookimpl\n"
        "def fix(body, properties, topic):\n"
        "    if body == b'body 1': return None\n"
        "    return body.replace(b'body', topic.encode()), {'TAGS': None, 'fixed': 'yes'}\n"
        "@hookimpl\n"
        "def rmqctl_letter_transforms():\n"
        "    return {'fix': fix}\n"
    )
    words = ("--plugin", str(plugin), "--yes", "--transform")
    sample = replay(capsys, "--dry-run", *words[:2], "--transform", "fix")[1]["sample"]
    assert {(each["msgId"], each["sentBody"], each["isDropped"]) for each in sample} >= {
        ("ID0", "orders 0", False), ("ID1", None, True),
    }  # fmt: skip
    result, receipt = replay(capsys, *words, "fix")
    assert (result.code, receipt["summary"]["sentCount"], receipt["summary"]["droppedCount"]) == (0, 9, 1)
    copies = {item["msgId"]: item for item in found(capsys, "%RETRY%G")}
    assert (copies["ID2"]["body"], copies["ID2"]["tags"], copies["ID2"]["properties"]["fixed"]) == (
        "orders 2", None, "yes",
    )  # fmt: skip
    assert replay(capsys, "--dry-run")[1]["notSent"] == {"DONE": 10}
    assert replay(capsys, *words, "fxi")[0].code == 2
    (ledger,) = ledgers(capsys)
    assert (ledger["state"], ledger["leftCount"], ledger["runs"][-1]["droppedCount"]) == ("DONE", 0, 1)


# When something goes wrong


def _lose_answers(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let the answers to so many sends get lost: the broker has stored what was sent."""
    ask, left = Client.ask, [count]

    async def losing(client: Client, address: str, command: Command, **more: Any) -> Command:
        answer = await ask(client, address, command, **more)
        if command.code in _SENDS and left[0]:
            left[0] -= 1
            raise UnreachableError(address, "the connection was lost")
        return answer

    monkeypatch.setattr(Client, "ask", losing)


@pytest.mark.parametrize("target", ["%RETRY%G", "orders"])
def test_an_answer_that_is_lost_sends_nothing_twice(
    target: str, sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = () if target == "%RETRY%G" else ("--to-topic", target)
    _lose_answers(monkeypatch, 1)
    result, receipt = replay(capsys, *words, "--yes")
    assert (result.code, receipt["summary"]["sentCount"], receipt["summary"]["inDoubtCount"]) == (0, 10, 0)
    assert receipt["summary"]["foundCount"] >= 1
    assert len(found(capsys, target)) == 10


def test_what_an_earlier_run_sent_does_not_count_as_sent_by_this_one(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run ends before it learns that its messages are stored."""
    _lose_answers(monkeypatch, 1)
    with monkeypatch.context() as blind:
        blind.setattr(run, "find_copies", _find_none)
        assert replay(capsys, "--max", "6", "--yes")[0].code == 8
    earlier = ledgers(capsys)[0]["inDoubtCount"]
    assert earlier > 0
    before = len(found(capsys, "%RETRY%G"))
    result, receipt = replay(capsys, "--yes")
    stored = len(found(capsys, "%RETRY%G"))
    summary = receipt["summary"]
    assert (result.code, stored, summary["sentCount"], summary["earlierCount"]) == (0, 10, 10 - before, earlier)


async def _find_none(_: Client, __: str, rows: Sequence[LedgerRow]) -> FoundCopies:
    return FoundCopies((), tuple(rows), None)


def test_what_is_lost_on_its_way_is_sent_by_the_next_run(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = str(tmp_path / "letters.jsonl")
    assert call(capsys, "dlq", "export", "G", "--to", path).code == 0
    words = ("--to-topic", "orders", "--from-file", path)
    sandbox.faults.drop(Q.SEND_BATCH_MESSAGE)
    result = replay(capsys, *words, "--max", "5", "--yes")[0]
    assert result.code == 8
    (ledger,) = ledgers(capsys)
    assert (ledger["inDoubtCount"], ledger["sentCount"], ledger["state"]) == (4, 1, "LEFT")  # the first goes alone
    plan = replay(capsys, *words, "--dry-run")[1]
    assert (plan["count"], plan["notSent"]) == (5, {"DONE": 1, "IN_DOUBT": 4})
    # While the target can't be read nothing is sent at all.
    sandbox.faults.answer(Q.GET_MIN_OFFSET, R.SYSTEM_ERROR, count=None)
    assert replay(capsys, *words, "--yes")[0].code == 1
    sandbox.faults.clear()
    assert len(found(capsys, "orders")) == 1
    result, receipt = replay(capsys, *words, "--yes")
    assert (result.code, receipt["summary"]["sentCount"]) == (0, 9)
    assert len(found(capsys, "orders")) == len({item["msgId"] for item in found(capsys, "orders")}) == 10


def test_a_broker_that_was_stopped_stores_what_was_sent_after_it_was_looked_for(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on with all that waits for it at once: reads can be answered before earlier sends are stored."""
    ask, held, is_looking, is_back = Client.ask, [], [False], [False]

    async def stopped(client: Client, address: str, command: Command, **more: Any) -> Command:
        if command.code == Q.SEND_BATCH_MESSAGE and not is_back[0]:
            held.append((address, command, more))
            raise UnreachableError(address, "the connection was lost")
        is_target = command.ext_fields.get("topic") == "orders"
        is_looking[0] |= command.code == Q.GET_MIN_OFFSET and is_target and is_back[0]
        answer = await ask(client, address, command, **more)
        if command.code == Q.GET_MAX_OFFSET and is_target and is_looking[0]:
            while held:
                earlier_address, earlier, earlier_more = held.pop()
                await ask(client, earlier_address, earlier, **earlier_more)
        return answer

    monkeypatch.setattr(Client, "ask", stopped)
    monkeypatch.setattr(late_writes, "LOOK_AGAIN_S", 0.0)
    assert replay(capsys, "--to-topic", "orders", "--yes")[0].code == 8
    assert (ledgers(capsys)[0]["inDoubtCount"], len(held)) == (9, 1)
    is_back[0] = True
    result, receipt = replay(capsys, "--to-topic", "orders", "--yes")
    summary, (item,) = receipt["summary"], receipt["items"]
    assert (result.code, summary["sentCount"], summary["earlierCount"], summary["foundCount"]) == (0, 0, 9, 0)
    assert (item["targetTopic"], item["count"], item["earlierCount"]) == ("orders", 0, 9)
    assert len(found(capsys, "orders")) == 10


def test_a_broker_that_refuses_is_passed_over(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(Q.SEND_MESSAGE_V2, R.NO_PERMISSION, server="broker-a", count=None)
    result, receipt = replay(capsys, "--yes")
    assert (result.code, receipt["summary"]["sentCount"]) == (0, 10)
    assert {item["brokerName"] for item in found(capsys, "%RETRY%G")} == {"broker-b"}


def test_a_target_that_a_missing_broker_may_have_is_not_called_missing(
    sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    assert call(capsys, "cluster", "list").code == 0
    sandbox.stop_broker("broker-b")
    result, _ = replay(capsys, "--to-topic", "nowhere", "--yes")
    assert (result.code, "broker-b could not be read" in result.error["message"]) == (6, True)


def test_when_all_refuse_nothing_is_in_doubt(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.answer(Q.SEND_MESSAGE_V2, R.SERVICE_NOT_AVAILABLE, count=None)
    result, _ = replay(capsys, "--yes")
    assert (result.code, result.out) == (1, "")
    (ledger,) = ledgers(capsys)
    assert (ledger["sentCount"], ledger["inDoubtCount"], ledger["state"]) == (0, 0, "LEFT")


def test_no_batch_goes_where_a_message_alone_is_refused(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    """Brokers of 4.9 store a batch of who may not send (PlainAccessResource.parse)."""
    sandbox.faults.answer(Q.SEND_MESSAGE_V2, R.NO_PERMISSION, count=None)
    result, _ = replay(capsys, "--to-topic", "orders", "--yes")
    assert (result.code, result.error["name"]) == (4, "NOT_AUTHORISED")
    assert found(capsys, "orders") == []


def test_an_account_without_a_right_to_the_target_is_told_so(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers of 5.x with access control report the end of a queue only to those who may read it or send to it."""
    ask = Client.ask

    async def refusing(client: Client, address: str, command: Command, **more: Any) -> Command:
        if command.code == Q.GET_MAX_OFFSET and command.ext_fields["topic"] == "orders":
            raise NotAuthorisedError(f"{address} refused the request.", hint="The access key lacks a right.")
        return await ask(client, address, command, **more)

    monkeypatch.setattr(Client, "ask", refusing)
    result, _ = replay(capsys, "--to-topic", "orders", "--yes")
    assert (result.code, result.error["name"]) == (4, "NOT_AUTHORISED")
    assert result.error["hint"] == "The access key lacks a right."
    assert not ledgers(capsys)


@pytest.mark.parametrize(
    ("code", "name"), [(R.SERVICE_NOT_AVAILABLE, "SERVICE_NOT_AVAILABLE"), (R.NO_PERMISSION, "NOT_AUTHORISED")]
)
def test_what_was_sent_before_all_refuse_is_told(
    code: int, name: str, sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, left = Client.ask, [4]

    async def full_after(client: Client, address: str, command: Command, **more: Any) -> Command:
        if command.code in _SENDS:
            if not left[0]:
                sandbox.faults.answer(Q.SEND_MESSAGE_V2, code, count=None)
            left[0] -= 1
        return await ask(client, address, command, **more)

    monkeypatch.setattr(Client, "ask", full_after)
    # Windows of two: the third is refused, and nothing is sent after it.
    result, receipt = replay(capsys, "--rate", "2", "--yes")
    assert result.code == (8 if code == R.SERVICE_NOT_AVAILABLE else 4)
    summary = receipt["summary"]
    assert (summary["sentCount"], summary["refusedCount"], summary["inDoubtCount"]) == (4, 2, 0)
    assert [(each["what"], each["name"]) for each in receipt["errors"]] == [
        ("2 dead letters", name), ("4 more dead letters", name),
    ]  # fmt: skip
    (ledger,) = ledgers(capsys)
    assert (ledger["sentCount"], ledger["inDoubtCount"], ledger["leftCount"], ledger["state"]) == (4, 0, 6, "LEFT")
    sandbox.faults.clear()
    monkeypatch.setattr(Client, "ask", ask)
    assert replay(capsys, "--yes")[1]["summary"]["sentCount"] == 6
    ids = [item["msgId"] for item in found(capsys, "%RETRY%G")]
    assert len(ids) == len(set(ids)) == 10


def test_ctrl_c_ends_the_window_and_the_same_command_goes_on(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, left = Client.ask, [1]

    async def interrupting(client: Client, address: str, command: Command, **more: Any) -> Command:
        if command.code in _SENDS and left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)
        return await ask(client, address, command, **more)

    monkeypatch.setattr(Client, "ask", interrupting)
    before = signal.getsignal(signal.SIGINT)
    try:
        # Windows of a second's worth.
        result = call(capsys, "dlq", "replay", "G", "--rate", "3", "--yes")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.code, "3 of 10" in result.err) == (130, True)
    (ledger,) = ledgers(capsys)
    assert (ledger["sentCount"], ledger["inDoubtCount"], ledger["leftCount"], ledger["state"]) == (3, 0, 7, "LEFT")
    assert replay(capsys, "--yes")[1]["summary"]["sentCount"] == 7
    assert len(found(capsys, "%RETRY%G")) == 10


def test_while_queue_locks_live_the_plan_refuses_the_retry_topic(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find(guard: RetryGuard, brokers: Sequence[BrokerData]) -> dict[str, PossibleLocker]:
        return {each.broker_name: PossibleLocker("consumer@1", is_orderly=True) for each in brokers[: left[0]]}

    left = [2]
    monkeypatch.setattr(RetryGuard, "find_hindrances", find)
    for words, code in ((["--dry-run"], 8), (["--yes"], 1)):
        result, _ = replay(capsys, *words)
        assert (result.code, "Stop consumer@1" in result.out + result.err) == (code, True)
    assert replay(capsys, "--to-origin", "--dry-run")[0].code == 0
    assert not ledgers(capsys)
    # A broker without such locks takes them all.
    left[0] = 1
    assert replay(capsys, "--yes")[1]["summary"]["sentCount"] == 10
    assert {item["brokerName"] for item in found(capsys, "%RETRY%G")} == {"broker-b"}


def test_it_wants_consent(
    sandbox: ThreadedSandbox, capsys: Captured, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR")
    config_file.write_text(
        "".join(
            f'[contexts.{name}]\nnamesrv = "{sandbox.addr}"\n{more}\n'
            for name, more in (("prod", "readonly = true"), ("careful", "protected = true"), ("free", ""))
        )
    )
    config_file.chmod(0o600)
    for context, words, code in (
        ("prod", ["--yes"], 1), ("careful", ["--yes"], 2), ("careful", ["--confirm", "H"], 3), ("free", [], 2),
        ("free", ["--yes", "--where", "count>1"], 2), ("free", ["--to-origin", "--to-topic", "T", "--yes"], 2),
        ("free", ["--from-file", "x", "--tag", "A", "--yes"], 2), ("free", ["--from-file", "/nowhere", "--yes"], 2),
        ("free", ["--plugin", "x.py", "--yes"], 2),
    ):  # fmt: skip
        assert call(capsys, "dlq", "replay", "G", "--context", context, *words).code == code, words
    assert call(capsys, "dlq", "replay", "G*", "--context", "free", "--yes").code == 2
    assert replay(capsys, "--context", "prod", "--dry-run")[0].code == 0
    assert _found_in(capsys, "free") == []
    assert replay(capsys, "--context", "careful", "--confirm", "G")[0].code == 0
    assert len(_found_in(capsys, "free")) == 10


def _found_in(capsys: Captured, context: str) -> list[Any]:
    items: list[Any] = json.loads(call(capsys, "message", "find", "%RETRY%G", "--context", context, "-o", "json").out)[
        "items"
    ]
    return items
