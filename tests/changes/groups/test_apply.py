"""Changes of groups, carried out: what is written, what is read back, what the journal says."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.errors import NotFoundError, StaleError
from rmqctl.model.failure import Attempt
from rmqctl.model.receipt import Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.scripted_peer import DROP, SILENCE, V4_9_7, V5_4_0, Reply, ok, refused

from .group_case import ONLINE, Case, cluster, results

WRITE = Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(cluster(), tmp_path)


def _bodies(case: Case, name: str) -> list[dict[str, Any]]:
    asked = case.cluster.servers[name].asked
    return [json.loads(request.body) for request in asked if request.code == WRITE]


def _then(reply: Reply, do: Callable[[Command], object]) -> Reply:
    """Reply, and do something at the same time."""

    def answer(request: Command) -> Reply:
        do(request)
        return reply

    return answer


def test_a_change_is_written_whole_and_read_back(case: Case) -> None:
    a = case.cluster.brokers["broker-a"]
    a.group_configs["G"] = {"consumeBroadcastEnable": False, "ofTomorrow": [1], "attributes": {"x": "1"}}
    applied = case.apply(case.update("G", "retryMaxTimes=3").plan)
    assert applied.exit_code == 0
    assert results(applied) == {"broker-a": Result.CONFIRMED, "broker-b": Result.CONFIRMED}
    (body,) = _bodies(case, "broker-a")
    assert len(body) == 14
    assert body["groupName"] == "G"
    assert "attributes" not in body
    assert (body["consumeBroadcastEnable"], body["ofTomorrow"], body["retryMaxTimes"]) == (False, [1], 3)
    assert case.noted(applied.receipt) == applied.receipt
    after = applied.receipt.configs[0].after
    assert after is not None
    assert after["attributes"] == {"x": "1"}
    assert applied.receipt.reason == "why"


def test_attributes_are_sent_as_changes(case: Case) -> None:
    case.cluster.brokers["broker-a"].group_configs["G"] = {"attributes": {"x": "1", "y": "1"}}
    applied = case.apply(case.update("G", "+z=9", "-x", at=["broker-a"]).plan)
    assert results(applied) == {"broker-a": Result.CONFIRMED}
    assert _bodies(case, "broker-a")[0]["attributes"] == {"-x": "", "+z": "9"}
    assert applied.receipt.configs[0].after == applied.receipt.configs[0].target


@pytest.mark.parametrize("version", [V4_9_7, None])
def test_a_new_group_is_made(tmp_path: Path, version: int | None) -> None:
    case = Case(cluster() if version is None else cluster(version=version), tmp_path)
    applied = case.apply(case.create("N", "retryMaxTimes=3").plan)
    assert applied.exit_code == 0
    assert [item.before for item in applied.receipt.configs] == [None, None]
    assert all(fields is not None and fields["retryMaxTimes"] == 3 for fields in case.fields("N").values())


def test_what_a_newer_broker_adds_does_not_leave_it_open(case: Case) -> None:
    plan = case.create("N", at=["broker-a"]).plan
    a = case.cluster.brokers["broker-a"]
    reply = _then(ok(), lambda _: a.configured.add("N") or a.group_configs.update(N={"ofTomorrow": 1}))
    case.cluster.servers["broker-a"].table[WRITE] = reply
    assert results(case.apply(plan)) == {"broker-a": Result.CONFIRMED}


@pytest.mark.parametrize("version", [V4_9_7, None])
def test_a_group_goes_with_its_offsets(tmp_path: Path, version: int | None) -> None:
    case = Case(cluster() if version is None else cluster(version=version), tmp_path)
    applied = case.apply(case.delete("G", with_offsets=True).plan)
    assert applied.exit_code == 0
    assert results(applied) == {
        "broker-a": Result.CONFIRMED,
        "broker-b": Result.CONFIRMED,
        "T@broker-a:0": Result.CONFIRMED,
        "T@broker-b:0": Result.CONFIRMED,
    }
    assert case.fields("G") == {"broker-a": None, "broker-b": None}
    assert not any("G" in state.offsets for state in case.cluster.brokers.values())
    assert case.noted(applied.receipt) == applied.receipt


def test_a_group_goes_and_its_offsets_stay(case: Case) -> None:
    applied = case.apply(case.delete("G").plan)
    assert applied.exit_code == 0
    assert all("G" in state.offsets for state in case.cluster.brokers.values())


def test_leftovers_go(case: Case) -> None:
    for state in case.cluster.brokers.values():
        state.configured.discard("G")
    applied = case.apply(case.delete("G", with_offsets=True).plan)
    assert results(applied) == {"T@broker-a:0": Result.CONFIRMED, "T@broker-b:0": Result.CONFIRMED}
    assert not any("G" in state.offsets for state in case.cluster.brokers.values())


@pytest.mark.parametrize("is_configured", [True, False])
@pytest.mark.parametrize("offset", [-1, -7, -(2**63)])
@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_entries_that_stand_for_no_offset_go_too(
    tmp_path: Path, version: int, offset: int, *, is_configured: bool
) -> None:
    """As an undo or a deletion of offsets leaves them."""
    case = Case(cluster(version=version), tmp_path)
    for state in case.cluster.brokers.values():
        state.offsets["G"] = {"T": {0: offset}}
        if not is_configured:
            state.configured.discard("G")
    applied = case.apply(case.delete("G", with_offsets=True).plan)
    assert (applied.exit_code, results(applied)) == (0, dict.fromkeys(case.cluster.brokers, Result.CONFIRMED))
    assert not any("G" in state.offsets for state in case.cluster.brokers.values())
    with pytest.raises(NotFoundError):
        case.delete("G", with_offsets=True)


def test_a_broker_that_keeps_entries_has_not_deleted_the_offsets(case: Case) -> None:
    a = case.cluster.brokers["broker-a"]
    a.offsets["G"] = {"T": {0: -1}}
    case.cluster.servers["broker-a"].table[Q.DELETE_SUBSCRIPTIONGROUP] = _then(
        ok(), lambda _: a.configured.discard("G")
    )
    applied = case.apply(case.delete("G", with_offsets=True, at=["broker-a"]).plan)
    assert (applied.exit_code, results(applied)) == (9, {"broker-a": Result.UNKNOWN})


# what has changed since the plan


def _assert_stale(case: Case, plan: Any, said: str, *, strict: bool = False) -> None:
    for server in case.cluster.servers.values():
        server.asked.clear()
    with pytest.raises(StaleError, match=said):
        case.apply(plan, strict=strict)
    for server in case.cluster.servers.values():
        assert not {WRITE, Q.DELETE_SUBSCRIPTIONGROUP} & set(server.codes())


def test_another_configuration_is_drift(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3").plan
    case.cluster.brokers["broker-b"].group_configs["G"] = {"consumeEnable": False}
    _assert_stale(case, plan, "broker-b had consumeEnable=true, and now has consumeEnable=false")
    case.cluster.brokers["broker-b"].configured.discard("G")
    _assert_stale(case, plan, "broker-b had the group configured, and no longer")


def test_a_group_that_somebody_made_is_drift(case: Case) -> None:
    plan = case.create("N").plan
    case.cluster.brokers["broker-a"].configured.add("N")
    _assert_stale(case, plan, "broker-a did not have the group configured")


def test_members_that_have_come_are_drift_for_an_end_only(case: Case) -> None:
    end, change = case.delete("G").plan, case.update("G", "retryMaxTimes=3").plan
    case.cluster.brokers["broker-a"].groups["G"] = ONLINE
    _assert_stale(case, end, "group had no members, and now has")
    _assert_stale(case, change, "EMPTY and is now ONLINE", strict=True)
    assert case.apply(change).exit_code == 0


def test_proxies_that_have_come_are_drift_for_an_end(case: Case) -> None:
    end = case.delete("G").plan
    case.cluster.brokers["broker-a"].groups["CID_DefaultHeartBeatSyncerTopic"] = ONLINE
    _assert_stale(case, end, "EMPTY and is now UNKNOWN")
    end = case.delete("G", assume_offline=True).plan
    assert case.apply(end).exit_code == 0


def test_other_offsets_are_drift_where_they_would_go(case: Case) -> None:
    plan = case.delete("G", with_offsets=True).plan
    a = case.cluster.brokers["broker-a"]
    a.offsets["G"]["T"][0] = 41
    _assert_stale(case, plan, "T@broker-a:0: its offset was 40 and is now 41")
    a.offsets["G"]["T"] = {0: 40, 1: 7}
    _assert_stale(case, plan, "T@broker-a:1: its offset was none and is now 7")
    assert case.apply(case.delete("G").plan).exit_code == 0


def test_another_cluster_and_a_broker_that_is_gone_are_drift(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3").plan
    _assert_stale(case, replace(plan, brokers={**plan.brokers, "broker-a": "x:1"}), "may be another cluster")
    _assert_stale(case, replace(plan, brokers={**plan.brokers, "broker-c": "c:1"}), "Broker broker-c is not registered")
    case.cluster.stop("broker-b")
    _assert_stale(case, plan, "Broker broker-b cannot be read: b:1: connection refused")


# what goes wrong on the way


def test_a_refusal_is_told_and_the_others_go_on(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3").plan
    case.cluster.servers["broker-a"].table[WRITE] = refused(R.SYSTEM_ERROR, "value is not in range")
    applied = case.apply(plan)
    assert results(applied) == {"broker-a": Result.UNCHANGED, "broker-b": Result.CONFIRMED}
    assert "value is not in range" in applied.receipt.configs[0].note
    assert [(failure.broker_name, failure.attempt) for failure in applied.failures] == [("broker-a", Attempt.WRITE)]
    assert applied.exit_code == 8
    assert case.noted(applied.receipt) == applied.receipt


def test_a_right_that_is_missing_is_said(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3").plan
    for server in case.cluster.servers.values():
        server.table[WRITE] = refused(R.NO_PERMISSION, "no right")
    applied = case.apply(plan)
    assert set(results(applied).values()) == {Result.UNCHANGED}
    assert applied.exit_code == 4


def test_a_broker_that_dies_while_it_is_written_to_is_not_known(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3").plan
    reply = _then(DROP, lambda _: case.cluster.stop("broker-b"))
    case.cluster.servers["broker-b"].table[WRITE] = reply
    applied = case.apply(plan)
    assert results(applied) == {"broker-a": Result.CONFIRMED, "broker-b": Result.UNKNOWN}
    item = applied.receipt.configs[1]
    assert (item.after, item.is_after_known) == (None, False)
    assert "could not be read back: b:1: connection refused" in item.note
    assert {failure.broker_name for failure in applied.failures} == {"broker-b"}
    assert applied.exit_code == 9
    assert case.noted(applied.receipt) == applied.receipt


def test_an_answer_that_is_lost_is_found_out_by_reading(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3", at=["broker-a"]).plan
    a = case.cluster.brokers["broker-a"]
    server = case.cluster.servers["broker-a"]
    take = server.table[WRITE]
    assert callable(take)
    server.table[WRITE] = _then(SILENCE, take)
    assert results(case.apply(plan)) == {"broker-a": Result.CONFIRMED}
    assert a.group_configs["G"]["retryMaxTimes"] == 3

    server.table[WRITE] = SILENCE
    applied = case.apply(case.update("G", "retryMaxTimes=4", at=["broker-a"]).plan)
    assert results(applied) == {"broker-a": Result.UNKNOWN}
    note = applied.receipt.configs[0].note
    assert "no answer" in note
    assert "It is as before (last read at 2" in note
    assert applied.exit_code == 9
    assert [failure.attempt for failure in applied.failures] == [Attempt.UNANSWERED_WRITE]
    assert case.noted(applied.receipt) == applied.receipt


@pytest.mark.parametrize("what", ["update", "delete"])
def test_a_change_that_takes_effect_after_its_time_out_is_seen(case: Case, what: str) -> None:
    plan = (case.update("G", "retryMaxTimes=3") if what == "update" else case.delete("G", with_offsets=True)).plan
    server = case.cluster.servers["broker-a"]
    code = WRITE if what == "update" else Q.DELETE_SUBSCRIPTIONGROUP
    take = server.table[code]
    assert callable(take)
    server.table[code] = _then(SILENCE, lambda request: case.cluster.clock.call_later(6.0, lambda: take(request)))
    applied = case.apply(plan)
    assert set(results(applied).values()) == {Result.CONFIRMED}
    assert (applied.exit_code, applied.failures) == (0, ())
    assert case.noted(applied.receipt) == applied.receipt


def test_offsets_that_come_back_with_a_group_are_unknown_where_nothing_was_answered(case: Case) -> None:
    gone = case.apply(case.delete("G", with_offsets=True).plan).receipt
    case.cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET] = SILENCE
    applied = case.apply(case.undo(gone).plan)
    assert results(applied)["T@broker-a:0"] is Result.UNKNOWN
    assert results(applied)["T@broker-b:0"] is Result.CONFIRMED
    item = next(item for item in applied.receipt.items if item.mq.broker_name == "broker-a")
    assert "No offset is stored (last read at 2" in item.note
    assert item.may_have_changed


def test_somebody_else_who_writes_at_the_same_time_is_seen(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3", at=["broker-a"]).plan
    a = case.cluster.brokers["broker-a"]
    case.cluster.servers["broker-a"].table[WRITE] = _then(
        ok(), lambda _: a.group_configs.update(G={"retryMaxTimes": 9})
    )
    applied = case.apply(plan)
    assert results(applied) == {"broker-a": Result.UNKNOWN}
    assert applied.receipt.configs[0].note == "it is neither as before nor as it was sent"
    assert applied.exit_code == 9


def test_a_member_that_comes_during_the_end_is_told_of(case: Case) -> None:
    plan = case.delete("G", at=["broker-a"]).plan
    a, server = case.cluster.brokers["broker-a"], case.cluster.servers["broker-a"]
    take = server.table[Q.DELETE_SUBSCRIPTIONGROUP]
    assert callable(take)
    server.table[Q.DELETE_SUBSCRIPTIONGROUP] = lambda request: (a.groups.update(G=ONLINE), take(request))[1]
    applied = case.apply(plan)
    assert results(applied) == {"broker-a": Result.UNKNOWN}
    assert "a member joined" in applied.receipt.configs[0].note


def test_what_is_tried_is_noted_before_it_is_sent(case: Case) -> None:
    """A process that ends at the write leaves a journal that says which brokers were tried."""
    plan = case.delete("G", with_offsets=True).plan
    seen: list[str] = []

    def look(request: Command) -> Reply:
        from rmqctl.changes.journal.journal import Journal

        with Journal(case.folder / "journal.db") as journal:
            (change,) = journal.history()
            receipt = journal.receipt(change.receipt_id)
        assert receipt is not None
        seen.append(
            f"{[item.result.value for item in receipt.configs if item.broker_name == 'broker-a']}"
            f"{[item.result.value for item in receipt.items if item.mq.broker_name == 'broker-a']}"
        )
        return ok()

    case.cluster.servers["broker-a"].table[Q.DELETE_SUBSCRIPTIONGROUP] = look
    applied = case.apply(plan)
    assert seen == ["['UNKNOWN']['UNKNOWN']"]
    assert results(applied)["broker-a"] is Result.UNCHANGED
    assert results(applied)["T@broker-a:0"] is Result.UNCHANGED
    assert applied.exit_code == 8


def _fill_disk(case: Case) -> None:
    with sqlite3.connect(case.folder / "journal.db", isolation_level=None) as connection:
        connection.execute("CREATE TRIGGER f BEFORE UPDATE ON items BEGIN SELECT RAISE(ABORT, 'disk is full'); END")


def test_a_journal_that_can_not_be_written_any_more_does_not_hide_what_was_done(case: Case) -> None:
    server, plan = case.cluster.servers["broker-a"], case.update("G", "retryMaxTimes=3").plan
    usual = server.table[WRITE]
    server.table[WRITE] = _then(usual, lambda _: _fill_disk(case))
    applied = case.apply(plan)
    assert set(results(applied).values()) == {Result.CONFIRMED}
    assert {failure.what for failure in applied.failures} == {"the journal of this change"}
    assert applied.exit_code == 8


def test_what_the_journal_does_not_take_is_not_sent(case: Case) -> None:
    case.apply(case.update("G", "retryMaxTimes=3").plan)
    plan = case.delete("G", with_offsets=True).plan
    _fill_disk(case)
    applied = case.apply(plan)
    assert set(results(applied).values()) == {Result.NOT_ATTEMPTED}
    assert "disk is full" in applied.receipt.configs[0].note
    assert applied.exit_code == 1
    assert all(fields is not None for fields in case.fields("G").values())
