"""What a cluster should have, according to earlier runs: which brokers and queues are missing now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from rmqctl.errors import NotRegisteredError, UnreachableError
from rmqctl.model.cluster_memory import ClusterMemory, Expectation, SeenBroker, SeenQueues, Sightings
from rmqctl.model.route import Absence, BrokerData, ClusterInfo, QueueData, TopicRoute
from rmqctl.model.topic import READ, WRITE
from rmqctl.text.times import short_time

# The most absent brokers remembered, those seen last. A limit by time would forget them when a clock jumps.
_MAX_GONE = 100


def merge_memories(memories: Collection[ClusterMemory]) -> ClusterMemory:
    """Merge the memories of several name servers; the newest sighting of each broker and queue counts."""
    brokers: dict[str, SeenBroker] = {}
    topics: dict[str, dict[str, SeenQueues]] = {}
    forgotten: dict[str, int] = {}
    for memory in memories:
        for name, at_ms in memory.forgotten.items():
            forgotten[name] = max(at_ms, forgotten.get(name, 0))
    for memory in memories:
        for name, seen in memory.brokers.items():
            if seen.last_seen_ms <= forgotten.get(name, 0):
                continue
            if name not in brokers or brokers[name].last_seen_ms < seen.last_seen_ms:
                brokers[name] = seen
        for topic, by_broker in memory.topics.items():
            known = topics.setdefault(topic, {})
            for name, queues in by_broker.items():
                if name not in known or known[name].last_seen_ms < queues.last_seen_ms:
                    known[name] = queues
    return ClusterMemory(
        brokers,
        {
            topic: kept
            for topic, by_broker in topics.items()
            if (kept := {name: each for name, each in by_broker.items() if name in brokers})
        },
        forgotten,
    )


def expect(memory: ClusterMemory, *, named: Collection[str], now_ms: int, counts_ms: int) -> Expectation:
    """Return what should exist: the brokers that a context names, else those seen within `counts_ms`.

    Where a context names brokers, or `counts_ms` is 0, no other remembered broker is expected.
    """
    recent = {name: seen for name, seen in memory.brokers.items() if now_ms - seen.last_seen_ms < counts_ms}
    expected = set(named) or set(recent)
    return Expectation(
        brokers={name: memory.brokers.get(name) for name in named} if named else dict(recent),
        topics=memory.topics,
        is_named=bool(named),
        is_first=not memory.topics,
        faded={name: seen for name, seen in memory.brokers.items() if name not in expected},
        forgotten=memory.forgotten,
    )


def with_missing_brokers(live: ClusterInfo, expectation: Expectation) -> ClusterInfo:
    """Return a cluster with the expected brokers that no name server lists."""
    there = {broker.broker_name for broker in live.brokers}
    clusters = {broker.cluster for broker in live.brokers}
    missing = [
        BrokerData(
            # A broker that was never seen is assumed to be in the only cluster there is.
            cluster=seen.cluster if seen is not None else min(clusters, default=""),
            broker_name=name,
            addresses={},
            absence=_absence(seen, is_named=expectation.is_named),
        )
        for name, seen in expectation.brokers.items()
        if name not in there
    ]
    brokers = sorted((*live.brokers, *missing), key=lambda broker: (broker.cluster, broker.broker_name))
    return ClusterInfo(tuple(brokers))


def _absence(seen: SeenBroker | None, *, is_named: bool) -> Absence:
    if seen is None:
        return Absence(None, None, is_named)
    return Absence(seen.last_seen_ms, seen.address, is_named, is_held=seen.is_held)


def without_broker(route: TopicRoute) -> set[str]:
    """Return the brokers whose queues a route lists but which it does not describe."""
    return {data.broker_name for data in route.queue_data} - {broker.broker_name for broker in route.brokers}


def only_routed(name: str, topics: Collection[str], cluster: str = "") -> BrokerData:
    """Return a missing broker that is known only from routes."""
    return BrokerData(cluster, name, {}, Absence(None, topics=tuple(sorted(topics))))


def with_routed_brokers(cluster: ClusterInfo, routes: Collection[TopicRoute]) -> ClusterInfo:
    """Return a cluster with the brokers that only routes name; one without an address in any route is missing."""
    there = {broker.broker_name for broker in cluster.brokers}
    routed: dict[str, BrokerData] = {}
    topics: dict[str, set[str]] = {}
    for route in routes:
        routed |= {broker.broker_name: broker for broker in route.brokers if broker.addresses}
        for data in route.queue_data:
            topics.setdefault(data.broker_name, set()).add(route.topic)
    known_cluster = min((broker.cluster for broker in cluster.brokers), default="")
    added = [routed.get(name) or only_routed(name, topics[name], known_cluster) for name in topics if name not in there]
    return ClusterInfo(
        tuple(sorted((*cluster.brokers, *added), key=lambda broker: (broker.cluster, broker.broker_name)))
    )


def not_registered(broker: BrokerData, now_ms: int) -> NotRegisteredError:
    """Return the error for a request to a broker that should be registered but is not."""
    absence = broker.absence or Absence(None)
    seen_ms, hint = absence.last_seen_ms, None
    if absence.topics:
        more = f" and {len(absence.topics) - 1} more" if len(absence.topics) > 1 else ""
        reason = f"not registered with the name servers, though the route of {absence.topics[0]}{more} names it"
        hint = f"rmqctl topic route {absence.topics[0]} shows which name servers name it."
    elif seen_ms is None:
        reason = "not registered with the name servers, though the context names it"
    elif absence.is_held:
        reason = f"not registered, though members held its queues at {short_time(seen_ms, now_ms)}"
    else:
        reason = f"not registered; rmqctl last saw it at {short_time(seen_ms, now_ms)}"
    if absence.is_named:
        hint = "Start it. If it was removed permanently, delete it from the context's brokers (rmqctl context set)."
    return NotRegisteredError(broker.broker_name, reason, seen_ms, hint=hint)


def master_missing(broker: BrokerData, now_ms: int) -> UnreachableError | None:
    """Return the error for a broker without a master to ask, None when it has one; all commands use this.

    Such a broker is not registered, is registered without an address, or has only slaves.
    """
    if broker.absence is not None:
        return not_registered(broker, now_ms)
    if not broker.addresses:
        return UnreachableError(broker.broker_name, "the name server does not list its address")
    if broker.master_address is None:
        hint = "Start its master: slaves answer reads with the data they have copied, but accept no writes."
        return UnreachableError(broker.broker_name, "no master is registered", hint=hint)
    return None


def lost_brokers(topic: str, live: TopicRoute | None, expectation: Expectation) -> set[str]:
    """Return the brokers that had queues of a topic but are not in its route; they may still be registered."""
    there = set() if live is None else {data.broker_name for data in live.queue_data}
    return set(expectation.topics.get(topic, {})) - there


def with_missing_queues(
    topic: str, live: TopicRoute | None, missing: Collection[BrokerData], expectation: Expectation
) -> TopicRoute | None:
    """Return a route with the queues of missing brokers; None when there is neither a route nor such a queue."""
    absent = {broker.broker_name: broker for broker in missing}
    lost = {
        name: queues
        for name, queues in sorted(expectation.topics.get(topic, {}).items())
        if name in absent and name in lost_brokers(topic, live, expectation)
    }
    if not lost:
        return live
    known = TopicRoute(topic, (), ()) if live is None else live
    there = {broker.broker_name for broker in known.brokers}
    return replace(
        known,
        brokers=(*known.brokers, *(absent[name] for name in lost if name not in there)),
        missing=tuple(queue_data(name, queues) for name, queues in lost.items()),
    )


def topics_of_missing(expectation: Expectation, missing: Collection[BrokerData]) -> set[str]:
    """Return the topics that had queues on brokers which are not registered now."""
    names = {broker.broker_name for broker in missing}
    return {topic for topic, by_broker in expectation.topics.items() if names & by_broker.keys()}


def may_hold(topic: str, broker_name: str, expectation: Expectation) -> bool:
    """Tell whether a missing broker may have queues of a topic; any broker may have queues of a topic never seen."""
    known = expectation.topics.get(topic)
    return known is None or broker_name in known


def queue_data(broker_name: str, seen: SeenQueues) -> QueueData:
    """Return remembered queues in the form of a route's."""
    return QueueData(
        broker_name=broker_name,
        read_queue_count=seen.read_queue_count,
        write_queue_count=seen.write_queue_count,
        is_readable=bool(seen.perm & READ),
        is_writable=bool(seen.perm & WRITE),
        perm=seen.perm,
    )


def is_forgotten(expectation: Expectation, broker_name: str, last_seen_ms: int) -> bool:
    """Tell whether the operator had a broker forgotten after it was last seen."""
    return last_seen_ms <= expectation.forgotten.get(broker_name, -1)


def seen_broker(broker: BrokerData, now_ms: int) -> SeenBroker:
    """Return a registered broker in the form in which it is remembered."""
    return SeenBroker(broker.cluster, broker.master_address, now_ms)


def seen_queues(route: TopicRoute, now_ms: int) -> dict[str, SeenQueues]:
    """Return a route's queues by broker name, in the form in which they are remembered."""
    return {
        data.broker_name: SeenQueues(data.read_queue_count, data.write_queue_count, data.perm, now_ms)
        for data in route.queue_data
    }


def remember(memory: ClusterMemory, seen: Sightings, now_ms: int) -> ClusterMemory:
    """Return the memory, updated with what a run saw.

    Queues of a topic on a registered broker that the route no longer names were removed on purpose, and are forgotten;
    queues on brokers that are not registered stay. While brokers are missing no new topic is learned, because it may
    have queues on them as well. A broker whose queues only members hold is remembered too, unless the operator had it
    forgotten: members learn of a removal later than others. A long run may have seen a broker before another run did,
    or before the operator had it forgotten.
    """
    gone = sorted(memory.brokers.keys() - seen.brokers.keys(), key=lambda name: memory.brokers[name].last_seen_ms)
    brokers = {name: memory.brokers[name] for name in gone[-_MAX_GONE:]} | {
        name: _newest(broker, memory.brokers.get(name))
        for name, broker in seen.brokers.items()
        if broker.last_seen_ms > memory.forgotten.get(name, -1)
    }
    topics = {topic: dict(by_broker) for topic, by_broker in memory.topics.items()}
    for topic, by_broker in seen.topics.items():
        if seen.has_missing and topic not in topics:
            continue  # its brokers cannot be learned now
        kept = {name: each for name, each in topics.get(topic, {}).items() if name not in seen.brokers}
        topics[topic] = kept | by_broker
    for topic, by_broker in seen.reported.items():
        if topic in topics or not seen.has_missing:
            topics[topic] = topics.get(topic, {}) | by_broker
    for topic, counts in seen.held.items():
        for name, count in counts.items():
            if name in memory.forgotten and name not in brokers:
                continue
            if name not in brokers or brokers[name].is_held:
                brokers[name] = SeenBroker("", None, now_ms, is_held=True)
            topics.setdefault(topic, {}).setdefault(name, SeenQueues(count, count, READ | WRITE, now_ms))
    known = {
        topic: kept
        for topic, by_broker in topics.items()
        if (kept := {name: each for name, each in by_broker.items() if name in brokers})
    }
    forgotten = {name: at_ms for name, at_ms in memory.forgotten.items() if name not in brokers}
    return ClusterMemory(brokers, known, forgotten)


def _newest(seen: SeenBroker, known: SeenBroker | None) -> SeenBroker:
    if known is None:
        return seen
    if known.last_seen_ms > seen.last_seen_ms:
        return known
    if seen.others is None:  # the address was not compared; the next run does it
        return replace(seen, others={at: at_ms for at, at_ms in addresses_of(known).items() if at != seen.address})
    return seen


def addresses_of(seen: SeenBroker | None) -> dict[str, int]:
    """Return the addresses at which masters of a broker's name were seen, and when last."""
    if seen is None:
        return {}
    return {**(seen.others or {}), **({} if seen.address is None else {seen.address: seen.last_seen_ms})}


def forget_broker(memory: ClusterMemory, name: str, now_ms: int) -> ClusterMemory:
    """Return the memory without a broker and its queues; earlier sightings in other memories are ignored too."""
    topics = {
        topic: {other: each for other, each in by_broker.items() if other != name}
        for topic, by_broker in memory.topics.items()
    }
    return ClusterMemory(
        {other: each for other, each in memory.brokers.items() if other != name},
        {topic: by_broker for topic, by_broker in topics.items() if by_broker},
        {**memory.forgotten, name: now_ms},
    )


def not_after(memory: ClusterMemory, now_ms: int) -> ClusterMemory:
    """Return the memory with no sighting later than now: such times were written while the clock was ahead."""
    return replace(
        memory,
        brokers={
            name: seen if seen.last_seen_ms <= now_ms else replace(seen, last_seen_ms=now_ms)
            for name, seen in memory.brokers.items()
        },
        forgotten={name: min(at_ms, now_ms) for name, at_ms in memory.forgotten.items()},
    )


def is_much_newer(before: ClusterMemory, after: ClusterMemory, step_ms: int) -> bool:
    """Tell whether a memory is worth writing: its content changed, or its times moved by at least `step_ms`.

    Times that went back count as well: the clock was ahead.
    """
    if _shape(before) != _shape(after):
        return True
    pairs = [(before.brokers[name].last_seen_ms, seen.last_seen_ms) for name, seen in after.brokers.items()]
    pairs += [
        (before.topics[topic][name].last_seen_ms, seen.last_seen_ms)
        for topic, by_broker in after.topics.items()
        for name, seen in by_broker.items()
    ]
    return any(abs(now_ms - then_ms) >= step_ms for then_ms, now_ms in pairs)


def _shape(memory: ClusterMemory) -> Any:
    brokers = {name: (seen.cluster, seen.address) for name, seen in memory.brokers.items()}
    topics: Mapping[str, Any] = {
        topic: {name: (seen.read_queue_count, seen.write_queue_count, seen.perm) for name, seen in by_broker.items()}
        for topic, by_broker in memory.topics.items()
    }
    return brokers, topics, set(memory.forgotten)
