"""Messages that are not in their topic yet, from the command line to the sandbox's index: delayed, or to be retried."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from rmqctl.client.core import Client
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


def test_what_is_nowhere_is_not_found(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    _sent(capsys, "--key", "dly", "--delay-level", "17")
    result = call(capsys, "message", "get", "--topic", TOPIC, "--key", "dl")
    assert (result.code, result.out) == (5, "")
    assert "Keys are compared exactly." in result.err
    assert "WAITS" not in call(capsys, "message", "find", TOPIC).out
