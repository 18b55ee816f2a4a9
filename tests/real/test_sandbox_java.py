"""RocketMQ's own Java clients work against the sandbox unmodified, each release with the sandbox that plays it."""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import closing
from statistics import median

import pytest

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.java_json import loads

from .harness.process import QUICK_START
from .harness.queue_tables import progress, topic_status, wait_until
from .harness.sandbox import SandboxProcess
from .harness.workbench import Workbench

QUEUE_COUNT = 8  # four at each of the two brokers


@pytest.mark.smoke
def test_a_concurrent_consumer_gets_everything_and_its_offsets_are_stored(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Concurrent")
    sandbox.java.produce("Concurrent", 200)
    sandbox.java.consume("concurrent", "ConcurrentGroup", "Concurrent", collect=1)
    sandbox.java.wait_consumed("concurrent", 200)
    bodies = sandbox.java.bodies("concurrent")
    # A listener has counted a message before its client moves on: stopped in between, the client commits less.
    wait_until(
        lambda: sum(row.diff for row in progress(sandbox, "ConcurrentGroup", "Concurrent")) == 0, "the last commit"
    )
    sandbox.java.stop("concurrent")

    rows = progress(sandbox, "ConcurrentGroup", "Concurrent")

    assert sorted(bodies) == sorted(f"m{number}" for number in range(200))
    assert len(rows) == QUEUE_COUNT
    assert sum(row.broker_offset for row in rows) == 200
    assert [row.diff for row in rows] == [0] * QUEUE_COUNT


@pytest.mark.smoke
def test_an_orderly_consumer_keeps_the_order_and_holds_locks(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Orderly", queue_count=2)
    for queue_id in (0, 1):
        sandbox.java.produce("Orderly", 100, queue=f"broker-a:{queue_id}", prefix=f"q{queue_id}-")
    client_id = sandbox.java.consume("orderly", "OrderlyGroup", "Orderly", orderly=1, collect=1)
    sandbox.java.wait_consumed("orderly", 200)
    bodies = sandbox.java.bodies("orderly")
    while_it_runs = lock(sandbox, "OrderlyGroup", "Orderly", "someone-else")
    its_own = lock(sandbox, "OrderlyGroup", "Orderly", client_id)
    sandbox.java.stop("orderly")

    for queue_id in (0, 1):
        of_queue = [body for body in bodies if body.startswith(f"q{queue_id}-")]
        assert of_queue == [f"q{queue_id}-{number}" for number in range(100)]
    assert while_it_runs == set()
    assert its_own == {0, 1}
    wait_until(lambda: lock(sandbox, "OrderlyGroup", "Orderly", "someone-else") == {0, 1}, "the locks to be given back")
    assert sum(row.diff for row in progress(sandbox, "OrderlyGroup", "Orderly")) == 0


def test_an_orderly_consumer_that_fails_keeps_its_queue_until_the_message_goes_to_the_dead_letters(
    sandbox: SandboxProcess,
) -> None:
    sandbox.create_topic("OrderlyFails", queue_count=1)
    sandbox.java.produce("OrderlyFails", 1, queue="broker-a:0", prefix="bad")
    sandbox.java.produce("OrderlyFails", 2, queue="broker-a:0", prefix="good")
    sandbox.java.consume("orderly-fails", "OrderlyFailsGroup", "OrderlyFails", orderly=1, fail="bad", max=2, collect=1)
    sandbox.java.wait_consumed("orderly-fails", 2)
    attempts = sandbox.java.attempts("orderly-fails")
    sandbox.java.stop("orderly-fails")

    assert [(each.body, each.reconsume_times) for each in attempts] == [
        ("bad0", 0), ("bad0", 1), ("bad0", 2), ("good0", 0), ("good1", 0)
    ]  # fmt: skip
    if sandbox.version.startswith("5"):
        assert read_all(sandbox, "%DLQ%OrderlyFailsGroup") == ["bad0"]
    else:
        # 4.9 obeys the delay that the client sends it with: it will be a dead letter in a minute.
        assert "bad0" in read_all(sandbox, "SCHEDULE_TOPIC_XXXX")


def test_queues_are_shared_out_anew_when_a_consumer_joins_or_leaves(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Shared")
    java = sandbox.java
    java.consume("first", "SharedGroup", "Shared", collect=1)
    wait_until(lambda: len(java.queues("first", "Shared")) == QUEUE_COUNT, "the first to take all queues")
    joined_at = time.monotonic()
    java.consume("second", "SharedGroup", "Shared", collect=1)
    wait_until(
        lambda: len(java.queues("first", "Shared")) == len(java.queues("second", "Shared")) == QUEUE_COUNT // 2,
        "the two to have half of the queues each",
    )
    took_s = time.monotonic() - joined_at
    assert java.queues("first", "Shared").isdisjoint(java.queues("second", "Shared"))
    java.produce("Shared", 80)
    java.wait_consumed("first second", 80)
    both = [java.bodies("first"), java.bodies("second")]
    left_at = time.monotonic()
    java.stop("second")
    wait_until(lambda: len(java.queues("first", "Shared")) == QUEUE_COUNT, "the first to take all queues again")
    took_again_s = time.monotonic() - left_at
    java.produce("Shared", 8, prefix="later")
    java.wait_consumed("first", len(both[0]) + 8)
    java.stop("first")

    # Clients look again every 20 s; what is quicker came from the broker's notice.
    assert took_s < 10
    assert took_again_s < 10
    assert Counter(both[0] + both[1]) == Counter(f"m{number}" for number in range(80))
    assert all(len(bodies) == 40 for bodies in both)


def test_a_tag_filter(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Tagged")
    for tag in ("TagA", "TagB", "TagC"):
        sandbox.java.produce("Tagged", 20, tag=tag, prefix=tag)
    sandbox.java.produce("Tagged", 20, prefix="none")
    sandbox.java.consume("tagged", "TaggedGroup", "Tagged", expr="TagA || TagC", collect=1)
    sandbox.java.wait_consumed("tagged", 40)
    bodies = sandbox.java.bodies("tagged")
    sandbox.java.stop("tagged")

    assert sorted(bodies) == sorted(f"{tag}{number}" for tag in ("TagA", "TagC") for number in range(20))


def test_an_sql_filter(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Queried")
    sandbox.java.produce("Queried", 40, number="size", tag="TagA")
    sandbox.java.consume(
        "queried", "QueriedGroup", "Queried", collect=1, sql="TAGS in ('TagA', 'TagB') and size between 11 and 19"
    )
    sandbox.java.wait_consumed("queried", 9)
    bodies = sandbox.java.bodies("queried")
    sandbox.java.stop("queried")

    assert sorted(bodies) == sorted(f"m{number}" for number in range(11, 20))


def test_a_failed_message_comes_again_after_10_s_and_then_goes_to_the_dead_letters(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Fails")
    # The first heartbeat makes the retry topic; who is there before it finds its route half a minute later.
    sandbox.java.consume("fails", "FailsGroup", "Fails")
    sandbox.java.stop("fails")
    sandbox.java.produce("Fails", 1, prefix="bad", tag="TagA", keys="key")
    sandbox.java.produce("Fails", 3, prefix="good")
    sandbox.java.consume("fails", "FailsGroup", "Fails", fail="bad", max=1, collect=1)
    sandbox.java.wait_consumed("fails", 3)
    # Twice to the listener; what fails then is a dead letter.
    sandbox.java.wait_started("fails", 5, timeout_s=25)
    attempts = [each for each in sandbox.java.attempts("fails") if each.body == "bad0"]
    wait_until(lambda: [row[3] for row in topic_status(sandbox, "%DLQ%FailsGroup")] != [], "the dead-letter topic")
    assert read_all(sandbox, "%DLQ%FailsGroup") == ["bad0"]
    wait_until(lambda: lag(sandbox, "FailsGroup", "%RETRY%FailsGroup", "fails") == 0, "the retry to be committed")
    assert sum(row.diff for row in progress(sandbox, "FailsGroup", "Fails")) == 0
    sandbox.java.stop("fails")

    assert [each.reconsume_times for each in attempts] == [0, 1]
    assert 9_500 < attempts[1].age_ms - attempts[0].age_ms < 13_000


def test_broadcasting_gives_everything_to_everyone(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Broadcast")
    java = sandbox.java
    for name in ("one", "two"):
        java.consume(name, "BroadcastGroup", "Broadcast", broadcast=1, collect=1, instance=f"broadcast-{name}")
        wait_until(lambda name=name: len(java.queues(name, "Broadcast")) == QUEUE_COUNT, "all queues to be taken")  # type: ignore[misc]
    java.produce("Broadcast", 30)
    java.wait_consumed("one", 30)
    java.wait_consumed("two", 30)
    bodies = [sorted(java.bodies(name)) for name in ("one", "two")]
    for name in ("one", "two"):
        java.stop(name)

    expected = sorted(f"m{number}" for number in range(30))
    assert bodies == [expected, expected]


@pytest.mark.parametrize("way", ["subscribe", "assign"])
def test_a_lite_pull_consumer(sandbox: SandboxProcess, way: str) -> None:
    topic, group = f"Lite-{way}", f"LiteGroup-{way}"
    options = {"assign": 1} if way == "assign" else {}
    sandbox.create_topic(topic)
    sandbox.java.produce(topic, 40)
    sandbox.java.lite(way, group, topic, **options)
    bodies = sandbox.java.poll(way, 40)
    sandbox.java.stop(way)
    sandbox.java.produce(topic, 5, prefix="later")
    sandbox.java.lite(way, group, topic, **options)
    later = sandbox.java.poll(way, 5)
    sandbox.java.stop(way)

    assert sorted(bodies) == sorted(f"m{number}" for number in range(40))
    assert sorted(later) == [f"later{number}" for number in range(5)]


def test_a_lite_pull_consumer_with_a_tag_filter(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("LiteTagged")
    sandbox.java.produce("LiteTagged", 10, tag="TagA", prefix="a")
    sandbox.java.produce("LiteTagged", 10, tag="TagB", prefix="b")
    sandbox.java.lite("lite-tagged", "LiteTaggedGroup", "LiteTagged", expr="TagB")
    bodies = sandbox.java.poll("lite-tagged", 10)
    sandbox.java.stop("lite-tagged")

    assert sorted(bodies) == [f"b{number}" for number in range(10)]


def test_a_pull_consumer_of_the_old_kind(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Pulled")
    sandbox.java.produce("Pulled", 100)

    first = sandbox.java.pull_all("PulledGroup", "Pulled")
    again = sandbox.java.pull_all("PulledGroup", "Pulled")

    assert sorted(first) == sorted(f"m{number}" for number in range(100))
    assert again == []


@pytest.mark.parametrize("options", [{}, {"mode": "async"}, {"mode": "oneway"}, {"batch": 25}], ids=str)
def test_every_way_to_send(sandbox: SandboxProcess, options: dict[str, object]) -> None:
    way = options.get("mode", "batch" if options else "sync")
    sandbox.create_topic(f"Sent-{way}")
    sandbox.java.produce(f"Sent-{way}", 100, tag="TagA", keys="key", **options)
    wait_until(lambda: sum(row[3] for row in topic_status(sandbox, f"Sent-{way}")) == 100, "all messages to be stored")

    assert sorted(read_all(sandbox, f"Sent-{way}", expr="TagA")) == sorted(f"m{number}" for number in range(100))


def test_a_send_creates_its_topic(sandbox: SandboxProcess) -> None:
    sandbox.java.produce("MadeBySending", 12)

    assert sorted(read_all(sandbox, "MadeBySending")) == sorted(f"m{number}" for number in range(12))
    assert {row[0] for row in topic_status(sandbox, "MadeBySending")} <= {"broker-a", "broker-b"}


def test_a_delay_level(sandbox: SandboxProcess) -> None:
    assert 4_900 < delay_of(sandbox, "Delayed", delay=2) < 6_500


@pytest.mark.since_5
def test_a_timer_of_any_length(sandbox: SandboxProcess) -> None:
    # The timer counts whole seconds, and a message that is due starts over with the next of them.
    assert 2_500 < delay_of(sandbox, "Timed", timer=3000) < 5_500


def delay_of(sandbox: SandboxProcess, topic: str, **options: object) -> int:
    """Return how many ms after being sent a delayed message came."""
    sandbox.create_topic(topic)
    sandbox.java.consume(topic, f"{topic}Group", topic, collect=1)
    wait_until(lambda: len(sandbox.java.queues(topic, topic)) == QUEUE_COUNT, "all queues to be taken")
    sandbox.java.produce(topic, 1, **options)
    sandbox.java.wait_consumed(topic, 1, timeout_s=15)
    (attempt,) = sandbox.java.attempts(topic)
    sandbox.java.stop(topic)
    return attempt.age_ms


def test_traces_of_producer_and_consumer(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Traced")
    message_id = sandbox.java.produce("Traced", 1, trace=1, keys="order").split("\t")[0]
    sandbox.java.consume("traced", "TracedGroup", "Traced", trace=1)
    sandbox.java.wait_consumed("traced", 1)
    printed = ""

    def is_traced() -> bool:
        nonlocal printed
        printed = sandbox.java.mqadmin("queryMsgTraceById", "-i", message_id)
        return "WORKBENCH_TRACED" in printed and "TracedGroup" in printed

    wait_until(is_traced, "both traces", timeout_s=20)
    sandbox.java.stop("traced")

    (pub,) = re.findall(r"^Pub .*$", printed, re.MULTILINE)
    (sub,) = re.findall(r"^Sub .*$", printed, re.MULTILINE)
    assert "success" in pub
    assert "success" in sub


def test_a_waiting_consumer_gets_a_message_at_once(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Quick", queue_count=1)
    sandbox.java.consume("quick", "QuickGroup", "Quick", collect=1)
    wait_until(lambda: len(sandbox.java.queues("quick", "Quick")) == 2, "both queues to be taken")
    sandbox.java.produce("Quick", 1, prefix="first")  # whoever is first waits for routes and threads
    sandbox.java.wait_consumed("quick", 1)
    for number in range(20):
        sandbox.java.produce("Quick", 1, prefix=f"n{number}-")
        sandbox.java.wait_consumed("quick", number + 2)
    ages_ms = [each.age_ms for each in sandbox.java.attempts("quick")][1:]
    sandbox.java.stop("quick")

    assert median(ages_ms) < 50
    assert max(ages_ms) < 1000


def test_a_broker_that_restarts_in_between(sandbox: SandboxProcess) -> None:
    java, ways = sandbox.java, {"concurrent": {}, "orderly": {"orderly": 1}}
    for way, options in ways.items():
        sandbox.create_topic(f"Restart-{way}")
        java.consume(f"restart-{way}", f"RestartGroup-{way}", f"Restart-{way}", collect=1, **options)
        java.produce(f"Restart-{way}", 40, prefix="before")
        java.wait_consumed(f"restart-{way}", 40)
        java.persist(f"restart-{way}")

    sandbox.restart("broker-a")
    for way in ways:
        java.produce(f"Restart-{way}", 40, prefix="after")
    expected = {f"{when}{number}" for when in ("before", "after") for number in range(40)}
    for way in ways:
        # 4.9's client takes half a minute until it asks for the queues of the broker again.
        wait_until(lambda way=way: set(java.bodies(f"restart-{way}")) == expected, "all messages", timeout_s=45)  # type: ignore[misc]
        wait_until(
            lambda way=way: lag(sandbox, f"RestartGroup-{way}", f"Restart-{way}", f"restart-{way}") == 0,  # type: ignore[misc]
            "all to be committed",
        )
        java.stop(f"restart-{way}")


def test_clients_that_write_binary_headers(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Binary")
    home = sandbox.folder / "binary"
    home.mkdir()
    java = Workbench(sandbox.version, home, sandbox.namesrv, jvm=(*QUICK_START, "-Drocketmq.serialize.type=ROCKETMQ"))
    try:
        java.produce("Binary", 50)
        java.consume("binary", "BinaryGroup", "Binary", collect=1)
        java.wait_consumed("binary", 50)
        bodies = java.bodies("binary")
        java.stop("binary")
    finally:
        java.close()

    assert sorted(bodies) == sorted(f"m{number}" for number in range(50))
    assert sum(row.diff for row in progress(sandbox, "BinaryGroup", "Binary")) == 0


def test_fifty_thousand_messages(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Many")
    sandbox.java.produce("Many", 50_000, size=100, batch=100)
    sandbox.java.consume("many", "ManyGroup", "Many")
    sandbox.java.wait_consumed("many", 50_000)
    sandbox.java.stop("many")
    rows = progress(sandbox, "ManyGroup", "Many")

    assert sum(row.broker_offset for row in rows) == sum(row.consumer_offset for row in rows) == 50_000


@pytest.mark.since_5
def test_a_consumer_whose_queues_the_broker_shares_out_and_pops_from(sandbox: SandboxProcess) -> None:
    sandbox.create_topic("Popped")
    for address in sandbox.addresses.values():
        printed = sandbox.java.mqadmin(
            "setConsumeMode", "-b", address, "-t", "Popped", "-g", "PoppedGroup", "-m", "POP", "-n", "8"
        )
        assert "success" in printed, printed
    sandbox.java.produce("Popped", 60)
    sandbox.java.consume("popped", "PoppedGroup", "Popped", pop=1, collect=1)
    sandbox.java.wait_consumed("popped", 60, timeout_s=30)
    bodies = sandbox.java.bodies("popped")
    sandbox.java.stop("popped")

    assert sorted(bodies) == sorted(f"m{number}" for number in range(60))


def lag(sandbox: SandboxProcess, group: str, topic: str, consumer_id: str) -> int:
    """Have a consumer store its offsets; return how far they are behind."""
    sandbox.java.persist(consumer_id)
    return sum(row.diff for row in progress(sandbox, group, topic))


def read_all(sandbox: SandboxProcess, topic: str, expr: str = "*") -> list[str]:
    """Return the bodies of all messages of a topic."""
    return sandbox.java.pull_all(f"Reader-{time.monotonic_ns()}", topic, expr=expr)


def lock(sandbox: SandboxProcess, group: str, topic: str, client_id: str) -> set[int]:
    """Lock the two queues of a topic at broker-a for a client; return which it has then. They stay locked."""
    queues = [{"brokerName": "broker-a", "queueId": queue_id, "topic": topic} for queue_id in (0, 1)]
    body = {"clientId": client_id, "consumerGroup": group, "mqSet": queues, "onlyThisBroker": False}
    with closing(sandbox.asker("broker-a")) as asker:
        answer = asker("broker", RequestCode.LOCK_BATCH_MQ, body)
    assert answer is not None
    return {queue["queueId"] for queue in loads(answer.body)["lockOKMQSet"]}
