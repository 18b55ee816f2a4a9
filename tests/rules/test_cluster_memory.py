from __future__ import annotations

import pytest

from rmqctl.model.cluster_memory import ClusterMemory, Expectation, SeenBroker, SeenQueues, Sightings
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Absence, BrokerData, ClusterInfo, QueueData, TopicRoute
from rmqctl.rules.cluster_memory import (
    expect,
    forget_broker,
    is_forgotten,
    is_much_newer,
    master_missing,
    may_hold,
    merge_memories,
    not_after,
    not_registered,
    remember,
    topics_of_missing,
    with_missing_brokers,
    with_missing_queues,
    with_routed_brokers,
)

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000
A, B = BrokerData("C", "broker-a", {0: "a:1"}), BrokerData("C", "broker-b", {0: "b:1"})


def _seen(ago_ms: int = 0, address: str = "b:1") -> SeenBroker:
    return SeenBroker("C", address, NOW_MS - ago_ms)


def _queues(count: int = 4, ago_ms: int = 0) -> SeenQueues:
    return SeenQueues(count, count, 6, NOW_MS - ago_ms)


MEMORY = ClusterMemory(
    {"broker-a": _seen(address="a:1"), "broker-b": _seen(60_000)},
    {"T": {"broker-a": _queues(), "broker-b": _queues(3, 1_000)}, "U": {"broker-a": _queues()}},
)


def _expect(memory: ClusterMemory = MEMORY, *named: str, counts_ms: int = DAY_MS) -> Expectation:
    return expect(memory, named=named, now_ms=NOW_MS, counts_ms=counts_ms)


def test_a_broker_that_was_registered_and_is_not_now_is_missing() -> None:
    cluster = with_missing_brokers(ClusterInfo((A,)), _expect())
    assert [broker.broker_name for broker in cluster.brokers] == ["broker-a", "broker-b"]
    (missing,) = cluster.missing
    assert (missing.cluster, dict(missing.addresses), missing.read_addresses) == ("C", {}, ())
    assert cluster.registered == (A,)
    error = not_registered(missing, NOW_MS)
    assert error.sentence == "broker-b: not registered; rmqctl last saw it at 07:59:00 UTC."
    assert (error.exit_code, error.name, error.last_seen_ms) == (6, "NOT_REGISTERED", NOW_MS - 60_000)
    assert "--forget-broker broker-b" in (error.hint or "")


def test_one_that_registers_elsewhere_has_only_moved() -> None:
    moved = BrokerData("C", "broker-b", {0: "elsewhere:1"})
    assert with_missing_brokers(ClusterInfo((A, moved)), _expect()).missing == ()


def test_memory_counts_for_a_time_and_then_fades() -> None:
    old = ClusterMemory({"broker-b": _seen(2 * DAY_MS)})
    assert _expect(old).brokers == {}
    assert list(_expect(old).faded) == ["broker-b"]
    assert list(_expect(old, counts_ms=3 * DAY_MS).brokers) == ["broker-b"]
    assert _expect(counts_ms=0).brokers == {}


def test_a_context_that_names_brokers_decides_alone() -> None:
    expectation = _expect(MEMORY, "broker-a", "broker-z")
    assert expectation.brokers == {"broker-a": MEMORY.brokers["broker-a"], "broker-z": None}
    cluster = with_missing_brokers(ClusterInfo((A, B)), expectation)
    (missing,) = cluster.missing
    assert (missing.cluster, missing.broker_name) == ("C", "broker-z")
    assert not_registered(missing, NOW_MS).sentence == (
        "broker-z: not registered with the name servers, though the context names it."
    )


def test_a_broker_that_only_routes_name_is_missing_unless_one_has_its_address() -> None:
    queues = tuple(QueueData(name, 4, 4, is_readable=True, is_writable=True) for name in ("broker-a", "broker-b"))
    routes = [TopicRoute(topic, queues, (A,)) for topic in ("U", "T", "T")]
    (missing,) = with_routed_brokers(ClusterInfo((A,)), routes).missing
    error = not_registered(missing, NOW_MS)
    assert (missing.cluster, missing.broker_name) == ("C", "broker-b")
    assert error.reason == "not registered with the name servers, though the route of T and 1 more names it"
    assert error.hint is not None
    assert "topic route T" in error.hint
    assert with_routed_brokers(ClusterInfo((A, B)), routes) == ClusterInfo((A, B))
    assert with_routed_brokers(ClusterInfo((A,)), [*routes, TopicRoute("V", queues, (A, B))]) == ClusterInfo((A, B))


@pytest.mark.parametrize(
    ("broker", "reason"),
    [
        (A, None),
        (BrokerData("C", "broker-b", {}), "the name server does not list its address"),
        (BrokerData("C", "broker-b", {1: "b:1"}), "no master is registered"),
        (BrokerData("C", "broker-b", {}, Absence(NOW_MS)), "not registered; rmqctl last saw it at 08:00:00 UTC"),
    ],
)
def test_why_a_broker_has_no_master(broker: BrokerData, reason: str | None) -> None:
    error = master_missing(broker, NOW_MS)
    assert (None if error is None else error.reason) == reason


def test_the_hint_for_a_broker_that_a_context_names_is_not_to_forget_it() -> None:
    (missing,) = with_missing_brokers(ClusterInfo((A,)), _expect(MEMORY, "broker-b")).missing
    assert "--forget-broker" not in (not_registered(missing, NOW_MS).hint or "")


def test_queues_of_a_missing_broker_are_in_its_topics_routes() -> None:
    expectation = _expect()
    missing = with_missing_brokers(ClusterInfo((A,)), expectation).missing
    live = TopicRoute("T", (QueueData("broker-a", 4, 4, is_readable=True, is_writable=True),), (A,))
    route = with_missing_queues("T", live, missing, expectation)
    assert route is not None
    assert route.queue_data == live.queue_data
    assert len(route.readable_queues()) == 4
    assert route.missing_queues() == tuple(MessageQueue("T", "broker-b", number) for number in range(3))
    assert [broker.broker_name for broker in route.brokers] == ["broker-a", "broker-b"]
    # A topic that only the missing broker had has no route any more, and is known all the same.
    alone = with_missing_queues("T", None, missing, expectation)
    assert alone is not None
    assert (alone.queue_data, len(alone.missing_queues())) == ((), 3)
    assert with_missing_queues("U", None, missing, expectation) is None
    assert with_missing_queues("T", live, (), expectation) is live
    assert topics_of_missing(expectation, missing) == {"T"}


@pytest.mark.parametrize(("topic", "may"), [("T", True), ("U", False), ("never-seen", True)])
def test_what_a_missing_broker_may_hold(topic: str, *, may: bool) -> None:
    assert may_hold(topic, "broker-b", _expect()) is may


def test_a_run_is_remembered_and_what_was_removed_on_purpose_is_not() -> None:
    seen = Sightings(brokers={"broker-a": _seen(address="a:1")}, topics={"T": {}, "V": {"broker-a": _queues(1)}})
    after = remember(MEMORY, seen, NOW_MS)
    # T has no route any more: broker-a is there and was stripped of it, broker-b is away and keeps it.
    assert {topic: set(by_broker) for topic, by_broker in after.topics.items()} == {
        "T": {"broker-b"},
        "U": {"broker-a"},
        "V": {"broker-a"},
    }
    assert after.brokers["broker-b"] == MEMORY.brokers["broker-b"]


def test_while_a_broker_is_missing_no_new_topic_is_learned() -> None:
    seen = Sightings(brokers={"broker-a": _seen()}, topics={"V": {"broker-a": _queues(1)}}, has_missing=True)
    after = remember(MEMORY, seen, NOW_MS)
    assert "V" not in after.topics
    assert may_hold("V", "broker-b", _expect(after))


def test_what_brokers_tell_is_added_and_takes_nothing_away() -> None:
    seen = Sightings(
        brokers={"broker-a": _seen(), "broker-b": _seen()},
        reported={"T": {"broker-a": _queues(9)}, "V": {"broker-b": _queues(1)}},
    )
    after = remember(MEMORY, seen, NOW_MS)
    assert {name: each.read_queue_count for name, each in after.topics["T"].items()} == {"broker-a": 9, "broker-b": 3}
    assert list(after.topics["V"]) == ["broker-b"]
    seen.has_missing = True
    assert "V" not in remember(MEMORY, seen, NOW_MS).topics


def test_queues_that_only_members_hold_make_their_broker_one_that_was_there() -> None:
    seen = Sightings(brokers={"broker-a": _seen()}, held={"T": {"broker-x": 3}})
    after = remember(ClusterMemory(), seen, NOW_MS)
    assert after.brokers["broker-x"] == SeenBroker("", None, NOW_MS, is_held=True)
    assert after.topics == {"T": {"broker-x": SeenQueues(3, 3, 6, NOW_MS)}}
    (missing,) = with_missing_brokers(ClusterInfo((A,)), _expect(after)).missing[-1:]
    reason = "not registered, though members held its queues at 08:00:00 UTC"
    assert not_registered(missing, NOW_MS).reason == reason
    later = remember(after, seen, NOW_MS + 1)
    assert later.brokers["broker-x"].last_seen_ms == NOW_MS + 1
    # Members that have not heard of it yet do not bring back what the operator says is gone.
    forgotten = forget_broker(after, "broker-x", NOW_MS + 2)
    again = remember(forgotten, seen, NOW_MS + 3)
    assert (list(again.brokers), again.topics, again.forgotten) == (["broker-a"], {}, forgotten.forgotten)


def test_a_broker_is_forgotten_with_its_queues() -> None:
    after = forget_broker(MEMORY, "broker-b", NOW_MS)
    assert list(after.brokers) == ["broker-a"]
    assert after.topics == {"T": {"broker-a": _queues()}, "U": {"broker-a": _queues()}}


def test_of_many_brokers_that_are_gone_those_seen_last_are_remembered_however_long_ago() -> None:
    old = ClusterMemory({f"old-{number:03}": _seen((400 - number) * DAY_MS) for number in range(150)})
    after = remember(old, Sightings(brokers={"broker-a": _seen()}), NOW_MS)
    assert sorted(after.brokers) == ["broker-a", *(f"old-{number:03}" for number in range(50, 150))]


def test_what_was_noted_while_the_clock_was_ahead_was_seen_by_now() -> None:
    ahead = ClusterMemory({"broker-a": _seen(-3_600_000), "broker-b": _seen(60_000)}, {}, {"broker-c": NOW_MS + 1})
    back = not_after(ahead, NOW_MS)
    assert {name: seen.last_seen_ms for name, seen in back.brokers.items()} == {
        "broker-a": NOW_MS,
        "broker-b": NOW_MS - 60_000,
    }
    assert back.forgotten == {"broker-c": NOW_MS}
    assert is_much_newer(ahead, back, 5_000)


def test_what_was_forgotten_counts_nowhere_until_it_is_seen_again() -> None:
    forgotten = forget_broker(MEMORY, "broker-b", NOW_MS)
    journal = ClusterMemory({"broker-b": _seen(60_000)}, {"T": {"broker-b": _queues(3)}})
    merged = merge_memories([forgotten, journal])
    assert "broker-b" not in merged.brokers
    assert list(merged.topics["T"]) == ["broker-a"]
    seen = Sightings(brokers={"broker-b": SeenBroker("C", "b:1", NOW_MS + 1)})
    assert remember(forgotten, seen, NOW_MS + 1).forgotten == {}


def test_several_name_servers_memories_are_one() -> None:
    newer = ClusterMemory({"broker-b": _seen(), "broker-c": _seen()}, {"T": {"broker-b": _queues(5)}})
    merged = merge_memories([MEMORY, newer])
    assert merged.brokers["broker-b"].last_seen_ms == NOW_MS
    assert set(merged.brokers) == {"broker-a", "broker-b", "broker-c"}
    assert merged.topics["T"]["broker-b"].read_queue_count == 5
    assert merge_memories([]) == ClusterMemory()


def test_a_memory_is_written_again_when_it_says_something_else_or_is_old() -> None:
    def later(ms: int) -> ClusterMemory:
        return ClusterMemory({"broker-a": SeenBroker("C", "a:1", NOW_MS + ms)})

    assert not is_much_newer(later(0), later(4_999), 5_000)
    assert is_much_newer(later(0), later(5_000), 5_000)
    assert is_much_newer(ClusterMemory(), later(0), 5_000)
    assert is_much_newer(later(0), ClusterMemory({"broker-a": SeenBroker("C", "x:1", NOW_MS)}), 5_000)


def test_a_long_run_adds_nothing_that_is_older_than_the_memory() -> None:
    """It may have seen a broker before another run did, or before the operator had it forgotten."""
    seen = Sightings(brokers={"broker-b": _seen(120_000)})
    assert remember(MEMORY, seen, NOW_MS).brokers["broker-b"] == _seen(60_000)
    forgotten = forget_broker(MEMORY, "broker-b", NOW_MS - 90_000)
    assert "broker-b" not in remember(forgotten, seen, NOW_MS).brokers
    assert "broker-b" in remember(forgotten, Sightings(brokers={"broker-b": _seen(30_000)}), NOW_MS).brokers
    expectation = _expect(forgotten)
    assert [is_forgotten(expectation, "broker-b", NOW_MS - ago_ms) for ago_ms in (120_000, 30_000)] == [True, False]
