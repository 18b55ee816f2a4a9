"""clean-expired frees queues whose messages hang: none is lost, and only what the plan says is consumed twice."""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.schemas import check_item

from .harness.clean_kills import kill_cleaning
from .harness.cluster import Cluster
from .harness.consumer import our_consumers
from .harness.go import GoConsumer, missing_go
from .harness.queue_tables import progress, wait_until
from .harness.rmqctl import Result, Rmqctl
from .harness.workbench import Workbench

_BROKER = "broker-a"
# Copies wait for 1 s instead of 10.
_QUICK = ("--older-than", "3s", "--for", "4s", "--delay-level", "1")


pytestmark = pytest.mark.usefixtures("own_state")


def _clean(rmqctl: Rmqctl, group: str, *words: str) -> Result:
    return rmqctl("clean-expired", group, *_QUICK, *words, "--yes", "-o", "json")


def _plan(rmqctl: Rmqctl, group: str, *words: str) -> dict[str, Any]:
    done = rmqctl("clean-expired", group, *_QUICK, *words, "--dry-run", "-o", "json")
    assert done.exit_code == 10, done.stderr + done.stdout
    document: dict[str, Any] = done.document
    return document


def _item(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.stderr + done.stdout
    (item,) = done.document["items"]
    assert item["result"] == "CONFIRMED", item
    assert {each["result"] for each in item["messages"]} == {"CONFIRMED"}, item
    found: dict[str, Any] = item
    return found


def _offset(cluster: Cluster, group: str, topic: str) -> int:
    return progress(cluster, group, topic)[0].consumer_offset


def test_two_messages_that_hang_in_one_queue(cluster: Cluster, rmqctl: Rmqctl) -> None:
    java, topic, group = cluster.java, "CleanTwo", "CleanTwoGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    java.consume("two", group, topic, stuck="X", collect=1)
    sent = Counter[str]()
    for prefix, count in (("a", 5), ("Xa", 1), ("b", 50), ("Xb", 1), ("c", 43)):
        java.produce(topic, count, prefix=prefix)
        sent.update(f"{prefix}{number}" for number in range(count))
    java.wait_consumed("two", 98)
    wait_until(lambda: _offset(cluster, group, topic) == 5, "the offset")
    plan = _plan(rmqctl, group)
    (planned,) = plan["items"]
    assert [each["queueOffset"] for each in planned["cleaning"]["messages"]] == [5, 56]
    # Past the end of what was pulled where the broker notes that (5.x); 4.9's client tells only the last in hand.
    assert planned["target"] == (57 if cluster.version == "4.9.7" else 100)

    item = _item(_clean(rmqctl, group))
    assert (item["before"], item["target"]) == (5, planned["target"])
    java.produce(topic, 10, prefix="later")
    sent.update(f"later{number}" for number in range(10))
    java.wait_consumed("two", 108)
    java.release("two")
    # What hung ends now, and comes once more through the retry topic.
    wait_until(lambda: sum(each.reconsume_times == 1 for each in java.attempts("two")) == 2, "the retries")
    wait_until(lambda: set(java.bodies("two")) == set(sent), "every message")
    wait_until(lambda: _offset(cluster, group, topic) == 110, "the offset")
    assert {each.body for each in java.attempts("two") if each.reconsume_times} == {"Xa0", "Xb0"}
    twice = Counter(each.body for each in java.attempts("two")) - sent
    assert not sent - Counter(each.body for each in java.attempts("two"))
    assert twice.total() <= planned["reconsumedMax"], twice
    if cluster.version != "4.9.7":
        assert twice == Counter(["Xa0", "Xb0"])
    java.stop("two")


class _InOrder(NamedTuple):
    """An orderly member, Java's or ours, that fails on messages that start with X, or never returns from them.

    `begun` returns how many batches have started, `done` the bodies that were consumed, `retried` whether a message was
    tried that came back from the broker; `release` has the listener return.
    """

    begun: Callable[[], int]
    done: Callable[[], list[str]]
    retried: Callable[[], bool]
    release: Callable[[], None]


@contextmanager
def _in_order(cluster: Cluster, folder: Path, kind: str, name: str, does: str) -> Iterator[_InOrder]:
    java = cluster.java
    cluster.create_topic(name, queue_count=1, brokers=(_BROKER,))
    if kind == "java":
        java.consume(name, name, name, orderly=1, collect=1, **{does: "X"})
        yield _InOrder(
            lambda: int(java.call("started", id=name)),
            lambda: java.bodies(name),
            lambda: any(each.reconsume_times for each in java.attempts(name)),
            lambda: java.release(name),
        )
        java.stop(name)
        return
    listener = {"FAIL": "X", "FAIL_BELOW": 10**6} if does == "fail" else {"SLOW": "X"}
    with our_consumers(cluster.namesrv, folder) as ours:
        member = ours(name, name, name, "--orderly", **listener)
        if kind == "ours-again":
            # It has the offset that is stored, and consumes nothing before the message.
            member.terminate()
            member = ours(name, name, name, "--orderly", **listener)
        yield _InOrder(
            lambda: len(member.heard("BEGAN")),
            lambda: [each.body for each in member.heard()],
            lambda: any(each.from_topic.startswith("%RETRY%") for each in member.heard("BEGAN")),
            member.release,
        )


@pytest.mark.parametrize("kind", ["java", "ours"])
def test_a_message_that_blocks_an_orderly_queue(cluster: Cluster, rmqctl: Rmqctl, kind: str, tmp_path: Path) -> None:
    topic = group = f"CleanOrderly-{kind}"
    with _in_order(cluster, tmp_path, kind, group, "fail") as member:
        for prefix, count in (("a", 3), ("X", 1), ("b", 3)):
            cluster.java.produce(topic, count, prefix=prefix)
        wait_until(lambda: member.begun() >= 6, "more tries, one every second")
        item = _item(_clean(rmqctl, group))
        assert (item["target"], [each["queueOffset"] for each in item["messages"]]) == (4, [3])
        wait_until(lambda: len(member.done()) == 6, "the others")
        wait_until(member.retried, "the retry")
        assert member.done() == ["a0", "a1", "a2", "b0", "b1", "b2"]


@pytest.mark.parametrize("kind", ["java", "ours", "ours-again"])
def test_an_orderly_listener_that_never_returns(cluster: Cluster, rmqctl: Rmqctl, kind: str, tmp_path: Path) -> None:
    """Its queue is moved, and nothing behind is delivered until it returns: the receipt does not say otherwise."""
    topic = group = f"CleanHangs-{kind}"
    before = [] if kind == "ours-again" else ["a0", "a1", "a2"]
    at = len(before)
    with _in_order(cluster, tmp_path, kind, group, "stuck") as member:
        for prefix, count in (("a", at), ("X", 1), ("b", 8)):
            if count:
                cluster.java.produce(topic, count, prefix=prefix)
        wait_until(lambda: member.begun() == at + 1, "the message")
        wait_until(lambda: _offset(cluster, group, topic) == at, "the offset")
        plan = _plan(rmqctl, group)
        assert "LISTENER_BLOCKS_QUEUE" in {each["code"] for each in plan["consequences"]}
        assert plan["items"][0]["cleaning"]["blockedBy"] == "IN_ORDER"
        done = _clean(rmqctl, group)
        (item,) = done.document["items"]
        assert (done.exit_code, item["result"], item["isPending"]) == (9, "UNKNOWN", True), done.stdout
        assert item["after"] == at + 1 or cluster.version == "4.9.7", item
        assert {each["result"] for each in item["messages"]} == {"CONFIRMED"}
        # What waits behind the listener has never been delivered.
        found = rmqctl("clean-expired", group, "--older-than", "3s", "--for", "4s", "-o", "json")
        (row,) = [each for each in found.document["items"] if each["topic"] == topic]
        assert (found.exit_code, row["headOffset"], row["why"]) == (10, at + 1, "BLOCKED_IN_ORDER"), found.stdout
        assert "did not call its listener" in row["explanation"]
        assert member.done() == before
        member.release()
        wait_until(lambda: set(member.done()) >= {f"b{number}" for number in range(8)}, "what is behind", 120)


def test_all_threads_hang(cluster: Cluster, rmqctl: Rmqctl) -> None:
    java, topic, group = cluster.java, "CleanThreads", "CleanThreadsGroup"
    cluster.create_topic(topic, queue_count=2, brokers=(_BROKER,))
    java.consume("threads", group, topic, stuck="X", threads=2, collect=1)
    for queue in ("0", "1"):
        java.produce(topic, 1, queue=f"{_BROKER}:{queue}", prefix="X")
        java.produce(topic, 4, queue=f"{_BROKER}:{queue}", prefix="b")
    java.wait_started("threads", 2)
    plan = _plan(rmqctl, group)
    assert "LISTENER_BLOCKS_CLIENT" in {each["code"] for each in plan["consequences"]}
    done = _clean(rmqctl, group)
    assert done.exit_code == 9, done.stdout
    assert {(item["result"], item["isPending"]) for item in done.document["items"]} == {("UNKNOWN", True)}
    java.release("threads")
    wait_until(lambda: java.bodies("threads").count("b0") >= 2, "what is behind", 120)
    java.stop("threads")


def test_a_member_that_is_rmqctl(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    topic, group = "CleanOurs", "CleanOursGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    with our_consumers(cluster.namesrv, tmp_path / "ours") as ours:
        member = ours("clean", group, topic, SLOW="X", SLOW_S="45")
        for prefix, count in (("a", 5), ("X", 1), ("b", 20)):
            cluster.java.produce(topic, count, prefix=prefix)
        wait_until(lambda: len(member.heard("DONE")) == 25, "the others")
        wait_until(lambda: _offset(cluster, group, topic) == 5, "the offset")
        item = _item(_clean(rmqctl, group))
        assert [each["queueOffset"] for each in item["messages"]] == [5]
        wait_until(lambda: Counter(each.body for each in member.heard("BEGAN"))["X0"] == 2, "the retry")
        twice = Counter(each.body for each in member.heard("BEGAN"))
        if cluster.version != "4.9.7":
            assert {body for body, count in twice.items() if count > 1} == {"X0"}
        retried = [each for each in member.heard("BEGAN") if each.reconsume_times]
        assert [(each.body, each.from_topic) for each in retried] == [("X0", f"%RETRY%{group}")]


@pytest.mark.timeout(600)
def test_a_go_client(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """It does not tell what its listener has: only the first message is gone past."""
    missing = missing_go()
    if missing is not None:
        pytest.skip(missing)
    topic, group = "CleanGo", "CleanGoGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    go = GoConsumer(cluster, "clean", group, topic, pause_ms=60_000, workers=2)
    try:
        cluster.java.produce(topic, 4, prefix="m")
        go.wait_consumed(1)

        runs: list[Result] = []

        def is_cleaned() -> bool:
            runs.append(_clean(rmqctl, group))
            return runs[-1].document["kind"] == "Receipt"

        # For some seconds at a time a Go client can't say what it is doing: then nothing is cleaned.
        wait_until(is_cleaned, "the client's own word", 120)
        done = runs[-1]
        # 8: it could not say so at one of the looks.
        assert done.exit_code in (0, 8, 9), done.stderr
        (item,) = done.document["items"]
        assert ([each["queueOffset"] for each in item["messages"]], item["target"]) == ([0], 1)
        assert item["messages"][0]["result"] == "CONFIRMED"
        wait_until(lambda: sum(each.body == "m0" for each in go.consumed()) >= 2, "the retry", 120)
        wait_until(lambda: {each.body for each in go.consumed()} == {f"m{number}" for number in range(4)}, "all", 240)
    finally:
        go.kill()


def test_a_group_that_is_away(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Its first unread message is sent back, the offset is written, and undo writes it back."""
    java, topic, group = cluster.java, "CleanAway", "CleanAwayGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    java.consume("away", group, topic)
    java.produce(topic, 5, prefix="a")
    java.wait_consumed("away", 5)
    wait_until(lambda: java.persist("away") is None and _offset(cluster, group, topic) == 5, "the offset")
    java.stop("away")
    java.produce(topic, 1, prefix="X")
    java.produce(topic, 5, prefix="b")
    wait_until(lambda: _scan_state(rmqctl, group) == "EMPTY", "the end of the member")
    done = _clean(rmqctl, group, "--queue", f"{_BROKER}:0")
    item = _item(done)
    assert (item["route"], item["target"], _offset(cluster, group, topic)) == ("BROKER_WRITE", 6, 6)
    java.consume("again", group, topic, collect=1)
    java.wait_consumed("again", 6)
    assert sorted(java.bodies("again")) == ["X0", *(f"b{number}" for number in range(5))]
    java.stop("again")


def _scan_state(rmqctl: Rmqctl, group: str) -> str:
    (found,) = rmqctl.items("group", "list", group)
    return str(found["state"])


def test_what_a_broker_does_not_store_is_not_acknowledged(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    java, topic, group = cluster.java, "CleanLost", "CleanLostGroup"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    java.consume("lost", group, topic, stuck="X")
    java.produce(topic, 1, prefix="X")
    java.wait_started("lost", 1)
    plan_path = tmp_path / "plan.json"
    saved = rmqctl("clean-expired", group, *_QUICK, "--plan", str(plan_path))
    assert saved.exit_code == 10, saved.stderr
    changed = rmqctl("group", "update", group, "--set", "retryQueueNums=0", "--yes")
    assert changed.exit_code == 0, changed.stderr
    refused = _clean(rmqctl, group)
    assert refused.exit_code != 0
    assert "retryQueueNums=0" in refused.stderr
    assert _offset(cluster, group, topic) == 0
    applied = rmqctl("apply", str(plan_path), "--yes", "-o", "json")
    assert applied.exit_code not in (0, 9), applied.stdout
    assert _offset(cluster, group, topic) == 0
    java.release("lost")
    java.stop("lost")


@pytest.mark.timeout(900)
def test_a_run_that_is_killed_is_finished_by_the_next(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """At random moments between sending back and acknowledging; `make soak` does so more often."""
    chance = random.Random(7)
    seen = [kill_cleaning(cluster, rmqctl, f"Clean{number}", chance) for number in range(5)]
    assert all(each.is_good for each in seen), seen
    assert any(each.was_running for each in seen), seen


@pytest.mark.since_5
@pytest.mark.timeout(600)
def test_messages_that_are_popped_and_hang(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """One hangs in its first pop, one is redelivered by the broker first: both are found, sent back, acknowledged."""
    java, topic, group = cluster.java, "CleanPop", "CleanPopGroup"
    retry_topic = f"%RETRY%{group}_{topic}"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    java.mqadmin("setConsumeMode", "-b", cluster.addresses[_BROKER], "-t", topic, "-g", group, "-m", "POP", "-n", "8")
    java.consume("pop", group, topic, pop=1, stuck="X", collect=1)
    sent = [f"a{number}" for number in range(5)] + ["Xfirst0"] + [f"b{number}" for number in range(5)]
    for prefix, count in (("a", 5), ("Xfirst", 1), ("b", 5)):
        java.produce(topic, count, prefix=prefix)
    java.wait_started("pop", 11)
    wait_until(lambda: len(_popped(rmqctl, group)) == 1, "the message is found")
    (row,) = _popped(rmqctl, group)
    assert (row["isStuck"], row["topic"], row["body"], row["ageSource"]) == (True, topic, "Xfirst0", "POPPED")
    # It is not the client's fault: by its offset the queue is done.
    assert row["headOffset"] < row["consumerOffset"] == row["maxOffset"] == 11

    # Nobody acknowledges it, so its broker redelivers it, and it hangs again.
    wait_until(lambda: _attempts(cluster, "Xfirst0") == [0, 1], "the broker's own redelivery", 240)
    java.produce(topic, 1, prefix="Xsecond")
    sent.append("Xsecond0")
    wait_until(lambda: _attempts(cluster, "Xsecond0") == [0], "the second message")
    wait_until(lambda: len(_popped(rmqctl, group)) == 2, "both are found")
    assert {row["topic"] for row in _popped(rmqctl, group)} == {topic, retry_topic}

    done = _clean(rmqctl, group, *_POP_WINDOW)
    assert done.exit_code == 0, done.stderr + done.stdout
    items = done.document["items"]
    assert {(item["route"], item["result"], item["topic"]) for item in items} == {
        ("POP_ACK", "CONFIRMED", topic), ("POP_ACK", "CONFIRMED", retry_topic),
    }  # fmt: skip
    # The copies come through the group's own retry topic, under the topic that they were sent to.
    wait_until(lambda: _attempts(cluster, "Xfirst0") == [0, 1, 2], "the first copy", 120)
    wait_until(lambda: _attempts(cluster, "Xsecond0") == [0, 1], "the second copy", 120)
    assert {each.topic for each in java.read("pop")} == {topic}

    # One that hangs later and is not cleaned: when its broker redelivers it, the time of the others is over as well.
    java.produce(topic, 1, prefix="Xlast")
    sent.append("Xlast0")
    wait_until(lambda: _attempts(cluster, "Xlast0") == [0, 1], "the redelivery of the last one", 240)
    redelivered = rmqctl.items("message", "get", "--topic", retry_topic, "--queue", f"{_BROKER}:0", "--offset", "0",
                               "--count", "2")  # fmt: skip
    assert [each["body"] for each in redelivered] == ["Xfirst0", "Xlast0"]
    java.release("pop")
    wait_until(lambda: set(java.bodies("pop")) == set(sent), "every message")
    assert [_attempts(cluster, body) for body in ("Xfirst0", "Xsecond0", "Xlast0")] == [[0, 1, 2], [0, 1], [0, 1]]
    assert Counter(each.body for each in java.attempts("pop") if not each.reconsume_times) == Counter(sent)
    java.stop("pop")


_POP_WINDOW = ("--for", "1s")


def _popped(rmqctl: Rmqctl, group: str) -> list[dict[str, Any]]:
    done = rmqctl("clean-expired", group, "--older-than", "3s", *_POP_WINDOW, "-o", "json")
    assert done.exit_code in (0, 10), done.stderr
    return [item for item in done.document["items"] if item["why"] == "POPPED"]


def _attempts(cluster: Cluster, body: str) -> list[int]:
    return [each.reconsume_times for each in cluster.java.attempts("pop") if each.body == body]


@pytest.mark.parametrize("ends", ["by its number of rounds", "by Ctrl-C"])
def test_rounds(cluster: Cluster, rmqctl: Rmqctl, ends: str) -> None:
    """The first one frees the queue; the listener still hangs in those after it, and they find nothing."""
    java, is_counted = cluster.java, ends != "by Ctrl-C"
    topic = "CleanRounds" if is_counted else "CleanRoundsOn"
    group = f"{topic}Group"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    java.consume(topic, group, topic, stuck="X", once=1, collect=1, heartbeat=30_000)
    for prefix, count in (("a", 3), ("X", 1), ("b", 20)):
        java.produce(topic, count, prefix=prefix)
    java.wait_consumed(topic, 23)
    wait_until(lambda: _offset(cluster, group, topic) == 3, "the offset")
    words = ["clean-expired", group, *_QUICK, "--watch", "--every", "5s", "--yes", "-o", "jsonl"]
    running = subprocess.Popen(
        [sys.executable, "-m", "rmqctl", *words, *(("--rounds", "3") if is_counted else ())],
        env={**os.environ, "NAMESRV_ADDR": rmqctl.namesrv, "RMQCTL_CACHE": os.devnull},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        rounds = [json.loads(running.stdout.readline() or "{}") for _ in range(3)]
        if not is_counted:
            running.send_signal(signal.SIGINT)
        rest, said = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert (running.returncode, rest) == (0 if is_counted else 130, ""), said
    for each in rounds:
        check_item("CleanRound", each)
        assert each["error"] is None, each
    counts = [(each["stuckCount"], each["returnedCount"], each["freedCount"], each["pendingCount"]) for each in rounds]
    assert counts == [(1, 1, 1, 0), (0, 0, 0, 0), (0, 0, 0, 0)]
    assert [each["receiptId"] is None for each in rounds] == [False, True, True]
    assert "1 message sent back, 1 queue freed" in said
    assert "Traceback" not in said
    wait_until(lambda: _offset(cluster, group, topic) == 24, "the offset")
    wait_until(lambda: len(set(java.bodies(topic))) == 24, "every message")
    java.release(topic)
    read = Counter(each.message_id for each in java.read(topic))
    retried = [each.body for each in java.attempts(topic) if each.reconsume_times]
    assert (len(read), retried) == (24, ["X0"])
    if cluster.version != "4.9.7":
        assert read.total() == 25
    java.stop(topic)


class _Stopped(NamedTuple):
    """A client with stuck messages, behind which it reaches a limit; what is done to it after the cleaning."""

    threads: int
    sent: tuple[tuple[str, int], ...]
    limit: str
    restarts: bool

    @property
    def bodies(self) -> set[str]:
        return {f"{prefix}{number}" for prefix, count in self.sent for number in range(count)}


_FULL = (("a", 3), ("X", 1), ("b", 1_200))
# All between the two stuck ones is done, and they are too far from each other.
_SPAN = (("a", 3), ("X", 1), ("b", 2_100), ("Xb", 1), ("c", 300))
_STOPPED = {
    "FullReleased": _Stopped(1, _FULL, "QUEUE_COUNT", restarts=False),
    "FullRestarted": _Stopped(1, _FULL, "QUEUE_COUNT", restarts=True),
    "SpanReleased": _Stopped(20, _SPAN, "SPAN", restarts=False),
    "SpanRestarted": _Stopped(20, _SPAN, "SPAN", restarts=True),
}


@pytest.mark.timeout(900)
def test_clients_that_have_stopped_pulling(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """5.x answers the next pull with the new offset, and theirs never comes: the receipt waits for it."""
    java, is_pushed = cluster.java, cluster.version == "4.9.7"
    for name, each in _STOPPED.items():
        topic = f"Clean{name}"
        cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
        java.consume(
            name, f"{name}Group", topic, stuck="X", once=1, collect=1, threads=each.threads, heartbeat=30_000
        )  # fmt: skip
        for prefix, count in each.sent:
            java.produce(topic, count, prefix=prefix, batch=min(count, 100))
    _wait_each(lambda name: _limit(rmqctl, name) == _STOPPED[name].limit, "its limit")
    plans = _of_each(lambda name: _plan(rmqctl, f"{name}Group"))
    done = _of_each(lambda name: _clean(rmqctl, f"{name}Group"))
    for name, each in _STOPPED.items():
        codes = {each["code"] for each in plans[name]["consequences"]}
        (item,) = done[name].document["items"]
        # With its only thread in the listener, a client consumes nothing, wherever it has moved.
        is_freed = is_pushed and each.threads > 1
        assert ("FLOW_CONTROLLED" in codes, item["isPending"], done[name].exit_code) == (
            not is_pushed,
            not is_freed,
            0 if is_freed else 9,
        ), (name, item)
        assert {message["result"] for message in item["messages"]} == {"CONFIRMED"}, item
        if each.restarts:
            java.call("shutdown", id=name)
            java.consume(f"{name}Again", f"{name}Group", f"Clean{name}", collect=1, threads=each.threads)
        java.release(name)
    _wait_each(lambda name: set(_consumed(java, name)) == _STOPPED[name].bodies, "every message")
    _wait_each(lambda name: _lag(cluster, name) == 0, "the offset")
    for name, each in _STOPPED.items():
        (planned,) = plans[name]["items"]
        twice = Counter(_consumed(java, name)) - Counter(each.bodies)
        assert twice.total() <= planned["reconsumedMax"], name
        java.stop(f"{name}Again" if each.restarts else name)


def _limit(rmqctl: Rmqctl, name: str) -> str | None:
    done = rmqctl("clean-expired", f"{name}Group", "--older-than", "1s", "--for", "2s", "-o", "json")
    limits = [item["flowControl"] for item in done.document["items"] if item["isStuck"]]
    return limits[0] if limits else None


def _consumed(java: Workbench, name: str) -> list[str]:
    """Return the bodies that the client has consumed, with those of the one that was started after it."""
    return java.bodies(name) + (java.bodies(f"{name}Again") if _STOPPED[name].restarts else [])


def _lag(cluster: Cluster, name: str) -> int:
    return progress(cluster, f"{name}Group", f"Clean{name}")[0].diff


def _wait_each(is_so: Callable[[str], bool], what: str) -> None:
    for name in _STOPPED:
        wait_until(functools.partial(is_so, name), f"{what} of {name}", 120)


def _of_each(run: Callable[[str], Any]) -> dict[str, Any]:
    """Run something for each of the stopped clients, all at once."""
    with ThreadPoolExecutor(len(_STOPPED)) as threads:
        running = {name: threads.submit(run, name) for name in _STOPPED}
        return {name: each.result() for name, each in running.items()}
