"""Commands by time on a queue whose broker's clock was an hour behind for a while."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.change.seeded_sandbox import GROUP, TOPIC, seeded
from tests.sandbox.peer import Peer
from tests.sandbox.progress import commit, send

from .calls import Result, call

_HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=["5.4.0", "4.9.7"])
def set_back(request: pytest.FixtureRequest) -> Iterator[ThreadedSandbox]:
    """Serve a topic with 3 messages, 10 by a clock an hour behind, and 10 more, in each of two queues."""

    async def add(sandbox: Sandbox) -> None:
        peer = await Peer.of_broker(sandbox, "broker-a")
        for number in range(1, 23):
            # Each a ms later at least than the one before.
            sandbox.brokers["broker-a"].skew_ms = number - (_HOUR_MS if 3 <= number < 13 else 0)
            for queue_id in (0, 1):
                await send(peer, TOPIC, queue_id)
        sandbox.brokers["broker-a"].skew_ms = 0
        await commit(peer, GROUP, TOPIC, 0, 5)
        await peer.aclose()

    with seeded(request.param, count=1, stored=None) as sandbox:
        sandbox.run(add(sandbox.sandbox))
        yield sandbox


class Commands:
    """Runs commands on a sandbox; `times` are the store times of queue 0."""

    def __init__(self, sandbox: ThreadedSandbox, capsys: pytest.CaptureFixture[str]) -> None:
        self._sandbox, self._capsys = sandbox, capsys
        self.times = [item["storeTimestamp"] for item in self.items("message", "find", TOPIC)]

    def run(self, *words: str) -> Result:
        return call(self._capsys, *words, "-n", self._sandbox.addr)

    def document(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(*words, "--queue", "broker-a:0", "-o", "json").out)
        return found

    def items(self, *words: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.document(*words)["items"]
        return items


@pytest.fixture
def commands(set_back: ThreadedSandbox, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(set_back, capsys)


def _places(items: list[dict[str, Any]]) -> list[int]:
    return sorted(item["queueOffset"] for item in items)


def test_a_reset_by_time_goes_to_the_first_message_stored_then_and_says_how_it_was_found(commands: Commands) -> None:
    at_ms = commands.times[1]
    words = ("offset", "reset", GROUP, "--topic", TOPIC, "--to-time", str(at_ms), "--dry-run")
    plan = commands.document(*words)
    (item,) = plan["items"]
    assert item["target"] == 1
    assert item["firstStoreTimestamp"] == at_ms
    assert "TIMES_NOT_IN_ORDER" in {each["code"] for each in plan["consequences"]}
    assert "Store times go back" in commands.run(*words).err

    quiet = commands.document("offset", "reset", GROUP, "--topic", TOPIC, "--to-earliest", "--dry-run")
    assert not {each["code"] for each in quiet["consequences"]} & {"TIMES_NOT_IN_ORDER", "TARGET_NOT_FIRST"}


def test_a_reset_by_a_duration_is_by_the_same_search(commands: Commands) -> None:
    words = ("offset", "reset", GROUP, "--topic", TOPIC, "--by-duration", "30m", "--dry-run")
    (item,) = commands.items(*words)
    assert item["target"] == 0


def test_all_messages_of_a_span_of_time_are_found_wherever_they_are(commands: Commands) -> None:
    at_ms = commands.times[1]
    words = ("message", "find", TOPIC, "--since", str(at_ms))
    since = commands.document(*words)
    assert _places(since["items"]) == [at for at, each in enumerate(commands.times) if each >= at_ms]
    assert since["timesInOrder"] is False
    assert set(range(3, 13)).isdisjoint(_places(since["items"]))
    assert "Store times go back in T@broker-a:0" in commands.run(*words).err

    between = ("message", "find", TOPIC, "--since", "90m", "--until", "30m")
    assert _places(commands.items(*between)) == list(range(3, 13))
    assert _places(commands.items("message", "find", TOPIC, "--until", "30m")) == list(range(3, 13))


def test_what_is_followed_from_a_time_begins_with_the_first_message_stored_then(commands: Commands) -> None:
    at_ms = commands.times[1]
    expected = [at for at, each in enumerate(commands.times) if each >= at_ms]
    done = commands.run(
        "message", "tail", TOPIC, "--queue", "broker-a:0", "--from", str(at_ms), "--count", str(len(expected)),
        "-o", "jsonl",
    )  # fmt: skip
    assert [json.loads(line)["queueOffset"] for line in done.out.splitlines()] == expected
    assert "Store times go back in T@broker-a:0" in done.err


def test_a_time_lag_by_times_that_go_back_says_so(commands: Commands) -> None:
    items = json.loads(commands.run("offset", "show", GROUP, "--topic", TOPIC, "-o", "json").out)["items"]
    assert {item["queueId"]: item["timeLagSource"] for item in items} == {0: "UNORDERED_STORE_TIME", 1: None}
