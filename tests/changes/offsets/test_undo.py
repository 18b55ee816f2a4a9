"""The way back from a change, by its receipt."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.rules.reset import TargetKind
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.changes.same_cluster import follow_plan
from rmqctl.changes.undo import find_later, plan_change_undo
from rmqctl.errors import RefusedError, RmqctlError, StaleError
from rmqctl.model.plan import Operation, Plan, Route
from rmqctl.model.receipt import Receipt, ReceiptItem, Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import Cluster
from tests.changes.change_case import apply, ask, join, message_cluster, outcome, planned, results, store, targets
from tests.scripted_peer import V4_9_7, V5_4_0, refused

both = pytest.mark.parametrize("version", [V4_9_7, V5_4_0])


def _cluster(version: int = V5_4_0, offsets: dict[int, int] | None = None) -> Cluster:
    stored = {"T": {0: 60, 1: 60} if offsets is None else offsets}
    return message_cluster(store(version=version, offsets=stored))


def _undo(cluster: Cluster, receipt: Receipt, **settings: Any) -> PlanReport:
    wanted: dict[str, Any] = {"assume_offline": False, "assume_same_cluster": False, "reason": None, **settings}
    return ask(cluster, lambda client: plan_change_undo(client, receipt, wanted.pop("later", ()), **wanted))


def _reset(cluster: Cluster, kind: TargetKind = TargetKind.OFFSET, value: int = 20) -> Receipt:
    return apply(cluster, planned(cluster, kind, value).plan).receipt


def _stored(cluster: Cluster) -> dict[int, int]:
    return cluster.brokers["broker-a"].offsets["G"]["T"]


@both
def test_back_to_where_it_was(version: int) -> None:
    cluster = _cluster(version, {0: 60, 1: 70})
    receipt = _reset(cluster)
    plan = _undo(cluster, receipt, reason="wrong day").plan
    assert (plan.operation, plan.asked, plan.reason) == (Operation.OFFSET_UNDO, receipt.id, "wrong day")
    assert targets(plan) == {"T@broker-a:0": 60, "T@broker-a:1": 70}
    assert apply(cluster, plan).exit_code == 0
    assert _stored(cluster) == {0: 60, 1: 70}


def test_an_undo_can_be_undone() -> None:
    cluster = _cluster()
    back = apply(cluster, _undo(cluster, _reset(cluster)).plan).receipt
    assert _stored(cluster) == {0: 60, 1: 60}
    again = _undo(cluster, back).plan
    assert targets(again) == {"T@broker-a:0": 20, "T@broker-a:1": 20}
    apply(cluster, again)
    assert _stored(cluster) == {0: 20, 1: 20}


@both
def test_an_offset_that_there_was_not_is_taken_away(version: int) -> None:
    cluster = _cluster(version, {0: 60})
    receipt = _reset(cluster)
    plan = _undo(cluster, receipt).plan
    assert targets(plan) == {"T@broker-a:0": 60, "T@broker-a:1": None}
    applied = apply(cluster, plan)
    assert applied.exit_code == 0
    item = outcome(applied, 1)
    assert (item.before, item.target, item.after, item.is_after_known) == (20, None, None, True)
    assert _stored(cluster) == {0: 60, 1: -1}
    # And back once more.
    plan = _undo(cluster, applied.receipt).plan
    assert targets(plan) == {"T@broker-a:0": 20, "T@broker-a:1": 20}


def test_a_queue_that_had_gone_on_by_itself_is_not_sent_back() -> None:
    """skip on a group that runs: nothing was written where it had gone past the planned end, so nothing is undone."""
    cluster = _cluster()
    join(cluster, "c1")
    plan = planned(cluster, TargetKind.LATEST).plan
    _stored(cluster)[0] = 107
    receipt = apply(cluster, plan).receipt
    assert [item.may_have_changed for item in receipt.items] == [False, True]
    _stored(cluster)[0] = 900
    assert targets(_undo(cluster, receipt).plan) == {"T@broker-a:1": 60}


def test_with_a_group_that_runs_an_offset_is_not_taken_away() -> None:
    cluster = _cluster(offsets={0: 60})
    receipt = _reset(cluster)
    join(cluster, "c1")
    result = _undo(cluster, receipt)
    assert targets(result.plan) == {"T@broker-a:0": 60}
    (left,) = [item.text for item in result.plan.consequences if item.code == "LEFT_ALONE"]
    assert "cannot be deleted" in left


@pytest.mark.parametrize("gone", [60, 5])
def test_what_retention_deleted_since_leads_to_the_first_that_is_left(gone: int) -> None:
    cluster = _cluster()
    receipt = _reset(cluster, TargetKind.LATEST)
    cluster.brokers["broker-a"].topics["T"][0].min_offset = gone + 5
    plan = _undo(cluster, receipt).plan
    assert targets(plan)["T@broker-a:0"] == max(60, gone + 5)


def _receipt(*items: ReceiptItem, **changes: Any) -> Receipt:
    receipt = Receipt(
        "r", "p", "5" * 64, Operation.OFFSET_RESET, 1, 2, "C", {"broker-a": "a:1"}, "G", Route.BROKER_WRITE,
        items=items,
    )  # fmt: skip
    return replace(receipt, **changes)


def _items(cluster: Cluster, *found: Result) -> tuple[ReceiptItem, ...]:
    whole = _reset(cluster).items
    return tuple(replace(item, result=result) for item, result in zip(whole, found, strict=True))


def test_what_may_have_been_changed_is_put_back_and_what_was_not_is_left() -> None:
    cluster = _cluster()
    items = _items(cluster, Result.UNKNOWN, Result.UNCHANGED)
    assert targets(_undo(cluster, _receipt(*items)).plan) == {"T@broker-a:0": 60}
    for result in (Result.UNCHANGED, Result.NOT_ATTEMPTED):
        with pytest.raises(RefusedError, match="no queue was changed"):
            _undo(cluster, _receipt(*_items(_cluster(), result, result)))


def test_a_change_that_changed_nothing_has_no_way_back() -> None:
    cluster = _cluster()
    with pytest.raises(RefusedError, match="no queue was changed"):
        _undo(cluster, _reset(cluster, TargetKind.OFFSET, 60))
    with pytest.raises(RefusedError, match="no queue was changed"):
        _undo(cluster, _receipt())
    rewritten = [replace(item, before=item.target, note="") for item in _items(cluster, Result.UNKNOWN, Result.UNKNOWN)]
    with pytest.raises(RefusedError, match="redelivers what members had consumed"):
        _undo(cluster, _receipt(*rewritten))


def test_a_change_that_was_cut_off_can_be_undone() -> None:
    cluster = _cluster()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    cluster.servers["broker-a"].fail_next(Q.UPDATE_CONSUMER_OFFSET, refused(R.SYSTEM_ERROR, "no"))
    applied = apply(cluster, plan)
    assert sorted(results(applied).values()) == ["CONFIRMED", "UNCHANGED"]
    back = _undo(cluster, applied.receipt).plan
    assert len(back.items) == 1
    apply(cluster, back)
    assert _stored(cluster) == {0: 60, 1: 60}


@pytest.mark.parametrize(
    "brokers",
    [{"broker-a": "elsewhere:1"}, {"broker-z": "z:1"}, {"broker-a": "elsewhere:1", "broker-z": "z:1"}],
    ids=str,
)
def test_a_receipt_of_another_cluster_is_refused(brokers: dict[str, str]) -> None:
    cluster = _cluster()
    receipt = _reset(cluster)
    items = receipt.items
    if "broker-a" not in brokers and brokers:
        items = tuple(replace(item, mq=item.mq._replace(broker_name="broker-z")) for item in items)
    with pytest.raises(RmqctlError):
        _undo(cluster, replace(receipt, brokers=brokers, items=items))
    assert _stored(cluster) == {0: 20, 1: 20}


def test_brokers_that_came_back_elsewhere_are_taken_for_the_same_where_that_is_said() -> None:
    cluster = _cluster()
    receipt = _reset(cluster)
    moved = replace(receipt, brokers={"broker-a": "elsewhere:1", "broker-z": "z:1"})
    plan = _undo(cluster, moved, assume_same_cluster=True).plan
    (told,) = [item.text for item in plan.consequences if item.code == "MOVED"]
    assert told.startswith("Broker broker-a was at elsewhere:1 and is now at ")
    assert plan.brokers == receipt.brokers
    assert apply(cluster, plan).exit_code == 0
    assert _stored(cluster) == {0: 60, 1: 60}
    # Of brokers none of which is there, nothing can be said.
    with pytest.raises(RefusedError, match=r"none of its brokers \(broker-z\)"):
        _undo(cluster, replace(receipt, brokers={"broker-z": "z:1"}), assume_same_cluster=True)


def test_a_plan_follows_its_brokers_as_a_plan_of_its_own() -> None:
    cluster = _cluster()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    assert ask(cluster, lambda client: follow_plan(client, plan)) == plan
    moved = replace(plan, brokers={"broker-a": "elsewhere:1"})
    with pytest.raises(StaleError, match="it may be another cluster") as stale:
        apply(cluster, moved)
    assert "--assume-same-cluster" in str(stale.value.hint)
    followed = ask(cluster, lambda client: follow_plan(client, moved))
    assert (followed.brokers, followed.items) == (plan.brokers, plan.items)
    assert followed.id != plan.id
    assert followed.created_at_ms == plan.created_at_ms  # it is as old as it was
    assert followed.asked.endswith(f"(plan {plan.id})")
    assert apply(cluster, followed).exit_code == 0
    assert _stored(cluster) == {0: 20, 1: 20}


def test_later_changes_of_the_same_queues_are_told() -> None:
    cluster = _cluster()
    first, second = _reset(cluster), _reset(cluster, TargetKind.OFFSET, 30)
    third = apply(cluster, planned(cluster, TargetKind.OFFSET, 50, group="G").plan).receipt
    with Journal() as journal:
        assert find_later(journal, third) == []
        assert find_later(journal, first) == [third.id, second.id]
        # Of other queues, or where nothing was done, there is nothing to go over.
        other = replace(first, items=tuple(replace(item, mq=item.mq._replace(topic="U")) for item in first.items))
        assert find_later(journal, other) == []
        later = find_later(journal, first)
    told = [item.text for item in _undo(cluster, first, later=later).plan.consequences if item.code == "LATER_CHANGES"]
    assert told == [f"2 later changes are overwritten as well: {third.id}, {second.id}."]
    assert "LATER_CHANGES" not in [item.code for item in _undo(cluster, third).plan.consequences]


def test_queues_that_are_gone_are_told() -> None:
    cluster = _cluster()
    receipt = _reset(cluster)
    del cluster.brokers["broker-a"].topics["T"][1]
    result = _undo(cluster, receipt)
    assert targets(result.plan) == {"T@broker-a:0": 60, "T@broker-a:1": None}
    assert result.unseen == "1 queue at broker-a (it does not exist now)"
    told = [item.text for item in result.plan.consequences] + [str(failure) for failure in result.failures]
    assert any("T@broker-a:1" in text for text in told)


def test_a_topic_that_is_gone_does_not_hide_the_others() -> None:
    counts = {"T": (9,), "U": (9,)}
    cluster = message_cluster(store(counts=counts, offsets={"T": {0: 6}, "U": {0: 6}}))
    receipt = apply(cluster, planned(cluster, TargetKind.EARLIEST, topics=("T", "U")).plan).receipt
    del cluster.brokers["broker-a"].topics["U"]
    result = _undo(cluster, receipt)
    assert targets(result.plan) == {"T@broker-a:0": 6, "U@broker-a:0": None}
    told = [item.text for item in result.plan.consequences] + [str(failure) for failure in result.failures]
    assert any("U" in text for text in told)


def test_the_way_back_is_a_plan_like_others_and_drifts_like_others() -> None:
    cluster = _cluster()
    plan: Plan = _undo(cluster, _reset(cluster)).plan
    _stored(cluster)[0] = 25
    with pytest.raises(RmqctlError, match="its offset was 20 and is 25"):
        apply(cluster, plan)
