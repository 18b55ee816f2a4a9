"""Messages that are not in their topic yet, from the command line to the sandbox's index: delayed, or to be retried."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rmqctl.client.core import Client
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message_id import decode_offset_id
from rmqctl.protocol.sends import send_back
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.topics.table import Topic
from tests.cli.calls import call

Captured = pytest.CaptureFixture[str]
TOPIC = "pay"


@pytest.fixture(params=["5.4.0", "4.9.7"])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Run two brokers that have the topic."""
    with ThreadedSandbox(plays=request.param, brokers=2) as running:
        running.call(lambda inner: [broker.topics.put(Topic(TOPIC, 2, 2)) for broker in inner.brokers.values()])
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def _sent(capsys: Captured, *words: str) -> dict[str, Any]:
    result = call(capsys, "message", "send", TOPIC, "x", *words, "-o", "json")
    assert result.code == 0, result.err
    item: dict[str, Any] = json.loads(result.out)["items"][0]
    return item


def _found(capsys: Captured, unique_key: str, key: str, topic: str = TOPIC) -> Iterator[dict[str, Any]]:
    """Yield what each of the three commands finds."""
    for words in (
        ("get", unique_key, "--topic", topic),
        ("get", "--topic", topic, "--key", key),
        ("find", topic, "--key", key),
    ):
        result = call(capsys, "message", *words, "-o", "json")
        assert (result.code, result.err) == (0, ""), words
        (item,) = json.loads(result.out)["items"]
        assert (item["msgId"], item["keys"]) == (unique_key, [key])
        yield item


def test_a_message_with_a_delay_level_is_found_where_it_waits(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sent = _sent(capsys, "--key", "dly", "--delay-level", "17")
    for item in _found(capsys, sent["msgId"], "dly"):
        assert (item["topic"], item["queueId"]) == ("SCHEDULE_TOPIC_XXXX", 16)
        waits = item["waits"]
        assert (waits["topic"], waits["queueId"], waits["delayLevel"]) == (TOPIC, sent["queueId"], 17)
        assert waits["dueTimestamp"] == item["storeTimestamp"] + 3_600_000
    assert (
        "consumed by\nunknown  It is not in its topic yet"
        in call(capsys, "message", "get", "--topic", TOPIC, "--key", "dly", "--consumed-by").out
    )
    sandbox.advance(3_601)
    for item in _found(capsys, sent["msgId"], "dly"):
        assert (item["topic"], "waits" in item) == (TOPIC, False)


@pytest.mark.parametrize("sandbox", ["5.4.0"], indirect=True)
def test_a_message_with_a_timer_is_found_where_it_waits(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sent = _sent(capsys, "--key", "dly-1", "--delay", "1h")
    for item in _found(capsys, sent["msgId"], "dly-1"):
        waits = item["waits"]
        assert (item["topic"], waits["topic"], waits["delayLevel"]) == ("rmq_sys_wheel_timer", TOPIC, None)
        assert waits["reasons"] == {"delayLevel": "TIMER"}
        assert 0 <= waits["dueTimestamp"] - item["storeTimestamp"] - 3_600_000 < 1_000


def test_a_message_between_two_tries_is_found_in_the_retry_topic(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sent = _sent(capsys, "--key", "fails")
    (first,) = json.loads(call(capsys, "message", "get", sent["offsetMsgId"], "-o", "json").out)["items"]

    async def give_back() -> None:
        async with Client([sandbox.addr], timeout_s=60) as client:
            command = send_back(
                "G", first["commitLogOffset"], delay_level=4, max_reconsume_times=16,
                origin_message_id=first["offsetMsgId"], origin_topic=TOPIC, broker_name=first["brokerName"],
            )  # fmt: skip
            await client.ask(first["storeHost"], command)

    asyncio.run(give_back())
    for item in _found(capsys, sent["msgId"], "fails", "%RETRY%G"):
        assert (item["waits"]["topic"], item["waits"]["delayLevel"], item["reconsumeTimes"]) == ("%RETRY%G", 4, 1)
    # In the topic itself it is there, and does not wait.
    assert all("waits" not in item for item in _found(capsys, sent["msgId"], "fails"))


def test_people_are_told_until_when(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sent = _sent(capsys, "--key", "dly", "--delay-level", "17", "--queue", "broker-b:1")
    item = next(_found(capsys, sent["msgId"], "dly"))
    until = f"in delay level 17 until {item['waits']['dueTimestampIso']}"
    full = call(capsys, "message", "get", "--topic", TOPIC, "--key", "dly")
    assert full.out.splitlines()[1].split(maxsplit=1) == ["waits", f"{until}, for {TOPIC}"]
    rows = call(capsys, "message", "find", TOPIC, "--key", "dly").out.splitlines()
    assert "WAITS" in rows[0]
    assert until in rows[1]
    of_queue = call(capsys, "message", "find", TOPIC, "--key", "dly", "--queue", "broker-b:1", "-o", "name")
    assert of_queue.out.strip() == sent["msgId"]
    assert call(capsys, "message", "find", TOPIC, "--key", "dly", "--queue", "broker-b:0", "-o", "name").out == ""


def test_what_is_overdue_is_told_by_every_command(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _sent(capsys, "--key", "dly", "--delay-level", "2", "--queue", "broker-b:1")
    sandbox.call(lambda inner: inner.brokers["broker-b"].delays.stop())
    sandbox.advance(60)
    full = call(capsys, "message", "get", "--topic", TOPIC, "--key", "dly").out.splitlines()[1]
    assert re.fullmatch(r"waits +in delay level 2, was due 5\ds ago, not delivered, for pay", full)
    late = call(capsys, "doctor", "--where", "check=delays", "--where", "status=WARN", "-o", "json")
    (row,) = json.loads(late.out)["items"]
    assert re.fullmatch(r"late: delay level 2 by 5\ds \(1 message\)", row["found"])
    assert row["subject"].startswith("broker-b")
    sandbox.call(lambda inner: inner.brokers["broker-b"].delays.start())
    sandbox.advance(1)
    assert "waits" not in next(_found_by_key(capsys, "dly"))
    assert json.loads(call(capsys, "doctor", "--where", "check=delays", "-o", "json").out)["items"][1]["status"] == "OK"


def test_a_half_message_is_found_with_what_became_of_its_transaction(
    sandbox: ThreadedSandbox, capsys: Captured
) -> None:
    open_id, gone_id, done_id = (_prepared(sandbox, key) for key in ("open", "gone", "done"))
    _end(sandbox, gone_id, 12)
    _end(sandbox, done_id, 8)
    item = next(_found_by_key(capsys, "open"))
    assert (item["topic"], item["transaction"]) == (
        "RMQ_SYS_TRANS_HALF_TOPIC",
        {"topic": TOPIC, "queueId": 1, "state": "PREPARED", "producerGroup": "P", "checkCount": 0, "reasons": {}},
    )
    assert "transaction" not in next(_found_by_key(capsys, "done"))
    full = call(capsys, "message", "get", "--topic", TOPIC, "--key", "open").out.splitlines()[1]
    assert full.split(maxsplit=1)[1] == "prepared, not committed; producer group P; not checked yet, for pay"

    sandbox.advance(130)  # 4.9 checks every minute
    states = {
        key: [(item["transaction"]["state"], item["transaction"]["checkCount"]) for item in _found_by_key(capsys, key)]
        for key in ("open", "gone")
    }
    assert {state for state, _ in states["open"]} == {"PREPARED"}
    assert states["open"][0][1] >= 2
    assert set(states["gone"]) == {("ENDED", 0)}
    by_place = [
        json.loads(call(capsys, "message", "get", offset_id, "-o", "json").out)["items"][0]["transaction"]["state"]
        for offset_id in (open_id, gone_id, done_id)
    ]
    assert by_place == ["PREPARED", "ENDED", "COMMITTED"]

    sandbox.advance(16 * 60)
    assert {item["transaction"]["state"] for item in _found_by_key(capsys, "open")} == {"GIVEN_UP"}
    found = json.loads(call(capsys, "doctor", "--where", "check=transactions", "-o", "json").out)["items"]
    assert [(row["status"], row["measured"]["givenUpCount"]) for row in found] == [("WARN", 1), ("OK", 0)]


def _prepared(sandbox: ThreadedSandbox, key: str) -> str:
    """Send a half message to broker-a; return its offset id."""
    properties = f"UNIQ_KEY\x01{key.upper()}\x02KEYS\x01{key}\x02TRAN_MSG\x01true\x02PGROUP\x01P\x02"
    fields = {
        "a": "P", "b": TOPIC, "c": "TBW102", "d": "4", "e": "1", "f": "4", "g": str(int(time.time() * 1000)), "h": "0",
        "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    return _ask(sandbox, Command(RequestCode.SEND_MESSAGE_V2, fields, b"half")).ext_fields["msgId"]


def _end(sandbox: ThreadedSandbox, offset_id: str, commit_or_rollback: int) -> None:
    place = sandbox.call(
        lambda inner: inner.brokers["broker-a"].store.message_in_log(decode_offset_id(offset_id).commit_log_offset)
    )
    _ask(sandbox, Command(RequestCode.END_TRANSACTION, {
        "producerGroup": "P", "tranStateTableOffset": str(place.queue_offset),
        "commitLogOffset": str(place.commit_log_offset), "commitOrRollback": str(commit_or_rollback),
    }))  # fmt: skip


def _ask(sandbox: ThreadedSandbox, command: Command) -> Command:
    async def ask() -> Command:
        async with Client([sandbox.addr], timeout_s=60) as client:
            return await client.ask(sandbox.brokers["broker-a"], command)

    return asyncio.run(ask())


def _found_by_key(capsys: Captured, key: str) -> Iterator[dict[str, Any]]:
    """Yield what each of two commands finds."""
    for words in (("get", "--topic", TOPIC, "--key", key), ("find", TOPIC, "--key", key)):
        result = call(capsys, "message", *words, "-o", "json")
        assert (result.code, result.err) == (0, ""), words
        yield json.loads(result.out)["items"][-1]


def test_what_is_nowhere_is_not_found(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _sent(capsys, "--key", "dly", "--delay-level", "17")
    result = call(capsys, "message", "get", "--topic", TOPIC, "--key", "dl")
    assert (result.code, result.out) == (5, "")
    assert "Keys are compared exactly." in result.err
    assert "WAITS" not in call(capsys, "message", "find", TOPIC).out
