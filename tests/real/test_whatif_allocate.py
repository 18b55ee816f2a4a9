"""`whatif allocate` on running groups of Java push consumers: what is, what was foretold, and what then came."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from typing import Any, NamedTuple

import pytest

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_json import loads
from tests.real.harness.conditions import wait_until

from .differential.asker import Asker
from .harness.cluster import Cluster
from .harness.held import held, held_when_quiet
from .harness.rmqctl import Rmqctl

_BROKERS = ("broker-a", "broker-b")
_CLASSES = {
    "averagely": "AllocateMessageQueueAveragely",
    "circle": "AllocateMessageQueueAveragelyByCircle",
    "consistent-hash": "AllocateMessageQueueConsistentHash",
}
_IP = "10.6.0.1"


class _Queue(NamedTuple):
    topic: str
    broker_name: str
    queue_id: int


_Shares = Mapping[str, frozenset[_Queue]]


class _Members:
    """Java push consumers of one group. Each is called by its instance name, which makes its client id known."""

    def __init__(self, cluster: Cluster, group: str, topic: str, **options: object) -> None:
        self.group, self.topics = group, (topic, f"%RETRY%{group}")
        self._java, self._options, self._ids = cluster.java, options, dict[str, str]()

    def start(self, *names: str, **options: object) -> None:
        """Start consumers; `options` go before those of the group."""
        for name in names:
            self._ids[name] = self._java.consume(
                f"{self.group}-{name}", self.group, self.topics[0],
                **{"instance": name, "ip": _IP, **self._options, **options},
            )  # fmt: skip

    def stop(self, *names: str) -> None:
        for name in names or tuple(self._ids):
            self._java.stop(f"{self.group}-{name}")
            del self._ids[name]

    def id_of(self, name: str) -> str:
        return self._ids[name]

    def held(self) -> _Shares:
        """Return what each client holds, by Java's own table."""
        return {
            client_id: frozenset(
                _Queue(topic, broker_name, int(queue_id))
                for topic in self.topics
                for broker_name, queue_id in (
                    text.split(":") for text in self._java.queues(f"{self.group}-{name}", topic)
                )
            )
            for name, client_id in self._ids.items()
        }  # fmt: skip

    def settle(self, *, queue_count: int | None = None) -> _Shares:
        """Have all of them share now instead of within 50 s, until nothing moves any more; return who holds what.

        With `queue_count` until so many queues, those of the retry topic included, have one owner each.
        """
        give_up_at = time.monotonic() + 60
        before: _Shares | None = None
        while True:
            for name in self._ids:
                self._java.call("rebalance", id=f"{self.group}-{name}")
            time.sleep(0.5)
            now = self.held()
            owned = Counter(queue for share in now.values() for queue in share)
            if now == before and (queue_count is None or len(owned) == owned.total() == queue_count):
                return now
            assert time.monotonic() < give_up_at, f"{self.group} did not settle: {now}"
            before = now


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """A topic of 4 queues at each broker that all groups share but those that change it."""
    cluster.create_topic("Shares")
    return "Shares"


@contextmanager
def _members(cluster: Cluster, group: str, topic: str, **options: object) -> Iterator[_Members]:
    """Stop in the end what consumers of a group the test has started."""
    members = _Members(cluster, group, topic, **options)
    try:
        yield members
    finally:
        members.stop()


def _shares(allocation: Mapping[str, Collection[Mapping[str, Any]]]) -> _Shares:
    return {
        client_id: frozenset(_Queue(item["topic"], item["brokerName"], item["queueId"]) for item in share)
        for client_id, share in allocation.items()
    }


def _ask(rmqctl: Rmqctl, group: str, *words: str) -> dict[str, Any]:
    (item,) = rmqctl.items("whatif", "allocate", group, "--sample", "0s", *words)
    return item


def _codes(item: Mapping[str, Any]) -> set[str]:
    return {concern["code"] for concern in item["concerns"]}


@pytest.mark.parametrize("strategy", _CLASSES)
def test_what_is_foretold_comes(cluster: Cluster, rmqctl: Rmqctl, topic: str, strategy: str) -> None:
    group = f"Foretold-{strategy}"
    with _members(cluster, group, topic, strategy=_CLASSES[strategy]) as members:
        members.start("m1", "m3", "m5")
        held_now = members.settle(queue_count=10)

        item = _ask(rmqctl, group)
        assert (item["strategy"], item["isAsComputed"], item["differingClientIds"]) == (strategy, True, [])
        assert strategy in item["looksLike"]
        assert not (set(_CLASSES) - {strategy}) & set(item["looksLike"])
        assert _shares(item["before"]["allocation"]) == _shares(item["allocation"]) == held_now
        assert (item["movedCount"], item["queueCount"], item["clientCount"]) == (0, 10, 3)

        # Between the others, so that it moves more than its own share.
        foretold = _ask(rmqctl, group, "--add-clients", f"{_IP}@m2")
        members.start("m2")
        came = members.settle(queue_count=10)
        assert _shares(foretold["before"]["allocation"]) == held_now
        _check(foretold, held_now, came)
        held_now = came

        foretold = _ask(rmqctl, group, "--remove-clients", members.id_of("m1"))
        members.stop("m1")
        _check(foretold, held_now, members.settle(queue_count=10))


def test_queues_that_come_are_shared_as_foretold(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Growing")
    with ExitStack() as stack:
        groups = [
            stack.enter_context(_members(cluster, f"Growing-{strategy}", "Growing", strategy=name))
            for strategy, name in _CLASSES.items()
        ]
        for members in groups:
            members.start("m1", "m2", "m3")
        held_now = [members.settle(queue_count=10) for members in groups]
        foretold = [_ask(rmqctl, members.group, "--queues", "+2") for members in groups]
        cluster.create_topic("Growing", queue_count=6)
        came = [members.settle(queue_count=14) for members in groups]
        after = _ask(rmqctl, groups[0].group)

    for item, before, now in zip(foretold, held_now, came, strict=True):
        _check(item, before, now)
        assert _shares({"": item["addedQueues"]})[""] == {
            _Queue("Growing", name, queue_id) for name in _BROKERS for queue_id in (4, 5)
        }
    assert (after["isAsComputed"], after["queueCount"]) == (True, 14)


def _check(foretold: Mapping[str, Any], before: _Shares, after: _Shares) -> None:
    """Compare who was said to get what, and what to move between whom, with what came."""
    assert _shares(foretold["allocation"]) == after
    owners = [
        {queue: client_id for client_id, share in shares.items() for queue in share} for shares in (before, after)
    ]
    said = {
        _Queue(item["topic"], item["brokerName"], item["queueId"]): (*item["before"], *item["after"])
        for item in foretold["moved"]
    }
    done = {queue: (owners[0][queue], owners[1][queue]) for queue in owners[0] if owners[0][queue] != owners[1][queue]}
    assert said == done
    assert foretold["movedCount"] == len(done)
    gained = {item["clientId"]: _shares({"": item["gained"]})[""] for item in foretold["clients"]}
    assert gained == {
        client_id: after.get(client_id, frozenset()) - before.get(client_id, frozenset())
        for client_id in {*before, *after}
    }


@pytest.mark.smoke
def test_what_is_held_equals_mqadmin(cluster: Cluster, rmqctl: Rmqctl, topic: str) -> None:
    with _members(cluster, "HeldGroup", topic) as members:
        members.start("m1", "m2", "m3")
        members.settle(queue_count=10)
        item = _ask(rmqctl, "HeldGroup")
        printed = {
            client_id: cluster.java.mqadmin("consumerStatus", "-g", "HeldGroup", "-i", client_id)
            for client_id in item["allocation"]
        }

    for client_id, share in _shares(item["before"]["allocation"]).items():
        rows = re.findall(r"^(\S+)\s+(broker-[ab])\s+(\d+)\s", printed[client_id], re.MULTILINE)
        assert {_Queue(topic, name, int(queue_id)) for topic, name, queue_id in rows} == share
    assert item["isAsComputed"] is True


def test_a_client_of_unknown_id_moves_no_more_than_is_said(cluster: Cluster, rmqctl: Rmqctl, topic: str) -> None:
    with _members(cluster, "UnnamedGroup", topic) as members:
        members.start("m1", "m2")
        before = members.settle(queue_count=10)
        foretold = _ask(rmqctl, "UnnamedGroup", "--add-clients", "1")
        # It calls itself by address, process and time of its start, and sorts before the others.
        members.start("late", instance="DEFAULT", ip="10.5.255.9")
        late = members.id_of("late")
        came = members.settle(queue_count=10)

    assert re.fullmatch(r"10\.5\.255\.9@\d+#\d+", late)
    moved_count = sum(queue not in came[client_id] for client_id, share in before.items() for queue in share)
    # Without an id it is taken to sort last, where the least moves.
    assert (foretold["movedCount"], foretold["mostMovedCount"]) == (3, 7)
    assert moved_count == 7
    assert "NEW_IDS_UNKNOWN" in _codes(foretold)


def test_members_that_share_by_different_strategies_are_told(cluster: Cluster, rmqctl: Rmqctl, topic: str) -> None:
    with _members(cluster, "TornShares", topic) as members:
        members.start("m1")
        members.start("m2", strategy=_CLASSES["circle"])
        members.start("m3")
        held_now = members.settle()
        item = _ask(rmqctl, "TornShares")
        text = rmqctl("whatif", "allocate", "TornShares")

    counts = Counter(queue for share in held_now.values() for queue in share)
    every = {_Queue(topic, name, i) for name in _BROKERS for i in range(4)}
    every |= {_Queue("%RETRY%TornShares", name, 0) for name in _BROKERS}
    assert max(counts.values()) > 1
    assert every - counts.keys()
    assert _shares(item["before"]["allocation"]) == held_now
    assert (item["isAsComputed"], item["looksLike"]) == (None, [])
    assert item["reasons"]["isAsComputed"] == "STRATEGIES_DIFFER"
    assert "STRATEGIES_DIFFER" in _codes(item)
    assert "averagely, circle" in text.stderr


def test_an_orderly_group_hears_of_locks(cluster: Cluster, rmqctl: Rmqctl, topic: str) -> None:
    with _members(cluster, "OrderlyShares", topic, orderly="yes") as members:
        members.start("m1", "m2")
        held_now = members.settle(queue_count=10)
        as_it_is = _ask(rmqctl, "OrderlyShares")
        leaving = _ask(rmqctl, "OrderlyShares", "--remove-clients", members.id_of("m1"))
        coming = _ask(rmqctl, "OrderlyShares", "--add-clients", f"{_IP}@m3")
        members.start("m3")
        came = members.settle(queue_count=10)

    assert (as_it_is["isAsComputed"], _shares(as_it_is["before"]["allocation"])) == (True, held_now)
    assert not {"ORDERLY_QUEUES_STALL", "ORDERLY_QUEUES_MOVE", "ORDERLY_MIXED"} & _codes(as_it_is)
    assert "ORDERLY_QUEUES_STALL" in _codes(leaving)
    assert "ORDERLY_QUEUES_MOVE" in _codes(coming)
    assert _shares(coming["allocation"]) == came


@pytest.mark.since_5
@pytest.mark.parametrize("share_count", [0, 1])
def test_a_popping_group_has_what_brokers_assign(
    cluster: Cluster, rmqctl: Rmqctl, topic: str, share_count: int
) -> None:
    group = f"PopShares{share_count}"
    with _members(cluster, group, topic, pop="yes") as members:
        for broker in cluster.brokers.values():
            cluster.java.mqadmin(
                "setConsumeMode", "-b", broker.address, "-t", topic, "-g", group, "-m", "POP", "-q", str(share_count)
            )
        members.start("m1", "m2", "m3", "m4")
        members.settle()
        assigned = _assigned(cluster, members)
        item = _ask(rmqctl, group)
        foretold = _ask(rmqctl, group, "--add-clients", f"{_IP}@m5")
        members.start("m5")
        members.settle()
        came = _assigned(cluster, members)

    popped = {queue.queue_id for share in assigned.values() for queue in share if queue.topic == topic}
    assert popped == ({0, 1, 2, 3} if share_count else {-1})
    assert (item["strategy"], item["isAsComputed"], item["looksLike"]) == ("pop-share", True, ["pop-share"])
    assert _shares(item["before"]["allocation"]) == _shares(item["allocation"]) == assigned
    assert (item["movedCount"], item["unownedCount"]) == (0, 0)
    assert _shares(foretold["allocation"]) == came


def _assigned(cluster: Cluster, members: _Members) -> _Shares:
    """Return what brokers answer each client that asks for its queues (QUERY_ASSIGNMENT), all of them the same."""
    shares: dict[str, frozenset[_Queue]] = dict.fromkeys(members.held(), frozenset())
    with ExitStack() as stack:
        askers = [
            stack.enter_context(closing(Asker(cluster.namesrv, broker.address, version=cluster.version, suffix="")))
            for broker in cluster.brokers.values()
        ]
        for client_id, topic in product(shares, members.topics):
            wanted = {
                "clientId": client_id, "consumerGroup": members.group, "messageModel": "CLUSTERING",
                "strategyName": "AVG", "topic": topic,
            }  # fmt: skip
            # A broker that has not heard of the last member yet shares as before it.
            shares[client_id] |= _agreed(askers, wanted)
    return shares


def _agreed(askers: Sequence[Asker], wanted: dict[str, str]) -> frozenset[_Queue]:
    answers: set[frozenset[_Queue]] = set()

    def is_agreed() -> bool:
        answers.clear()
        for asker in askers:
            answers.add(_queues_of(asker("broker", RequestCode.QUERY_ASSIGNMENT, wanted), wanted["topic"]))
        return len(answers) == 1

    wait_until(is_agreed, 30, lambda: answers)
    return answers.pop()


def _queues_of(answer: Command | None, topic: str) -> frozenset[_Queue]:
    assert answer is not None
    assert answer.code == 0, answer.remark
    rows = loads(answer.body)["messageQueueAssignments"]
    # What is to be tried again is pulled, by whom it is dealt to.
    assert {row["mode"] for row in rows} <= {"PULL" if topic.startswith("%RETRY%") else "POP"}
    queues = [row["messageQueue"] for row in rows]
    return frozenset(_Queue(mq["topic"], mq["brokerName"], mq["queueId"]) for mq in queues)


def test_asking_leaves_no_trace(cluster: Cluster, rmqctl: Rmqctl, topic: str) -> None:
    with _members(cluster, "TracelessShares", topic) as members:
        members.start("m1", "m2")
        members.settle(queue_count=10)
        cluster.java.produce(topic, 16)
        cluster.java.wait_consumed("TracelessShares-m1 TracelessShares-m2", 16)
        for name in ("m1", "m2"):
            cluster.java.persist(f"TracelessShares-{name}")
        before = held_when_quiet(cluster.namesrv, ["TracelessShares"])
        for words in (
            ("--add-clients", "2"), ("--remove-clients", "1"), ("--queues", "+4"), ("--add-brokers", "1"),
            ("--remove-broker", "broker-a"), ("--compare", "all"), ("--topic", topic),
        ):  # fmt: skip
            assert rmqctl("whatif", "allocate", "TracelessShares", "--sample", "0s", *words).exit_code == 0
        measured = rmqctl("whatif", "allocate", "TracelessShares", "-o", "json")
        assert (measured.exit_code, measured.document["errors"]) == (0, [])
        assert held(cluster.namesrv, ["TracelessShares"]) == before
