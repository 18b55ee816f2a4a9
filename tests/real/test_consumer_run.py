"""`consume run` on real brokers: what fails and what is slow, its end and its death, filters, broadcasting."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.consumer import Heard, OurConsumer, OurConsumers, our_consumers, settled_members
from .harness.rmqctl import Rmqctl

_QUEUES = tuple(f"{broker}:{number}" for broker in ("broker-a", "broker-b") for number in range(4))


@pytest.fixture
def ours(cluster: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    with our_consumers(cluster.namesrv, tmp_path / "ours") as made:
        yield made


def _stored(rmqctl: Rmqctl, group: str, topic: str) -> dict[str, int | None]:
    rows = rmqctl.items("offset", "show", group, "--topic", topic)
    return {f"{row['brokerName']}:{row['queueId']}": row["consumerOffset"] for row in rows}


def _bodies(made: OurConsumer, event: str = "DONE") -> Counter[str]:
    return Counter(each.body for each in made.heard(event))


@pytest.mark.smoke
def test_ours_shares_a_group_with_a_java_member(cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers) -> None:
    topic = group = "BesideJava"
    cluster.create_topic(topic, queue_count=4)
    java_id = cluster.java.consume("beside", group, topic, collect=1)
    member = ours("beside", group, topic)
    members = settled_members(rmqctl, group, topic, len(_QUEUES))
    assert java_id in members
    cluster.java.produce(topic, 80)
    wait_until(lambda: int(cluster.java.call("consumed", id="beside")) + _bodies(member).total() >= 80)
    by_java = Counter(cluster.java.bodies("beside"))
    assert by_java + _bodies(member) == Counter(f"m{number}" for number in range(80))
    assert (by_java.total(), _bodies(member).total()) == (40, 40)
    # Its half is stored when it ends, and Java takes it over from there.
    assert member.terminate() == 0, member.said
    wait_until(lambda: cluster.java.queues("beside", topic) == set(_QUEUES))
    cluster.java.produce(topic, 16, prefix="after")
    cluster.java.wait_consumed("beside", 40 + 16)
    after = Counter(cluster.java.bodies("beside")) - by_java
    assert after == Counter(f"after{number}" for number in range(16))

    def is_stored() -> bool:
        cluster.java.persist("beside")
        return sum(offset or 0 for offset in _stored(rmqctl, group, topic).values()) == 96

    wait_until(is_stored)
    cluster.java.stop("beside")


# What fails


def test_what_fails_comes_again_in_10_s_to_ours_or_to_javas(cluster: Cluster, ours: OurConsumers) -> None:
    topic = group = "Failing"
    cluster.create_topic(topic, queue_count=4)
    # By circle each has queues of both brokers, and the retry queue of one: so some fail here and come again there.
    circle = "AllocateMessageQueueAveragelyByCircle"
    cluster.java.consume("failing", group, topic, collect=1, fail="bad", strategy=circle)
    member = ours("ours", group, topic, "--strategy", "circle", FAIL="bad")
    wait_until(lambda: len(cluster.java.queues("failing", topic)) == 4)
    # A retry topic is made by the first heartbeat, and Java asks for its route only later.
    cluster.wait_for_route(f"%RETRY%{group}", 2)
    cluster.java.call("rebalance", id="failing")
    wait_until(lambda: len(cluster.java.queues("failing", f"%RETRY%{group}")) == 1)
    time.sleep(1.5)
    for queue in _QUEUES:
        cluster.java.produce(topic, 1, queue=queue, prefix=f"bad{queue[-3:]}-", keys=f"key{queue[-3:]}-", tag="TagA")
        cluster.java.produce(topic, 1, queue=queue, prefix=f"good{queue[-3:]}-")

    def by_ours(times: int) -> list[Heard]:
        return [each for each in member.heard("BEGAN") if each.body.startswith("bad") and each.reconsume_times == times]

    def by_java(times: int) -> list[str]:
        attempts = cluster.java.attempts("failing")
        return [each.body for each in attempts if each.body.startswith("bad") and each.reconsume_times == times]

    wait_until(lambda: len(by_ours(1)) + len(by_java(1)) == 8, 25)
    first, again = by_ours(0), by_ours(1)
    assert (len(first), len(by_java(0))) == (4, 4)
    # Each once more, and not all to whom they came first.
    assert Counter([*(each.body for each in again), *by_java(1)]) == Counter(
        [*(each.body for each in first), *by_java(0)]
    )
    assert {each.body for each in again} & set(by_java(0))
    assert {each.body for each in first} & set(by_java(1))
    assert {(each.topic, each.from_topic, each.keys) for each in again} == {
        (topic, f"%RETRY%{group}", each.body.replace("bad", "key")) for each in again
    }
    read = {message.topic for message in cluster.java.read("failing")}
    assert read == {topic}
    waits_ms = [each.age_ms for each in cluster.java.attempts("failing") if each.reconsume_times == 1]
    began_ms = min(each.at_ms for each in first)
    waits_ms += [each.at_ms - began_ms for each in again]
    assert all(9_500 < wait_ms < 13_000 for wait_ms in waits_ms), waits_ms
    # What was given back is acknowledged in its own queue, and what ours could do the second time is done.
    assert _bodies(member) == Counter([*(each.body for each in again), *(b for b in _bodies(member) if "good" in b)])
    assert member.terminate() == 0
    cluster.java.stop("failing")


@pytest.mark.parametrize("limit", [0, 1])
def test_what_fails_too_often_is_a_dead_letter(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers, limit: int
) -> None:
    topic = group = f"Dead{limit}"
    cluster.create_topic(topic, queue_count=1)
    member = ours("ours", group, topic, "--max-reconsume-times", str(limit), FAIL="bad", FAIL_BELOW=99)
    cluster.java.produce(topic, 4, prefix="bad", keys="dead")
    cluster.java.produce(topic, 4, prefix="good")
    wait_until(lambda: len(member.heard("FAILED")) == 4 * (limit + 1), 20)

    def dead() -> dict[str, str]:
        found = rmqctl("message", "find", f"%DLQ%{group}", "-o", "json")
        return {item["body"]: item["msgId"] for item in found.document["items"]} if found.stdout else {}

    wait_until(lambda: len(dead()) == 4, 10, dead)
    failed = member.heard("FAILED")
    assert Counter((each.body, each.reconsume_times) for each in failed) == Counter(
        (f"bad{number}", times) for number in range(4) for times in range(limit + 1)
    )
    assert dead() == {each.body: each.message_id for each in failed}
    assert member.terminate() == 0
    assert set(_stored(rmqctl, group, topic).values()) <= {4}
    wait_until(lambda: _bodies(member) == Counter(f"good{number}" for number in range(4)))


# What is slow


def test_what_takes_too_long_is_sent_back_in_time_and_the_queue_moves_on(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers
) -> None:
    topic = group = "Slow"
    cluster.create_topic(topic, queue_count=1, brokers=("broker-a",))
    member = ours("ours", group, topic, "--consume-timeout", "3s", "--workers", "4", SLOW="slow", SLOW_S=7)
    cluster.java.produce(topic, 1, prefix="slow")
    cluster.java.produce(topic, 50, prefix="fast")
    wait_until(lambda: _bodies(member).total() == 50)
    (began,) = member.heard("BEGAN")[:1]
    assert began.body == "slow0"
    wait_until(lambda: "took too long" in member.said, 6)
    expired_ms = time.time() * 1000 - began.at_ms
    assert 3_000 <= expired_ms < 4_100
    # The first stored offset comes 10 s after the start, at most.
    wait_until(lambda: _stored(rmqctl, group, topic) == {"broker-a:0": 51}, 12)
    assert member.heard("FAILED") == [] or member.heard("FAILED")[0].at_ms - began.at_ms >= 7_000

    def slow() -> list[Heard]:
        return [each for each in member.heard("BEGAN") if each.body == "slow0"]

    wait_until(lambda: len(slow()) == 2)
    again = slow()[1]
    assert again.reconsume_times == 1
    assert 13_000 <= again.at_ms - began.at_ms < 15_500
    # Its listener failed at 7 s: that is not listened to, or it would come once more 10 s later.
    time.sleep(max(0.0, (began.at_ms + 19_500) / 1000 - time.time()))
    assert len(slow()) == 2
    member.kill()


# Its end


def test_what_was_pulled_is_consumed_and_stored_before_it_ends(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers
) -> None:
    topic = group = "Drained"
    cluster.create_topic(topic, queue_count=2)
    cluster.java.produce(topic, 800, batch=20)
    first = ours("first", group, topic, "--workers", "4", EACH_S=0.01)
    wait_until(lambda: _bodies(first).total() > 100)
    # What comes while it ends is not for it.
    first.process.terminate()
    wait_until(lambda: "left to consume" in first.said)
    cluster.java.produce(topic, 40, prefix="late")
    assert first.process.wait(20) == 0, first.said
    assert first.heard("BEGAN")
    assert _bodies(first, "BEGAN") == _bodies(first)
    done: dict[str, list[int]] = {}
    for each in first.heard():
        done.setdefault(each.queue, []).append(each.offset)
    assert {queue: sorted(offsets) for queue, offsets in done.items()} == {
        queue: list(range(len(offsets))) for queue, offsets in done.items()
    }
    assert _stored(rmqctl, group, topic) == {queue: len(offsets) for queue, offsets in done.items()}
    assert rmqctl("group", "members", group, "-o", "json").exit_code != 0 or not rmqctl.items("group", "members", group)
    second = ours("second", group, topic)
    everything = Counter([*(f"m{number}" for number in range(800)), *(f"late{number}" for number in range(40))])
    wait_until(lambda: (_bodies(first) + _bodies(second)).total() >= 840)
    time.sleep(1)
    assert _bodies(first) + _bodies(second, "BEGAN") == everything
    assert second.terminate() == 0


def test_what_is_left_after_the_drain_is_said_and_comes_again(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers
) -> None:
    topic = group = "DrainedInPart"
    cluster.create_topic(topic, queue_count=1)
    cluster.java.produce(topic, 600, batch=20)
    first = ours("first", group, topic, "--workers", "4", "--drain", "1s", EACH_S=0.02)
    wait_until(lambda: _bodies(first).total() > 100)
    began_s = time.monotonic()
    assert first.terminate() == 8
    assert time.monotonic() - began_s < 4
    stored = _stored(rmqctl, group, topic)
    # Of a queue in which nothing was done nothing is stored either; one that is done is not named.
    for queue, offset in stored.items():
        assert (f"{topic}@{queue} from offset {offset or 0}" in first.said) == ((offset or 0) < 300), first.said
    done_before = [(each.queue, each.offset) for each in first.heard()]
    second = ours("second", group, topic)
    wait_until(lambda: set(_bodies(first)) | set(_bodies(second)) == {f"m{number}" for number in range(600)})
    time.sleep(0.5)
    # What was acknowledged does not come again, and what was not does: each once.
    offsets = {queue: sorted(each.offset for each in second.heard("BEGAN") if each.queue == queue) for queue in stored}
    assert offsets == {queue: list(range(offset or 0, 300)) for queue, offset in stored.items()}
    twice = {(each.queue, each.offset) for each in second.heard()} & set(done_before)
    assert len(twice) <= 8  # as many as four threads can have done out of order, and had in hand
    assert second.terminate() == 0


def test_a_member_that_is_ending_takes_no_more_queues(cluster: Cluster, ours: OurConsumers) -> None:
    topic = group = "Ending"
    cluster.create_topic(topic, queue_count=1)
    cluster.java.consume("ending", group, topic)
    member = ours("ours", group, topic, SLOW="slow", SLOW_S=5)
    wait_until(lambda: len(cluster.java.queues("ending", topic)) == 1)
    time.sleep(1.5)
    for queue in ("broker-a:0", "broker-b:0"):
        cluster.java.produce(topic, 1, prefix="slow", queue=queue)
    wait_until(lambda: member.heard("BEGAN"))
    member.process.terminate()
    wait_until(lambda: "left to consume" in member.said)
    # Its queue would be for the one that is still there.
    cluster.java.stop("ending")
    for queue in ("broker-a:0", "broker-b:0"):
        cluster.java.produce(topic, 5, prefix="late", queue=queue)
    assert member.process.wait(15) == 8, member.said  # all that it consumed failed
    assert [each.body for each in member.heard("BEGAN")] == ["slow0"]


def test_after_a_kill_comes_again_what_the_window_says(cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers) -> None:
    """One stuck message, and what was done behind it: mission 7.6."""
    topic = group = "Killed"
    cluster.create_topic(topic, queue_count=1, brokers=("broker-a",))
    first = ours("first", group, topic, "--workers", "4", SLOW="stuck")
    cluster.java.produce(topic, 20, prefix="before")
    wait_until(lambda: _stored(rmqctl, group, topic) == {"broker-a:0": 20})
    cluster.java.produce(topic, 1, prefix="stuck")
    cluster.java.produce(topic, 99, prefix="behind")
    wait_until(lambda: _bodies(first).total() == 119)
    time.sleep(5.5)  # an offset is stored every 5 s
    assert _stored(rmqctl, group, topic) == {"broker-a:0": 20}
    (row,) = rmqctl.items("offset", "show", group, "--topic", topic)
    first.kill()
    second = ours("second", group, topic)
    wait_until(lambda: _bodies(second).total() >= 100)
    time.sleep(1)
    again = _bodies(second, "BEGAN")
    assert again == Counter(["stuck0", *(f"behind{number}" for number in range(99))])
    # What is stuck was not done yet: it comes again, and is no duplicate.
    assert row["duplicateRisk"] == 99, row
    assert second.terminate() == 0
    assert _stored(rmqctl, group, topic) == {"broker-a:0": 120}


# To look


def test_so_many_are_shown_and_the_rest_is_left_for_others(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers, tmp_path: Path
) -> None:
    topic = group = "Shown"
    cluster.create_topic(topic, queue_count=1, brokers=("broker-a",))
    cluster.java.produce(topic, 20)
    words = (topic, "--from", "earliest", "--count", "7")
    shown = OurConsumer(cluster.namesrv, tmp_path / "shown", "shown", group, *words)
    assert shown.process.wait(20) == 0, shown.said
    items = [json.loads(line) for line in shown.printed_path.read_text().splitlines()]
    assert [(item["body"], item["topic"]) for item in items] == [(f"m{number}", topic) for number in range(7)]
    assert _stored(rmqctl, group, topic) == {"broker-a:0": 7}
    member = ours("ours", group, topic)
    wait_until(lambda: _bodies(member).total() >= 13)
    assert _bodies(member, "BEGAN") == Counter(f"m{number}" for number in range(7, 20))
    assert member.terminate() == 0


# Resets


@pytest.mark.since_5
def test_a_reset_of_a_running_member_is_confirmed_and_read_from_there(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    topic = group = "ResetAtWork"
    cluster.create_topic(topic, queue_count=2)
    cluster.java.produce(topic, 80)
    member = ours("ours", group, topic)
    wait_until(lambda: _bodies(member).total() == 80)
    wait_until(lambda: set(_stored(rmqctl, group, topic).values()) == {20})
    described = rmqctl("group", "describe", group, "-o", "json")
    assert described.exit_code in (0, 8), described.stderr
    done = rmqctl("offset", "reset", group, "--topic", topic, "--to-offset", "5", "--yes", "-o", "json", limit_s=60)
    assert done.exit_code == 0, done.stderr + done.stdout
    assert {item["result"] for item in done.document["items"]} == {"CONFIRMED"}
    wait_until(lambda: _bodies(member).total() >= 80 + 60)
    cluster.java.produce(topic, 8, prefix="new")
    wait_until(lambda: _bodies(member).total() >= 148)
    time.sleep(0.5)
    expected = {f"{broker}:{number}": [*range(20), *range(5, 22)] for broker in cluster.addresses for number in (0, 1)}
    found = {queue: [each.offset for each in member.heard() if each.queue == queue] for queue in expected}
    assert {queue: Counter(offsets) for queue, offsets in found.items()} == {
        queue: Counter(offsets) for queue, offsets in expected.items()
    }
    assert member.terminate() == 0
    assert set(_stored(rmqctl, group, topic).values()) == {22}


# Filters


@pytest.mark.parametrize(
    ("expression", "javas"), [("TagA || TagB", {"expr": "TagA || TagB"}), ("SQL92:at >= 5", {"sql": "at >= 5"})]
)
def test_a_filtered_group_gets_what_it_wants_and_moves_on_past_the_rest(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers, expression: str, javas: dict[str, object]
) -> None:
    kind = "Sql" if "SQL92" in expression else "Tags"
    topic = group = f"Filtered{kind}"
    cluster.create_topic(topic, queue_count=2)
    cluster.java.consume(group, group, topic, collect=1, heartbeat=1000, **javas)
    member = ours("ours", group, f"{topic}:{expression}")
    settled_members(rmqctl, group, topic, 4)
    for tag in ("TagA", "TagB", "TagC"):
        for queue in (name for name in _QUEUES if name[-1] in "01"):
            cluster.java.produce(topic, 10, tag=tag, prefix=f"{tag}-{queue}-", number="at", queue=queue)
    wanted = [
        f"{tag}-{queue}-{number}"
        for tag in ("TagA", "TagB", "TagC")
        for queue in _QUEUES
        if queue[-1] in "01"
        for number in range(10)
        if (number >= 5 if kind == "Sql" else tag != "TagC")
    ]

    def both() -> Counter[str]:
        return _bodies(member, "BEGAN") + Counter(each.body for each in cluster.java.attempts(group))

    wait_until(lambda: both().total() >= len(wanted), 40, why=both)
    time.sleep(1)
    assert both() == Counter(wanted)
    assert _bodies(member).total() == len(wanted) // 2
    # Also where the last ones were for nobody: brokers look every 5 s what pulls that they hold have missed.
    wait_until(lambda: set(_stored(rmqctl, group, topic).values()) == {30}, 40, lambda: _stored(rmqctl, group, topic))
    assert member.terminate() == 0
    cluster.java.stop(group)


# Broadcasting


def test_broadcasting_gives_all_to_each_and_offsets_stay_here(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers, tmp_path: Path
) -> None:
    topic = group = "BroadcastRun"
    cluster.create_topic(topic, queue_count=2)
    cluster.java.consume("broadcast", group, topic, collect=1, broadcast=1, instance="java")
    words = (group, f"{topic}", "--broadcast", "--instance")
    members = [ours(name, *words, name, FAIL="bad", FAIL_BELOW=99) for name in ("one", "two")]
    cluster.java.produce(topic, 40)
    cluster.java.produce(topic, 4, prefix="bad")
    cluster.java.wait_consumed("broadcast", 44)
    sent = Counter([*(f"m{number}" for number in range(40)), *(f"bad{number}" for number in range(4))])
    wait_until(lambda: all(_bodies(member, "BEGAN") == sent for member in members))
    assert all("1 message is lost." in member.said for member in members)
    assert [member.terminate() for member in members] == [0, 0]
    # What failed is gone, for the next run as well; what comes meanwhile is not.
    cluster.java.produce(topic, 4, prefix="meanwhile")
    again = ours("one", *words, "one")
    wait_until(lambda: (_bodies(again, "BEGAN") - sent).total() >= 4)
    time.sleep(1)
    assert _bodies(again, "BEGAN") == sent + Counter(f"meanwhile{number}" for number in range(4))
    assert again.terminate() == 0
    cluster.java.stop("broadcast")
    shown = rmqctl("offset", "show", group, "-o", "json")
    assert all(item["consumerOffset"] is None for item in shown.document["items"]), shown.stdout
    (folder,) = {path.parent for path in (tmp_path / "ours").rglob("offsets.json") if "@one" in str(path)}
    assert folder.name == group
