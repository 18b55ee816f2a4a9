"""Stored offsets that are taken away."""

from __future__ import annotations

import pytest

from rmqctl.changes.offsets.delete import plan_deletion
from rmqctl.changes.offsets.undo import plan_undo
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.errors import NotFoundError, RefusedError, StaleError
from rmqctl.model.plan import Operation, Route
from rmqctl.model.receipt import Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import Cluster
from tests.changes.change_case import apply, ask, join, message_cluster, outcome, store, targets
from tests.scripted_peer import V4_9_7, V5_4_0, Reply, refused

both = pytest.mark.parametrize("version", [V4_9_7, V5_4_0])


def _cluster(version: int = V4_9_7) -> Cluster:
    """Return a broker with offsets in two topics, and in one that is gone."""
    offsets = {"T": {0: 60, 1: 0}, "U": {0: 5}, "gone": {0: 7, 3: 9}}
    return message_cluster(store(version=version, counts={"T": (100, 100), "U": (9,)}, offsets=offsets))


def _plan(cluster: Cluster, *topics: str, leftovers: bool = False, assume_offline: bool = False) -> PlanReport:
    return ask(
        cluster,
        lambda client: plan_deletion(
            client, "G", topics, leftovers=leftovers, assume_offline=assume_offline, asked="x", reason=None
        ),
    )


@both
def test_the_offsets_of_a_topic_go_and_no_others(version: int) -> None:
    cluster = _cluster(version)
    plan = _plan(cluster, "T").plan
    assert (plan.operation, plan.route) == (Operation.OFFSET_DELETE, Route.BROKER_WRITE)
    assert targets(plan) == {"T@broker-a:0": None, "T@broker-a:1": None}
    assert [item.before for item in plan.items] == [60, 0]
    applied = apply(cluster, plan)
    assert applied.exit_code == 0
    assert {item.result for item in applied.receipt.items} == {Result.CONFIRMED}
    assert (outcome(applied).after, outcome(applied).is_after_known) == (None, True)
    offsets = cluster.brokers["broker-a"].offsets["G"]
    assert offsets == {"T": {0: -1, 1: -1}, "U": {0: 5}, "gone": {0: 7, 3: 9}}


def test_leftovers_are_offsets_of_topics_that_are_gone() -> None:
    cluster = _cluster()
    plan = _plan(cluster, leftovers=True).plan
    assert targets(plan) == {"gone@broker-a:0": None, "gone@broker-a:3": None}
    assert {item.note for item in plan.items} == {"its topic does not exist"}
    assert apply(cluster, plan).exit_code == 0
    assert cluster.brokers["broker-a"].offsets["G"]["gone"] == {0: -1, 3: -1}
    with pytest.raises(NotFoundError, match="no offsets of deleted topics"):
        _plan(cluster, leftovers=True)


@both
def test_a_topic_that_a_broker_still_has_is_not_gone_for_want_of_a_route(version: int) -> None:
    """Such as after a restart of the name server, or while it hears nothing of the topic's only broker."""
    cluster = _cluster(version)
    usual = cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC]

    def without_u(request: Command) -> Reply:
        gone = request.ext_fields["topic"] == "U"
        return refused(R.TOPIC_NOT_EXIST, "no") if gone else usual(request) if callable(usual) else usual

    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = without_u
    plan = _plan(cluster, leftovers=True).plan
    assert list(targets(plan)) == ["gone@broker-a:0", "gone@broker-a:3"]


def test_a_topic_of_which_the_broker_tells_nothing_stays() -> None:
    cluster = _cluster(V5_4_0)
    cluster.servers["broker-a"].table[Q.GET_TOPIC_CONFIG] = refused(R.SYSTEM_ERROR, "boom")
    result = _plan(cluster, leftovers=True)
    assert result.plan.items == ()
    assert [failure.what for failure in result.failures] == ["configuration of gone"]


def test_both_at_once() -> None:
    plan = _plan(_cluster(), "U", leftovers=True).plan
    assert list(targets(plan)) == ["U@broker-a:0", "gone@broker-a:0", "gone@broker-a:3"]


def test_a_route_that_could_not_be_looked_up_is_not_gone() -> None:
    cluster = _cluster()
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = refused(R.SYSTEM_ERROR, "boom")
    result = _plan(cluster, leftovers=True)
    assert (result.plan.items, bool(result.failures)) == ((), True)


@pytest.mark.parametrize("topics", [("nope",), ("T", "nope")])
def test_a_topic_without_an_offset_is_said(topics: tuple[str, ...]) -> None:
    with pytest.raises(NotFoundError, match="nope"):
        _plan(_cluster(), *topics)


@both
@pytest.mark.parametrize("assume_offline", [False, True])
def test_a_group_with_members_is_refused(version: int, assume_offline: bool) -> None:
    cluster = _cluster(version)
    join(cluster, "c1")
    with pytest.raises(RefusedError, match="has members"):
        _plan(cluster, "T", assume_offline=assume_offline)


def test_a_group_that_brokers_of_5_do_not_have_configured_is_refused() -> None:
    cluster = _cluster(V5_4_0)
    cluster.brokers["broker-a"].configured.discard("G")
    with pytest.raises(RefusedError, match="not configured at broker-a") as caught:
        _plan(cluster, "T")
    assert "group delete G --with-offsets" in (caught.value.hint or "")
    old = _cluster(V4_9_7)
    old.brokers["broker-a"].configured.discard("G")
    assert apply(old, _plan(old, "T").plan).exit_code == 0


def test_members_that_come_are_drift() -> None:
    cluster = _cluster()
    plan = _plan(cluster, "T").plan
    join(cluster, "c1")
    with pytest.raises(StaleError, match="was EMPTY and is ONLINE"):
        apply(cluster, plan)
    assert cluster.brokers["broker-a"].offsets["G"]["T"] == {0: 60, 1: 0}


def test_an_offset_that_moved_is_drift() -> None:
    cluster = _cluster()
    plan = _plan(cluster, leftovers=True).plan
    cluster.brokers["broker-a"].offsets["G"]["gone"][3] = 10
    with pytest.raises(StaleError, match="gone@broker-a:3: its offset was 9 and is 10"):
        apply(cluster, plan)


def test_an_offset_that_a_reset_holds_stays_and_that_is_said() -> None:
    cluster = _cluster(V5_4_0)
    state = cluster.brokers["broker-a"]
    state.marks["G", "T", 0] = 60
    applied = apply(cluster, _plan(cluster, "T").plan)
    item = outcome(applied)
    assert (item.result, item.after) == (Result.UNCHANGED, 60)
    assert "waits for a client" in item.note
    assert outcome(applied, 1).result is Result.CONFIRMED
    assert applied.exit_code == 8
    # Never by the request that would send the queue to 0.
    assert Q.INVOKE_BROKER_TO_RESET_OFFSET not in cluster.servers["broker-a"].codes()


@both
def test_a_deletion_can_be_undone(version: int) -> None:
    cluster = _cluster(version)
    receipt = apply(cluster, _plan(cluster, "T").plan).receipt
    back = ask(cluster, lambda client: plan_undo(client, receipt, assume_offline=False, reason=None)).plan
    assert targets(back) == {"T@broker-a:0": 60, "T@broker-a:1": 0}
    assert apply(cluster, back).exit_code == 0
    assert cluster.brokers["broker-a"].offsets["G"]["T"] == {0: 60, 1: 0}


def test_what_is_not_known_of_a_queue_is_null_with_a_reason() -> None:
    for item in _plan(_cluster(), "T", leftovers=True).plan.items:
        assert item.min_offset is item.max_offset is item.reconsumed is item.lost is item.first_store_time_ms is None
        assert {"minOffset", "maxOffset", "target", "lost", "reconsumed", "firstStoreTimestamp"} <= set(item.reasons)
