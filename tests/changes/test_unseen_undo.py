"""The way back from a change whose write may still take effect: to find nothing there yet is not to have undone it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.late_writes import IN_FLIGHT_MS, unseen_note
from rmqctl.changes.offsets.delete import plan_deletion
from rmqctl.changes.offsets.rules.reset import TargetKind
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.changes.undo import find_later, plan_change_undo, with_later_observations
from rmqctl.errors import RefusedError, StaleError
from rmqctl.model.plan import AwaitedWrite
from rmqctl.model.receipt import Receipt, ReceiptReport, Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.command import Command
from tests.admin.cluster import Cluster, Queue
from tests.changes import change_case
from tests.changes.change_case import ask, outcome, planned, stored, two_brokers
from tests.changes.groups.group_case import Case, cluster, codes, results
from tests.scripted_peer import SILENCE, Reply, ScriptedServer

TOPIC = "%DLQ%G"
CREATE, DELETE = Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Q.DELETE_SUBSCRIPTIONGROUP


class Late:
    """A server that answers none of some requests, and carries them out when it is told to."""

    def __init__(self, server: ScriptedServer, code: int) -> None:
        self._server, self._code, self._usual = server, code, server.table[code]
        self.requests: list[Command] = []

        def keep(request: Command) -> Reply:
            self.requests.append(request)
            return SILENCE

        server.table[code] = keep

    def come(self) -> None:
        """Carry out what was sent, and answer from now on."""
        self._server.table[self._code] = self._usual
        assert callable(self._usual)
        for request in self.requests:
            self._usual(request)


def _update(case: Case) -> ReceiptReport:
    return case.apply(case.update("G", "retryMaxTimes=7").plan)


def _create(case: Case) -> ReceiptReport:
    return case.apply(case.create("N").plan)


def _delete(case: Case) -> ReceiptReport:
    return case.apply(case.delete("G", with_offsets=True).plan)


def _open_dead_letters(case: Case) -> ReceiptReport:
    return case.apply(case.open_dead_letters().plan)


def _state(case: Case) -> Any:
    state = case.cluster.brokers["broker-a"]
    perm = state.topic_config(TOPIC)["perm"]
    offsets = {queue: offset for queue, offset in state.offsets.get("G", {}).get("T", {}).items() if offset >= 0}
    fields = case.fields("G")["broker-a"]
    retries = None if fields is None else fields.get("retryMaxTimes", 16)
    return retries, case.fields("N")["broker-a"], offsets, perm


@pytest.mark.parametrize(
    ("make", "code"),
    [(_update, CREATE), (_create, CREATE), (_delete, DELETE), (_open_dead_letters, Q.UPDATE_AND_CREATE_TOPIC)],
)
def test_a_configuration_in_flight_is_awaited_and_taken_back_once_it_comes(
    tmp_path: Path, make: Callable[[Case], ReceiptReport], code: int
) -> None:
    case = Case(cluster(), tmp_path)
    case.cluster.brokers["broker-a"].topics[TOPIC] = [Queue(3)]
    case.cluster.brokers["broker-a"].topic_configs[TOPIC] = {"perm": 2}
    before = _state(case)
    late = Late(case.cluster.servers["broker-a"], code)
    done = make(case)
    assert (results(done)["broker-a"], done.exit_code, len(late.requests)) == (Result.UNKNOWN, 9, 1)
    # Not yet there: the undo ends as unknown, and sends nothing more.
    plan = case.undo(done.receipt).plan
    assert "NOT_SEEN_YET" in [item.code for item in plan.consequences]
    early = case.apply(plan)
    assert (results(early)["broker-a"], early.exit_code, len(late.requests)) == (Result.UNKNOWN, 9, 1)
    assert f"The write of {done.receipt.id} was not seen and may still take effect" in early.receipt.configs[0].note
    assert case.noted(early.receipt) == early.receipt
    assert _state(case) == before
    with Journal(case.folder / "journal.db") as journal:
        # What was not seen is no later change that the next undo goes over.
        assert bool(find_later(journal, done.receipt)) is (Result.CONFIRMED in results(early).values())
    # It comes while the next one looks; that is no drift for a plan of before either.
    plan = case.undo(done.receipt).plan
    case.cluster.clock.call_later(5.0, late.come)
    back = case.apply(plan)
    assert (set(results(back).values()), back.exit_code, _state(case)) == ({Result.CONFIRMED}, 0, before)
    assert case.noted(back.receipt) == back.receipt
    # The journal knows then that it came: nothing is awaited a second time.
    with Journal(case.folder / "journal.db") as journal:
        seen = with_later_observations(journal, done.receipt)
    assert seen.configs[0].result is Result.CONFIRMED
    assert "NOT_SEEN_YET" not in codes(case.undo(seen))


def test_what_came_between_plan_and_undo_is_no_drift_and_any_other_change_is(tmp_path: Path) -> None:
    case = Case(cluster(), tmp_path)
    late = Late(case.cluster.servers["broker-a"], CREATE)
    done = _update(case)
    plan = case.undo(done.receipt).plan
    late.come()
    case.cluster.brokers["broker-a"].group_configs["G"]["consumeEnable"] = False
    with pytest.raises(StaleError, match="consumeEnable"):
        case.apply(plan)
    del case.cluster.brokers["broker-a"].group_configs["G"]["consumeEnable"]
    assert case.apply(plan).exit_code == 0


def test_an_offset_that_an_undo_stores_late_is_awaited_when_that_undo_is_undone(tmp_path: Path) -> None:
    case = Case(cluster(), tmp_path)
    gone = case.apply(case.delete("G", with_offsets=True).plan)
    late = Late(case.cluster.servers["broker-a"], Q.UPDATE_CONSUMER_OFFSET)
    back = case.apply(case.undo(gone.receipt).plan)
    assert (results(back)["T@broker-a:0"], results(back)["broker-a"]) == (Result.UNKNOWN, Result.CONFIRMED)
    plan = case.undo(back.receipt).plan
    assert [item.awaits for item in plan.items if item.mq.broker_name == "broker-a"] == [
        AwaitedWrite(back.receipt.id, 40)
    ]
    case.cluster.clock.call_later(5.0, late.come)
    again = case.apply(plan)
    assert (set(results(again).values()), again.exit_code) == ({Result.CONFIRMED}, 0)
    assert not any(case.cluster.brokers[name].offsets.get("G") for name in ("broker-a", "broker-b"))


def test_a_reset_that_comes_while_members_consume_is_taken_back() -> None:
    at = two_brokers(online=True)
    late = [Late(server, Q.INVOKE_BROKER_TO_RESET_OFFSET) for server in at.servers.values()]
    done = change_case.apply(at, planned(at, TargetKind.LATEST).plan, timeout_s=100.0)
    plan = _undo(at, done.receipt).plan
    for each in late:
        at.clock.call_later(5.0, each.come)
    back = change_case.apply(at, plan, timeout_s=100.0)
    assert stored(at) == stored(at, "broker-b") == {0: 60, 1: 60}
    assert {(item.before, item.target, item.after) for item in back.receipt.items} == {(100, 60, 60)}


def _undo(cluster_: Cluster, receipt: Receipt) -> PlanReport:
    return ask(
        cluster_,
        lambda client: plan_change_undo(
            client, receipt, (), assume_offline=False, assume_same_cluster=False, reason=None
        ),
    )


def _reset(cluster_: Cluster) -> ReceiptReport:
    return change_case.apply(cluster_, planned(cluster_, TargetKind.OFFSET, 20).plan, timeout_s=100.0)


def _skip(cluster_: Cluster) -> ReceiptReport:
    return change_case.apply(cluster_, planned(cluster_, TargetKind.LATEST).plan, timeout_s=100.0)


def _delete_offsets(cluster_: Cluster) -> ReceiptReport:
    deletion = ask(
        cluster_,
        lambda client: plan_deletion(
            client, "G", ["T"], leftovers=False, assume_offline=False, asked="", reason=None
        ),
    )  # fmt: skip
    return change_case.apply(cluster_, deletion.plan, timeout_s=100.0)


@pytest.mark.parametrize("make", [_reset, _skip, _delete_offsets])
def test_an_offset_in_flight_is_awaited_and_taken_back_once_it_comes(make: Callable[[Cluster], ReceiptReport]) -> None:
    at = two_brokers()
    late = Late(at.servers["broker-a"], Q.UPDATE_CONSUMER_OFFSET)
    done = make(at)
    assert (done.exit_code, len(late.requests)) == (9, 2)
    early = change_case.apply(at, _undo(at, done.receipt).plan, timeout_s=100.0)
    assert (early.exit_code, len(late.requests), outcome(early).result) == (9, 2, Result.UNKNOWN)
    assert f"The write of {done.receipt.id} was not seen" in outcome(early).note
    assert change_case.results(early)["T@broker-b:0"] == "CONFIRMED"
    plan, said = _undo(at, done.receipt).plan, list[str]()
    at.clock.call_later(5.0, late.come)
    back = change_case.apply(at, plan, timeout_s=100.0, said=said)
    assert (set(change_case.results(back).values()), back.exit_code) == ({"CONFIRMED"}, 0)
    assert stored(at) == stored(at, "broker-b") == {0: 60, 1: 60}
    assert "Looking for up to 15 s" in said[0]
    # What was taken back can be made again; of what was never seen there is nothing.
    again = {str(item.mq): item.target for item in _undo(at, back.receipt).plan.items}
    assert again == {f"T@broker-a:{queue}": done.receipt.items[0].target for queue in (0, 1)}
    of_broker_a = replace(early.receipt, items=tuple(i for i in early.receipt.items if i.mq.broker_name == "broker-a"))
    with pytest.raises(RefusedError, match="nothing to undo"):
        _undo(at, of_broker_a)


def test_where_no_offset_was_stored_the_late_one_is_taken_away_again() -> None:
    at = change_case.message_cluster(change_case.store(offsets={}))
    late = Late(at.servers["broker-a"], Q.UPDATE_CONSUMER_OFFSET)
    done = _reset(at)
    assert change_case.apply(at, _undo(at, done.receipt).plan, timeout_s=100.0).exit_code == 9
    plan = _undo(at, done.receipt).plan
    # The first offset of a topic goes out alone.
    assert [(item.target, item.awaits) for item in plan.items] == [(None, AwaitedWrite(done.receipt.id, 20))]
    at.clock.call_later(5.0, late.come)
    assert change_case.apply(at, plan, timeout_s=100.0).exit_code == 0
    assert stored(at) == {0: -1}


def test_a_group_that_goes_on_meanwhile_awaits_the_write_all_the_same() -> None:
    """SERVER_SIDE: to write the old offset at once would redeliver messages for a write that has not happened."""
    at = two_brokers(online=True)
    plan = planned(at, TargetKind.LATEST).plan
    late = [Late(server, Q.INVOKE_BROKER_TO_RESET_OFFSET) for server in at.servers.values()]
    done = change_case.apply(at, plan, timeout_s=100.0)
    stored(at).update({0: 65})
    plan = _undo(at, done.receipt).plan
    assert (plan.items[0].before, plan.items[0].target) == (65, 65)
    stored(at).update({0: 66})
    early = change_case.apply(at, plan, timeout_s=100.0)
    assert (set(change_case.results(early).values()), early.exit_code) == ({"UNKNOWN"}, 9)
    assert all(len(each.requests) == 2 for each in late)
    with pytest.raises(RefusedError, match="nothing to undo"):
        _undo(at, early.receipt)


def test_an_interrupted_change_may_come_late_and_an_old_one_does_not() -> None:
    at = two_brokers()
    late = Late(at.servers["broker-a"], Q.UPDATE_CONSUMER_OFFSET)
    receipt = _reset(at).receipt
    cut = replace(receipt, ended_at_ms=None, items=tuple(replace(item, note="no answer") for item in receipt.items))
    assert sum(item.awaits is not None for item in _undo(at, cut).plan.items) == 2
    late.requests.clear()
    late.come()
    for old in (
        replace(cut, started_at_ms=receipt.started_at_ms - IN_FLIGHT_MS - 60_000),
        replace(receipt, ended_at_ms=receipt.started_at_ms - IN_FLIGHT_MS),
    ):
        plan = _undo(at, old).plan
        assert not any(item.awaits for item in plan.items)
        (said,) = [item.text for item in plan.consequences if item.code == "NEVER_SEEN"]
        assert said.startswith("As before: T@broker-a:0, T@broker-a:1. ")
        assert old.id in said
    assert change_case.apply(at, plan).exit_code == 0


def test_a_push_that_was_answered_and_not_seen_is_neither_awaited_nor_called_unwritten() -> None:
    """4.9: the target was stored, and the member may have gone there and come as far again, or stored over it."""
    at = change_case.pushing()
    receipt = _reset(at).receipt
    note = "c1 is at 60: it moved to the target and got that far again, or never moved"
    items = tuple(
        replace(item, result=Result.UNKNOWN, is_pending=False, after=60, is_after_known=True, note=note)
        for item in receipt.items
    )
    stored(at).update({0: 60, 1: 60})
    plan = _undo(at, replace(receipt, items=items)).plan
    assert [item.awaits for item in plan.items] == [None, None]
    (said,) = [item.text for item in plan.consequences if item.code in ("NEVER_SEEN", "NOT_SEEN_YET")]
    assert said.startswith("As before: T@broker-a:0, T@broker-a:1. ")
    assert receipt.id in said


def test_what_is_said_of_a_write_without_an_answer_has_the_time_of_the_reading() -> None:
    state = "c1 is at 25: it moved to the target and got that far again, or never moved"
    assert unseen_note("a:1: no answer within 3.3 s.", state, 0) == (
        f"a:1: no answer within 3.3 s. {state} (last read at 1970-01-01T00:00:00.000Z). "
        "The write may still take effect."
    )
