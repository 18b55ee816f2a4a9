from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from rmqctl.admin.group_details import GroupDetails, fetch_group_details
from rmqctl.admin.groups.config import GroupConfigs, fetch_group_configs
from rmqctl.admin.groups.members import GroupMembers, fetch_group_members
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RemoteProtocolError, UnreachableError
from rmqctl.model.group import GroupState
from rmqctl.model.names import PROXY_GROUP
from rmqctl.model.progress import Unknown
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.offsets.test_group import HOSTILE
from tests.scripted_peer import SILENCE, V4_9_7, V5_4_0, Late, ok, passing, refused, run

from .cluster import BrokerState, Cluster, Group, Queue, held, running, subscribed

_T = TypeVar("_T")


def _brokers(version: int = V5_4_0) -> tuple[BrokerState, BrokerState]:
    """Return two brokers with a queue of T each; group G has one member, c1, which holds both queues."""
    a, b = (BrokerState(f"broker-{name}", version) for name in "ab")
    for broker in (a, b):
        broker.topics["T"] = [Queue(100)]
        broker.configured.add("G")
        broker.offsets["G"] = {"T": {0: 40}}
        queues = {("T", name, 0): held(commit=40) for name in ("broker-a", "broker-b")}
        broker.groups["G"] = Group({"c1": running(queues, subscriptions=[subscribed("T")])})
    return a, b


def _asking(cluster: Cluster, question: Callable[[Client], Awaitable[_T]], timeout_s: float = 10) -> _T:
    async def scenario() -> _T:
        async with cluster.client(timeout_s) as client:

            async def ask() -> _T:
                return await question(client)

            return await passing(cluster.clock, ask())

    return run(scenario())


def _members(cluster: Cluster, group: str = "G") -> GroupMembers:
    return _asking(cluster, lambda client: fetch_group_members(client, group))


def _configs(cluster: Cluster, group: str = "G") -> GroupConfigs:
    return _asking(cluster, lambda client: fetch_group_configs(client, group))


def _details(cluster: Cluster, group: str = "G") -> GroupDetails:
    return _asking(cluster, lambda client: fetch_group_details(client, group))


# Members


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_every_broker_and_every_member_is_asked(version: int) -> None:
    members = _members(Cluster(*_brokers(version)))
    assert (members.state, members.unseen_reason, members.failures) == (GroupState.ONLINE, None, ())
    for found in members.connections.values():
        assert found is not None
        assert [member.client_id for member in found.members] == ["c1"]
    assert [item.topic for item in members.running.ok["c1"].subscriptions] == ["T"]
    assert members.topic_brokers == {"T": ("broker-a", "broker-b")}


def test_what_each_broker_says_stays_its_own() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running()}, subscriptions={"T": subscribed("T", "A")})
    b.groups["G"] = Group({"c2": running()}, ("T", "U"), addresses={"c2": ["192.0.2.3:1", "192.0.2.4:1"]})
    members = _members(Cluster(a, b))
    at_a, at_b = members.connections["broker-a"], members.connections["broker-b"]
    assert at_a is not None
    assert at_b is not None
    assert [member.client_id for member in at_a.members] == ["c1"]
    assert [member.client_address for member in at_b.members] == ["192.0.2.3:1", "192.0.2.4:1"]
    assert at_a.subscriptions["T"].expression == "A"
    assert at_b.subscriptions["T"].expression == "*"
    assert sorted(members.running.ok) == ["c1", "c2"]
    # U has no route: that is no failure.
    assert (sorted(members.topic_brokers), members.failures) == (["T"], ())


def test_a_member_is_asked_through_a_broker_that_sees_it() -> None:
    a, b = _brokers()
    a.groups.clear()
    cluster = Cluster(a, b)
    members = _members(cluster)
    assert (members.connections["broker-a"], sorted(members.running.ok)) == (None, ["c1"])
    assert Q.GET_CONSUMER_RUNNING_INFO not in cluster.servers["broker-a"].codes()


def test_members_in_other_languages_that_do_not_answer_are_members_all_the_same() -> None:
    a, b = _brokers()
    for broker in (a, b):
        broker.groups["G"] = Group({"c1": running(), "cpp": SILENCE}, languages={"cpp": "CPP"})
    members = _members(Cluster(a, b))
    found = members.connections["broker-a"]
    assert found is not None
    assert {member.client_id: member.language for member in found.members} == {"c1": "JAVA", "cpp": "CPP"}
    assert (sorted(members.running.ok), sorted(members.running.failed)) == (["c1"], ["cpp"])
    (failure,) = members.failures
    assert (failure.broker_name, failure.what, failure.error.name) == (None, "running info of cpp", "TIMED_OUT")


def test_topics_that_only_a_members_own_word_tells_have_their_brokers() -> None:
    a, b = _brokers()
    b.topics["U"] = [Queue(0)]
    a.groups["G"] = b.groups["G"] = Group({"c1": running(subscriptions=[subscribed("U")])})
    assert _members(Cluster(a, b)).topic_brokers == {"T": ("broker-a", "broker-b"), "U": ("broker-b",)}


def test_a_group_of_200_members_is_read_in_one_go() -> None:
    a, b = _brokers()
    for broker in (a, b):
        broker.groups["G"] = Group({f"c{number:03}": Late(0.05, running()) for number in range(200)})
    cluster = Cluster(a, b)
    members = _members(cluster)
    assert len(members.running.ok) == 200
    assert members.failures == ()
    codes = [code for server in cluster.servers.values() for code in server.codes()]
    assert codes.count(Q.GET_CONSUMER_RUNNING_INFO) == 200


def test_a_group_without_members_is_empty() -> None:
    a, b = _brokers()
    a.groups.clear()
    b.groups.clear()
    members = _members(Cluster(a, b))
    assert (members.state, members.unseen_reason) == (GroupState.EMPTY, None)
    assert members.connections == {"broker-a": None, "broker-b": None}
    assert (members.running.ok, members.failures) == ({}, ())


def test_an_empty_list_of_connections_is_nobody() -> None:
    a, b = _brokers()
    a.groups["G"] = b.groups["G"] = Group({})
    assert _members(Cluster(a, b)).state is GroupState.EMPTY


def test_a_group_without_members_on_a_cluster_with_proxies_is_unknown() -> None:
    a, b = _brokers()
    a.groups = {PROXY_GROUP: Group({"proxy": running()})}
    b.groups.clear()
    members = _members(Cluster(a, b))
    assert (members.state, members.unseen_reason) == (GroupState.UNKNOWN, Unknown.BEHIND_PROXY)


def test_a_silent_broker_is_a_failure_and_the_others_members_stand() -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    members = _members(cluster)
    assert (members.state, sorted(members.connections)) == (GroupState.ONLINE, ["broker-a"])
    (failure,) = members.failures
    assert (failure.broker_name, failure.what, failure.error.name) == ("broker-b", "members", "UNREACHABLE")


def test_nobody_seen_and_a_silent_broker_is_unknown() -> None:
    a, b = _brokers()
    a.groups.clear()
    cluster = Cluster(a, b)
    cluster.stop("broker-b")
    members = _members(cluster)
    assert (members.state, members.unseen_reason) == (GroupState.UNKNOWN, Unknown.BROKER_UNREACHABLE)


_FETCHES: dict[str, Callable[[Client, str], Awaitable[object]]] = {
    "members": fetch_group_members,
    "configs": fetch_group_configs,
    "details": fetch_group_details,
}


@pytest.mark.parametrize("what", _FETCHES)
def test_nobody_answering_is_unreachable(what: str) -> None:
    cluster = Cluster(*_brokers())
    for name in cluster.brokers:
        cluster.stop(name)
    with pytest.raises(UnreachableError):
        _asking(cluster, lambda client: _FETCHES[what](client, "G"))


@pytest.mark.parametrize("what", _FETCHES)
def test_a_group_that_nobody_knows_is_not_found_with_names_alike(what: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        _asking(Cluster(*_brokers()), lambda client: _FETCHES[what](client, "g"))
    assert caught.value.suggestions == ("G",)


@pytest.mark.parametrize("what", _FETCHES)
def test_a_group_that_a_silent_broker_may_know_is_not_called_missing(what: str) -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError, match="broker-b could not be read"):
        _asking(cluster, lambda client: _FETCHES[what](client, "H"))


# Configurations


def test_each_brokers_configuration_is_its_own() -> None:
    a, b = _brokers()
    a.group_configs["G"] = {"retryQueueNums": 0, "consumeEnable": False}
    b.forbidden["G"] = {"T": 4}
    configs = _configs(Cluster(a, b))
    at_a, at_b = configs.configs["broker-a"], configs.configs["broker-b"]
    assert at_a is not None
    assert at_b is not None
    assert (at_a.retry_queue_count, at_a.consume_enable, at_a.forbidden_topics) == (0, False, ())
    assert (at_b.retry_queue_count, at_b.consume_enable, at_b.forbidden_topics) == (1, True, ("T",))
    assert at_a.fields["consumeTimeoutMinute"] == 15
    assert configs.failures == ()


def test_a_broker_without_the_group_has_none_and_one_that_is_silent_is_a_failure() -> None:
    a, b = _brokers()
    b.configured.clear()
    assert _configs(Cluster(a, b)).configs["broker-b"] is None
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    configs = _configs(cluster)
    assert sorted(configs.configs) == ["broker-a"]
    assert [(failure.broker_name, failure.what) for failure in configs.failures] == [("broker-b", "configuration")]


def test_a_configuration_is_read_without_creating_one() -> None:
    cluster = Cluster(*_brokers())
    with pytest.raises(NotFoundError):
        _configs(cluster, "new")
    asked = {code for server in cluster.servers.values() for code in server.codes()}
    assert asked == {Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Q.GET_ALL_CONSUMER_OFFSET}


def test_a_group_that_left_only_offsets_behind_is_not_called_missing() -> None:
    a, b = _brokers()
    a.offsets["left-over"] = {"T": {0: 1}}
    assert _configs(Cluster(a, b), "left-over").configs == {"broker-a": None, "broker-b": None}
    members = _members(Cluster(a, b), "left-over")
    assert (members.state, members.running.ok) == (GroupState.EMPTY, {})
    cluster = Cluster(a, b)
    cluster.stop("broker-b")
    assert _members(cluster, "left-over").state is GroupState.UNKNOWN


# All of it


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_all_of_a_group(version: int) -> None:
    details = _details(Cluster(*_brokers(version)))
    assert (details.progress.group, details.progress.state, details.failures) == ("G", GroupState.ONLINE, ())
    assert [(row.mq.broker_name, row.lag, row.client_ids) for row in details.progress.rows] == [
        ("broker-a", 60, ("c1",)),
        ("broker-b", 60, ("c1",)),
    ]
    assert sorted(details.configs) == sorted(details.connections) == ["broker-a", "broker-b"]
    assert (sorted(details.running.ok), details.dead_letter_count) == (["c1"], 0)


def test_dead_letters_that_are_kept_are_counted_on_all_brokers() -> None:
    a, b = _brokers()
    a.topics["%DLQ%G"] = [Queue(10, 4), Queue(1)]
    b.topics["%DLQ%G"] = [Queue(5, 5)]
    assert _details(Cluster(a, b)).dead_letter_count == 7


def test_dead_letters_are_unknown_while_a_broker_is_silent_or_refuses() -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    assert _details(cluster).dead_letter_count is None
    a, b = _brokers()
    cluster = Cluster(a, b)
    answers = cluster.servers["broker-b"].table
    usual = answers[Q.GET_TOPIC_STATS_INFO]
    broken = refused(R.SYSTEM_ERROR, "broken")
    answers[Q.GET_TOPIC_STATS_INFO] = lambda request: broken if "DLQ" in request.ext_fields["topic"] else usual
    details = _details(cluster)
    assert details.dead_letter_count is None
    assert [(failure.broker_name, failure.what) for failure in details.failures] == [("broker-b", "dead letters")]


def test_a_broker_that_does_not_tell_its_configurations_is_a_failure_and_the_rest_stands() -> None:
    cluster = Cluster(*_brokers())
    cluster.servers["broker-b"].table[Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = refused(R.SYSTEM_ERROR, "broken")
    details = _details(cluster)
    assert sorted(details.configs) == ["broker-a"]
    assert len(details.progress.rows) == 2
    assert [(failure.broker_name, failure.what) for failure in details.failures] == [("broker-b", "configuration")]


@pytest.mark.parametrize("code", [Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Q.GET_CONSUMER_CONNECTION_LIST])
def test_a_hostile_answer_of_one_broker_never_breaks_the_whole(code: Q) -> None:
    hostile = [*HOSTILE, b'{"subscriptionGroupTable":{"G":{"retryQueueNums":"0"}}}', b'{"connectionSet":[{}]}']
    for body in hostile:
        for what in (_members, _configs, _details):
            cluster = Cluster(*_brokers())
            cluster.servers["broker-b"].table[code] = ok(body)
            found = what(cluster)
            assert "broker-a" in (found.configs if isinstance(found, GroupConfigs) else found.connections)
            for failure in found.failures:
                assert isinstance(failure.error, RemoteProtocolError)


@pytest.mark.parametrize("addresses", ['{0:"gone:1",1:"a:1"}', '{1:"a:1"}'], ids=["master silent", "no master"])
def test_members_are_asked_through_the_slave_that_answered(addresses: str) -> None:
    cluster = Cluster(*_brokers())
    info = f'{{"brokerAddrTable":{{"broker-a":{{"brokerAddrs":{addresses},"brokerName":"broker-a"}}}}}}'
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(info.encode())
    members = _members(cluster)
    assert (members.state, sorted(members.running.ok)) == (GroupState.ONLINE, ["c1"])
    assert [failure.what for failure in members.failures] == ["master, its slave answered"]
    expected = "connection refused" if "gone" in addresses else "no master is registered"
    assert expected in members.failures[0].error.sentence


def test_members_are_asked_through_whichever_slave_answered() -> None:
    cluster = Cluster(_brokers()[0])
    cluster.network.add("slave2:1", cluster.brokers["broker-a"].table())
    cluster.network.refusing.add("slave1:1")
    cluster.stop("broker-a")
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"a:1",1:"slave1:1",2:"slave2:1"},"brokerName":"broker-a",'
        b'"cluster":"C"}}}'
    )
    members = _members(cluster)
    assert sorted(members.running.ok) == ["c1"]
    assert [failure.what for failure in members.failures] == ["master, its slave answered"]


def test_what_a_slave_lacks_is_not_known_of_its_broker() -> None:
    a, b = _brokers()
    a.groups, a.configured, a.offsets = {}, set(), {}
    cluster = Cluster(a, b)
    cluster.slaves = {"broker-a"}
    details = _details(cluster)
    assert (set(details.configs), set(details.connections)) == ({"broker-b"}, {"broker-b"})
    assert (details.dead_letters.value, details.dead_letters.reason) == (None, Unknown.SLAVE_ANSWERED)
    b.groups = {}
    members = _members(cluster)
    assert (members.state, members.unseen_reason) == (GroupState.UNKNOWN, Unknown.BROKER_UNREACHABLE)


def test_offsets_of_a_retry_topic_that_is_newer_than_its_route_are_no_leftovers() -> None:
    a, b = _brokers()
    a.offsets["G"] |= {"gone": {0: 5}, "%RETRY%G": {0: 5}, "%RETRY%H": {0: 5}}
    assert {mq.topic for mq in _details(Cluster(a, b)).leftovers} == {"gone"}
