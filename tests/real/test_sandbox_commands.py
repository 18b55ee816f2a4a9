"""What `rmqctl sandbox fault` and `advance` do to RocketMQ's own consumers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.sandbox.control.state_file import find_running

from .harness.cluster import Reachable
from .harness.jars import VERSIONS
from .harness.rmqctl import Result, Rmqctl
from .harness.workbench import WorkbenchError


class CommandedSandbox(Reachable):
    """A sandbox that the command line started, and tells what to do."""

    def __init__(self, version: str, folder: Path) -> None:
        super().__init__(version, folder)
        started = Rmqctl("")("sandbox", "up", "--port", "0", "--detach", "--as", version, "-o", "json")
        assert started.exit_code == 0, started.stderr
        (item,) = started.document["items"]
        self.namesrv = item["namesrv"]
        self.addresses = {broker["brokerName"]: broker["brokerAddr"] for broker in item["brokers"]}

    def tell(self, *words: str) -> Result:
        """Run a command about the sandbox, which must not fail."""
        result = Rmqctl(self.namesrv)("sandbox", *words)
        assert result.exit_code == 0, result.stderr
        return result

    def members(self, group: str) -> dict[str, Any]:
        """Return the members of a group by client id, as rmqctl sees them."""
        result = Rmqctl(self.namesrv)("group", "members", group, "-o", "json")
        if result.exit_code == 5:
            return {}
        return {item["clientId"]: item for item in json.loads(result.stdout)["items"]}


@pytest.fixture(params=VERSIONS)
def commanded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CommandedSandbox]:
    folder = tmp_path_factory.mktemp(f"commanded-{request.param}")
    monkeypatch.setenv("RMQCTL_RUNTIME", str(folder / "runtime"))
    sandbox = CommandedSandbox(request.param, folder / "home")
    try:
        yield sandbox
    finally:
        sandbox.close_java()
        sandbox.tell("down")
        assert find_running() == []
        assert os.listdir(folder / "runtime") == []  # noqa: PTH208 - the log as well, which is empty


def _wait_until(is_so: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    give_up_at = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < give_up_at, f"waited for {what}"
        time.sleep(0.2)


def test_two_hours_and_three_days_pass_at_once_and_connected_consumers_stay(commanded: CommandedSandbox) -> None:
    commanded.create_topic("Advance")
    client_id = commanded.java.consume("c", "AdvanceGroup", "Advance", collect=1)
    commanded.java.produce("Advance", 10, delay=18, prefix="late-")
    commanded.java.produce("Advance", 10, prefix="now-")
    commanded.java.wait_consumed("c", 10)
    assert {body.split("-")[0] for body in commanded.java.bodies("c")} == {"now"}

    commanded.tell("advance", "2h")
    commanded.java.wait_consumed("c", 20, timeout_s=10)
    before = commanded.members("AdvanceGroup")[client_id]
    commanded.tell("advance", "3d")
    after = commanded.members("AdvanceGroup")[client_id]
    _wait_until(
        lambda: [row["minOffset"] for row in _offsets(commanded)] == [row["maxOffset"] for row in _offsets(commanded)],
        "old messages to be deleted",
    )

    assert sorted(commanded.java.bodies("c")) == sorted(f"{kind}-{n}" for kind in ("late", "now") for n in range(10))
    assert before["clientAddrs"] == after["clientAddrs"]  # the same connections
    commanded.java.produce("Advance", 10, prefix="after-")
    commanded.java.wait_consumed("c", 30, timeout_s=40)


def _offsets(sandbox: CommandedSandbox) -> list[dict[str, Any]]:
    document = Rmqctl(sandbox.namesrv)("offset", "show", "AdvanceGroup", "--topic", "Advance", "-o", "json").document
    items: list[dict[str, Any]] = document["items"]
    return items


def test_a_consumer_that_is_cut_off_loses_its_queues_to_another_and_comes_back(commanded: CommandedSandbox) -> None:
    commanded.create_topic("Cut")
    first = commanded.java.consume("first", "CutGroup", "Cut")
    second = commanded.java.consume("second", "CutGroup", "Cut")
    _wait_until(lambda: all(len(commanded.java.queues(name, "Cut")) == 2 for name in ("first", "second")), "shares")

    told = commanded.tell("fault", "partition", first)
    assert "No broker knows" not in told.stderr
    commanded.tell("advance", "60s")
    assert set(commanded.members("CutGroup")) == {first, second}
    commanded.tell("advance", "80s")
    assert set(commanded.members("CutGroup")) == {second}
    _wait_until(lambda: len(commanded.java.queues("second", "Cut")) == 4, "all queues to be the other's")
    commanded.java.produce("Cut", 40)
    commanded.java.wait_consumed("second", 40, timeout_s=20)
    assert commanded.java.call("consumed", id="first") == "0"

    commanded.tell("fault", "heal")
    _wait_until(lambda: set(commanded.members("CutGroup")) == {first, second}, "the consumer to come back")
    _wait_until(lambda: len(commanded.java.queues("first", "Cut")) == 2, "its share")


def test_clients_get_over_what_real_brokers_do_to_them(commanded: CommandedSandbox) -> None:
    commanded.create_topic("Bad")
    commanded.java.consume("c", "BadGroup", "Bad", collect=1)
    # 4.9 does not try again after a SYSTEM_BUSY.
    commanded.tell("fault", "answer", "SEND_MESSAGE_V2", "with", "SERVICE_NOT_AVAILABLE", "--count", "2")
    commanded.java.produce("Bad", 5, prefix="refused-")
    commanded.tell("fault", "corrupt", "PULL_MESSAGE")
    commanded.java.produce("Bad", 5, prefix="corrupted-")
    commanded.tell("fault", "restart")
    commanded.java.produce("Bad", 5, prefix="restarted-")
    _wait_until(lambda: len(set(commanded.java.bodies("c"))) == 15, "all to be consumed", timeout_s=90)

    commanded.tell("fault", "drop", "SEND_MESSAGE_V2")
    if commanded.version == "5.4.0":
        commanded.java.produce("Bad", 5, prefix="dropped-")
        _wait_until(lambda: len(set(commanded.java.bodies("c"))) == 20, "all to be consumed", timeout_s=90)
    else:  # 4.9 waits for the answer of a connection that is gone, until its time is up
        with pytest.raises(WorkbenchError, match="call timeout"):
            commanded.java.produce("Bad", 5, prefix="dropped-")
    assert "No faults are active." in commanded.tell("fault", "list").stderr
