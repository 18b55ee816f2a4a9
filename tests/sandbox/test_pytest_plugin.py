"""The pytest plugin and the sandbox in a thread, as other people's suites use them."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

from rmqctl.errors import DeadlineError, NotFoundError, UnreachableError, UsageError
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox import sandbox_thread
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.docs import DOCS
from tests.real.differential.asker import Asker

_ROOT = Path(__file__).parents[2]

_SUITE = """
import os
import socket
import sys

import pytest


def reach(address):
    host, port = address.rsplit(":", 1)
    socket.create_connection((host, int(port)), timeout=120).close()


def test_without_it_nothing_is_loaded():
    assert "rmqctl.sandbox.pytest_plugin" in sys.modules
    heavy = {"rmqctl.sandbox.sandbox", "rmqctl.sandbox.sandbox_thread", "rmqctl.net", "rmqctl.protocol"}
    assert not heavy & set(sys.modules)


addresses = []


@pytest.mark.parametrize("time", range(2))
def test_each_has_its_own(rmq_sandbox, time):
    reach(rmq_sandbox.addr)
    assert os.environ["RMQCTL_MEMORY"] == "0"
    assert list(rmq_sandbox.brokers) == ["broker-a"]
    addresses.append(rmq_sandbox.addr)
    rmq_sandbox.faults.drop(11)
    assert len(rmq_sandbox.faults.planned) == 1


def test_it_is_gone_afterwards():
    for address in addresses:
        with pytest.raises(OSError):
            reach(address)


@pytest.mark.rmq_sandbox(brokers=2, plays="4.9.7", virtual_clock=True)
class TestMarked:
    def test_options(self, rmq_sandbox):
        assert list(rmq_sandbox.brokers) == ["broker-a", "broker-b"]
        assert rmq_sandbox.call(lambda sandbox: sandbox.profile.name) == "4.9.7"
        before = rmq_sandbox.call(lambda sandbox: sandbox.clock.now_ms())
        rmq_sandbox.advance(7200)
        assert rmq_sandbox.call(lambda sandbox: sandbox.clock.now_ms()) - before == 7_200_000

    @pytest.mark.rmq_sandbox(queues=2)
    def test_the_nearest_marker_counts(self, rmq_sandbox):
        assert len(rmq_sandbox.brokers) == 1


@pytest.mark.rmq_sandbox(2)
def test_numbers_alone(rmq_sandbox):
    pass


@pytest.mark.rmq_sandbox(plays="3.0.0")
def test_what_there_is_not(rmq_sandbox):
    pass
"""


def _run_suite(folder: Path, text: str) -> str:
    """Run a suite as other people do, with the plugin alone; return what pytest prints."""
    (folder / "test_suite.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-W", "error", "-p", "rmqctl.sandbox.pytest_plugin",
         "-p", "no:cacheprovider", "test_suite.py"],
        cwd=folder, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(_ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_suite_of_somebody_else(tmp_path: Path) -> None:
    output = _run_suite(tmp_path, _SUITE)
    assert "6 passed, 2 errors" in output, output
    assert "@pytest.mark.rmq_sandbox accepts keyword arguments only" in output
    assert "Unknown RocketMQ release '3.0.0'." in output


def test_the_manuals_suite_passes_as_printed(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "sandbox.md").read_text(), re.DOTALL)
    (suite,) = (block for block in blocks if "@pytest.mark.rmq_sandbox" in block)
    output = _run_suite(tmp_path, suite)
    assert "2 passed" in output, output


def test_the_manuals_coroutine_passes_as_printed() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "sandbox.md").read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "async with Sandbox(" in block)
    names: dict[str, Any] = {}
    exec(code, names)  # as a reader would paste it
    (coroutine,) = (made for name, made in names.items() if name.startswith("test_"))
    asyncio.run(coroutine())


def test_pytest_finds_it_by_itself() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"rmqctl_sandbox": "rmqctl.sandbox.pytest_plugin"}


# The sandbox in a thread


def _asker(sandbox: ThreadedSandbox, broker: str = "broker-a") -> Asker:
    return Asker(sandbox.addr, sandbox.brokers[broker], version="5.4.0", suffix="")


def test_faults_are_set_and_read_from_outside() -> None:
    with ThreadedSandbox() as sandbox:
        ask = _asker(sandbox)
        sandbox.faults.answer(Q.GET_MAX_OFFSET, R.SYSTEM_BUSY)
        (fault,) = sandbox.faults.planned
        assert fault.code == Q.GET_MAX_OFFSET
        for code in (R.SYSTEM_BUSY, R.SUCCESS):
            answer = ask("broker", Q.GET_MAX_OFFSET, topic="T", queueId=0)
            assert answer is not None
            assert answer.code == code
        assert sandbox.faults.planned == []
        with pytest.raises(NotFoundError):
            sandbox.faults.drop(server="nowhere")
        with pytest.raises(AttributeError):
            sandbox.faults.explode()  # type: ignore[attr-defined]
        ask.close()


def test_brokers_are_stopped_started_and_restarted() -> None:
    with ThreadedSandbox(brokers=2) as sandbox:
        address = sandbox.brokers["broker-b"]
        sandbox.stop_broker("broker-b")
        with pytest.raises(OSError, match="refused"):
            _asker(sandbox, "broker-b").connection("broker")
        sandbox.start_broker("broker-b")
        sandbox.start_broker("broker-b")
        sandbox.restart("broker-b", lose_unflushed=True)
        sandbox.restart()
        assert sandbox.brokers["broker-b"] == address
        ask = _asker(sandbox, "broker-b")
        answer = ask("broker", Q.GET_MAX_OFFSET, topic="T", queueId=0)
        assert answer is not None
        assert answer.code == R.SUCCESS
        ask.close()
        with pytest.raises(NotFoundError, match="Broker broker-c does not exist"):
            sandbox.restart("broker-c")


def test_time_is_the_machines_or_stands_still() -> None:
    with ThreadedSandbox() as sandbox:
        sandbox.advance(3_600)
        before_ms = time.time_ns() // 1_000_000
        now_ms = sandbox.call(lambda inner: inner.clock.now_ms())
        assert before_ms <= now_ms - 3_600_000 <= time.time_ns() // 1_000_000
    with ThreadedSandbox(virtual_clock=True) as sandbox:
        start_ms = sandbox.call(lambda inner: inner.clock.now_ms())
        sandbox.advance(90)
        assert sandbox.call(lambda inner: inner.clock.now_ms()) == start_ms + 90_000


def test_no_thread_is_left_whatever_happened() -> None:
    before = threading.active_count()
    with ThreadedSandbox() as sandbox, pytest.raises(UnreachableError):
        ThreadedSandbox(port=int(sandbox.addr.rpartition(":")[2])).start()
    with pytest.raises(UsageError):
        ThreadedSandbox(brokers=0).start()
    sandbox.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = sandbox.addr
    assert threading.active_count() == before


def test_one_that_was_never_started_leaves_nothing_open() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ThreadedSandbox(brokers=0)
        ThreadedSandbox(virtual_clock=True).stop()
        gc.collect()
    assert not found


def test_it_starts_again_after_a_stop_with_a_clock_that_begins_again() -> None:
    sandbox = ThreadedSandbox(virtual_clock=True)
    for _ in range(2):
        with sandbox:
            before_ms = sandbox.call(lambda inner: inner.clock.now_ms())
            sandbox.advance(60)
            with pytest.raises(RuntimeError, match="already running"):
                sandbox.start()
    with sandbox:
        assert sandbox.call(lambda inner: inner.clock.now_ms()) == before_ms


def test_what_hangs_in_the_thread_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = ThreadedSandbox()
    sandbox.start()
    monkeypatch.setattr(sandbox_thread, "_DEADLINE_S", 0.2)
    with pytest.raises(DeadlineError):
        sandbox.run(asyncio.Event().wait())
    with pytest.raises(TimeoutError):
        sandbox.run(asyncio.wait_for(asyncio.Event().wait(), 0.01))
    monkeypatch.setattr(sandbox_thread, "_DEADLINE_S", 120.0)
    sandbox.stop()


def test_what_would_end_the_thread_ends_the_caller() -> None:
    with ThreadedSandbox() as sandbox:
        with pytest.raises(RuntimeError, match="Within the sandbox's thread"):
            sandbox.call(lambda _: sandbox.create_topic("T"))
        with pytest.raises(SystemExit) as exited:
            sandbox.call(lambda _: sys.exit(3))
        assert exited.value.code == 3
        for seconds in (math.inf, math.nan):
            with pytest.raises(UsageError):
                sandbox.advance(seconds)
        sandbox.create_topic("T")


@pytest.mark.parametrize("virtual_clock", [False, True])
def test_time_does_not_go_back(virtual_clock: bool) -> None:
    with ThreadedSandbox(virtual_clock=virtual_clock) as sandbox, pytest.raises(UsageError, match="go backwards"):
        sandbox.advance(-1)


def test_jumps_of_several_threads_come_one_after_the_other() -> None:
    with ThreadedSandbox(virtual_clock=True) as sandbox:
        start_ms = sandbox.call(lambda inner: inner.clock.now_ms())
        threads = [threading.Thread(target=sandbox.advance, args=(seconds,)) for seconds in (10, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sandbox.call(lambda inner: inner.clock.now_ms()) == start_ms + 13_000


def test_no_port_is_left_open_when_a_brokers_is_beyond_all_ports() -> None:
    for _ in range(2):
        with pytest.raises(OverflowError):
            ThreadedSandbox(port=65_000).start()


@pytest.mark.parametrize("plays", ["5.4.0", "4.9.7"])
def test_a_topic_is_made_without_a_client(plays: str) -> None:
    with ThreadedSandbox(plays=plays, brokers=2) as sandbox:
        sandbox.create_topic("orders", queues=3)
        sandbox.create_topic("mine", broker="broker-b")
        tables = sandbox.call(lambda inner: [entry.topics for entry in inner.name_server.brokers.values()])
        assert [(each["orders"].write_queue_count, "mine" in each) for each in tables] == [(3, False), (3, True)]
        for bad in ({"name": "a b"}, {"name": "x", "queues": 10**9}, {"name": "x", "attributes": {"no.such": "1"}}):
            with pytest.raises(UsageError):
                sandbox.create_topic(**bad)  # type: ignore[arg-type]
        with pytest.raises(NotFoundError):
            sandbox.create_topic("x", broker="broker-c")
