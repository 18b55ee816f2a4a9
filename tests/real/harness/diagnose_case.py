"""Makes groups on real brokers, lets `rmqctl diagnose` look at them, and compares what it finds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.real.harness.cluster import Cluster
from tests.real.harness.conditions import wait_until
from tests.real.harness.process import QUICK_START
from tests.real.harness.rmqctl import PATIENT, Rmqctl
from tests.real.harness.workbench import Workbench

QUEUES = 4  # at each of two brokers
LIMIT_S = 400
# Routes are asked for every 30 s, and queues shared every 20 s: so long clients of a new group may take over its retry
# topic.
SETTLE = "55s"


class Group(NamedTuple):
    """A group to make, and the codes of severity WARNING and above that are true of it.

    `members` are options of Java's push consumers by name. `held` and `retry` say when they have settled: how often
    queues of `topic` and of the retry topic are held in all; `retry_queues` how many of the latter are.
    """

    expected: frozenset[str]
    members: Mapping[str, Mapping[str, Any]]
    topic: str = ""
    held: int = 2 * QUEUES
    brokers: tuple[str, ...] = ()
    queue_count: int = QUEUES
    retry: int = 2
    retry_queues: int | None = None


def codes(*codes: str) -> frozenset[str]:
    """Return codes as a set."""
    return frozenset(codes)


class Found(NamedTuple):
    """What one run found: the codes of WARNING and above by group, all findings, and what is said of each group."""

    codes: dict[str, frozenset[str]]
    items: dict[str, list[dict[str, Any]]]
    groups: dict[str, dict[str, Any]]
    exit_code: int


def diagnose(rmqctl: Rmqctl, pattern: str, *words: str) -> Found:
    """Diagnose the groups that a pattern picks."""
    # A deadline that a busy machine meets: an answer that is late would leave checks open. A probe has its own.
    deadline = () if "--probe" in words else ("--timeout", PATIENT)
    result = rmqctl("diagnose", pattern, *words, *deadline, "-o", "json", limit_s=300)
    assert result.exit_code in (0, 8), result.stderr
    document = result.document
    groups = {each["group"]: each for each in document["groups"]}
    items: dict[str, list[dict[str, Any]]] = {name: [] for name in groups}
    for item in document["items"]:
        items[item["group"]].append(item)
    codes = {name: frozenset(item["code"] for item in own if item["severity"] != "INFO") for name, own in items.items()}
    return Found(codes, items, groups, result.exit_code)


def check(found: Found, expected: Mapping[str, frozenset[str]]) -> None:
    """Compare what was found of each group; where that differs, show all that was said of it."""
    wrong = {
        name: (sorted(found.codes.get(name, ())), sorted(codes), found.items.get(name), found.groups.get(name))
        for name, codes in expected.items()
        if found.codes.get(name) != codes
    }
    assert not wrong, "\n".join(
        f"{name}: found {seen}, expected {codes}\n"
        + "\n".join(f"  {item['severity']} {item['code']} {item['sentence']} {item['evidence']}" for item in said or ())
        + f"\n  {group}"
        for name, (seen, codes, said, group) in wrong.items()
    )
    assert set(found.codes) == set(expected)


@contextmanager
def another_jvm(cluster: Cluster, launcher: tuple[str, ...] = ()) -> Iterator[Workbench]:
    """Run a second JVM: two clients of one id can't be in the same one, and it can be stopped for a while.

    `launcher` are the words before its own command, for example of by_a_clock().
    """
    other = Workbench(cluster.version, cluster.folder, cluster.namesrv, jvm=QUICK_START, launcher=launcher)
    try:
        yield other
    finally:
        other.close()


@contextmanager
def running(cluster: Cluster, groups: Mapping[str, Group], other: Workbench | None = None) -> Iterator[None]:
    """Run the members of all groups until they have settled; a member's id is "group name".

    Options of a member that are not Java's: `other` puts it into the other JVM, `lite` makes it a lite pull consumer.
    """
    members: dict[str, Workbench] = {}
    for name, group in groups.items():
        _make_topics(cluster, name, group)
    try:
        for name, group in groups.items():
            for member, options in group.members.items():
                key, java = f"{name} {member}", other if other is not None and "other" in options else cluster.java
                words = {"instance": f"{name}-{member}", "threads": 2, **options}
                if "lite" in options:
                    java.lite(key, name, group.topic or name)
                    java.poll_on(key)
                else:
                    java.consume(key, name, group.topic or name, **words)
                members[key] = java
        pushed = {key: java for key, java in members.items() if "lite" not in groups[_group(key)].members[_member(key)]}
        for name, group in groups.items():
            own = {key: java for key, java in pushed.items() if _group(key) == name}
            retry_queues = group.retry if group.retry_queues is None else group.retry_queues
            wait_held(own, {group.topic or name: group.held, f"%RETRY%{name}": group.retry}, retry_queues)
        yield
    finally:
        for key, java in members.items():
            if java.java.process.poll() is None:
                java.stop(key)


def _group(key: str) -> str:
    return key.partition(" ")[0]


def _member(key: str) -> str:
    return key.partition(" ")[2]


def _make_topics(cluster: Cluster, name: str, group: Group) -> None:
    topics = {group.topic or name} | {options["also"] for options in group.members.values() if "also" in options}
    for topic in topics:
        cluster.create_topic(topic, queue_count=group.queue_count, brokers=group.brokers)


def wait_held(members: Mapping[str, Workbench], counts: Mapping[str, int], retry_queues: int = 0) -> None:
    """Wait until the members together hold each topic's queues so many times, and so many queues to retry from.

    One that knows the retry topic of only one broker yet may hold the same queue as another.
    """

    def queues(topic: str) -> list[str]:
        return [queue for key, java in members.items() for queue in java.queues(key, topic)]

    def held() -> dict[str, int]:
        return {topic: len(queues(topic)) for topic in counts}

    def different() -> int:
        return len({queue for topic in counts if topic.startswith("%RETRY%") for queue in queues(topic)})

    def is_so() -> bool:
        if held() == counts and different() == retry_queues:
            return True
        for key, java in members.items():  # routes and members now, rather than in 30 s and 20 s
            java.call("rebalance", id=key)
        time.sleep(1)
        return False

    wait_until(is_so, timeout_s=120, why=lambda: (counts, held(), list(members)))


def alike(*names: str, **options: Any) -> dict[str, dict[str, Any]]:
    """Return members of these names with the same options."""
    return dict.fromkeys(names, options)


def wait_consumed(java: Workbench, consumer_ids: list[str], count: int) -> None:
    """Wait until these consumers have finished so many messages together."""
    wait_until(lambda: sum(int(java.call("consumed", id=each)) for each in consumer_ids) >= count, timeout_s=120)


def produce(java: Workbench, topic: str, queues: Sequence[str], count: int) -> None:
    """Send so many messages to each queue."""
    for queue in queues:
        java.produce(topic, count, queue=queue, batch=100)
