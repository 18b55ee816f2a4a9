"""Saved plans without what can't be seen now: which items stay, and that the rest of the plan still holds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rmqctl.changes.offsets.rules.reset import TargetKind
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.changes.unseen_parts import leave_out_unseen
from rmqctl.errors import UnreachableError
from rmqctl.model.plan import CleanStep, Operation, Plan, ReturnedMessage, Route
from rmqctl.model.receipt import Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import Cluster
from tests.changes.change_case import apply, ask, join, message_cluster, planned, store
from tests.scripted_peer import SILENCE, refused


def _cluster() -> Cluster:
    """Return two brokers with T, the second one with U as well."""
    offsets = {"T": {0: 60, 1: 60}}
    return message_cluster(
        store(offsets=offsets),
        store("broker-b", counts={"T": (100, 100), "U": (9,)}, offsets={**offsets, "U": {0: 5}}),
    )


def _left(cluster: Cluster, plan: Plan) -> PlanReport:
    return ask(cluster, lambda client: leave_out_unseen(client, plan))


def _routes(plan: Plan) -> dict[str, Route]:
    return {str(item.mq): item.route for item in plan.items}


@pytest.mark.parametrize("is_online", [False, True])
@pytest.mark.parametrize(
    "code", [None, Q.GET_CONSUME_STATS, Q.GET_TOPIC_STATS_INFO, Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG]
)
def test_the_rest_of_a_plan_holds(code: int | None, is_online: bool) -> None:
    cluster = _cluster()
    if is_online:
        join(cluster, "c1", topics=("T", "U"))
    plan = planned(cluster, TargetKind.OFFSET, 20, topics=("T", "U")).plan
    if code is None:
        cluster.stop("broker-b")
    else:
        cluster.servers["broker-b"].table[code] = SILENCE
    left = _left(cluster, plan)
    assert {failure.broker_name for failure in left.failures} == {"broker-b"}
    assert {name for name, route in _routes(left.plan).items() if route is Route.UNSEEN} == {
        "T@broker-b:0", "T@broker-b:1", "U@broker-b:0"
    }  # fmt: skip
    assert (left.plan.id == plan.id, plan.id in left.plan.asked) == (False, True)
    assert left.unseen is not None
    applied = apply(cluster, left.plan)
    results = {str(item.mq): item.result for item in applied.receipt.items}
    assert {name for name, result in results.items() if result is Result.NOT_ATTEMPTED} == {
        "T@broker-b:0", "T@broker-b:1", "U@broker-b:0"
    }  # fmt: skip


def test_a_plan_that_left_a_whole_topic_out_holds() -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    plan = planned(cluster, TargetKind.OFFSET, 20, topics=("T", "U")).plan
    assert _routes(plan)["U@broker-b:0"] is Route.UNSEEN
    assert apply(cluster, plan).exit_code == 8


def test_what_is_all_there_is_the_same_plan() -> None:
    cluster = _cluster()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    assert _left(cluster, plan) == PlanReport(plan, ())


def test_where_nobody_answers_there_is_nothing_left_to_do() -> None:
    cluster = _cluster()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    for name in cluster.brokers:
        cluster.stop(name)
    with pytest.raises(UnreachableError):
        _left(cluster, plan)


def test_messages_of_a_queue_that_is_left_out_are_not_sent_back() -> None:
    cluster = _cluster()
    plan = planned(cluster, TargetKind.OFFSET, 61).plan
    message = ReturnedMessage(60, 0, "id", "T", 0)
    items = tuple(replace(item, cleaning=CleanStep(60, 3, 16, (message,))) for item in plan.items)
    plan = replace(plan, operation=Operation.CLEAN_EXPIRED, items=items)
    cluster.stop("broker-b")
    left = _left(cluster, plan).plan
    assert {item.mq.broker_name for item in left.items if item.cleaning is not None} == {"broker-a"}


def test_a_broker_that_hides_its_groups_from_an_account_is_named() -> None:
    cluster = _cluster()
    cluster.servers["broker-b"].table[Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = refused(R.NO_PERMISSION, "no")
    made = planned(cluster, TargetKind.OFFSET, 20)
    assert made.unseen is None
    (hidden,) = [item.text for item in made.plan.consequences if item.code == "CONFIGURATION_HIDDEN"]
    assert hidden.startswith("broker-b ")
    assert apply(cluster, made.plan).exit_code == 0
