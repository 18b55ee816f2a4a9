"""Plans of changes of groups: what would be written at each broker, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.errors import NotAuthorisedError, NotFoundError, RefusedError, UnreachableError, UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.plan import Operation, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import Queue
from tests.scripted_peer import SILENCE, V4_9_7, refused

from .group_case import ONLINE, Case, cluster, codes, text_of


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(cluster(), tmp_path)


@pytest.fixture
def old(tmp_path: Path) -> Case:
    return Case(cluster(version=V4_9_7), tmp_path)


# create


def test_a_new_group_gets_the_defaults_and_what_is_set(case: Case) -> None:
    planned = case.create("N", "retryMaxTimes=3", "+x=1")
    plan = planned.plan
    assert (plan.operation, plan.route, plan.group) == (Operation.GROUP_CREATE, Route.GROUP_CONFIG, "N")
    assert plan.brokers == {"broker-a": "a:1", "broker-b": "b:1"}
    assert plan.state is GroupState.EMPTY
    for item in plan.configs:
        assert item.before is None
        assert item.target is not None
        assert len(item.target) == 13
        assert (item.target["retryMaxTimes"], item.target["consumeBroadcastEnable"]) == (3, True)
        assert item.target["attributes"] == {"x": "1"}
    assert codes(planned) == ["CLIENTS_DECIDE"]


def test_an_old_broker_gets_the_fields_that_it_knows(old: Case) -> None:
    (item, _) = old.create("N").plan.configs
    assert item.target is not None
    assert len(item.target) == 8
    assert "consumeMessageOrderly" not in item.target
    with pytest.raises(UsageError, match="attributes, consumeMessageOrderly"):
        old.create("N", "consumeMessageOrderly=true", "+x=1")


def test_a_group_that_is_there_just_so_is_left_alone(case: Case) -> None:
    case.cluster.brokers["broker-a"].configured.add("N")
    planned = case.create("N")
    assert [item.broker_name for item in planned.plan.configs] == ["broker-b"]
    assert "broker-a already has the group" in text_of(planned, "LEFT_ALONE")
    case.cluster.brokers["broker-b"].configured.add("N")
    assert case.create("N").plan.configs == ()


def test_a_group_that_is_there_and_not_so_is_refused(case: Case) -> None:
    a = case.cluster.brokers["broker-a"]
    a.configured.add("N")
    a.group_configs["N"] = {"retryMaxTimes": 3, "consumeEnable": False}
    with pytest.raises(RefusedError, match="broker-a has consumeEnable=false, retryMaxTimes=3"):
        case.create("N")
    with pytest.raises(RefusedError, match="broker-a has retryMaxTimes=3"):
        case.create("N", "consumeEnable=false", "retryMaxTimes=4")
    planned = case.create("N", at=["broker-b"])
    assert [item.broker_name for item in planned.plan.configs] == ["broker-b"]
    assert "Not requested at broker-a" in text_of(planned, "OTHER_BROKERS")


def test_another_group_is_what_it_begins_with_at_each_broker(case: Case) -> None:
    a, b = case.cluster.brokers.values()
    a.group_configs["G"] = {"retryMaxTimes": 3, "ofTomorrow": [1], "attributes": {"x": "1"}}
    b.group_configs["G"] = {"retryMaxTimes": 4}
    a.forbidden["G"] = {"secret": 1}
    planned = case.create("N", "consumeEnable=false", source="G")
    targets = {item.broker_name: item.target or {} for item in planned.plan.configs}
    assert [target["retryMaxTimes"] for target in targets.values()] == [3, 4]
    assert targets["broker-a"]["ofTomorrow"] == [1]
    assert targets["broker-a"]["attributes"] == {"x": "1"}
    assert all(target["consumeEnable"] is False for target in targets.values())
    assert "G may not read secret" in text_of(planned, "FORBIDDEN_NOT_COPIED")


def test_a_source_must_be_at_each_broker(case: Case) -> None:
    case.cluster.brokers["broker-b"].configured.discard("G")
    with pytest.raises(RefusedError, match=r"broker-b has no configuration of G"):
        case.create("N", source="G")
    assert len(case.create("N", source="G", at=["broker-a"]).plan.configs) == 1
    with pytest.raises(NotFoundError, match="GG"):
        case.create("N", source="GG")


def test_offsets_of_an_earlier_group_are_told_of(case: Case) -> None:
    case.cluster.brokers["broker-a"].offsets["N"] = {"T": {0: 5}}
    planned = case.create("N")
    assert "1 queue are" in text_of(planned, "OFFSETS_THERE")
    assert "OFFSETS_THERE" not in codes(case.create("N", at=["broker-b"]))


def test_an_earlier_groups_retry_topic_stays_as_wide_as_it_is(case: Case) -> None:
    case.cluster.brokers["broker-a"].topics["%RETRY%N"] = [Queue()]
    assert "has 1 queue," in text_of(case.create("N", "retryQueueNums=4"), "RETRY_TOPIC_NARROW")


@pytest.mark.parametrize("name", ["a.b", "TOOLS_CONSUMER", "g" * 121])
def test_a_name_is_checked_before_anybody_is_asked(old: Case, name: str) -> None:
    with pytest.raises(UsageError):
        old.create(name)
    assert old.cluster.servers["broker-a"].asked == []


# update


def test_only_what_is_named_is_changed(case: Case) -> None:
    a, b = case.cluster.brokers.values()
    a.group_configs["G"] = {"retryMaxTimes": 5, "consumeBroadcastEnable": False, "ofTomorrow": 1}
    b.group_configs["G"] = {"retryMaxTimes": 3}
    planned = case.update("G", "retryMaxTimes=3")
    (item,) = planned.plan.configs
    assert item.broker_name == "broker-a"
    assert item.before is not None
    assert item.target == {**item.before, "retryMaxTimes": 3}
    assert item.target["ofTomorrow"] == 1
    assert text_of(planned, "LEFT_ALONE").startswith("broker-b already")
    assert "broker-a consumeBroadcastEnable=false, ofTomorrow=1" in text_of(planned, "BROKERS_DIFFER")


def test_a_broker_without_the_group_is_left_so(case: Case) -> None:
    case.cluster.brokers["broker-b"].configured.discard("G")
    planned = case.update("G", "retryMaxTimes=3")
    assert [item.broker_name for item in planned.plan.configs] == ["broker-a"]
    assert text_of(planned, "NOT_CONFIGURED").startswith("The group is not configured at broker-b")


def test_a_group_that_is_nowhere_is_not_found(case: Case) -> None:
    with pytest.raises(NotFoundError, match="Group H does not exist"):
        case.update("H", "retryMaxTimes=3")
    case.cluster.brokers["broker-a"].offsets["H"] = {"T": {0: 1}}
    with pytest.raises(NotFoundError, match="only its offsets are left"):
        case.update("H", "retryMaxTimes=3")


def test_members_do_not_stand_in_the_way(case: Case) -> None:
    case.cluster.brokers["broker-a"].groups["G"] = ONLINE
    plan = case.update("G", "consumeEnable=false").plan
    assert plan.state is GroupState.ONLINE
    assert plan.client_ids == ("client@1",)
    assert plan.message_model == "CLUSTERING"
    assert (plan.asked, plan.reason) == ("consumeEnable=false", "why")


def test_the_retry_topic_is_held_against_each_broker(case: Case) -> None:
    a, b = case.cluster.brokers.values()
    a.topics["%RETRY%G"], b.topics["%RETRY%G"] = [Queue()] * 4, [Queue()]
    planned = case.update("G", "retryQueueNums=4")
    assert "has 1 queue," in text_of(planned, "RETRY_TOPIC_NARROW")
    assert "RETRY_TOPIC_NARROW" not in codes(case.update("G", "retryQueueNums=4", at=["broker-a"]))


def test_a_broker_that_will_not_be_readable_after_the_change_is_left_alone(case: Case) -> None:
    refusal = refused(R.NO_PERMISSION, "no right")
    case.cluster.servers["broker-b"].table[Q.GET_CONSUMER_CONNECTION_LIST] = refusal
    planned = case.create("N")
    routes = [(item.broker_name, item.route) for item in planned.plan.configs]
    assert routes == [("broker-a", Route.GROUP_CONFIG), ("broker-b", Route.UNSEEN)]
    assert [(each.broker_name, each.error.exit_code) for each in planned.failures] == [("broker-b", 4)]
    case.cluster.servers["broker-a"].table[Q.GET_CONSUMER_CONNECTION_LIST] = refusal
    with pytest.raises(NotAuthorisedError):
        case.create("N")


def test_a_broker_that_does_not_answer_is_a_failure(case: Case) -> None:
    case.cluster.stop("broker-b")
    planned = case.update("G", "retryMaxTimes=3")
    assert [(item.broker_name, item.route, item.note) for item in planned.plan.configs] == [
        ("broker-a", Route.GROUP_CONFIG, ""),
        ("broker-b", Route.UNSEEN, "not seen: b:1: connection refused"),
    ]
    assert planned.plan.brokers == {"broker-a": "a:1"}
    assert text_of(planned, "NOT_READ").startswith("broker-b could not be read")
    assert [(failure.broker_name, failure.what) for failure in planned.failures] == [("broker-b", "configuration")]
    assert planned.unseen == "configuration at broker-b (b:1: connection refused)"
    with pytest.raises(UnreachableError, match="broker-b could not be read"):
        case.update("H", "retryMaxTimes=3")
    case.cluster.stop("broker-a")
    with pytest.raises(UnreachableError):
        case.update("G", "retryMaxTimes=3")


def test_a_broker_that_there_is_not_is_told(case: Case) -> None:
    with pytest.raises(NotFoundError, match="Broker broker-c") as caught:
        case.update("G", "retryMaxTimes=3", at=["broker-c"])
    assert "broker-a" in (caught.value.hint or "")


# delete


def test_a_group_goes_at_every_broker_that_has_it(case: Case) -> None:
    case.cluster.brokers["broker-b"].configured.discard("G")
    planned = case.delete("G")
    (item,) = planned.plan.configs
    assert (item.broker_name, item.target) == ("broker-a", None)
    assert item.before is not None
    assert planned.plan.items == ()
    assert codes(planned) == ["COMES_AGAIN", "OFFSETS_STAY"]
    assert "2 queues are kept" in text_of(planned, "OFFSETS_STAY")


def test_offsets_that_go_are_in_the_plan(case: Case) -> None:
    planned = case.delete("G", with_offsets=True)
    assert [(item.mq, item.before, item.target, item.route) for item in planned.plan.items] == [
        (MessageQueue("T", name, 0), 40, None, Route.GROUP_CONFIG) for name in ("broker-a", "broker-b")
    ]
    assert "OFFSETS_GO" in codes(planned)


def test_what_is_left_of_a_group_can_go(case: Case) -> None:
    for state in case.cluster.brokers.values():
        state.configured.discard("G")
    with pytest.raises(NotFoundError, match="only its offsets are left") as caught:
        case.delete("G")
    assert "--with-offsets" in (caught.value.hint or "")
    plan = case.delete("G", with_offsets=True).plan
    assert (len(plan.items), plan.configs, set(plan.brokers)) == (2, (), {"broker-a", "broker-b"})
    with pytest.raises(NotFoundError, match="Group H does not exist"):
        case.delete("H", with_offsets=True)


def test_what_stays_is_said(case: Case) -> None:
    a = case.cluster.brokers["broker-a"]
    a.topics["%RETRY%G"] = a.topics["%DLQ%G"] = a.topics["%RETRY%G_T"] = [Queue()]
    a.offsets["G"]["%RETRY%G_T"] = {0: 1}
    a.forbidden["G"] = {"secret": 1}
    planned = case.delete("G", at=["broker-a"])
    assert text_of(planned, "TOPICS_STAY").endswith(": %DLQ%G, %RETRY%G, %RETRY%G_T.")
    assert "secret" in text_of(planned, "FORBIDDEN_GO")
    assert text_of(planned, "OTHER_BROKERS") == "The group is not changed at broker-b."


def test_members_are_refused_where_they_are(case: Case) -> None:
    case.cluster.brokers["broker-b"].groups["G"] = ONLINE
    with pytest.raises(RefusedError, match=r"members \(client@1\)"):
        case.delete("G")
    with pytest.raises(RefusedError, match="members"):
        case.delete("G", assume_offline=True)
    planned = case.delete("G", at=["broker-a"])
    assert [item.broker_name for item in planned.plan.configs] == ["broker-a"]
    assert "broker-b" in text_of(planned, "MEMBERS_ELSEWHERE")


def test_members_that_can_not_be_seen_are_refused_unless_somebody_knows(case: Case) -> None:
    for state in case.cluster.brokers.values():
        state.groups["CID_DefaultHeartBeatSyncerTopic"] = ONLINE
    with pytest.raises(RefusedError, match="BEHIND_PROXY"):
        case.delete("G")
    planned = case.delete("G", assume_offline=True)
    assert planned.plan.state is GroupState.UNKNOWN
    assert "MEMBERS_UNSEEN" in codes(planned)


def test_a_broker_that_tells_nothing_of_members_hides_them(case: Case) -> None:
    case.cluster.servers["broker-b"].table[Q.GET_CONSUMER_CONNECTION_LIST] = SILENCE
    with pytest.raises(RefusedError, match="BROKER_UNREACHABLE"):
        case.delete("G")
    assert len(case.delete("G", at=["broker-a"]).plan.configs) == 1


def test_offsets_that_can_not_be_read_are_not_taken_away(case: Case) -> None:
    case.cluster.servers["broker-b"].table[Q.GET_ALL_CONSUMER_OFFSET] = SILENCE
    planned = case.delete("G", with_offsets=True)
    assert [(item.broker_name, item.route) for item in planned.plan.configs] == [
        ("broker-a", Route.GROUP_CONFIG),
        ("broker-b", Route.UNSEEN),
    ]
    assert [failure.what for failure in planned.failures] == ["stored offsets"]
    assert text_of(planned, "OFFSETS_GO").startswith("All its offsets at broker-a are deleted.")
    assert "Offsets of at least 1 queue " in text_of(case.delete("G"), "OFFSETS_STAY")
