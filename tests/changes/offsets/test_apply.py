"""Plans that are applied: what is written, what is drift, what the receipt and the journal say."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rmqctl.admin.topics.queues import QueueChoice
from rmqctl.changes.documents.encode import plan_document
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.check import check_plan
from rmqctl.changes.offsets.rules.reset import CONTINUED, TargetKind
from rmqctl.changes.offsets.undo import plan_undo
from rmqctl.cli.change.listings import is_changing
from rmqctl.errors import RefusedError, StaleError, UnreachableError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.plan import Plan, PlanItem, Route
from rmqctl.model.receipt import ReceiptReport, Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import Cluster, Queue
from tests.changes.change_case import (
    WHO,
    apply,
    ask,
    join,
    journaled,
    outcome,
    planned,
    results,
    stored,
    the_item,
    two_brokers,
    written_count,
)
from tests.scripted_peer import V4_9_7, V5_4_0, refused

both = pytest.mark.parametrize("version", [V4_9_7, V5_4_0])


# What is done


def test_a_plan_for_a_group_of_rocketmq_is_not_applied_whoever_made_it() -> None:
    cluster = two_brokers()
    plan = replace(planned(cluster).plan, group="TOOLS_CONSUMER")
    cluster.name_server.asked.clear()
    with pytest.raises(UsageError, match="RocketMQ's own"):
        apply(cluster, plan)
    assert cluster.name_server.asked == []


@both
@pytest.mark.parametrize(
    ("kind", "value", "target"), [(TargetKind.EARLIEST, 0, 0), (TargetKind.OFFSET, 20, 20), (TargetKind.LATEST, 0, 100)]
)
def test_an_offline_group_is_moved_and_that_is_confirmed(
    version: int, kind: TargetKind, value: int, target: int
) -> None:
    cluster = two_brokers(version)
    plan = planned(cluster, kind, value).plan
    applied = apply(cluster, plan)
    assert stored(cluster) == stored(cluster, "broker-b") == {0: target, 1: target}
    assert set(results(applied).values()) == {"CONFIRMED"}
    assert (applied.exit_code, applied.failures) == (0, ())
    item = outcome(applied)
    assert (item.before, item.target, item.after, item.is_after_known, item.is_pending, item.note) == (
        60, target, target, True, False, ""
    )  # fmt: skip
    # Nobody is there who would have to be told.
    assert all(Q.INVOKE_BROKER_TO_RESET_OFFSET not in server.codes() for server in cluster.servers.values())
    assert journaled() == applied.receipt


def test_the_journal_and_the_receipt_say_what_was_asked() -> None:
    cluster = two_brokers()
    plan = planned(cluster, reason="bad data").plan
    receipt = apply(cluster, plan).receipt
    assert (receipt.plan_id, receipt.group, receipt.asked, receipt.reason, receipt.brokers) == (
        plan.id, "G", "as the test says", "bad data", plan.brokers
    )  # fmt: skip
    assert receipt.plan_sha256 == plan_document(plan)["sha256"]
    assert receipt.ended_at_ms is not None
    with Journal() as journal:
        assert json.loads(journal.plan_text(receipt.id) or "") == plan_document(plan)
        (change,) = journal.history()
    assert change.who == WHO


def test_some_queues_only() -> None:
    cluster = two_brokers()
    plan = planned(cluster, queues=(QueueChoice("broker-a", 1, 1),)).plan
    assert apply(cluster, plan).exit_code == 0
    assert (stored(cluster), stored(cluster, "broker-b")) == ({0: 60, 1: 0}, {0: 60, 1: 60})
    assert written_count(cluster) == 1


def test_what_is_there_already_is_not_written() -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 60).plan
    applied = apply(cluster, plan)
    assert written_count(cluster) == 0
    assert (applied.exit_code, set(results(applied).values())) == (0, {"CONFIRMED"})
    assert outcome(applied).note == "already at the target"
    assert journaled() == applied.receipt


def test_a_group_that_runs_is_sent_by_the_broker_and_is_not_called_confirmed_before_it_went() -> None:
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    applied = apply(cluster, plan)
    assert stored(cluster) == {0: 20, 1: 20}
    assert cluster.brokers["broker-a"].marks == {("G", "T", 0): 20, ("G", "T", 1): 20}
    assert set(results(applied).values()) == {"UNKNOWN"}
    item = outcome(applied)
    assert (item.after, item.is_after_known, item.is_pending) == (20, True, True)
    assert applied.exit_code == 9
    assert all(Q.UPDATE_CONSUMER_OFFSET not in server.codes() for server in cluster.servers.values())
    assert journaled() == applied.receipt


def test_a_plan_saved_for_a_part_of_a_topic_still_holds() -> None:
    cluster = two_brokers()
    plan = planned(cluster, queues=(QueueChoice("broker-a", 0, 0),)).plan
    assert set(plan.brokers) == {"broker-a"}
    assert apply(cluster, plan, strict=True).exit_code == 0


def test_applying_again_does_the_rest() -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    cluster.servers["broker-b"].fail_next(Q.UPDATE_CONSUMER_OFFSET, refused(R.SYSTEM_ERROR, "boom"))
    first = apply(cluster, plan)
    assert (first.exit_code, sorted(results(first).values())) == (8, ["CONFIRMED"] * 3 + ["UNCHANGED"])
    written = written_count(cluster)
    with pytest.raises(StaleError):
        apply(cluster, plan, strict=True)
    # What is there already is written no more.
    second = apply(cluster, plan)
    assert (second.exit_code, set(results(second).values())) == (0, {"CONFIRMED"})
    assert written_count(cluster) == written + 1


# The check before


def test_a_plan_that_no_longer_holds_writes_nothing_and_leaves_nothing_in_the_journal() -> None:
    cluster = two_brokers()
    plan = planned(cluster).plan
    stored(cluster)[1] = 61
    with pytest.raises(StaleError, match=r"T@broker-a:1: its offset was 60 and is 61\.") as caught:
        apply(cluster, plan)
    assert caught.value.exit_code == 7
    assert written_count(cluster) == 0
    with Journal() as journal:
        assert journal.history() == []


def _swap_address(cluster: Cluster) -> None:
    """Let a broker of the same name stand elsewhere."""
    cluster.network.servers["other:1"] = cluster.servers["broker-a"]
    cluster.addresses["broker-a"] = "other:1"


def _more_queues(cluster: Cluster) -> None:
    cluster.brokers["broker-a"].topics["T"].append(Queue())


def _new_broker_has_it(cluster: Cluster) -> None:
    del cluster.brokers["broker-b"].topics["T"][0]


def _go_offline(cluster: Cluster) -> None:
    for state in cluster.brokers.values():
        state.groups.clear()


def _turn_off(cluster: Cluster) -> None:
    cluster.brokers["broker-a"].settings["useServerSideResetOffset"] = "false"


def _broadcast(cluster: Cluster) -> None:
    join(cluster, "c1", message_model="BROADCASTING")


def _delete_topic(cluster: Cluster) -> None:
    for state in cluster.brokers.values():
        del state.topics["T"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_swap_address, "was at a:1 and is at other:1"),
        (_more_queues, "had 2 queues at broker-a and has 3"),
        (_new_broker_has_it, "had 2 queues at broker-b and has 1"),
        (_go_offline, "was ONLINE and is EMPTY"),
        (_turn_off, "was to be changed by SERVER_SIDE, and now by CLIENT_PUSH"),
        (_broadcast, "was CLUSTERING and is BROADCASTING"),
        (_delete_topic, "does not exist"),
        (lambda cluster: cluster.stop("broker-b"), "Broker broker-b is not registered or does not answer"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_changed_around_the_group_is_drift(change: Callable[[Cluster], None], said: str) -> None:
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    change(cluster)
    with pytest.raises(StaleError) as caught:
        apply(cluster, plan)
    assert said in caught.value.sentence
    assert written_count(cluster) == 0


def test_members_that_come_are_drift() -> None:
    cluster = two_brokers()
    plan = planned(cluster).plan
    join(cluster, "c1")
    with pytest.raises(StaleError, match="was EMPTY and is ONLINE"):
        apply(cluster, plan)


def test_a_group_that_runs_may_have_come_further_and_that_is_said() -> None:
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    stored(cluster)[0] = 75
    said: list[str] = []
    applied = apply(cluster, plan, said=said)
    assert ["15 messages in 1 of its queues" in text for text in said] == [True]
    # What is undone later is what was stored last, not what the plan knew.
    assert outcome(applied).before == 75
    assert outcome(applied, 1).before == 60
    stored(cluster)[0] = 75
    with pytest.raises(StaleError):
        apply(cluster, planned_again(plan), strict=True)


def planned_again(plan: Plan) -> Plan:
    """Return the same plan as it would be of another moment."""
    return replace(plan, items=tuple(replace(item, before=60) for item in plan.items))


def test_a_group_that_reached_the_end_meanwhile_is_not_sent_back() -> None:
    """skip on a group that runs: what has gone on from the end that was planned stays where it is."""
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.LATEST).plan
    stored(cluster)[0] = 107
    applied = apply(cluster, plan)
    assert (stored(cluster)[0], stored(cluster)[1]) == (107, 100)
    assert (outcome(applied).result, outcome(applied).note) == (Result.CONFIRMED, CONTINUED)


def test_a_plan_that_changes_nothing_does_not_send_a_group_back_and_says_so() -> None:
    """The group went on from the target by itself: today's numbers say that nothing is redelivered, too."""
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.CURRENT).plan
    stored(cluster)[0] = 70
    today = ask(cluster, lambda client: check_plan(client, plan, strict=False)).today
    shown = plan_document(today)["items"][0]
    assert (shown["before"], shown["target"], shown["change"], shown["reconsumedMax"]) == (70, 60, 0, 0)
    assert not is_changing(today)
    applied = apply(cluster, plan)
    assert (stored(cluster)[0], written_count(cluster)) == (70, 0)
    assert (outcome(applied).result, outcome(applied).note) == (Result.CONFIRMED, CONTINUED)
    with pytest.raises(RefusedError, match="no queue was changed"):
        ask(cluster, lambda client: plan_undo(client, applied.receipt, assume_offline=False, reason=None))


def test_nobody_is_there() -> None:
    cluster = two_brokers()
    plan = planned(cluster).plan
    cluster.network.refusing.add("ns:1")
    with pytest.raises(UnreachableError):
        apply(cluster, plan)
    assert written_count(cluster) == 0


# Exit codes


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([Result.CONFIRMED], 0),
        ([Result.CONFIRMED, Result.UNKNOWN], 9),
        ([Result.UNKNOWN], 9),
        ([Result.CONFIRMED, Result.UNCHANGED], 8),
        ([Result.CONFIRMED, Result.NOT_ATTEMPTED], 8),
        ([Result.UNKNOWN, Result.NOT_ATTEMPTED], 8),
        ([Result.UNCHANGED], 1),
        ([Result.UNCHANGED, Result.NOT_ATTEMPTED], 1),
        ([], 0),
    ],
)
def test_exit_codes(found: list[Result], code: int) -> None:
    cluster = two_brokers()
    whole = apply(cluster, planned(cluster, TargetKind.OFFSET, 20).plan).receipt
    items = tuple(replace(whole.items[0], result=result) for result in found)
    assert ReceiptReport(replace(whole, items=items), ()).exit_code == code


def test_nobody_who_could_be_reached_is_6() -> None:
    cluster = two_brokers()
    whole = apply(cluster, planned(cluster, TargetKind.OFFSET, 20).plan).receipt
    items = tuple(replace(item, result=Result.NOT_ATTEMPTED) for item in whole.items)
    failure = Failure("broker-a", "offsets", UnreachableError("a:1", "connection refused"))
    assert ReceiptReport(replace(whole, items=items), (failure,)).exit_code == 6


# A plan by hand, with a right sum


def test_an_item_of_a_broker_that_the_cluster_does_not_have() -> None:
    cluster = two_brokers()
    plan = planned(cluster).plan
    stranger = the_item(plan).mq._replace(broker_name="broker-z")
    item = PlanItem(stranger, 60, 0, Route.BROKER_WRITE)
    wrong = replace(plan, items=(*plan.items, item), brokers={**plan.brokers, "broker-z": "z:1"})
    with pytest.raises(StaleError):
        apply(cluster, wrong)
    assert written_count(cluster) == 0


def test_a_queue_that_the_topic_does_not_have() -> None:
    cluster = two_brokers()
    plan = planned(cluster).plan
    item = PlanItem(the_item(plan).mq._replace(queue_id=77), None, 0, Route.BROKER_WRITE)
    with pytest.raises(StaleError):
        apply(cluster, replace(plan, items=(*plan.items, item)))
    assert written_count(cluster) == 0
