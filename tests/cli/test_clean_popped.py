"""`rmqctl clean-expired` of a group that pops, on a sandbox: found, sent back, acknowledged, and what is left alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.faults.faults import AnswerCode
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.change.seeded_sandbox import document
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import send

from .calls import Result, call

QUICK = ("--for", "1ms", "--older-than", "1ms")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))


@pytest.fixture
def sandbox() -> Iterator[ThreadedSandbox]:
    """Four messages of T@broker-a:0 are popped at once, for a minute; the second is acknowledged."""
    with ThreadedSandbox(brokers=1) as running:
        running.run(join(running.sandbox, "T", "%RETRY%G"))
        running.run(pop(running.sandbox, count=4, acknowledged=(1,)))
        yield running


async def join(inner: Sandbox, *topics: str, broker_name: str = "broker-a", refuses: bool = False) -> None:
    info = None if refuses else b"{}"
    peer = await Peer.of_broker(inner, broker_name, refuses=refuses, info=info)
    await send(peer, "T", 0, count=4, unique=True)
    data = consumer_data("G", *(subscription(topic) for topic in topics), consumeType="CONSUME_POP")
    await peer.heartbeat("c1", data)


async def pop(
    inner: Sandbox, *, count: int = 4, acknowledged: tuple[int, ...] = (), broker_name: str = "broker-a"
) -> None:
    peer = await Peer.of_broker(inner, broker_name)
    popped = await peer.ask_ok(
        RequestCode.POP_MESSAGE, consumerGroup="G", topic="T", queueId=0, maxMsgNums=count, invisibleTime=60_000,
        pollTime=0, bornTime=inner.clock.now_ms(), initMode=0,
    )  # fmt: skip
    fields = popped.ext_fields
    bits = sum(1 << offset for offset in acknowledged)
    item = {
        "c": "G", "t": "T", "r": "0", "so": 0, "q": 0, "rq": int(fields["reviveQid"]), "pt": int(fields["popTime"]),
        "it": int(fields["invisibleTime"]), "b": base64.b64encode(bytes([bits])).decode(),
    }  # fmt: skip
    if bits:
        await peer.ask_ok(
            RequestCode.BATCH_ACK_MESSAGE, json.dumps({"brokerName": "broker-a", "acks": [item]}).encode()
        )
    await peer.aclose()


def run(capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox, *words: str) -> Result:
    return call(capsys, *words, "-n", sandbox.addr)


def clean(capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox, *words: str) -> Result:
    return run(capsys, sandbox, "clean-expired", "G", *QUICK, *words)


def popped_count(sandbox: ThreadedSandbox) -> int:
    return sandbox.call(lambda inner: inner.brokers["broker-a"].pop.check_points.in_flight_count("G", "T"))


def waiting_count(sandbox: ThreadedSandbox) -> int:
    """Count the copies that wait for their retry."""
    store = sandbox.call(lambda inner: inner.brokers["broker-a"].store)
    return sandbox.call(lambda _: sum(store.max_offset("SCHEDULE_TOPIC_XXXX", level - 1) for level in range(1, 19)))


def test_each_popped_message_is_a_row(capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox) -> None:
    done = clean(capsys, sandbox, "-o", "json")
    assert done.code == 10, done.err
    found = document(done)
    assert found["summary"] == {"queueCount": 2, "stuckCount": 1, "undecidedCount": 0}
    items = found["items"]
    assert [(item["why"], item["isStuck"], item["headOffset"]) for item in items] == [
        ("POPPED", True, 0), ("POPPED", True, 2), ("POPPED", True, 3),
    ]  # fmt: skip
    assert items[1]["msgId"] == f"{0:016X}{2:016X}"
    assert (items[0]["ageSource"], items[0]["lag"], items[0]["body"]) == ("POPPED", 0, "x")
    assert items[0]["ageAtLeastMs"] >= 1
    shown = clean(capsys, sandbox)
    assert shown.out.splitlines()[1].split()[:2] == ["yes", "POPPED"]
    # By default none gets old enough, and that is said in every format.
    default = run(capsys, sandbox, "clean-expired", "G", "--for", "1ms", "-q")
    assert default.out == ""
    assert "--older-than" in default.err


def test_they_are_sent_back_and_acknowledged(capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox) -> None:
    dry = clean(capsys, sandbox, "--dry-run", "-o", "json")
    assert dry.code == 10
    (planned,) = document(dry)["items"]
    assert (planned["route"], planned["before"], planned["target"], planned["change"]) == ("POP_ACK", 4, 4, 0)
    assert {len(each["popHandle"].split()) for each in planned["cleaning"]["messages"]} == {8}
    assert (popped_count(sandbox), waiting_count(sandbox)) == (3, 0)

    done = clean(capsys, sandbox, "--yes", "-o", "json")
    assert done.code == 0, done.err
    receipt = document(done)
    (item,) = receipt["items"]
    assert (item["route"], item["result"]) == ("POP_ACK", "CONFIRMED")
    assert [(each["queueOffset"], each["result"]) for each in item["messages"]] == [
        (0, "CONFIRMED"), (2, "CONFIRMED"), (3, "CONFIRMED"),
    ]  # fmt: skip
    assert (popped_count(sandbox), waiting_count(sandbox)) == (0, 3)
    assert document(clean(capsys, sandbox, "-o", "json"))["items"] == []

    undone = run(capsys, sandbox, "offset", "undo", receipt["id"], "--yes")
    assert (undone.code, undone.out) == (1, "")
    assert "acknowledgement" in undone.err
    (listed,) = document(run(capsys, sandbox, "offset", "history", "G", "-o", "json"))["items"]
    assert listed["route"] == "POP_ACK"


@pytest.mark.parametrize(("words", "most"), [((), 3), (("--to-dlq",), 0)])
def test_dead_letters_are_not_redelivered(
    capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox, words: tuple[str, ...], most: int
) -> None:
    plan = document(clean(capsys, sandbox, *words, "--dry-run", "-o", "json"))
    (item,) = plan["items"]
    assert (item["reconsumedMin"], item["reconsumedMax"], item["reconsumed"]) == (0, most, None if most else 0)


def test_a_member_that_does_not_answer_makes_a_cleaning_partial(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadedSandbox(brokers=1) as running:
        running.run(join(running.sandbox, "T", "%RETRY%G", refuses=True))
        running.run(pop(running.sandbox))
        done = clean(capsys, running, "--yes", "-o", "json")
        assert (done.code, document(done)["items"][0]["result"]) == (8, "CONFIRMED")
        assert [error["what"] for error in document(done)["errors"]] == ["running info of c1"]


def test_what_is_acknowledged_meanwhile_is_left_alone(
    capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert clean(capsys, sandbox, "--plan", str(plan)).code == 10
    handles = {
        each["queueOffset"]: each["popHandle"]
        for each in json.loads(plan.read_text())["items"][0]["cleaning"]["messages"]
    }
    sandbox.run(_acknowledge(sandbox.sandbox, {2: handles[2]}))
    done = run(capsys, sandbox, "apply", str(plan), "--yes", "-o", "json")
    assert done.code == 0, done.err
    (item,) = document(done)["items"]
    assert {each["queueOffset"]: each["result"] for each in item["messages"]} == {
        0: "CONFIRMED", 2: "NOT_ATTEMPTED", 3: "CONFIRMED",
    }  # fmt: skip
    assert (popped_count(sandbox), waiting_count(sandbox)) == (0, 2)
    # All of it is done now.
    again = run(capsys, sandbox, "apply", str(plan), "--yes", "-o", "json")
    assert again.code != 0
    assert waiting_count(sandbox) == 2


async def _acknowledge(inner: Sandbox, handles: dict[int, str]) -> None:
    peer = await Peer.of_broker(inner)
    for offset, handle in handles.items():
        await peer.ask_ok(
            RequestCode.ACK_MESSAGE, consumerGroup="G", topic="T", queueId=0, offset=offset, extraInfo=handle
        )
    await peer.aclose()


def test_what_is_not_stored_again_is_not_acknowledged(
    capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert clean(capsys, sandbox, "--plan", str(plan)).code == 10
    sandbox.call(lambda inner: inner.brokers["broker-a"].settings.update({"brokerPermission": "4"}))
    assert clean(capsys, sandbox, "--yes").code != 0
    applied = run(capsys, sandbox, "apply", str(plan), "--yes", "-o", "json")
    assert applied.code not in (0, 9), applied.out
    assert (popped_count(sandbox), waiting_count(sandbox)) == (3, 0)


def test_no_member_reads_what_is_sent_back(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadedSandbox(brokers=1) as running:
        running.run(join(running.sandbox, "T"))
        running.run(pop(running.sandbox))
        assert clean(capsys, running).code == 10
        refused = clean(capsys, running, "--yes")
        assert refused.code == 1
        assert "%RETRY%G" in refused.err
        assert popped_count(running) == 4


def test_a_message_that_was_redelivered_keeps_its_topic(capsys: pytest.CaptureFixture[str]) -> None:
    """It is popped from the group's retry topic of pops; its copy names the topic that it was first sent to."""

    async def redeliver(inner: Sandbox) -> None:
        peer = await Peer.of_broker(inner)
        for invisible_ms in (1, 60_000):
            while True:
                popped = await peer.ask(
                    RequestCode.POP_MESSAGE, consumerGroup="G", topic="T", queueId=0, maxMsgNums=1,
                    invisibleTime=invisible_ms, pollTime=0, bornTime=inner.clock.now_ms(), initMode=0,
                )  # fmt: skip
                if popped.code == 0 and (invisible_ms == 1 or "1 0" in popped.ext_fields["startOffsetInfo"][:3]):
                    break
        await peer.aclose()

    with ThreadedSandbox(brokers=1) as running:
        running.run(join(running.sandbox, "T", "%RETRY%G"))
        running.run(redeliver(running.sandbox))
        found: dict[str, Any] = document(clean(capsys, running, "-o", "json"))
        row = next(item for item in found["items"] if item["topic"] == "%RETRY%G_T")
        assert (row["why"], row["reconsumeTimes"]) == ("POPPED", 1)
        done = clean(capsys, running, "--topic", "T", "--yes", "--delay-level", "1", "-o", "json")
        assert done.code == 0, done.err
        item = next(item for item in document(done)["items"] if item["topic"] == "%RETRY%G_T")
        assert item["result"] == "CONFIRMED"
        (copy,) = running.run(_read(running.sandbox, row["msgId"]))
        assert (copy["RETRY_TOPIC"], copy["RECONSUME_TIME"], copy["REAL_TOPIC"]) == ("T", "2", "%RETRY%G")


async def _read(inner: Sandbox, message_id: str) -> list[dict[str, str]]:
    store = inner.brokers["broker-a"].store
    waiting = [
        store.message_at("SCHEDULE_TOPIC_XXXX", 0, offset)
        for offset in range(store.max_offset("SCHEDULE_TOPIC_XXXX", 0))
    ]
    return [each.properties for each in waiting if each is not None and each.message_id == message_id]


def test_an_acknowledgement_that_fails_is_made_by_the_next_run(
    capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox
) -> None:
    """Its message was sent back: the next run sees the copy, sends no other one, and acknowledges."""
    sandbox.call(lambda inner: inner.faults.add(AnswerCode(1), RequestCode.ACK_MESSAGE, count=1))
    done = clean(capsys, sandbox, "--yes", "-o", "json")
    assert done.code == 9, done.err
    (item,) = document(done)["items"]
    assert item["result"] == "UNKNOWN"
    assert {each["result"] for each in item["messages"]} == {"CONFIRMED"}
    assert (popped_count(sandbox), waiting_count(sandbox)) == (1, 3)

    again = clean(capsys, sandbox, "--yes", "-o", "json")
    assert again.code == 0, again.err
    assert document(again)["items"][0]["result"] == "CONFIRMED"
    assert (popped_count(sandbox), waiting_count(sandbox)) == (0, 3)


def test_what_the_broker_hides_is_not_decided(capsys: pytest.CaptureFixture[str], sandbox: ThreadedSandbox) -> None:
    sandbox.run(_pop_in_order(sandbox.sandbox))
    hidden = clean(capsys, sandbox, "-o", "json")
    assert hidden.code == 8
    items = document(hidden)["items"]
    assert {(item["why"], item["isStuck"], item["reasons"]["isStuck"]) for item in items} == {("POP", None, "POP")}
    assert "consumeMessageOrderly" in items[0]["explanation"]


async def _pop_in_order(inner: Sandbox) -> None:
    peer = await Peer.of_broker(inner)
    config = json.dumps({"groupName": "G", "consumeMessageOrderly": True}).encode()
    await peer.ask_ok(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, config)
    await peer.aclose()
