"""Resets of real groups that run: beside mqadmin's own, in many queues at once, filtered, and of those that pull."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.rmqctl import Result, Rmqctl
from .harness.workbench import READ_AGAIN_COUNT

_BROKER = "broker-a"
_QUEUES = (f"{_BROKER}:0", f"{_BROKER}:1")


pytestmark = pytest.mark.usefixtures("own_state")


def _reset(rmqctl: Rmqctl, group: str, *words: str, limit_s: float = 60) -> Result:
    return rmqctl("offset", "reset", group, *words, "--yes", "-o", "json", limit_s=limit_s)


def _require_confirmed(done: Result) -> None:
    assert done.exit_code == 0, done.stderr + done.stdout
    assert {item["result"] for item in done.document["items"]} == {"CONFIRMED"}, done.document["items"]


def _reset_all(rmqctl: Rmqctl, topic: str, wishes: dict[str, tuple[str, ...]]) -> None:
    """Reset several groups at once, each a run of its own: most of a reset is waiting."""
    with ThreadPoolExecutor(len(wishes)) as threads:
        running = [threads.submit(_reset, rmqctl, group, "--topic", topic, *to) for group, to in wishes.items()]
        for each in running:
            _require_confirmed(each.result())


def _stored(rmqctl: Rmqctl, group: str, topic: str) -> dict[tuple[str, int], int | None]:
    rows = rmqctl.items("offset", "show", group, "--topic", topic)
    return {(row["brokerName"], row["queueId"]): row["consumerOffset"] for row in rows}


def _bodies(cluster: Cluster, consumer_id: str) -> list[str]:
    return [each.body for each in cluster.java.attempts(consumer_id)]


# Beside mqadmin


class _Pair(NamedTuple):
    """Two equal groups that run: one is reset by rmqctl with these words, the other by mqadmin to this time."""

    words: tuple[str, ...]
    stamp: str
    expected: Counter[str]
    # What mqadmin's group is given besides.
    besides: Counter[str]


def _wave(prefix: str, count: int = 10) -> Counter[str]:
    """What a wave of messages is: as many in each of the two queues."""
    return Counter({f"{prefix}{queue}-{number}": 1 for queue in range(2) for number in range(count)})


def _produce(cluster: Cluster, topic: str, prefix: str, count: int = 10) -> None:
    for number, queue in enumerate(_QUEUES):
        cluster.java.produce(topic, count, queue=queue, prefix=f"{prefix}{number}-")


def test_groups_at_work_are_given_what_mqadmin_would_have_given_them(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic = "OnlineBeside"
    cluster.create_topic(topic, queue_count=2, brokers=(_BROKER,))
    kinds: dict[str, dict[str, object]] = {
        "Time": {}, "Orderly": {"orderly": 1}, "Between": {}, "Earliest": {}, "Latest": {"stuck": "b"},
    }  # fmt: skip
    for kind, options in kinds.items():
        for side in ("Ours", "Theirs"):
            name = f"{side}{kind}"
            cluster.java.consume(name, name, topic, collect=1, threads=1, **options)
    names = [f"{side}{kind}" for kind in kinds for side in ("Ours", "Theirs")]
    _produce(cluster, topic, "a")
    cluster.java.wait_consumed(" ".join(names), 20 * len(names))
    time.sleep(0.6)
    _produce(cluster, topic, "b")
    for name in names:
        cluster.java.wait_started(name, 21 if "Latest" in name else 40)
        cluster.java.persist(name)
    times = {
        row["body"]: int(row["storeTimestamp"])
        for row in rmqctl("message", "find", topic, "-o", "json").document["items"]
    }
    second_wave = str(min(times[body] for body in _wave("b")))
    past_the_first = str(max(times[body] for body in _wave("a")) + 5)
    same = Counter[str]()
    # 4.9's own search takes the neighbour that is nearer in time: one message of each queue that was stored before.
    nearer = Counter(["a0-9", "a1-9"]) if cluster.version == "4.9.7" else same
    pairs = {
        "Time": _Pair(("--to-time", second_wave), second_wave, _wave("b"), same),
        "Orderly": _Pair(("--to-time", second_wave), second_wave, _wave("b"), same),
        "Between": _Pair(("--to-time", past_the_first), past_the_first, _wave("b"), nearer),
        "Earliest": _Pair(("--to-earliest",), "0", _wave("a") + _wave("b"), same),
        "Latest": _Pair(("--to-latest",), "-1", Counter(), same),
    }
    known = {name: len(_bodies(cluster, name)) for name in names}
    for kind, pair in pairs.items():
        words = ("-n", cluster.namesrv, "-g", f"Theirs{kind}", "-t", topic, "-s", pair.stamp)
        assert "offset" in cluster.java.mqadmin("resetOffsetByTime", *words)
    _reset_all(rmqctl, topic, {f"Ours{kind}": pair.words for kind, pair in pairs.items()})
    # New messages wake those that wait for one; a listener that was stuck goes on only after its group was reset.
    _produce(cluster, topic, "c", 2)
    time.sleep(2)
    for name in ("OursLatest", "TheirsLatest"):
        cluster.java.release(name)
    for kind, pair in pairs.items():
        new = _wave("c", 2)
        for name, expected in (
            (f"Ours{kind}", pair.expected + new),
            (f"Theirs{kind}", pair.expected + pair.besides + new),
        ):
            cluster.java.wait_started(name, known[name] + expected.total())
            time.sleep(0.2)
            assert Counter(_bodies(cluster, name)[known[name] :]) == expected, name
            cluster.java.stop(name)


# Filters


def test_filtered_groups_go_back_to_what_they_want(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic = "OnlineFiltered"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    for prefix, tag in (("a", "TagA"), ("b", "TagB"), ("c", "TagA")):
        cluster.java.produce(topic, 10, tag=tag, prefix=prefix, number="at", queue=f"{_BROKER}:0")
    cluster.java.consume("online-tag", "OnlineTag", topic, collect=1, expr="TagA")
    cluster.java.consume("online-sql", "OnlineSql", topic, collect=1, sql="at >= 5")
    cluster.java.wait_consumed("online-tag", 20)
    cluster.java.wait_consumed("online-sql", 15)
    for name, group in (("online-tag", "OnlineTag"), ("online-sql", "OnlineSql")):
        wait_until(lambda name=name, group=group: _has_stored(cluster, rmqctl, name, group, topic, 30), 40)  # type: ignore[misc]
    _reset_all(rmqctl, topic, {"OnlineTag": ("--to-offset", "5"), "OnlineSql": ("--shift-by", "-17")})
    # 5 to 29, and 13 to 29.
    again = {
        "online-tag": (20, [*(f"a{number}" for number in range(5, 10)), *(f"c{number}" for number in range(10))]),
        "online-sql": (15, [f"{prefix}{number}" for prefix in "bc" for number in range(5, 10)]),
    }
    for name, (before, expected) in again.items():
        cluster.java.wait_consumed(name, before + len(expected))
    time.sleep(0.5)
    for name, (before, expected) in again.items():
        assert sorted(_bodies(cluster, name)[before:]) == expected
        cluster.java.stop(name)


def _has_stored(cluster: Cluster, rmqctl: Rmqctl, name: str, group: str, topic: str, offset: int) -> bool:
    cluster.java.persist(name)
    return _stored(rmqctl, group, topic)[_BROKER, 0] == offset


# Many queues


@pytest.fixture
def pushing(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that leaves resets to the clients, as 4.9 does."""
    if cluster.version == "4.9.7":
        yield cluster
        return
    change = ("-k", "useServerSideResetOffset", "-v")
    for address in cluster.addresses.values():
        cluster.java.mqadmin("updateBrokerConfig", "-b", address, *change, "false")
    yield cluster
    for address in cluster.addresses.values():
        cluster.java.mqadmin("updateBrokerConfig", "-b", address, *change, "true")


def _numbers_by_queue(cluster: Cluster, consumer_id: str) -> dict[str, list[int]]:
    """Return the numbers that a listener was given, by "topic-letter@broker:queue", in order; a number is an offset."""
    found: dict[str, list[int]] = {}
    for each in cluster.java.attempts(consumer_id):
        found.setdefault(f"{each.body[0]}@{each.queue}", []).append(int(each.body[1:]))
    return found


def test_two_topics_on_two_brokers_are_pushed_back(pushing: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    cluster, topics, groups = pushing, {"OnlineManyA": "a", "OnlineManyB": "b"}, ("OnlineMany", "OnlineFile")
    for topic, letter in topics.items():
        cluster.create_topic(topic, queue_count=1)
        for broker_name in cluster.addresses:
            cluster.java.produce(topic, 8000, queue=f"{broker_name}:0", prefix=letter, batch=100)
    for group in groups:
        cluster.java.consume(
            group, group, "OnlineManyA", also="OnlineManyB", collect=1, threads=1, each=4, heartbeat=30_000
        )
    wait_until(lambda: all(_has_consumed(cluster, group, 400) for group in groups), 40)
    for group in groups:
        cluster.java.persist(group)
    path = tmp_path / "offsets.csv"
    path.write_text("OnlineManyA,broker-b:0,100\nOnlineManyB,broker-a:0,250\n")
    words = {
        "OnlineMany": ("--all-topics", "--shift-by", "-300"),
        "OnlineFile": ("--all-topics", "--from-file", str(path)),
    }
    with ThreadPoolExecutor(len(groups)) as threads:
        running = {group: threads.submit(_reset, rmqctl, group, *words[group], limit_s=160) for group in groups}
        done = {group: each.result() for group, each in running.items()}
    for group, result in done.items():
        receipt = result.document
        assert receipt["route"] == "CLIENT_PUSH"
        # While they stand still clients of 5.4 can fall off a broker, and take queues up again late: then it was not
        # seen that they went there.
        results = {item["result"] for item in receipt["items"]}
        if cluster.version == "5.4.0" and result.exit_code == 9:
            assert results <= {"CONFIRMED", "UNKNOWN"}, receipt["items"]
        else:
            _require_confirmed(result)
        targets = {f"{topics[item['topic']]}@{item['brokerName']}:{item['queueId']}": item for item in receipt["items"]}
        assert len(targets) == (4 if group == "OnlineMany" else 2)
        if group == "OnlineFile":
            assert {key: item["target"] for key, item in targets.items()} == {"a@broker-b:0": 100, "b@broker-a:0": 250}
        else:
            # It had gone on by as much since the plan.
            assert all(100 < item["target"] <= item["before"] - 300 for item in targets.values()), receipt["items"]
        # A listener takes 4 ms a message and more on a busy machine, and two groups have thousands of them.
        wait_until(lambda group=group, targets=targets: _is_past(cluster, group, targets), 120)  # type: ignore[misc]
        for key, numbers in _numbers_by_queue(cluster, group).items():
            turns = [index for index in range(1, len(numbers)) if numbers[index] != numbers[index - 1] + 1]
            seen = [(numbers[index - 1], numbers[index]) for index in turns]
            # Each queue goes back once, to its target, and is read on from there without a gap; others go on.
            sent_back = [turn for turn in seen if not turn[0] - READ_AGAIN_COUNT < turn[1] <= turn[0]]
            assert numbers[0] == 0
            assert [to for _, to in sent_back] == ([targets[key]["target"]] if key in targets else []), (key, seen)
            if key in targets:
                assert sent_back[0][0] >= targets[key]["before"] - 1
        cluster.java.stop(group)


def _has_consumed(cluster: Cluster, consumer_id: str, count: int) -> bool:
    numbers = _numbers_by_queue(cluster, consumer_id)
    return len(numbers) == 4 and min(map(len, numbers.values())) > count


def _is_past(cluster: Cluster, consumer_id: str, targets: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether a listener was given again all that it was to be given again."""
    numbers = _numbers_by_queue(cluster, consumer_id)
    return all(
        numbers[key][-1] >= item["before"] and item["target"] in numbers[key][400:] for key, item in targets.items()
    )


# Those that pull by themselves

_PULLING = ("OnlineLite", "OnlinePull")


def _start_pulling(cluster: Cluster, name: str, run: str) -> str:
    """Start a consumer of a group and topic of this name, and return its id."""
    consumer_id = name + run
    if name == "OnlineLite":
        cluster.java.lite(consumer_id, name, name)
        cluster.java.poll_on(consumer_id)
    else:
        cluster.java.pull_on(consumer_id, name, name)
    return consumer_id


def test_groups_that_pull_are_left_alone_until_they_are_stopped(cluster: Cluster, rmqctl: Rmqctl) -> None:
    first = {}
    for name in _PULLING:
        cluster.create_topic(name, queue_count=1, brokers=(_BROKER,))
        cluster.java.produce(name, 30)
        first[name] = _start_pulling(cluster, name, "-1")
    for name in _PULLING:
        cluster.java.wait_consumed(first[name], 30)
        # They store their offsets by themselves, the first of them late.
        wait_until(lambda name=name: _stored(rmqctl, name, name) == {(_BROKER, 0): 30}, 40)  # type: ignore[misc]
        does = "ignore a reset" if cluster.version == "4.9.7" else "overwrite it"
        for words in (("--to-earliest",), ("--to-latest",), ("--to-offset", "3", "--assume-offline")):
            refused = rmqctl("offset", "reset", name, "--topic", name, *words, "--yes")
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert "pull offsets themselves" in refused.stderr
            assert does in refused.stderr
        assert rmqctl.items("offset", "history", name) == []
        if cluster.version == "4.9.7":
            # mqadmin says that it is done, and nothing comes of it.
            printed = cluster.java.mqadmin(
                "resetOffsetByTime", "-n", cluster.namesrv, "-g", name, "-t", name, "-s", "0"
            )
            assert printed.split()[-3:] == [_BROKER, "0", "0"]
        cluster.java.produce(name, 5, prefix="later")
        cluster.java.wait_consumed(first[name], 35)
    everything = [*(f"m{number}" for number in range(30)), *(f"later{number}" for number in range(5))]
    for name in _PULLING:
        wait_until(lambda name=name: _stored(rmqctl, name, name) == {(_BROKER, 0): 35}, 40)  # type: ignore[misc]
        assert _bodies(cluster, first[name]) == everything
        cluster.java.stop(first[name])
    for name in _PULLING:
        done: list[Result] = []
        wait_until(lambda name=name, done=done: _is_reset(rmqctl, name, done), 40)  # type: ignore[misc]
        assert done[-1].document["route"] == "BROKER_WRITE"
        _require_confirmed(done[-1])
        second = _start_pulling(cluster, name, "-2")
        cluster.java.wait_consumed(second, 25)
        time.sleep(0.5)
        assert _bodies(cluster, second) == everything[10:]
        cluster.java.stop(second)


def _is_reset(rmqctl: Rmqctl, group: str, done: list[Result]) -> bool:
    """Try to reset a group that was just stopped: brokers see its members for a moment longer."""
    done.append(_reset(rmqctl, group, "--topic", group, "--to-offset", "10"))
    return done[-1].exit_code != 1


@pytest.mark.since_5
def test_what_a_broker_resets_under_those_that_pull_is_ignored_or_undone(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Why they are refused also where brokers could reset them: this is what comes of mqadmin's reset."""
    lite, keeper, count = "OnlineHalf", "OnlineKeeper", 3000
    for name in (lite, keeper):
        cluster.create_topic(name, queue_count=1, brokers=(_BROKER,))
        cluster.java.produce(name, count, batch=100)
    cluster.java.pull_on("keeper", keeper, keeper, keeps=1)
    cluster.java.lite("half-1", lite, lite)
    cluster.java.poll_on("half-1", stuck="m10")
    cluster.java.wait_started("half-1", 11)
    cluster.java.wait_consumed("keeper", count)
    for name, stamp, target in ((lite, "-1", count), (keeper, "0", 0)):
        cluster.java.mqadmin("resetOffsetByTime", "-n", cluster.namesrv, "-g", name, "-t", name, "-s", stamp)
        assert _stored(rmqctl, name, name) == {(_BROKER, 0): target}
    # LitePull goes to the end, stores the old offset over it, and so its next start reads what was skipped.
    cluster.java.release("half-1")
    wait_until(lambda: _stored(rmqctl, lite, lite) != {(_BROKER, 0): count}, 40)
    time.sleep(1)
    polled = len(_bodies(cluster, "half-1"))
    assert polled < count
    cluster.java.stop("half-1")
    cluster.java.lite("half-2", lite, lite)
    cluster.java.poll_on("half-2")
    cluster.java.wait_consumed("half-2", count - polled)
    assert _bodies(cluster, "half-2") == [f"m{number}" for number in range(polled, count)]
    cluster.java.stop("half-2")
    # A program with a position of its own goes on from it, and stores it.
    cluster.java.produce(keeper, 1, prefix="later")
    wait_until(lambda: _stored(rmqctl, keeper, keeper) == {(_BROKER, 0): count + 1}, 40)
    assert _bodies(cluster, "keeper") == [*(f"m{number}" for number in range(count)), "later0"]
    cluster.java.stop("keeper")
