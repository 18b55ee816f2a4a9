"""`rmqctl diagnose` on real brokers with real Java clients: each fault is named, and nothing is that is none.

A test makes several groups at once and diagnoses them in one run: one that sees what may be a rebalance waits 55 s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple

import pytest

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.consuming import heartbeat
from rmqctl.rules.subscriptions import make_subscription, retry_subscription

from .harness.cluster import Cluster
from .harness.process import QUICK_START
from .harness.rmqctl import PATIENT, Rmqctl
from .harness.waiting import wait_until
from .harness.workbench import Workbench

_QUEUES = 4  # at each of two brokers
_LIMIT_S = 400
# Routes are asked for every 30 s, and queues shared every 20 s: so long clients of a new group may take over its retry
# topic.
_SETTLE = "55s"


class Group(NamedTuple):
    """A group to make, and the codes of severity WARNING and above that are true of it.

    `members` are options of Java's push consumers by name. `held` and `retry` say when they have settled: how often
    queues of `topic` and of the retry topic are held in all; `retry_queues` how many of the latter are.
    """

    expected: frozenset[str]
    members: Mapping[str, Mapping[str, Any]]
    topic: str = ""
    held: int = 2 * _QUEUES
    brokers: tuple[str, ...] = ()
    queue_count: int = _QUEUES
    retry: int = 2
    retry_queues: int | None = None


def _codes(*codes: str) -> frozenset[str]:
    return frozenset(codes)


class Found(NamedTuple):
    """What one run found: the codes of WARNING and above by group, all findings, and what is said of each group."""

    codes: dict[str, frozenset[str]]
    items: dict[str, list[dict[str, Any]]]
    groups: dict[str, dict[str, Any]]
    exit_code: int


def _diagnose(rmqctl: Rmqctl, pattern: str, *words: str) -> Found:
    # A deadline that a busy machine meets: an answer that is late would leave checks open.
    result = rmqctl("diagnose", pattern, *words, "--timeout", PATIENT, "-o", "json", limit_s=300)
    assert result.exit_code in (0, 8), result.stderr
    document = result.document
    groups = {each["group"]: each for each in document["groups"]}
    items: dict[str, list[dict[str, Any]]] = {name: [] for name in groups}
    for item in document["items"]:
        items[item["group"]].append(item)
    codes = {name: frozenset(item["code"] for item in own if item["severity"] != "INFO") for name, own in items.items()}
    return Found(codes, items, groups, result.exit_code)


def _check(found: Found, expected: Mapping[str, frozenset[str]]) -> None:
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
def _another_jvm(cluster: Cluster) -> Iterator[Workbench]:
    """Run a second JVM: two clients of one id can't be in the same one, and it can be stopped for a while."""
    other = Workbench(cluster.version, cluster.folder, cluster.namesrv, jvm=QUICK_START)
    try:
        yield other
    finally:
        other.close()


@contextmanager
def _running(cluster: Cluster, groups: Mapping[str, Group], other: Workbench | None = None) -> Iterator[None]:
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
            _wait_held(own, {group.topic or name: group.held, f"%RETRY%{name}": group.retry}, retry_queues)
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


def _wait_held(members: Mapping[str, Workbench], counts: Mapping[str, int], retry_queues: int = 0) -> None:
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
        for key, java in members.items():  # routes and members anew, rather than in 30 s and 20 s
            java.call("rebalance", id=key)
        time.sleep(1)
        return False

    wait_until(is_so, timeout_s=120, why=lambda: (counts, held(), list(members)))


@pytest.mark.smoke
def test_filters_that_differ_are_found(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("DiagSmoke")
    for name, tags in (("one", "TagA"), ("two", "TagB")):
        cluster.java.consume(f"smoke-{name}", "DiagSmoke", "DiagSmoke", expr=tags, instance=f"smoke-{name}")
    try:
        wait_until(
            lambda: (
                "SUB001"
                in _diagnose(rmqctl, "DiagSmoke", "--for", "0s", "--settle", "0s", "--only", "SUB").codes["DiagSmoke"]
            ),
            timeout_s=120,
        )
        result = rmqctl("explain", "SUB001")
        assert (result.exit_code, "GROUP" in result.stdout) == (0, True)
    finally:
        for name in ("one", "two"):
            cluster.java.stop(f"smoke-{name}")


_SUBSCRIPTIONS = {
    "DiagSub-Tags": Group(_codes("SUB001"), {"one": {"expr": "TagA"}, "two": {"expr": "TagB"}}),
    "DiagSub-Types": Group(_codes("SUB003"), {"one": {"expr": "TagA"}, "two": {"sql": "TAGS = 'TagA'"}}),
    "DiagSub-Sql": Group(_codes("SUB001"), {"one": {"sql": "a > 1"}, "two": {"sql": "a > 2"}}),
    # Half of the second topic's queues are the share of who does not subscribe to it.
    "DiagSub-Topics": Group(_codes("SUB002", "ALO003"), {"one": {"also": "DiagSub-Other"}, "two": {}}),
}


@pytest.mark.timeout(_LIMIT_S)
def test_members_that_do_not_agree_what_to_read(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with _running(cluster, _SUBSCRIPTIONS):
        found = _diagnose(rmqctl, "DiagSub-*")
    _check(found, {name: group.expected for name, group in _SUBSCRIPTIONS.items()})


def _alike(*names: str, **options: Any) -> dict[str, dict[str, Any]]:
    return dict.fromkeys(names, options)


_HEALTHY = {
    "DiagFine-Two": Group(_codes(), _alike("one", "two")),
    # As clients are unless told otherwise: a heartbeat each 30 s.
    "DiagFine-Slow": Group(_codes(), _alike("one", "two", heartbeat=30_000)),
    "DiagFine-Many": Group(_codes(), _alike("one", "two", "three"), held=2, queue_count=1),
    "DiagFine-Topics": Group(_codes(), _alike("one", "two", also="DiagFine-Other")),
    "DiagFine-Cast": Group(_codes(), _alike("one", "two", broadcast=1), held=4 * _QUEUES, retry=0),
    "DiagFine-Order": Group(_codes(), _alike("one", "two", orderly=1)),
    "DiagFine-Hash": Group(_codes(), _alike("one", "two", strategy="AllocateMessageQueueConsistentHash")),
    "DiagFine-Circle": Group(_codes(), _alike("one", "two", strategy="AllocateMessageQueueAveragelyByCircle")),
    "DiagFine-Tags": Group(_codes(), {"one": {"expr": "TagA || TagB"}, "two": {"expr": "TagB||TagA"}}),
}
# At a broker without the topic there may be no group: clients of 5.x send it no heartbeat, those of 4.9 do.
_LONELY = Group(_codes(), _alike("one", "two"), held=_QUEUES, brokers=("broker-a",))
# What is sent is read by all of them; one topic gets nothing.
_SENT = ("DiagFine-Two", "DiagFine-Slow", "DiagFine-Many", "DiagFine-Topics", "DiagFine-Cast", "DiagFine-Order")


@pytest.mark.timeout(_LIMIT_S)
def test_nothing_is_wrong_with_groups_that_consume(cluster: Cluster, rmqctl: Rmqctl) -> None:
    java = cluster.java
    is_5 = cluster.version.startswith("5")
    groups = {**_HEALTHY, "DiagFine-Lonely": _LONELY._replace(retry=1 if is_5 else 2)}
    expected = {name: group.expected for name, group in groups.items()}
    for name in ("DiagFine-Lite", "DiagFine-Offline", "DiagFine-Pop", "DiagFine-Fresh"):
        cluster.create_topic(name)
    java.produce("DiagFine-Offline", 40)
    java.consume("offline", "DiagFine-Offline", "DiagFine-Offline")
    java.wait_consumed("offline", 40)
    java.stop("offline")
    others = ["fresh"]
    java.consume("fresh", "DiagFine-Fresh", "DiagFine-Fresh")
    for number in range(2):
        java.lite(f"lite{number}", "DiagFine-Lite", "DiagFine-Lite")
        java.poll_on(f"lite{number}")
        others.append(f"lite{number}")
    if is_5:
        for address in cluster.addresses.values():
            java.mqadmin(
                "setConsumeMode", "-b", address, "-t", "DiagFine-Pop", "-g", "DiagFine-Pop", "-m", "POP", "-q", "0"
            )
        for number in range(2):
            java.consume(f"pop{number}", "DiagFine-Pop", "DiagFine-Pop", pop=1, instance=f"fine-pop{number}")
            others.append(f"pop{number}")
    try:
        with _running(cluster, groups):
            for topic in (*_SENT, "DiagFine-Lite", "DiagFine-Pop"):
                java.produce(topic, 80)
            for name in _SENT:
                _wait_consumed(java, [f"{name} {member}" for member in _HEALTHY[name].members], 80)
            _wait_consumed(java, ["lite0", "lite1"], 80)
            if "pop0" in others:
                _wait_consumed(java, ["pop0", "pop1"], 80)
            found = _diagnose(rmqctl, "DiagFine-*")
    finally:
        for consumer_id in others:
            java.stop(consumer_id)
    expected |= {name: _codes() for name in ("DiagFine-Lite", "DiagFine-Offline", "DiagFine-Fresh")}
    if is_5:
        expected["DiagFine-Pop"] = _codes()
    _check(found, expected)
    # 4.9.7's client has known defects.
    known = [] if is_5 else ["VER001"]
    assert sorted(item["code"] for item in found.items["DiagFine-Many"]) == ["MEM008", *known]


def _wait_consumed(java: Workbench, consumer_ids: list[str], count: int) -> None:
    wait_until(lambda: sum(int(java.call("consumed", id=each)) for each in consumer_ids) >= count, timeout_s=120)


# How members differ, one group each.
_MEMBERS = {
    # Both take the first half; the other half is the share that the second one is counted for.
    "DiagMember-Shared": Group(
        _codes("MEM001", "ALO003"),
        {"one": {"instance": "DiagMember-same"}, "two": {"instance": "DiagMember-same", "other": 1}},
        retry_queues=1,
    ),
    "DiagMember-Models": Group(_codes("MEM003"), {"one": {}, "two": {"broadcast": 1}}, held=3 * _QUEUES, retry=1),
    # Brokers nearly always have the model of who is heard more often.
    "DiagMember-Seldom": Group(
        _codes("MEM003"), {"one": {}, "two": {"broadcast": 1, "heartbeat": 30_000}}, held=3 * _QUEUES, retry=1
    ),
    "DiagMember-Types": Group(_codes("MEM004"), {"one": {}, "two": {"lite": 1}}, held=_QUEUES, retry=1),
    "DiagMember-Strategies": Group(
        _codes("ALO001", "ALO003", "ALO004"), {"one": {}, "two": {"strategy": "AllocateMessageQueueAveragelyByCircle"}}
    ),
    # Their retry limits differ as well: orderly members have none.
    "DiagMember-Order": Group(_codes("MEM007"), {"one": {}, "two": {"orderly": 1}}),
    "DiagMember-From": Group(_codes("MEM006"), {"one": {"from": "first"}, "two": {"from": "last"}}),
    "DiagMember-Timeout": Group(_codes("MEM006"), {"one": {}, "two": {"timeout": 5}}),
    "DiagMember-Retries": Group(_codes("MEM006"), {"one": {}, "two": {"max": 3}}),
}


@pytest.mark.timeout(_LIMIT_S)
def test_members_that_differ(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with _another_jvm(cluster) as other, _running(cluster, _MEMBERS, other):
        found = _diagnose(rmqctl, "DiagMember-*")
    _check(found, {name: group.expected for name, group in _MEMBERS.items()})


_REFUSED = {
    "DiagPull-Off": Group(_codes("PUL001", "CFG001"), _alike("one")),
    "DiagPull-Retry": Group(_codes("RTY001"), _alike("one")),
    "DiagPull-Cast": Group(_codes("PUL003"), _alike("one", "two", broadcast=1), held=4 * _QUEUES, retry=0),
    "DiagPull-Closed": Group(_codes("PUL004"), _alike("one", "two"), held=2 * _QUEUES),
    "DiagPull-Fine": Group(_codes(), _alike("one")),
}
_FORBIDDEN = {
    "DiagPull-Topic": Group(_codes("PUL002"), _alike("one")),
    # Forbidden is another topic, which nobody wants.
    "DiagPull-Elsewhere": Group(_codes(), _alike("one")),
}


@pytest.mark.timeout(_LIMIT_S)
def test_pulls_that_brokers_refuse(cluster: Cluster, rmqctl: Rmqctl) -> None:
    groups = {**_REFUSED, **(_FORBIDDEN if cluster.version.startswith("5") else {})}
    cluster.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "DiagPull-Cast", "-d", "true")
    with _running(cluster, groups):
        for words in (
            ("DiagPull-Off", "--no-consume", "--broker", "broker-a"),
            ("DiagPull-Retry", "--set", "retryQueueNums=0"),
            ("DiagPull-Cast", "--no-broadcast"),
        ):
            changed = rmqctl("group", "update", *words, "--yes")
            assert changed.exit_code == 0, changed.stderr
        cluster.create_topic("DiagPull-Closed", brokers=("broker-a",), perm=2)
        for name, topic in (("DiagPull-Topic", "DiagPull-Topic"), ("DiagPull-Elsewhere", "DiagPull-Fine")):
            for broker_name in cluster.brokers if name in groups else ():
                _forbid(cluster, broker_name, name, topic)
        # Routes are asked for every 30 s.
        closed = {f"DiagPull-Closed {member}": cluster.java for member in ("one", "two")}
        _wait_held(closed, {"DiagPull-Closed": _QUEUES})
        found = _diagnose(rmqctl, "DiagPull-*")
    _check(found, {name: group.expected for name, group in groups.items()})
    assert {item["topic"] for item in found.items["DiagPull-Closed"] if item["code"] == "PUL004"} == {"DiagPull-Closed"}


def _forbid(cluster: Cluster, broker_name: str, group: str, topic: str) -> None:
    with closing(cluster.asker(broker_name)) as asker:
        answer = asker("broker", RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group=group, topic=topic, readable=False)
    assert answer is not None, broker_name
    assert answer.code == 0, answer.remark


def _store(cluster: Cluster, group: str, topic: str) -> None:
    """Store the offset 0 of a group without members in all queues."""
    cluster.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", group)
    for broker_name in cluster.brokers:
        with closing(cluster.asker(broker_name)) as asker:
            for queue_id in range(_QUEUES):
                answer = asker(
                    "broker", RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id,
                    commitOffset=0,
                )  # fmt: skip
                assert answer is not None, broker_name
                assert answer.code == 0, answer.remark


def _produce(java: Workbench, topic: str, queues: Sequence[str], count: int) -> None:
    for queue in queues:
        java.produce(topic, count, queue=queue, batch=100)


@pytest.mark.timeout(_LIMIT_S)
def test_lag_and_messages_that_are_not_where_the_others_are(cluster: Cluster, rmqctl: Rmqctl) -> None:
    every = [f"{broker_name}:{queue_id}" for broker_name in cluster.brokers for queue_id in range(_QUEUES)]
    at_a = [queue for queue in every if queue.startswith("broker-a")]
    sent: dict[str, tuple[Sequence[str], int, frozenset[str]]] = {
        "DiagLag-Queue": (["broker-a:0"], 3000, _codes("SKW001", "OFF005")),
        "DiagLag-Broker": (at_a, 1500, _codes("SKW002", "OFF005")),
        "DiagLag-Even": (every, 1000, _codes("OFF005")),
        # So few are caught up with at once.
        "DiagLag-Few": (["broker-b:3"], 100, _codes("OFF005")),
        "DiagLag-None": ([], 0, _codes()),
    }
    for name, (queues, count, _) in sent.items():
        cluster.create_topic(name)
        _store(cluster, name, name)
        _produce(cluster.java, name, queues, count)
    hot = {"DiagLag-Hot": Group(_codes("SKW003"), _alike("one", "two"))}
    with _another_jvm(cluster) as other, _running(cluster, hot):
        is_over = threading.Event()

        def send() -> None:
            while not is_over.is_set():
                other.produce("DiagLag-Hot", 100, queue="broker-b:2", rate=300)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            _wait_consumed(cluster.java, ["DiagLag-Hot one", "DiagLag-Hot two"], 300)
            found = _diagnose(rmqctl, "DiagLag-*", "--for", "5s")
        finally:
            is_over.set()
            sender.join()
    _check(found, {name: codes for name, (_, _, codes) in sent.items()} | {"DiagLag-Hot": _codes("SKW003")})


_GHOSTS = {
    # The ghost's filter stays, and is newer than any that a member can have within the hour.
    "DiagGhost-Gone": Group(_codes("SUB004", "SUB006"), {"one": {"expr": "TagA"}}),
    "DiagGhost-Alike": Group(_codes("SUB006"), {"one": {"expr": "TagB"}}),
    # It is still there, and does not tell what it wants.
    "DiagGhost-There": Group(_codes("SUB006"), {"one": {"expr": "TagA"}}),
}


@pytest.mark.timeout(_LIMIT_S)
def test_brokers_that_keep_the_filter_of_a_fast_clock(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with _running(cluster, _GHOSTS), ExitStack() as stack:
        for name in _GHOSTS:
            subscription = make_subscription(name, "TagB", version_ms=int(time.time() * 1000) + 3_600_000)
            for broker_name in cluster.brokers:
                said = heartbeat(f"10.0.0.9@{name}-ghost", name, [subscription, retry_subscription(name)])
                asker = cluster.asker(broker_name)
                answer = asker.connection("broker").ask(said)
                assert answer is not None, broker_name
                assert answer.code == 0, answer.remark
                if name == "DiagGhost-There":
                    stack.callback(asker.close)
                else:
                    asker.close()
        keys = {f"{name} one": name for name in _GHOSTS}
        for key, name in keys.items():
            _wait_held({key: cluster.java}, {name: _QUEUES if name == "DiagGhost-There" else 2 * _QUEUES})
        found = _diagnose(rmqctl, "DiagGhost-*")
    _check(found, {name: group.expected for name, group in _GHOSTS.items()})


@pytest.mark.timeout(_LIMIT_S)
def test_a_member_that_does_not_answer_leaves_checks_open(cluster: Cluster, rmqctl: Rmqctl) -> None:
    groups = {"DiagSilent-One": Group(_codes(), {"one": {}, "two": {"other": 1}})}
    with _another_jvm(cluster) as other, _running(cluster, groups, other):
        other.java.pause()
        try:
            found = _diagnose(rmqctl, "DiagSilent-*")
        finally:
            other.java.resume()
    _check(found, {"DiagSilent-One": _codes()})
    assert "MEM009" in [item["code"] for item in found.items["DiagSilent-One"]]
    (unknown,) = found.groups["DiagSilent-One"]["unknown"]
    assert unknown["need"] == "MEMBERS"
    assert {"ALO003", "ALO004", "SUB001"} <= set(unknown["codes"])
    assert found.exit_code == 8


@pytest.mark.timeout(_LIMIT_S)
def test_a_rebalance_is_no_fault(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """One member joins the moment before; of another group, one member after the other is started again."""
    java = cluster.java
    groups = {
        "DiagMove-Join": Group(_codes(), _alike("one", "two", heartbeat=30_000)),
        "DiagMove-Roll": Group(_codes(), _alike("one", "two", "three", heartbeat=30_000)),
    }
    is_over = threading.Event()

    def roll() -> None:
        """Restart one after the other, as deployments do: under another id each."""
        for number in range(100):
            key = f"DiagMove-Roll {('one', 'two', 'three')[number % 3]}"
            java.stop(key)
            java.consume(
                key, "DiagMove-Roll", "DiagMove-Roll", instance=f"DiagMove-{number}", threads=2, heartbeat=30_000
            )
            if is_over.wait(12):
                return

    with _running(cluster, groups):
        java.consume("third", "DiagMove-Join", "DiagMove-Join", instance="DiagMove-third", heartbeat=30_000)
        roller = threading.Thread(target=roll)
        roller.start()
        try:
            found = _diagnose(rmqctl, "DiagMove-*")
        finally:
            is_over.set()
            roller.join()
            java.stop("third")
    _check(found, {name: group.expected for name, group in groups.items()})


@pytest.mark.timeout(_LIMIT_S)
def test_nothing_is_wrong_with_groups_that_have_just_started(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Java's clients learn of their retry topic within 30 s, and share it 20 s later."""
    java = cluster.java
    groups = [f"DiagNew-{number}" for number in range(4)]
    for group in groups:
        cluster.create_topic(group)
    keys = [(f"{group} {member}", group) for group in groups for member in ("one", "two")]
    for key, group in keys:
        java.consume(key, group, group, instance=key.replace(" ", "-"), threads=2, heartbeat=30_000)
    try:
        found = _diagnose(rmqctl, "DiagNew-*", "--settle", _SETTLE)
    finally:
        for key, _ in keys:
            java.stop(key)
    _check(found, {group: _codes() for group in groups})
