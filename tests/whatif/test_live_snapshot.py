from __future__ import annotations

import pytest

from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.whatif.group_snapshot import LiveGroup
from rmqctl.whatif.live_snapshot import work_of
from tests.admin.cluster import BrokerState, Cluster, Group, Queue
from tests.scripted_peer import SILENCE
from tests.whatif.groups import AS_AVERAGELY, CIRCLE, RETRY, T, asked, fetch, group_cluster, says, sharing


def _live(cluster: Cluster, *topics: str, sample_s: float = 0) -> LiveGroup:
    live = fetch(cluster, *topics, sample_s=sample_s).snapshot.live
    assert live is not None
    return live


def test_queues_are_those_of_the_routes_and_clients_those_that_brokers_name() -> None:
    found = fetch(sharing())
    assert found.snapshot.queues == tuple(T)
    assert found.snapshot.client_ids == ("c1", "c2", "c3")
    assert (found.state, found.failures) == (GroupState.ONLINE, ())


def test_a_member_tells_what_it_holds_and_how_it_shares() -> None:
    member = _live(sharing(strategy=CIRCLE, PROP_CONSUMEORDERLY="true")).members["c2"]
    assert member.held == frozenset(AS_AVERAGELY["c2"])
    assert (member.strategy, member.is_orderly, member.pops) == ("circle", True, False)
    assert member.topics == {"T", RETRY}


def test_a_client_that_does_not_say_its_topics_may_want_all() -> None:
    member = _live(sharing(topics=())).members["c1"]
    assert member.topics is None
    assert member.may_want("anything")


def test_the_retry_topic_is_shared_too_and_dead_letters_are_not() -> None:
    cluster = sharing()
    for broker in cluster.brokers.values():
        broker.topics |= {RETRY: [Queue()], "%DLQ%G": [Queue(3)]}
    assert fetch(cluster).snapshot.topics == (RETRY, "T")
    # Whoever names a topic asks about that one.
    assert fetch(cluster, "T").snapshot.topics == ("T",)


def test_without_members_it_is_about_the_topics_that_the_group_has_offsets_in() -> None:
    found = fetch(group_cluster({}))
    assert found.snapshot.queues == tuple(T)
    assert (found.snapshot.client_ids, found.state) == ((), GroupState.EMPTY)


def test_a_silent_member_is_named_and_counts_all_the_same() -> None:
    cluster = group_cluster({"c1": says(AS_AVERAGELY["c1"]), "c2": SILENCE, "c3": says(AS_AVERAGELY["c3"])})
    found = fetch(cluster)
    live = found.snapshot.live
    assert live is not None
    assert (live.silent, sorted(live.members)) == (("c2",), ["c1", "c3"])
    assert found.snapshot.client_ids == ("c1", "c2", "c3")
    assert [failure.what for failure in found.failures] == ["running info of c2"]


def test_an_id_stands_as_often_as_one_broker_lists_it() -> None:
    cluster = sharing()
    cluster.brokers["broker-a"].groups["G"].addresses["c1"] = ["192.0.2.2:50000", "192.0.2.9:50001"]
    assert fetch(cluster).snapshot.client_ids == ("c1", "c1", "c2", "c3")


def test_brokers_that_name_different_members_are_kept_apart() -> None:
    cluster = sharing()
    members = dict(cluster.brokers["broker-a"].groups["G"].members)
    del members["c3"]
    cluster.brokers["broker-b"].groups["G"] = Group(members, ("T", RETRY))
    live = _live(cluster)
    assert live.views == {"broker-a": ("c1", "c2", "c3"), "broker-b": ("c1", "c2")}


def test_a_client_that_no_broker_of_a_topic_names_is_a_stranger_to_it() -> None:
    cluster = sharing({"c1": T[:4], "c2": T[4:]})
    c = BrokerState("broker-c", topics={"U": [Queue(5)]}, configured={"G"})
    c.groups["G"] = Group({"c1": cluster.brokers["broker-a"].groups["G"].members["c1"]}, ("U",))
    both = Cluster(*cluster.brokers.values(), c)
    snapshot = fetch(both).snapshot
    assert MessageQueue("U", "broker-c", 0) in snapshot.queues
    assert snapshot.strangers == {"U": {"c2"}}
    # While one of its brokers says nothing, nobody knows.
    both.stop("broker-c")
    assert fetch(both).snapshot.strangers == {}


def test_a_broker_that_does_not_answer_leaves_its_queues_in_and_its_numbers_open() -> None:
    cluster = sharing()
    cluster.stop("broker-b")
    found = fetch(cluster, sample_s=1)
    live = found.snapshot.live
    assert live is not None
    assert found.snapshot.queues == tuple(T)
    assert live.silent_brokers == ("broker-b",)
    assert {(failure.broker_name, type(failure.error)) for failure in found.failures} == {
        ("broker-b", UnreachableError)
    }
    work = work_of(found.snapshot)
    assert (work.lag[T[0]], work.lag[T[4]]) == (20, None)
    assert (work.rate[T[0]], T[4] in work.rate) == (0, False)
    assert {work.reasons[T[4]][name] for name in ("lag", "rate", "duplicateRisk")} == {Unknown.BROKER_UNREACHABLE}


def test_when_no_broker_answers_that_is_the_error() -> None:
    cluster = sharing()
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError):
        fetch(cluster)


def test_a_group_or_topic_that_there_is_not_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="Group H does not exist"):
        fetch(sharing(), group="H")
    with pytest.raises(NotFoundError, match="Topic V does not exist"):
        fetch(sharing(), "V")


def test_proxies_leave_open_whether_anybody_is_there() -> None:
    cluster = group_cluster({})
    cluster.brokers["broker-a"].groups["CID_DefaultHeartBeatSyncerTopic"] = Group({"proxy": says([])}, ())
    found = fetch(cluster)
    assert (found.state, found.unseen_reason) == (GroupState.UNKNOWN, Unknown.BEHIND_PROXY)
    assert found.snapshot.live is not None
    assert found.snapshot.live.unseen_reason is Unknown.BEHIND_PROXY


def test_popped_queues_are_held_too() -> None:
    everything = MessageQueue("T", "broker-a", -1)
    live = _live(group_cluster({"c1": says([], pops={everything: 3})}))
    assert live.members["c1"].held == {everything}
    assert live.is_popping
    assert not _live(sharing()).is_popping
    assert _live(group_cluster({"c1": says([])}, consume_type="CONSUME_POP")).is_popping


def test_retry_queues_that_never_held_a_message_have_no_work() -> None:
    cluster = sharing()
    for broker in cluster.brokers.values():
        broker.topics[RETRY] = [Queue()]
    snapshot = fetch(cluster).snapshot
    work = work_of(snapshot)
    unused = MessageQueue(RETRY, "broker-a", 0)
    assert unused in snapshot.queues
    assert (work.lag[unused], work.duplicate_risk[unused]) == (0, 0)


# Messages a second


def test_nothing_is_counted_without_time_to_look() -> None:
    cluster = sharing()
    live = _live(cluster)
    assert live.put_rates is None
    at_a = cluster.servers["broker-a"].codes()
    assert at_a.count(Q.GET_TOPIC_STATS_INFO) == 1  # of T, for its offsets


def test_messages_a_second_are_those_that_come_between_two_looks() -> None:
    cluster = sharing()
    a = cluster.brokers["broker-a"]
    first = cluster.clock.monotonic_s()
    table = cluster.servers["broker-a"].table
    answer = table[Q.GET_TOPIC_STATS_INFO]

    def growing(request: object) -> object:
        # 50 a second of queue 0, from the beginning.
        a.topics["T"][0].max_offset = 100 + int(50 * (cluster.clock.monotonic_s() - first))
        return answer

    table[Q.GET_TOPIC_STATS_INFO] = growing  # type: ignore[assignment]
    live = _live(cluster, sample_s=4)
    assert live.put_rates is not None
    assert live.put_rates[T[0]] == pytest.approx(50, rel=0.1)
    assert {live.put_rates[mq] for mq in T[1:]} == {0}


def test_only_requests_that_leave_no_trace_are_sent() -> None:
    cluster = sharing()
    fetch(cluster, sample_s=1)
    assert asked(cluster) == {
        Q.GET_CONSUME_STATS,
        Q.GET_CONSUMER_CONNECTION_LIST,
        Q.GET_TOPIC_STATS_INFO,
        Q.QUERY_CONSUME_TIME_SPAN,
        Q.GET_CONSUMER_RUNNING_INFO,
        Q.QUERY_CONSUMER_OFFSET,
        Q.GET_BROKER_CONFIG,
        Q.GET_BROKER_RUNTIME_INFO,
        Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    }


def test_how_many_pop_from_one_queue_is_what_brokers_were_told_else_their_own_setting() -> None:
    cluster = group_cluster({"c1": says([])}, consume_type="CONSUME_POP")
    a, b = cluster.brokers.values()
    assert _live(cluster).pop_share_count is None
    a.settings["defaultPopShareQueueNum"] = b.settings["defaultPopShareQueueNum"] = "-1"
    assert _live(cluster).pop_share_count == -1
    a.pop_shares = b.pop_shares = {"T": {"G": 2, "other": 1}, "U": {"G": 3}}
    assert _live(cluster).pop_share_count == 2
    b.pop_shares = {"T": {"G": 1}}
    assert _live(cluster).pop_share_count is None
    assert _live(sharing()).pop_share_count is None
