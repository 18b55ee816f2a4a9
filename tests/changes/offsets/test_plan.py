"""Plans of offsets, made against clusters in every state that a group is found in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rmqctl.admin.messages import time_search
from rmqctl.admin.topics.queues import QueueChoice
from rmqctl.changes.documents.decode import parse_plan
from rmqctl.changes.documents.encode import plan_document
from rmqctl.changes.offsets.rules.reset import TargetKind
from rmqctl.changes.offsets.rules.skips import require_no_skip
from rmqctl.errors import NotAuthorisedError, NotFoundError, RefusedError, UnreachableError, UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.plan import Operation, Plan, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import Cluster, Group, Queue, running
from tests.admin.message_store import NOW_MS, MessageStore, damaged
from tests.changes.change_case import (
    instead,
    join,
    message_cluster,
    planned,
    store,
    stored,
    targets,
    the_item,
    two_brokers,
)
from tests.scripted_peer import V4_9_7, V5_4_0, Reply, ok, refused

both = pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
# What changes a broker, or eats the mark of a reset.
_WRITES = {
    Q.UPDATE_CONSUMER_OFFSET, Q.INVOKE_BROKER_TO_RESET_OFFSET, Q.DELETE_SUBSCRIPTIONGROUP, Q.CLONE_GROUP_OFFSET,
    Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Q.QUERY_CORRECTION_OFFSET,
}  # fmt: skip


def _offline(version: int = V5_4_0) -> Cluster:
    """Return two brokers, of which each queue is a different case.

    a:0 is read in part, a:1 has lost its first 70, a:2 lost all, a:3 never had any, b:0 has no stored offset.
    """
    a = store(
        version=version, counts={"T": (100, 100, 100, 0)}, offsets={"T": {0: 60, 1: 40, 2: 100, 3: 0}},
    )  # fmt: skip
    a.delete_before("T", 1, 70)
    a.delete_before("T", 2, 100)
    return message_cluster(a, store("broker-b", version=version, counts={"T": (50,)}))


def _numbers(cluster: Cluster, kind: TargetKind, value: int = 0, **wish: Any) -> dict[str, int | None]:
    return {
        name.removeprefix("T@broker-"): at for name, at in targets(planned(cluster, kind, value, **wish).plan).items()
    }


@both
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (TargetKind.EARLIEST, 0, {"a:0": 0, "a:1": 70, "a:2": 100, "a:3": 0, "b:0": 0}),
        (TargetKind.LATEST, 0, {"a:0": 100, "a:1": 100, "a:2": 100, "a:3": 0, "b:0": 50}),
        (TargetKind.OFFSET, 60, {"a:0": 60, "a:1": 70, "a:2": 100, "a:3": 0, "b:0": 50}),
        (TargetKind.OFFSET, 2**63 - 1, {"a:0": 100, "a:1": 100, "a:2": 100, "a:3": 0, "b:0": 50}),
        (TargetKind.SHIFT, 10, {"a:0": 70, "a:1": 70, "a:2": 100, "a:3": 0}),
        (TargetKind.SHIFT, -1000, {"a:0": 0, "a:1": 70, "a:2": 100, "a:3": 0}),
        (TargetKind.CURRENT, 0, {"a:0": 60, "a:1": 70, "a:2": 100, "a:3": 0}),
        (TargetKind.TIME, 0, {"a:0": 0, "a:1": 70, "a:2": 100, "a:3": 0, "b:0": 0}),
        (TargetKind.TIME, NOW_MS + 20_000, {"a:0": 20, "a:1": 70, "a:2": 100, "a:3": 0, "b:0": 20}),
        # 4.9 would answer the nearer one: 79.
        (TargetKind.TIME, NOW_MS + 79_400, {"a:0": 80, "a:1": 80, "a:2": 100, "a:3": 0, "b:0": 50}),
        (TargetKind.TIME, NOW_MS + 10**9, {"a:0": 100, "a:1": 100, "a:2": 100, "a:3": 0, "b:0": 50}),
    ],
)
def test_every_kind_of_target_on_every_kind_of_queue(
    version: int, kind: TargetKind, value: int, expected: dict[str, int]
) -> None:
    assert _numbers(_offline(version), kind, value) == expected


@both
def test_a_plan_tells_what_a_queue_holds_and_what_a_change_costs(version: int) -> None:
    plan = planned(_offline(version), TargetKind.OFFSET, 80).plan
    item = the_item(plan)
    assert (item.before, item.target, item.min_offset, item.max_offset) == (60, 80, 0, 100)
    assert (item.reconsumed, item.skipped, item.lost, item.note, item.reasons) == (0, 20, 0, "", {})
    assert item.first_store_time_ms == NOW_MS + 80_000
    item = the_item(plan, 1)
    assert (item.before, item.min_offset, item.reconsumed, item.skipped, item.lost) == (40, 70, 0, 10, 30)
    end = the_item(plan, 2)
    assert (end.target, end.first_store_time_ms, dict(end.reasons)) == (
        100,
        None,
        {"firstStoreTimestamp": "NO_MESSAGE"},
    )
    none = the_item(plan, 0, broker_name="broker-b")
    assert (none.before, none.target, none.reconsumed, none.skipped, none.lost) == (None, 50, None, None, None)
    assert none.note == "80 is not written yet: 50 is the end"
    assert set(none.reasons) == {
        "before", "change", "reconsumed", "reconsumedMin", "reconsumedMax", "skipped", "skippedMin", "skippedMax",
        "lost", "firstStoreTimestamp",
    }  # fmt: skip
    assert {none.reasons[key] for key in ("before", "change", "lost", "skippedMax")} == {"NEVER_COMMITTED"}


def test_a_plan_names_what_it_was_made_for() -> None:
    cluster = _offline()
    result = planned(cluster, TargetKind.EARLIEST, reason="bad data")
    plan = result.plan
    assert result.failures == ()
    assert (plan.operation, plan.group, plan.route, plan.state) == (
        Operation.OFFSET_RESET, "G", Route.BROKER_WRITE, GroupState.EMPTY
    )  # fmt: skip
    assert (plan.brokers, plan.asked, plan.reason) == (
        {"broker-a": "a:1", "broker-b": "b:1"}, "as the test says", "bad data"
    )  # fmt: skip
    assert plan.read_queue_counts == {("T", "broker-a"): 4, ("T", "broker-b"): 1}
    assert plan.client_ids == ()
    assert [item.code for item in plan.consequences] == ["OFFLINE"]
    document = plan_document(plan)
    assert parse_plan(json.dumps(document).encode(), "p")[0] == plan


@pytest.mark.parametrize("online", [False, True])
@both
def test_a_plan_changes_nothing_and_eats_no_mark(version: int, online: bool) -> None:
    cluster = _offline(version)
    if online:
        join(cluster, "c1")
        cluster.brokers["broker-b"].offsets["G"]["T"] = {0: 5}
    for kind, value in ((TargetKind.TIME, NOW_MS), (TargetKind.EARLIEST, 0), (TargetKind.SHIFT, -5)):
        planned(cluster, kind, value)
    for server in cluster.servers.values():
        assert not _WRITES & set(server.codes())
        pulls = [request for request in server.asked if request.code == Q.PULL_MESSAGE]
        assert pulls
        assert all(request.ext_fields["consumerGroup"] == "TOOLS_CONSUMER" for request in pulls)


def test_the_route_goes_by_the_group_and_the_broker() -> None:
    def routes(cluster: Cluster) -> dict[str, Route]:
        plan = planned(cluster).plan
        found = {item.route for item in plan.items}
        assert plan.route is (found.pop() if len(found) == 1 else Route.MIXED)
        return {item.mq.broker_name: item.route for item in plan.items}

    new: dict[str, Any] = {"offsets": {"T": {0: 60, 1: 60}}}
    cluster = message_cluster(store(**new), store("broker-b", version=V4_9_7, **new))
    assert routes(cluster) == {"broker-a": Route.BROKER_WRITE, "broker-b": Route.BROKER_WRITE}
    join(cluster, "c1")
    assert routes(cluster) == {"broker-a": Route.SERVER_SIDE, "broker-b": Route.CLIENT_PUSH}
    cluster.brokers["broker-a"].settings["useServerSideResetOffset"] = "false"
    assert routes(cluster) == {"broker-a": Route.CLIENT_PUSH, "broker-b": Route.CLIENT_PUSH}


def test_an_online_group_is_described_with_its_members() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    join(cluster, "c1", "c2")
    plan = planned(cluster).plan
    assert (plan.state, plan.consume_type, plan.message_model, plan.client_ids) == (
        GroupState.ONLINE, "CONSUME_PASSIVELY", "CLUSTERING", ("c1", "c2")
    )  # fmt: skip
    assert [item.code for item in plan.consequences] == ["SERVER_SIDE"]


not_noticed = pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"message_model": "BROADCASTING"}, "broadcasts"),
        ({"consume_type": "CONSUME_ACTIVELY"}, "pull offsets themselves"),
    ],
)


@not_noticed
def test_one_broker_whose_members_ignore_a_reset_is_enough_for_a_refusal(
    settings: dict[str, Any], sentence: str
) -> None:
    cluster = two_brokers(online=True)
    cluster.brokers["broker-b"].groups["G"] = replace(cluster.brokers["broker-b"].groups["G"], **settings)
    with pytest.raises(RefusedError, match=sentence):
        planned(cluster)


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (running(messageModel="BROADCASTING"), "broadcasts"),
        (running(PROP_CONSUME_TYPE="CONSUME_ACTIVELY"), "pull offsets themselves"),
        (running({}, {("T", "broker-a", -1): 0}), "only one of them"),
    ],
)
def test_one_member_that_would_not_notice_a_reset_is_enough_for_a_refusal(report: Reply, sentence: str) -> None:
    cluster = two_brokers(online=True)  # whose brokers report the settings of the other member
    for broker in cluster.brokers.values():
        broker.groups["G"].members["c2"] = report
    with pytest.raises(RefusedError, match=sentence):
        planned(cluster)


@not_noticed
def test_groups_that_would_not_notice_are_refused(settings: dict[str, Any], sentence: str) -> None:
    cluster = message_cluster(store(version=V4_9_7, offsets={"T": {0: 60, 1: 60}}))
    join(cluster, "c1", **settings)
    with pytest.raises(RefusedError, match=sentence):
        planned(cluster)


def test_a_silent_broker_without_the_topic_is_no_part_of_the_plan() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}), store("broker-b", counts={"U": (5,)}))
    cluster.stop("broker-b")
    # Members that consume from broker-a are connected to it, so broker-b has nothing to say about this topic.
    result = planned(cluster)
    assert (result.plan.state, result.plan.route) == (GroupState.EMPTY, Route.BROKER_WRITE)
    assert (result.failures, result.unseen) == ((), None)
    # Of all topics that the group consumes, some may be there.
    result = planned(cluster, topics=())
    assert {failure.broker_name for failure in result.failures} == {"broker-b"}
    assert result.unseen == "offsets at broker-b (b:1: connection refused)"


def test_one_broker_that_is_silent_does_not_hide_the_others() -> None:
    cluster = _offline()
    cluster.stop("broker-b")
    result = planned(cluster)
    assert _unseen_names(result.plan) == {"broker-b"}
    assert {item.mq.broker_name for item in result.plan.items} == {"broker-a", "broker-b"}
    assert any(failure.broker_name == "broker-b" for failure in result.failures)
    assert "broker-b" in (result.unseen or "")


def _unseen_names(plan: Plan) -> set[str]:
    return {item.mq.broker_name for item in plan.items if item.route is Route.UNSEEN}


def test_a_broker_that_can_not_be_changed_now_does_not_decide_about_the_others() -> None:
    """It has queues of the topic, and nobody knows how it resets; what can be read is on one that resets by itself."""
    offsets = {"T": {0: 60, 1: 60}}
    cluster = message_cluster(store(offsets=offsets), store("broker-b", offsets=offsets))
    cluster.stop("broker-b")
    result = planned(cluster)
    assert (result.plan.route, _unseen_names(result.plan)) == (Route.BROKER_WRITE, {"broker-b"})
    assert any(failure.broker_name == "broker-b" for failure in result.failures)


def test_a_broker_without_the_topic_that_does_not_tell_its_configuration_stops_nobody() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}), store("broker-b", counts={"U": (5,)}))
    join(cluster, "c1")
    cluster.servers["broker-b"].table[Q.GET_BROKER_CONFIG] = refused(R.NO_PERMISSION, "no")
    assert planned(cluster).plan.route is Route.SERVER_SIDE


def test_a_broker_of_the_topic_that_does_not_tell_its_configuration_is_not_guessed_about() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 60, 1: 60}}))
    join(cluster, "c1")
    cluster.servers["broker-a"].table[Q.GET_BROKER_CONFIG] = refused(R.NO_PERMISSION, "no")
    with pytest.raises(NotAuthorisedError):
        planned(cluster)


def test_nobody_answers() -> None:
    cluster = _offline()
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError):
        planned(cluster)


@pytest.mark.parametrize(
    ("choices", "names"),
    [
        ((QueueChoice("broker-a", 0, 0),), ["a:0"]),
        ((QueueChoice("broker-a", 1, 2),), ["a:1", "a:2"]),
        ((QueueChoice("broker-b"),), ["b:0"]),
        ((QueueChoice("broker-a", 3, 9), QueueChoice("broker-b", 0, 0)), ["a:3", "b:0"]),
    ],
)
def test_only_the_queues_that_were_asked_for(choices: tuple[QueueChoice, ...], names: list[str]) -> None:
    assert list(_numbers(_offline(), TargetKind.EARLIEST, queues=choices)) == names


@pytest.mark.parametrize(
    "choice", [QueueChoice("broker-z"), QueueChoice("broker-a", 4, 4), QueueChoice("broker-b", 1, 7)]
)
def test_a_queue_that_there_is_not_is_a_mistake(choice: QueueChoice) -> None:
    with pytest.raises(UsageError, match="does not match any queue"):
        planned(_offline(), queues=(QueueChoice("broker-a", 0, 0), choice))


def test_a_topic_or_group_that_there_is_not() -> None:
    with pytest.raises(NotFoundError, match="Topic nope does not exist"):
        planned(_offline(), topics=("nope",))
    with pytest.raises(NotFoundError, match="nobody") as caught:
        planned(_offline(), topics=(), group="nobody")
    assert "rmqctl group create nobody" in (caught.value.hint or "")


def test_a_group_that_never_consumed_can_be_put_somewhere_before_it_starts() -> None:
    plan = planned(_offline(), TargetKind.OFFSET, 10, group="G").plan
    cluster = _offline()
    for state in cluster.brokers.values():
        state.configured.add("new")
    fresh = planned(cluster, TargetKind.OFFSET, 10, group="new").plan
    assert targets(fresh) == targets(plan)
    assert {item.before for item in fresh.items} == {None}


def test_a_group_that_brokers_of_5_do_not_know_is_refused() -> None:
    cluster = _offline()
    cluster.brokers["broker-b"].configured.clear()
    with pytest.raises(RefusedError, match="not configured at broker-b") as caught:
        planned(cluster)
    assert "group create" in (caught.value.hint or "")
    assert planned(cluster, queues=(QueueChoice("broker-a"),)).plan.items
    old = _offline(V4_9_7)
    old.brokers["broker-b"].configured.clear()
    assert len(planned(old).plan.items) == 5


# Retry topics


def _with_retry(**offsets: dict[int, int]) -> Cluster:
    counts = {"T": (100, 100), "%RETRY%G": (10,)}
    return message_cluster(store(counts=counts, offsets={"T": {0: 60, 1: 60}, "%RETRY%G": {0: 4}, **offsets}))


@pytest.mark.parametrize("topics", [("T",), ()])
def test_the_retry_topic_stays_and_that_is_said(topics: tuple[str, ...]) -> None:
    plan = planned(_with_retry(), TargetKind.LATEST, topics=topics).plan
    assert {item.mq.topic for item in plan.items} == {"T"}
    (left,) = [item for item in plan.consequences if item.code == "RETRY_LEFT"]
    assert left.text.startswith("6 messages wait in %RETRY%G")


@pytest.mark.parametrize("topics", [("T",), ()])
def test_the_retry_topic_is_taken_along(topics: tuple[str, ...]) -> None:
    plan = planned(_with_retry(), TargetKind.LATEST, topics=topics, with_retry=True).plan
    assert targets(plan) == {"%RETRY%G@broker-a:0": 10, "T@broker-a:0": 100, "T@broker-a:1": 100}
    assert not [item for item in plan.consequences if item.code == "RETRY_LEFT"]


def test_retries_that_a_way_back_would_skip_are_refused_though_other_topics_go_back() -> None:
    cluster = message_cluster(
        store(counts={"T": (100,), "%RETRY%G": (20,)}, offsets={"T": {0: 60}, "%RETRY%G": {0: 5}})
    )
    plan = planned(cluster, TargetKind.TIME, NOW_MS + 30_000, with_retry=True).plan
    assert targets(plan) == {"T@broker-a:0": 30, "%RETRY%G@broker-a:0": 20}
    assert (plan.may_skip, plan.consequences[0].code) == (False, "SKIPS")
    with pytest.raises(RefusedError, match="would move 1 queue of group G forward past 15 unread messages"):
        require_no_skip(plan)
    assert planned(cluster, TargetKind.TIME, NOW_MS + 30_000, with_retry=True, allow_skip=True).plan.may_skip


def test_the_retry_topic_by_its_name() -> None:
    plan = planned(_with_retry(), TargetKind.LATEST, topics=("%RETRY%G",)).plan
    assert targets(plan) == {"%RETRY%G@broker-a:0": 10}


def _popping(*, online: bool, separator: str = "_") -> Cluster:
    """Return a group that pops T, with three messages that it did not acknowledge, and another group's retry topic."""
    retry = f"%RETRY%G{separator}T"
    counts = {"T": (100, 100), retry: (3,), "%RETRY%G_U": (9,)}
    cluster = message_cluster(store(counts=counts, offsets={"T": {0: 60, 1: 60}, retry: {0: 0}}))
    if online:
        pops = {("T", "broker-a", 0): 1}
        states = list(cluster.brokers.values())
        states[0].groups["G"] = Group({"c1": running({}, pops=pops)}, ("T",))
    return cluster


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("separator", ["_", "+"])
def test_retry_topics_of_a_group_that_pops_are_offered(online: bool, separator: str) -> None:
    retry = f"%RETRY%G{separator}T"
    plan = planned(_popping(online=online, separator=separator), TargetKind.LATEST).plan
    (left,) = [item.text for item in plan.consequences if item.code == "RETRY_LEFT"]
    assert left.startswith(f"3 messages wait in {retry}, and stay there")
    assert "--with-retry" in left
    plan = planned(_popping(online=online, separator=separator), TargetKind.LATEST, with_retry=True).plan
    assert targets(plan) == {f"{retry}@broker-a:0": 3, "T@broker-a:0": 100, "T@broker-a:1": 100}
    everything = planned(
        _popping(online=online, separator=separator), TargetKind.LATEST, topics=(), with_retry=True
    ).plan
    assert targets(everything) == targets(plan)


def test_one_message_that_waits() -> None:
    cluster = message_cluster(store(counts={"T": (100,), "%RETRY%G": (1,)}, offsets={"T": {0: 60}}))
    (left,) = [item.text for item in planned(cluster).plan.consequences if item.code == "RETRY_LEFT"]
    assert left.startswith("1 message waits in %RETRY%G, and stays there")


def test_retry_topics_that_could_not_be_read_are_not_empty() -> None:
    cluster = _with_retry()
    server = cluster.servers["broker-a"]

    def refuse(request: Command) -> Reply | None:
        return refused(R.SYSTEM_ERROR, "boom") if request.ext_fields.get("topic") == "%RETRY%G" else None

    instead(server, Q.GET_CONSUME_STATS, refuse)
    codes = {item.code: item.text for item in planned(cluster, TargetKind.LATEST).plan.consequences}
    assert "RETRY_LEFT" not in codes
    assert "unknown" in codes["RETRY_UNKNOWN"]
    assert "retry topics at broker-a: " in codes["RETRY_UNKNOWN"]


def test_another_groups_dead_letters_are_a_topic_like_others() -> None:
    cluster = message_cluster(store(counts={"%DLQ%other": (10,)}, offsets={"%DLQ%other": {0: 4}}))
    assert targets(planned(cluster, topics=("%DLQ%other",)).plan) == {"%DLQ%other@broker-a:0": 0}


# Store times that go back


def _set_back() -> MessageStore:
    """Return 300 messages, a second apart, of which the later 200 begin where the first 100 do."""
    a = store(counts={"T": (100, 100)}, offsets={"T": {0: 3, 1: 3}})
    for number in range(200):
        a.put("T", 0, at_ms=NOW_MS + number * 1000)
    return a


@pytest.mark.parametrize(
    ("most_count", "is_damaged", "target", "code", "how"),
    [
        (10_000, False, 50, "TIMES_NOT_IN_ORDER", "reading"),
        (0, False, 150, "TARGET_NOT_FIRST", "halving"),
        (10_000, True, 150, "TARGET_NOT_FIRST", "halving"),
    ],
)
def test_a_plan_says_how_it_found_a_target_among_times_that_go_back(
    monkeypatch: pytest.MonkeyPatch, most_count: int, is_damaged: bool, target: int, code: str, how: str
) -> None:
    monkeypatch.setattr(time_search, "MOST_READ_COUNT", most_count)
    a = _set_back()
    if is_damaged:
        for message in a.queues["T", 0][20:45]:
            message.record = damaged(message.record)
    cluster = message_cluster(a)
    search = a.table()[Q.SEARCH_OFFSET_BY_TIMESTAMP]
    # Halving finds the later one of two where it begins there.
    cluster.servers["broker-a"].table[Q.SEARCH_OFFSET_BY_TIMESTAMP] = lambda request: (
        ok(offset="150") if request.ext_fields["queueId"] == "0" else search
    )
    plan = planned(cluster, TargetKind.TIME, NOW_MS + 50_000).plan
    assert targets(plan) == {"T@broker-a:0": target, "T@broker-a:1": 50}
    notes = {str(item.mq): item.note for item in plan.items}
    assert notes == {"T@broker-a:0": f"store times go back: found by {how}", "T@broker-a:1": ""}
    texts = {each.code: each.text for each in plan.consequences}
    assert {"TIMES_NOT_IN_ORDER", "TARGET_NOT_FIRST"} & texts.keys() == {code}
    assert "T@broker-a:0" in texts[code]
    assert "T@broker-a:1" not in texts[code]


# What can't be looked up


def test_a_message_that_can_not_be_read_costs_its_queue_and_no_other() -> None:
    a = store(counts={"T": (3, 3)}, offsets={"T": {0: 0, 1: 0}})
    message = a.queues["T", 0][1]
    message.record = damaged(message.record)
    result = planned(message_cluster(a), TargetKind.TIME, NOW_MS + 1000)
    assert targets(result.plan) == {"T@broker-a:1": 1, "T@broker-a:0": None}
    assert [str(item.mq) for item in result.plan.items if item.route is Route.UNSEEN] == ["T@broker-a:0"]
    (failure,) = result.failures
    assert (failure.broker_name, failure.what) == ("broker-a", "target of T:0")


def test_a_first_message_that_can_not_be_read_is_told_and_costs_nothing_else() -> None:
    a = store(counts={"T": (3,)}, offsets={"T": {0: 3}})
    a.queues["T", 0][0].record = damaged(a.queues["T", 0][0].record)
    result = planned(message_cluster(a), TargetKind.EARLIEST)
    item = the_item(result.plan)
    assert (item.target, item.first_store_time_ms, dict(item.reasons)) == (
        0,
        None,
        {"firstStoreTimestamp": "NOT_REPORTED"},
    )
    assert [failure.what for failure in result.failures] == ["first message of T:0"]


@pytest.mark.parametrize("code", [Q.GET_TOPIC_STATS_INFO, Q.QUERY_CONSUMER_OFFSET])
def test_a_queue_of_which_something_is_not_known_is_not_seen(code: int) -> None:
    cluster = _offline()
    cluster.servers["broker-b"].table[code] = refused(R.SYSTEM_ERROR, "boom")
    result = planned(cluster)
    assert _unseen_names(result.plan) == {"broker-b"}
    assert any("boom" in failure.error.sentence for failure in result.failures)


# Given offsets


def test_given_offsets_and_what_is_left_alone() -> None:
    given = {MessageQueue("T", "broker-a", 0): 5, MessageQueue("T", "broker-a", 1): None}
    plan = planned(_offline(), TargetKind.GIVEN, given=given).plan
    assert targets(plan) == {"T@broker-a:0": 5}
    (left,) = [item for item in plan.consequences if item.code == "LEFT_ALONE"]
    assert left.text == "1 queue is left alone: no offset was given."


@pytest.mark.parametrize("kind", [TargetKind.GIVEN, TargetKind.BEFORE])
@pytest.mark.parametrize(
    "lacking", [MessageQueue("T", "broker-a", 9), MessageQueue("T", "broker-z", 0)], ids=["queue", "broker"]
)
def test_given_queues_that_are_not_there_are_told(kind: TargetKind, lacking: MessageQueue) -> None:
    given = {MessageQueue("T", "broker-a", 0): 5, lacking: 7}
    result = planned(_offline(), kind, given=given)
    assert targets(result.plan) == {"T@broker-a:0": 5, str(lacking): None}
    (unseen,) = [item for item in result.plan.items if item.route is Route.UNSEEN]
    assert (unseen.mq, unseen.note) == (lacking, "not seen: it does not exist now")
    assert any(str(lacking) in item.text for item in result.plan.consequences)


def test_queues_without_an_offset_are_left_and_counted() -> None:
    plan = planned(_offline(), TargetKind.SHIFT, 5).plan
    (left,) = [item for item in plan.consequences if item.code == "LEFT_ALONE"]
    assert left.text == "1 queue is left alone: no offset is stored."
    cluster = _offline()
    del stored(cluster)[0]
    (left,) = [item for item in planned(cluster, TargetKind.SHIFT, 5).plan.consequences if item.code == "LEFT_ALONE"]
    assert left.text == "2 queues are left alone: no offset is stored."


# A group that goes on while its plan is made


def _growing(cluster: Cluster, by: int) -> Callable[[object], object]:
    """Let the group go on each time that somebody looks."""
    state = cluster.brokers["broker-a"]
    answer = cluster.servers["broker-a"].table[Q.GET_CONSUME_STATS]

    def reply(request: object) -> object:
        offsets = state.offsets["G"]["T"]
        for queue_id in offsets:
            offsets[queue_id] = min(offsets[queue_id] + by, 100)
        return answer

    return reply


def test_numbers_of_a_plan_belong_together_though_the_group_goes_on() -> None:
    cluster = message_cluster(store(offsets={"T": {0: 10, 1: 10}}))
    join(cluster, "c1")
    cluster.servers["broker-a"].table[Q.GET_CONSUME_STATS] = _growing(cluster, 7)  # type: ignore[assignment]
    for item in planned(cluster, TargetKind.SHIFT, -5).plan.items:
        assert item.before is not None
        assert item.target == item.before - 5
        assert (item.reconsumed, item.skipped) == (5, 0)


def test_a_topic_on_a_broker_that_the_name_server_does_not_know_any_more() -> None:
    cluster = _offline()
    cluster.brokers["broker-b"].topics["T"] = [Queue(50), Queue(10)]
    cluster.brokers["broker-b"].groups["G"] = Group({"c1": running()}, ("T",))
    assert planned(cluster).plan.state is GroupState.ONLINE
