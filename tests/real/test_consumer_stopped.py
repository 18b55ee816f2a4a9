"""`consume run` that stands still, whose clock steps, or that ends beside a peer: messages come once, or it says so."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import find_strategy, sort_client_ids
from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.consumer import OurConsumer, OurConsumers, our_consumers
from .harness.faketime import SteppingClock
from .harness.rmqctl import Rmqctl

_QUEUES = tuple(f"{broker}:{number}" for broker in ("broker-a", "broker-b") for number in range(4))
_PATIENCE_S = 120.0


@pytest.fixture
def ours(cluster: Cluster, tmp_path: Path) -> Iterator[OurConsumers]:
    with our_consumers(cluster.namesrv, tmp_path / "ours") as made:
        yield made


class _Peer(Protocol):
    """A member that joins while the first one is stopped."""

    client_id: str

    def given(self) -> Counter[str]:
        """Return the bodies that its listener has finished."""

    def leave(self) -> None:
        """Leave the group; offsets are stored before."""


class _OurPeer:
    def __init__(self, ours: OurConsumers, group: str) -> None:
        self._member = ours("peer", group, group)
        self.client_id = self._member.wait_joined()

    def given(self) -> Counter[str]:
        return _given(self._member)

    def leave(self) -> None:
        assert self._member.terminate() == 0, self._member.said


class _JavaPeer:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self._java, self._name = cluster.java, f"java-{group}"
        self.client_id = self._java.consume(self._name, group, group, collect=1, instance=self._name)

    def given(self) -> Counter[str]:
        return Counter(self._java.bodies(self._name))

    def leave(self) -> None:
        self._java.call("shutdown", id=self._name)


def _wait_given(member: OurConsumer, bodies: Iterable[str], event: str = "DONE") -> None:
    wanted = set(bodies)
    wait_until(
        lambda: wanted <= _given(member, event).keys(), _PATIENCE_S,
        lambda: (sorted(wanted - _given(member, event).keys()), member.said),
    )  # fmt: skip


def _join(kind: str, cluster: Cluster, ours: OurConsumers, group: str) -> _Peer:
    return _JavaPeer(cluster, group) if kind == "java" else _OurPeer(ours, group)


def _given(member: OurConsumer, event: str = "DONE") -> Counter[str]:
    return Counter(each.body for each in member.heard(event))


def _send(cluster: Cluster, topic: str, count: int, prefix: str = "") -> Counter[str]:
    """Send so many messages to each queue; return their bodies, which end with queue and number."""
    for queue in _QUEUES:
        cluster.java.produce(topic, count, queue=queue, prefix=f"{prefix}{queue}-")
    return Counter(f"{prefix}{queue}-{number}" for queue in _QUEUES for number in range(count))


def _share(topic: str, own_id: str, other_id: str) -> set[str]:
    """Return the queues of one of two members."""
    queues = [MessageQueue(topic, *_split(queue)) for queue in _QUEUES]
    shares = find_strategy("averagely").allocate(queues, sort_client_ids([own_id, other_id]))
    return {f"{mq.broker_name}:{mq.queue_id}" for mq in shares[own_id]}


def _split(queue: str) -> tuple[str, int]:
    broker, _, number = queue.partition(":")
    return broker, int(number)


def _stored(rmqctl: Rmqctl, group: str) -> dict[str, int]:
    """Return the stored offset of each queue, 0 where none is stored."""
    # A stopped member does not answer: exit code 8.
    rows = rmqctl("offset", "show", group, "--topic", group, "-o", "json").document["items"]
    assert all(row["consumerOffset"] is not None or _is_never_stored(row) for row in rows), rows
    return {f"{row['brokerName']}:{row['queueId']}": row["consumerOffset"] or 0 for row in rows}


def _is_never_stored(row: dict[str, Any]) -> bool:
    return bool(row["reasons"]["consumerOffset"] == "NEVER_COMMITTED")


def _wait_stored(rmqctl: Rmqctl, group: str, offset: int) -> None:
    expected = dict.fromkeys(_QUEUES, offset)
    wait_until(lambda: _stored(rmqctl, group) == expected, _PATIENCE_S, lambda: _stored(rmqctl, group))


@contextmanager
def _stopped(member: OurConsumer, out_s: float) -> Iterator[None]:
    """Stop the process, and let it go on so much later, or once the block is done if that takes longer."""
    member.process.send_signal(signal.SIGSTOP)
    until_s = time.monotonic() + out_s
    try:
        time.sleep(1)
        yield
        time.sleep(max(0.0, until_s - time.monotonic()))
    finally:
        member.process.send_signal(signal.SIGCONT)


def _finish(cluster: Cluster, member: OurConsumer, peer: _Peer, sent: Counter[str], topic: str) -> Counter[str]:
    """Wait until all that was sent was consumed; return how often each message was."""
    wait_until(
        lambda: sent.keys() <= (_given(member) + peer.given()).keys(), _PATIENCE_S,
        lambda: (sorted(sent - (_given(member) + peer.given())), member.said),
    )  # fmt: skip
    # Behind these in its queue, nothing waits that could be consumed again.
    last = _send(cluster, topic, 1, "last")
    _wait_given(member, last)
    assert member.terminate() == 0, member.said
    return _given(member, "BEGAN") + peer.given() - last


def _twice(given: Counter[str]) -> set[str]:
    return {body for body, count in given.items() if count > 1}


# Stopped


@pytest.mark.parametrize("kind", ["ours", "java"])
@pytest.mark.parametrize("out_s", [8, 36, 62])
def test_what_a_peer_consumed_meanwhile_is_not_consumed_again(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers, out_s: int, kind: str
) -> None:
    """A broker counts a stopped member for 2 minutes, and answers the pulls that it holds for it."""
    topic = group = f"StoppedIdle-{kind}-{out_s}"
    cluster.create_topic(topic, queue_count=4)
    first = ours("first", group, topic)
    sent = _send(cluster, topic, 1, "before")
    _wait_stored(rmqctl, group, 1)
    with _stopped(first, out_s):
        peer = _join(kind, cluster, ours, group)
        own = _share(topic, peer.client_id, first.wait_joined())
        sent += _send(cluster, topic, 25)
        half = {f"{queue}-{number}" for queue in own for number in range(25)}
        wait_until(lambda: half <= peer.given().keys(), _PATIENCE_S, peer.given)
        peer.leave()
    given = _finish(cluster, first, peer, sent, topic)
    assert _twice(given) == set()
    assert given == sent
    assert "stopped" in first.said, first.said
    _wait_stored(rmqctl, group, 27)


@pytest.mark.parametrize("kind", ["ours", "java"])
@pytest.mark.parametrize("out_s", [8, 36])
def test_what_was_in_flight_is_consumed_twice_only_where_it_had_begun(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers, out_s: int, kind: str
) -> None:
    topic = group = f"StoppedBusy-{kind}-{out_s}"
    cluster.create_topic(topic, queue_count=4)
    sent = _send(cluster, topic, 13)
    first = ours("first", group, topic, "--workers", "2", EACH_S=0.5)
    wait_until(lambda: _given(first).total() >= 10, _PATIENCE_S, lambda: first.said)
    with _stopped(first, out_s):
        stored = _stored(rmqctl, group)
        uncommitted = {each.body for each in first.heard() if each.offset >= stored[each.queue]}
        peer = _join(kind, cluster, ours, group)
        own = _share(topic, peer.client_id, first.wait_joined())
        half = {f"{queue}-{number}" for queue in own for number in range(stored[queue], 13)}
        wait_until(lambda: half <= peer.given().keys(), _PATIENCE_S, peer.given)
        peer.leave()
    given = _finish(cluster, first, peer, sent, topic)
    # Two batches ran at the moment of the stop.
    assert len(_twice(given) - uncommitted) <= 2, (_twice(given), uncommitted)
    assert given.keys() == sent.keys()
    assert "stopped" in first.said, first.said
    _wait_stored(rmqctl, group, 14)


# Steps of the clock

# How long after the one before, and to how many s ahead of the right time. At last, each second looks like 3 minutes:
# whenever the member compares its queues with its share, its last pulls seem to be long ago.
_STEPS = ((4, 180), (6, -180), *((1, 180 * number) for number in range(24)))


def test_steps_of_the_clock_repeat_nothing(
    cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers, tmp_path: Path
) -> None:
    topic = group = "SteppingClock"
    cluster.create_topic(topic, queue_count=4)
    sent = _send(cluster, topic, 4)
    clock = SteppingClock(tmp_path / "clock")
    member = ours("ours", group, topic, "--workers", "2", EACH_S=2, **clock.environment)
    for after_s, skew_s in _STEPS:
        time.sleep(after_s)
        clock.set(skew_s)
    _wait_given(member, sent)
    # It did go by this clock.
    assert max(each.at_ms for each in member.heard()) / 1000 > time.time() + 100
    last = _send(cluster, topic, 1, "last")
    _wait_given(member, last)
    assert member.terminate() == 0, member.said
    assert _given(member, "BEGAN") == sent + last
    _wait_stored(rmqctl, group, 5)


# The end


@pytest.mark.since_5
@pytest.mark.timeout(600)
def test_a_long_drain_stores_what_it_waited_for(cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers) -> None:
    """Longer than the 2 minutes after which a queue that is not pulled is given up. Both ways to end, side by side."""
    groups = ("DrainedLong-signal", "DrainedLong-count")
    members, sent = {}, Counter[str]()
    for group in groups:
        cluster.create_topic(group, queue_count=4)
        sent = _send(cluster, group, 1)
        count = ("--count", str(len(_QUEUES))) if group.endswith("count") else ()
        words = ("--workers", "8", "--drain", "5m", *count)
        members[group] = ours(group, group, group, *words, joins=False, EACH_S=180)
    for group, member in members.items():
        _wait_given(member, sent, "BEGAN")
        if group.endswith("signal"):
            member.process.send_signal(signal.SIGINT)
    for group, member in members.items():
        assert member.process.wait(400) == 0, (group, member.said)
        assert _given(member) == sent
        _wait_stored(rmqctl, group, 1)
    for group in groups:
        second = ours(f"{group}-again", group, group)
        last = _send(cluster, group, 1, "last")
        _wait_given(second, last)
        assert second.terminate() == 0, second.said
        assert _given(second, "BEGAN") == last


def test_a_drain_beside_a_new_peer_tells_the_truth(cluster: Cluster, rmqctl: Rmqctl, ours: OurConsumers) -> None:
    topic = group = "DrainedBesidePeer"
    cluster.create_topic(topic, queue_count=4)
    sent = _send(cluster, topic, 1)
    first = ours("first", group, topic, "--workers", "8", "--drain", "5m", EACH_S=40)
    _wait_given(first, sent, "BEGAN")
    first.process.send_signal(signal.SIGINT)
    time.sleep(3)
    peer = ours("peer", group, topic)
    code = first.process.wait(_PATIENCE_S)
    last = _send(cluster, topic, 1, "last")
    _wait_given(peer, last)
    assert peer.terminate() == 0, peer.said
    given = _given(first, "BEGAN") + _given(peer, "BEGAN") - last
    assert given.keys() == sent.keys()
    twice = {queue for queue in _QUEUES if f"{queue}-0" in _twice(given)}
    unnamed = {queue for queue in twice if f"{topic}@{queue}" not in first.said}
    assert (code, unnamed) == (8 if twice else 0, set()), (twice, first.said)
