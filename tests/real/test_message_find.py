"""`message find` and `message tail` beside what Java consumers get with the same expression."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO

import pytest

from rmqctl.text.times import iso_time

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl
from .test_message_get import wait_indexed

TOPIC = "Found"
_TAGS = ("Aa", "BB", "CC")  # the first two have one hash


@pytest.fixture(scope="session")
def found(cluster: Cluster) -> str:
    """Send 90 messages with three tags over both brokers, each with its number as a property."""
    cluster.create_topic(TOPIC, queue_count=2)
    for tag in _TAGS:
        cluster.java.produce(TOPIC, 30, tag=tag, prefix=tag, keys=f"{tag}-", number="amount")
    wait_readable(cluster, TOPIC, 90)
    return TOPIC


def wait_readable(cluster: Cluster, topic: str, count: int) -> None:
    """Wait until so many messages can be read: a broker acknowledges them a moment before."""
    give_up_at = time.monotonic() + 60
    while len(Rmqctl(cluster.namesrv).items("message", "find", topic, "--limit", "1000")) < count:
        assert time.monotonic() < give_up_at
        time.sleep(0.1)


def _bodies(rmqctl: Rmqctl, *words: str) -> list[str]:
    return [item["body"] for item in rmqctl.items("message", "find", *words, "--limit", "1000")]


@pytest.mark.smoke
def test_all_messages_are_found_in_the_order_of_their_store_times(rmqctl: Rmqctl, found: str) -> None:
    items = rmqctl.items("message", "find", found)

    assert sorted(item["body"] for item in items) == sorted(f"{tag}{n}" for tag in _TAGS for n in range(30))
    times = [item["storeTimestamp"] for item in items]
    assert times == sorted(times)
    assert {item["brokerName"] for item in items} == {"broker-a", "broker-b"}


def test_a_span_of_time_is_exact_to_the_ms(rmqctl: Rmqctl, found: str) -> None:
    times = [item["storeTimestamp"] for item in rmqctl.items("message", "find", found)]
    for since, until in ((times[20], times[60]), (times[20] + 1, times[60] - 1), (times[45], times[45])):
        expected = [at_ms for at_ms in times if since <= at_ms <= until]
        words = ("message", "find", found, "--since", str(since), "--until", str(iso_time(until)))
        assert [item["storeTimestamp"] for item in rmqctl.items(*words)] == expected
    assert rmqctl.items("message", "find", found, "--since", str(times[-1] + 1)) == []
    assert rmqctl.items("message", "find", found, "--until", str(times[0] - 1)) == []


def test_tags_are_what_a_push_consumer_gets(cluster: Cluster, rmqctl: Rmqctl, found: str) -> None:
    cluster.java.consume("tagged", "TaggedGroup", found, expr="BB || CC", collect=1)
    cluster.java.wait_consumed("tagged", 60)
    consumed = cluster.java.call("bodies", id="tagged").split(",")
    cluster.java.stop("tagged")

    assert sorted(_bodies(rmqctl, found, "--tag", "BB || CC")) == sorted(consumed)
    assert sorted(_bodies(rmqctl, found, "--tag", "Aa")) == sorted(f"Aa{n}" for n in range(30))


def test_sql_is_what_a_push_consumer_gets(cluster: Cluster, rmqctl: Rmqctl, found: str) -> None:
    sql = "TAGS <> 'Aa' AND amount BETWEEN 10 AND 19"
    cluster.java.call("consume", id="sql", group="SqlGroup", topic=found, sql=sql, collect=1)
    cluster.java.wait_consumed("sql", 20)
    consumed = cluster.java.call("bodies", id="sql").split(",")
    cluster.java.stop("sql")

    assert sorted(_bodies(rmqctl, found, "--sql", sql)) == sorted(consumed)
    assert sorted(_bodies(rmqctl, found, "--sql", sql, "--tag", "CC")) == sorted(f"CC{n}" for n in range(10, 20))


@pytest.mark.parametrize("sql", ["amount = = 3", "amount >", "amount BETWEEN 9 AND 1", "'"])
def test_wrong_sql_is_never_shown_as_a_result(rmqctl: Rmqctl, found: str, sql: str) -> None:
    result = rmqctl("message", "find", found, "--sql", sql)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "Invalid --sql expression" in result.stderr


def test_a_broker_that_does_not_filter_by_sql_says_so(binary_cluster: Cluster) -> None:
    binary_cluster.create_topic("NoSql", queue_count=1)
    result = Rmqctl(binary_cluster.namesrv)("message", "find", "NoSql", "--sql", "a = 1")

    assert result.exit_code == 1
    assert "does not filter by SQL" in result.stderr
    assert "enablePropertyFilter" in result.stderr


@pytest.mark.smoke
def test_text_properties_and_queues_are_looked_for(rmqctl: Rmqctl, found: str) -> None:
    assert sorted(_bodies(rmqctl, found, "--contains", "B2")) == sorted(["BB2", *(f"BB{n}" for n in range(20, 30))])
    assert sorted(_bodies(rmqctl, found, "--property", "amount=7")) == ["Aa7", "BB7", "CC7"]
    assert _bodies(rmqctl, found, "--property", "amount=7", "--tag", "BB") == ["BB7"]
    items = rmqctl.items("message", "find", found, "--queue", "broker-b:1")
    assert {(item["brokerName"], item["queueId"]) for item in items} == {("broker-b", 1)}


def test_keys_with_one_hash_and_more_of_a_key_than_one_answer(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Keys", queue_count=1)
    cluster.java.produce("Keys", 50, key="Aa")
    time.sleep(1.1)  # the index knows seconds, and one of them must not hold more than an answer
    cluster.java.produce("Keys", 50, key="Aa")
    cluster.java.produce("Keys", 3, key="BB")
    wait_indexed(cluster, "Keys", "BB", 3)

    assert len(rmqctl.items("message", "find", "Keys", "--key", "BB")) == 3
    assert len(rmqctl.items("message", "find", "Keys", "--key", "Aa", "--limit", "500")) == 100
    newest = rmqctl("message", "find", "Keys", "--key", "Aa", "--limit", "10", "-o", "json").document
    assert (len(newest["items"]), newest["isComplete"]) == (10, False)


def test_a_stream_is_the_same_as_a_document(rmqctl: Rmqctl, found: str) -> None:
    import json

    lines = rmqctl("message", "find", found, "-o", "jsonl", "--limit", "0").stdout.splitlines()
    assert [json.loads(line) for line in lines] == rmqctl.items("message", "find", found)


def _tail(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rmqctl", "message", "tail", *words],
        env={**os.environ, "NAMESRV_ADDR": cluster.namesrv}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _read(stream: IO[str] | None, count: int) -> list[str]:
    assert stream is not None
    return [stream.readline().rstrip("\n") for _ in range(count)]


def _end(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    return process.returncode, errors


def _offsets(lines: Sequence[str]) -> list[int]:
    return [int(line.split()[3]) for line in lines]


def test_tail_shows_the_last_and_then_what_comes_until_it_is_interrupted(cluster: Cluster) -> None:
    cluster.create_topic("Tailed", queue_count=1, brokers=("broker-a",))
    cluster.java.produce("Tailed", 20, tag="TagA")
    wait_readable(cluster, "Tailed", 20)
    process = _tail(cluster, "Tailed", "--last", "3")
    try:
        assert _offsets(_read(process.stdout, 4)[1:]) == [17, 18, 19]
        cluster.java.produce("Tailed", 2, tag="TagB")
        assert _offsets(_read(process.stdout, 2)) == [20, 21]
    finally:
        assert _end(process) == (130, "")


def test_tail_from_a_time_with_a_tag_ends_after_a_count(cluster: Cluster, found: str) -> None:
    process = _tail(cluster, found, "--from", "1h", "--tag", "BB", "--count", "30", "-o", "name")
    out, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert len(set(out.split())) == 30


def test_tail_ends_by_its_time_out_when_nothing_comes(rmqctl: Rmqctl, found: str) -> None:
    result = rmqctl("message", "tail", found, "--count", "1", "--timeout", "1s")
    assert (result.exit_code, result.stdout) == (6, "")
    assert "1 of 1 message did not arrive" in result.stderr
    assert rmqctl("message", "tail", found, "-o", "json").exit_code == 2
