from __future__ import annotations

from collections.abc import Callable

import pytest

from rmqctl.admin.groups.list import GroupList, fetch_group_list
from rmqctl.admin.groups.summary import GroupSummary
from rmqctl.diagnose.diagnosis import diagnose
from rmqctl.diagnose.group_facts import facts_of_summary
from rmqctl.diagnose.table import CHECKS
from rmqctl.errors import NoBrokerError, NotFoundError, RemoteProtocolError, UnreachableError
from rmqctl.model.group import GroupState
from rmqctl.model.names import PROXY_GROUP
from rmqctl.model.progress import Unknown
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import HOUR_MS, NOW_MS, BrokerState, Cluster, Group, Queue, running
from tests.admin.offsets.test_group import HOSTILE
from tests.scripted_peer import V4_9_7, V5_4_0, Reply, ok, passing, refused, run


def _brokers(version: int = V5_4_0) -> tuple[BrokerState, BrokerState]:
    """Return two brokers with a queue of T each; group G has come to 40 and 60 of 100."""
    a, b = (BrokerState(f"broker-{name}", version) for name in "ab")
    for broker in (a, b):
        broker.topics["T"] = [Queue(100)]
        broker.configured |= {"G", "TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS"}
    a.offsets["G"] = {"T": {0: 40}}
    b.offsets["G"] = {"T": {0: 60}}
    return a, b


def _fetch(cluster: Cluster, *patterns: str, with_system: bool = False) -> GroupList:
    async def scenario() -> GroupList:
        async with cluster.client() as client:
            return await passing(cluster.clock, fetch_group_list(client, patterns, with_system=with_system))

    return run(scenario())


def _group(groups: GroupList, name: str = "G") -> GroupSummary:
    (found,) = [group for group in groups.groups if group.group == name]
    return found


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_a_group_is_summed_over_all_brokers(version: int) -> None:
    groups = _fetch(Cluster(*_brokers(version)))
    assert [group.group for group in groups.groups] == ["G"]
    group = _group(groups)
    assert (group.lag, group.lag_at_least, group.lost) == (100, 100, 0)
    assert (group.state, group.member_count, group.topics) == (GroupState.EMPTY, 0, ("T",))
    assert group.broker_names == ("broker-a", "broker-b")
    assert groups.failures == ()
    assert {key: group.reasons[key] for key in ("consumeType", "messageModel", "clientVersion")} == {
        "consumeType": Unknown.NO_MEMBERS,
        "messageModel": Unknown.NO_MEMBERS,
        "clientVersion": Unknown.NO_MEMBERS,
    }


def test_system_groups_are_counted_and_shown_on_demand() -> None:
    cluster = Cluster(*_brokers())
    assert _fetch(cluster).hidden_system_count == 2
    shown = _fetch(cluster, with_system=True)
    assert [group.group for group in shown.groups] == ["CID_RMQ_SYS_TRANS", "G", "TOOLS_CONSUMER"]
    assert shown.hidden_system_count == 0


@pytest.mark.parametrize(
    ("patterns", "with_system", "names", "hidden_count"),
    [
        (["G"], False, ["G"], 0),
        (["?"], False, ["G"], 0),
        (["*"], False, ["G"], 2),
        (["*"], True, ["CID_RMQ_SYS_TRANS", "G", "TOOLS_CONSUMER"], 0),
        (["TOOLS*", "G"], False, ["G"], 1),
        (["TOOLS_CONSUMER"], False, ["TOOLS_CONSUMER"], 0),
    ],
)
def test_patterns_pick_and_who_names_a_system_group_sees_it(
    patterns: list[str], with_system: bool, names: list[str], hidden_count: int
) -> None:
    cluster = Cluster(*_brokers())
    groups = _fetch(cluster, *patterns, with_system=with_system)
    assert [group.group for group in groups.groups] == names
    assert groups.hidden_system_count == hidden_count


@pytest.mark.parametrize("pattern", ["x*", "g", "GG"])
def test_a_pattern_or_name_that_picks_none_is_not_found(pattern: str) -> None:
    with pytest.raises(NotFoundError):
        _fetch(Cluster(*_brokers()), pattern)


def test_a_group_is_known_by_its_configuration_or_by_its_offsets_alone() -> None:
    a, b = _brokers()
    a.configured.add("configured")
    b.offsets["stored"] = {"T": {0: 90}}
    groups = _fetch(Cluster(a, b))
    assert [group.group for group in groups.groups] == ["G", "configured", "stored"]
    configured, stored = _group(groups, "configured"), _group(groups, "stored")
    assert (configured.lag, configured.lag_at_least, configured.broker_names) == (None, 0, ("broker-a",))
    assert configured.reasons["lag"] is Unknown.NEVER_COMMITTED
    # broker-a has messages of the topic too, which the group never read.
    assert (stored.lag, stored.lag_at_least, stored.broker_names) == (None, 10, ("broker-b",))
    assert stored.reasons["lag"] is Unknown.NEVER_COMMITTED


def test_members_are_counted_once_by_client_id_and_the_oldest_version_is_told() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running(), "c2": running()}, client_version=V5_4_0)
    b.groups["G"] = Group({"c2": running(), "c3": running()}, client_version=V4_9_7)
    group = _group(_fetch(Cluster(a, b)))
    assert (group.state, group.member_count, group.client_version) == (GroupState.ONLINE, 3, "4.9.7")
    assert (group.message_model, group.consume_type) == ("CLUSTERING", "CONSUME_PASSIVELY")
    assert group.reasons == {}


def test_offsets_of_topics_that_a_live_group_left_are_shown_and_not_counted() -> None:
    a, b = _brokers()
    a.topics["left"] = [Queue(1_000_000)]
    a.offsets["G"]["left"] = {0: 1}
    assert _group(_fetch(Cluster(a, b))).lag == 100 + 999_999
    a.groups["G"] = Group({"c1": running()}, ("T",))
    group = _group(_fetch(Cluster(a, b)))
    assert group.lag == 100
    assert group.topics == ("T", "left")


def test_a_subscribed_topic_without_an_offset_is_shown() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running()}, ("T", "%RETRY%G", "U"))
    assert _group(_fetch(Cluster(a, b))).topics == ("%RETRY%G", "T", "U")


def test_a_broadcasting_group_has_no_lag_that_brokers_know() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running()}, message_model="BROADCASTING")
    group = _group(_fetch(Cluster(a, b)))
    assert (group.lag, group.lag_at_least, group.lost) == (None, 0, None)
    assert group.reasons["lag"] is group.reasons["lost"] is Unknown.BROADCASTING


def test_offsets_below_min_are_lost_and_those_beyond_max_or_below_zero_count_nothing() -> None:
    a, b = _brokers()
    a.topics["T"] = [Queue(100, 50), Queue(100), Queue(100)]
    a.offsets["G"] = {"T": {0: 20, 1: 101, 2: -1}}
    group = _group(_fetch(Cluster(a, b)))
    assert (group.lag, group.lag_at_least, group.lost, group.lost_at_least) == (None, 50 + 40, None, 30)
    assert group.reasons["lost"] is group.reasons["lag"]
    assert group.reasons["lag"] is Unknown.OFFSET_BEYOND_MAX


@pytest.mark.parametrize("offset", [-1, -7, -(2**63)])
def test_an_offset_below_zero_is_none(offset: int) -> None:
    a, b = _brokers()
    a.offsets |= {"G": {"T": {0: offset}, "gone": {0: offset}}, "ghost": {"T": {0: offset}}}
    groups = _fetch(Cluster(a, b))
    group = _group(groups)
    assert [each.group for each in groups.groups] == ["G"]
    assert (group.topics, group.has_leftovers, group.reasons["lag"]) == (("T",), False, Unknown.NEVER_COMMITTED)
    assert sum(backlog.beyond_max_count for backlog in group.backlogs.values()) == 0
    a.topics["T"] = [Queue(0)]
    assert _group(_fetch(Cluster(a, b))).lag == 40


def test_a_live_group_stuck_on_its_first_messages_has_no_known_lag() -> None:
    a, b = _brokers()
    a.offsets["G"] = b.offsets["G"] = {"%RETRY%G": {0: 0}}
    a.topics["%RETRY%G"] = b.topics["%RETRY%G"] = [Queue(0)]
    a.groups["G"] = Group({"c1": running()}, ("T", "%RETRY%G"))
    group = _group(_fetch(Cluster(a, b)))
    assert (group.lag, group.lag_at_least) == (None, 0)
    assert group.reasons["lag"] is Unknown.NEVER_COMMITTED


def test_an_offset_of_a_queue_or_topic_that_is_gone_counts_nothing() -> None:
    a, b = _brokers()
    a.offsets["G"] = {"T": {0: 40, 7: 1}, "gone": {0: 1}}
    groups = _fetch(Cluster(a, b))
    assert _group(groups).lag == 100
    assert groups.failures == ()


@pytest.mark.parametrize("topic", ["%RETRY%G", "%RETRY%G_T", "%RETRY%G+T"])
@pytest.mark.parametrize("has_members", [True, False])
def test_messages_in_a_retry_topic_that_nobody_ever_read_are_the_groups(topic: str, *, has_members: bool) -> None:
    a, b = _brokers()
    a.topics[topic] = [Queue(3)]
    if has_members:
        a.groups["G"] = Group({"c1": running()})
    group = _group(_fetch(Cluster(a, b)))
    assert (group.lag, group.lag_at_least, group.reasons["lag"]) == (None, 100, Unknown.NEVER_COMMITTED)
    assert topic in group.topics
    a.configured.add("G_T")  # whose own retry topic has the name
    assert (_group(_fetch(Cluster(a, b))).lag == 100) is (topic == "%RETRY%G_T")
    a.configured.discard("G_T")
    a.topics[topic] = [Queue(3, 3)]
    assert _group(_fetch(Cluster(a, b))).lag == 100


def test_unread_messages_of_queues_that_were_cut_off_need_attention() -> None:
    a, b = _brokers()
    a.offsets["G"]["T"] |= {5: 1, 6: 4}
    a.cut_queues = {("T", 5): Queue(8, 3), ("T", 6): Queue(4)}
    group = _group(_fetch(Cluster(a, b)))
    assert (group.lag, group.unreadable_count, group.has_leftovers) == (100, 5, True)
    assert _findings(a, b) >= {"OFF003", "OFF004"}
    del a.offsets["G"]["T"][6]
    assert _findings(a, b) >= {"OFF004"}
    assert "OFF003" not in _findings(a, b)


def test_a_topic_that_may_not_be_read_needs_attention() -> None:
    a, b = _brokers()
    a.topic_configs["T"] = {"perm": 2}
    assert _group(_fetch(Cluster(a, b))).closed_brokers == {"T": ("broker-a",)}
    assert "PUL004" in _findings(a, b)


# A part of the cluster fails


def test_a_broker_that_is_down_makes_the_sum_a_lower_bound() -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    groups = _fetch(cluster)
    group = _group(groups)
    assert (group.lag, group.lag_at_least) == (None, 60)
    assert (group.state, group.member_count) == (GroupState.UNKNOWN, None)
    for key in ("lag", "memberCount", "consumeType", "messageModel", "clientVersion"):
        assert group.reasons[key] is Unknown.BROKER_UNREACHABLE
    (failure,) = groups.failures
    assert (failure.broker_name, failure.what, failure.error.name) == ("broker-b", "groups", "UNREACHABLE")


def test_members_seen_at_one_broker_make_a_group_online_though_another_is_down() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running()})
    cluster = Cluster(a, b)
    cluster.stop("broker-b")
    group = _group(_fetch(cluster))
    assert (group.state, group.member_count, group.lag) == (GroupState.ONLINE, 1, None)


def test_a_broker_that_goes_away_on_the_way_is_named_once_for_each_kind_of_question() -> None:
    a, b = _brokers()
    b.configured |= {f"g{number}" for number in range(50)}
    cluster = Cluster(a, b)
    for code in (Q.GET_TOPIC_STATS_INFO, Q.GET_CONSUMER_CONNECTION_LIST):
        cluster.servers["broker-b"].table[code] = refused(R.SYSTEM_ERROR, "broken")
    groups = _fetch(cluster)
    assert [(failure.broker_name, failure.what) for failure in groups.failures] == [
        ("broker-b", "max offsets of T"),
        ("broker-b", "members of G and 50 more"),
        ("broker-b", "proxies"),
    ]
    group = _group(groups)
    assert (group.lag, group.lag_at_least, group.state) == (None, 60, GroupState.UNKNOWN)


def test_nobody_answering_is_unreachable() -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError):
        _fetch(cluster)


def test_a_cluster_without_brokers_is_unreachable() -> None:
    with pytest.raises(NoBrokerError):
        _fetch(Cluster())


@pytest.mark.parametrize(
    "code",
    [
        Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Q.GET_ALL_CONSUMER_OFFSET,
        Q.GET_TOPIC_STATS_INFO,
        Q.GET_CONSUMER_CONNECTION_LIST,
    ],
)
def test_a_hostile_answer_of_one_broker_never_breaks_the_whole(code: Q) -> None:
    hostile = [*HOSTILE, b'{"offsetTable":{"T@G":{"x":1}}}', b'{"offsetTable":{"T@G":{0:"1"}}}']
    for body in hostile:
        cluster = Cluster(*_brokers())
        cluster.servers["broker-b"].table[code] = ok(body)
        groups = _fetch(cluster)
        assert _group(groups).lag_at_least >= 60
        for failure in groups.failures:
            assert isinstance(failure.error, RemoteProtocolError)


def _ask_of_proxies_fails(cluster: Cluster, name: str, reply: Reply) -> None:
    usual = cluster.brokers[name].table()[Q.GET_CONSUMER_CONNECTION_LIST]
    cluster.servers[name].table[Q.GET_CONSUMER_CONNECTION_LIST] = lambda request: (
        reply if request.ext_fields["consumerGroup"] == PROXY_GROUP else usual
    )


def test_a_group_without_members_is_unknown_while_nobody_can_tell_of_proxies() -> None:
    cluster = Cluster(*_brokers())
    _ask_of_proxies_fails(cluster, "broker-b", refused(R.SYSTEM_BUSY))
    groups = _fetch(cluster)
    assert [(failure.broker_name, failure.what) for failure in groups.failures] == [("broker-b", "proxies")]
    group = _group(groups)
    assert (group.state, group.member_count) == (GroupState.UNKNOWN, None)
    assert group.reasons["memberCount"] is Unknown.BROKER_UNREACHABLE

    cluster.brokers["broker-a"].groups[PROXY_GROUP] = Group({"proxy": running()})
    groups = _fetch(cluster)
    assert (groups.failures, _group(groups).reasons["memberCount"]) == ((), Unknown.BEHIND_PROXY)


def test_an_account_that_may_not_know_of_proxies_can_not_call_a_group_empty() -> None:
    cluster = Cluster(*_brokers())
    for name in cluster.brokers:
        _ask_of_proxies_fails(cluster, name, refused(R.NO_PERMISSION))
    groups = _fetch(cluster)
    assert (groups.failures, _group(groups).state) == ((), GroupState.UNKNOWN)
    assert _group(groups).reasons["memberCount"] is Unknown.NOT_AUTHORISED


# What needs attention, and ages


def _findings(*brokers: BrokerState) -> set[str]:
    return _findings_of(_fetch(Cluster(*brokers)))


def _findings_of(groups: GroupList) -> set[str]:
    return {finding.code for finding in diagnose(facts_of_summary(_group(groups), groups.at_ms), CHECKS).findings}


def test_a_group_that_is_well_needs_no_attention() -> None:
    a, b = _brokers()
    a.groups["G"] = b.groups["G"] = Group({"c1": running()})
    assert _findings(a, b) == set()


def test_what_the_tables_tell_for_sure_needs_attention() -> None:
    a, b = _brokers()
    assert _findings(a, b) == {"OFF005"}
    a.groups["G"] = Group({"c1": running()})
    b.groups["G"] = Group({"c1": running()}, message_model="BROADCASTING")
    assert _findings(a, b) == {"MEM003"}
    del b.groups["G"]
    assert _findings(a, b) == {"ALO003"}
    b.groups["G"] = a.groups["G"]
    a.topics["T"] = [Queue(100, 50), Queue(3)]
    a.offsets["G"]["T"][1] = 4
    assert _findings(a, b) == {"OFF001", "OFF002"}
    a.topics["T"], a.offsets["G"] = [Queue(100)], {"T": {0: 100, 7: 1}}
    a.group_configs["G"] = {"retryQueueNums": 0, "consumeEnable": False}
    assert _findings(a, b) == {"PUL001", "RTY001", "CFG001", "OFF003"}


def test_queues_of_a_broker_without_members_have_no_owner() -> None:
    a, b = _brokers()
    b.topics["U"] = [Queue(10)]
    a.groups["G"] = Group({"c1": running()}, ("T", "%RETRY%G"))
    a.topics["%RETRY%G"] = b.topics["%RETRY%G"] = [Queue()]
    assert _group(_fetch(Cluster(a, b))).unserved_brokers == {"T": ("broker-b",)}
    b.topic_configs["T"] = {"perm": 2}
    assert _group(_fetch(Cluster(a, b))).unserved_brokers == {}
    del b.topic_configs["T"]
    cluster = Cluster(a, b)
    cluster.servers["broker-b"].table[Q.GET_CONSUMER_CONNECTION_LIST] = refused(R.SYSTEM_BUSY)
    assert _group(_fetch(cluster)).unserved_brokers == {}
    b.groups["G"] = Group({}, ("T",))
    assert "ALO003" in _findings(a, b)
    del a.groups["G"]
    assert _findings(a, b) == {"OFF005"}


@pytest.mark.parametrize("offset", [None, 1])
def test_messages_to_be_retried_that_no_member_reads_need_attention(offset: int | None) -> None:
    a, b = _brokers()
    a.offsets["G"]["T"][0] = b.offsets["G"]["T"][0] = 100
    a.topics["%RETRY%G"] = [Queue(3)]
    if offset is not None:
        a.offsets["G"]["%RETRY%G"] = {0: offset}
    assert _findings(a, b) == {"OFF005"}
    a.groups["G"] = b.groups["G"] = Group({"c1": running()}, consume_type="CONSUME_ACTIVELY")
    assert _findings(a, b) == {"RTY006"}
    a.groups["G"] = b.groups["G"] = Group({"c1": running()}, message_model="BROADCASTING")
    assert _findings(a, b) == {"RTY006"}
    a.groups["G"] = b.groups["G"] = Group({"c1": running()}, ("T", "%RETRY%G"))
    assert _findings(a, b) == set()


def test_messages_of_a_popping_group_that_wait_for_their_retry_need_attention_without_members() -> None:
    a, b = _brokers()
    a.offsets["G"]["T"][0] = b.offsets["G"]["T"][0] = 100
    a.topics["%RETRY%G_T"] = [Queue(3)]
    assert _findings(a, b) == {"OFF005"}
    # Brokers read it for who pops.
    a.groups["G"] = b.groups["G"] = Group({"c1": running()})
    assert _findings(a, b) == set()


def test_dead_letters_that_arrive_need_attention() -> None:
    a, b = _brokers()
    a.groups["G"] = b.groups["G"] = Group({"c1": running()})
    b.topics["%DLQ%G"] = [Queue(3, last_update_ms=NOW_MS - HOUR_MS)]
    assert _findings(a, b) == {"DLQ001"}
    a.topics["%DLQ%G"] = [Queue(1, last_update_ms=NOW_MS - 60_000)]
    assert _findings(a, b) == {"DLQ001", "DLQ002"}
    a.topics["%DLQ%G"] = b.topics["%DLQ%G"] = [Queue(3, 3, last_update_ms=NOW_MS)]
    assert _findings(a, b) == set()


def _asked_letters(cluster: Cluster) -> list[str]:
    return [
        request.ext_fields["topic"]
        for server in cluster.servers.values()
        for request in server.asked
        if request.code == Q.GET_TOPIC_STATS_INFO and request.ext_fields["topic"].startswith("%DLQ%")
    ]


def test_dead_letters_are_asked_for_where_there_is_a_topic_of_them_with_a_bounded_number_of_requests() -> None:
    a, b = _brokers()
    b.topics["%DLQ%G"] = [Queue(3)]
    cluster = Cluster(a, b)
    assert _group(_fetch(cluster)).unchecked == {}
    assert _asked_letters(cluster) == ["%DLQ%G"]
    for number in range(300):
        a.offsets[f"g{number:03}"] = {}
        a.configured.add(f"g{number:03}")
        a.topics[f"%DLQ%g{number:03}"] = [Queue(1)]
    a.groups["g299"] = Group({"c1": running()})
    cluster = Cluster(a, b)
    groups = _fetch(cluster)
    assert len(_asked_letters(cluster)) == 200
    # Dead letters arrive where there are members.
    assert _group(groups, "g299").unchecked == {"MEMBERS": "NOT_ASKED"}
    assert _group(groups, "g298").unchecked == {"DEAD_LETTERS": "NOT_ASKED"}


# What was not looked at


def _refuse(cluster: Cluster, code: Q, topic: str = "") -> None:
    usual = cluster.servers["broker-b"].table[code]

    def reply(request: Command) -> Reply:
        is_meant = not topic or request.ext_fields["topic"] == topic
        return refused(R.SYSTEM_ERROR, "broken") if is_meant else usual

    cluster.servers["broker-b"].table[code] = reply


_UNTOLD: dict[str, tuple[Callable[[Cluster], None], set[str]]] = {
    "all is told": (lambda cluster: None, set()),
    "a broker is down": (lambda cluster: cluster.stop("broker-b"), {"BROKERS", "MEMBERS"}),
    "its topics are not told": (lambda cluster: _refuse(cluster, Q.GET_ALL_TOPIC_CONFIG), {"BROKERS"}),
    "the ends of queues are not told": (lambda cluster: _refuse(cluster, Q.GET_TOPIC_STATS_INFO, "T"), {"BROKERS"}),
    "dead letters are not told": (lambda cluster: _refuse(cluster, Q.GET_TOPIC_STATS_INFO, "%DLQ%G"), {"BROKERS"}),
    "another group's dead letters are not told": (
        lambda cluster: _refuse(cluster, Q.GET_TOPIC_STATS_INFO, "%DLQ%H"), set(),
    ),
    "a queue that was cut off is not told": (lambda cluster: _refuse(cluster, Q.GET_MAX_OFFSET), {"BROKERS"}),
    "members are not told": (
        lambda cluster: _refuse(cluster, Q.GET_CONSUMER_CONNECTION_LIST), {"BROKERS", "MEMBERS"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", _UNTOLD)
@pytest.mark.parametrize("has_members", [False, True])
def test_what_was_not_looked_at_is_named(what: str, *, has_members: bool) -> None:
    a, b = _brokers()
    b.configured.add("H")
    b.topics |= {"%DLQ%G": [Queue()], "%DLQ%H": [Queue()]}
    b.offsets["G"]["T"][3] = 1
    b.cut_queues = {("T", 3): Queue(1)}
    if has_members:
        a.groups["G"] = Group({"c1": running()})
    break_it, expected = _UNTOLD[what]
    cluster = Cluster(a, b)
    break_it(cluster)
    group = _group(_fetch(cluster))
    assert set(map(str, group.unchecked)) == expected | ({"MEMBERS"} if has_members else set())


def test_what_a_slave_lacks_is_unknown_and_no_finding() -> None:
    a, b = _brokers()
    b.groups["G"] = Group({"c1": running()})
    # Of its topics and offsets, the slave has copied an offset of a topic that it does not know.
    a.offsets, a.topics, a.configured = {"G": {"U": {0: 4}}}, {"T": [Queue(100)]}, set()
    b.topics["U"] = [Queue()]
    cluster = Cluster(a, b)
    cluster.slaves = {"broker-a"}
    groups = _fetch(cluster)
    group = _group(groups)
    assert (group.lag, group.lag_at_least, group.reasons["lag"]) == (None, 40, Unknown.BROKER_UNREACHABLE)
    assert (set(group.configs), set(group.connections)) == ({"broker-b"}, {"broker-b"})
    assert {"OFF003", "OFF008", "CFG002", "MEM002"}.isdisjoint(_findings_of(groups))
    assert (group.unserved_brokers, {*map(str, group.unchecked)} >= {"BROKERS"}) == ({}, True)
    assert [failure.what for failure in groups.failures] == ["master, its slave answered"]
    b.groups = {}
    assert _group(_fetch(cluster)).state is GroupState.UNKNOWN


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_messages_that_no_consumer_can_read_are_no_lag_and_need_attention(version: int) -> None:
    a, b = _brokers(version)
    a.topics["T"] += [Queue(7), Queue(5)]
    a.topic_configs["T"] = {"readQueueNums": 1, "writeQueueNums": 3}
    group = _group(_fetch(Cluster(a, b)))
    assert (group.lag, group.unreadable_count) == (100, 12)
    assert "OFF004" in _findings(a, b)
    # What the group had read before is not unread.
    a.offsets["G"]["T"] |= {1: 7, 2: 5}
    assert "OFF004" not in _findings(a, b)


def test_a_broker_that_does_not_tell_its_topics_is_named_and_all_its_queues_count() -> None:
    a, b = _brokers()
    cluster = Cluster(a, b)
    cluster.servers["broker-b"].table[Q.GET_ALL_TOPIC_CONFIG] = refused(R.SYSTEM_ERROR, "broken")
    groups = _fetch(cluster)
    assert [(failure.broker_name, failure.what) for failure in groups.failures] == [
        ("broker-b", "configuration of topics")
    ]
    assert _group(groups).lag == 100


def test_the_age_of_the_oldest_unread_message_is_told() -> None:
    a, b = _brokers()
    a.topics["T"], b.topics["T"] = [Queue(100, head_age_ms=7_000)], [Queue(100, head_age_ms=9_000)]
    group = _group(_fetch(Cluster(a, b)))
    assert (group.time_lag_ms, group.is_age_asked) == (9_000, True)
    # Below min it begins anew with the oldest message that is left.
    a.topics["T"] = [Queue(100, 50, oldest_age_ms=60_000)]
    a.offsets["G"]["T"][0] = 20
    assert _group(_fetch(Cluster(a, b))).time_lag_ms == 60_000
    a.offsets["G"]["T"][0] = b.offsets["G"]["T"][0] = 100
    assert _group(_fetch(Cluster(a, b))).time_lag_ms == 0


def test_ages_that_a_broker_does_not_tell_are_unknown_and_it_is_named_once() -> None:
    a, b = _brokers()
    a.configured.add("H")
    b.offsets["H"] = {"T": {0: 1}}
    a.offsets["H"] = {"T": {0: 1}}
    cluster = Cluster(a, b)
    cluster.servers["broker-b"].table[Q.QUERY_CONSUME_TIME_SPAN] = refused(R.SYSTEM_ERROR, "broken")
    groups = _fetch(cluster)
    assert [(failure.broker_name, failure.what) for failure in groups.failures] == [
        ("broker-b", "message ages of H in T and 1 more")
    ]
    assert (_group(groups).time_lag_ms, _group(groups).reasons["timeLagMs"]) == (None, Unknown.NOT_REPORTED)


def test_ages_are_asked_for_the_largest_lags_with_a_bounded_number_of_requests() -> None:
    a, b = _brokers()
    for number in range(300):
        a.offsets[f"g{number:03}"] = {"T": {0: number % 100}}
        b.offsets[f"g{number:03}"] = {"T": {0: number % 100}}
    cluster = Cluster(a, b)
    groups = _fetch(cluster)
    asked = [
        request
        for server in cluster.servers.values()
        for request in server.codes()
        if request == Q.QUERY_CONSUME_TIME_SPAN
    ]
    assert len(asked) == 200
    with_age = [group for group in groups.groups if group.is_age_asked]
    assert len(with_age) == 100
    without = [group.lag for group in groups.groups if not group.is_age_asked]
    assert min(group.lag or 0 for group in with_age) >= max(lag or 0 for lag in without)
    assert all(group.time_lag_ms is not None for group in with_age)
    assert groups.failures == ()


def test_ages_are_not_asked_where_nothing_is_unread() -> None:
    a, b = _brokers()
    a.offsets["G"]["T"][0] = b.offsets["G"]["T"][0] = 100
    cluster = Cluster(a, b)
    _fetch(cluster)
    assert not [server for server in cluster.servers.values() if Q.QUERY_CONSUME_TIME_SPAN in server.codes()]
