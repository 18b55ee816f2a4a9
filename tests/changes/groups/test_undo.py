"""The way back from a change of a group."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rmqctl.errors import RefusedError, StaleError
from rmqctl.model.plan import Operation, Route
from rmqctl.model.receipt import Receipt, Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.scripted_peer import SILENCE, V4_9_7, V5_4_0, refused

from .group_case import ONLINE, Case, cluster, codes, results, text_of

WRITE = Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
_STATES = ("broker-a", "broker-b")


@pytest.fixture(params=[V5_4_0, V4_9_7])
def case(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    return Case(cluster(version=request.param), tmp_path)


def _back(case: Case, receipt: Receipt) -> Receipt:
    applied = case.apply(case.undo(receipt).plan)
    assert applied.exit_code == 0, applied
    assert set(results(applied).values()) == {Result.CONFIRMED}
    return applied.receipt


def test_an_update_goes_back_to_what_each_broker_had(case: Case) -> None:
    case.cluster.brokers["broker-a"].group_configs["G"] = {"retryMaxTimes": 5, "ofTomorrow": 1}
    done = case.apply(case.update("G", "retryMaxTimes=3", "consumeEnable=false").plan)
    planned = case.undo(done.receipt)
    assert planned.plan.operation is Operation.GROUP_UPDATE
    assert planned.plan.asked == f"undo {done.receipt.id}"
    again = _back(case, done.receipt)
    assert [(fields or {})["retryMaxTimes"] for fields in case.fields("G").values()] == [5, 16]
    assert case.cluster.brokers["broker-a"].group_configs["G"]["ofTomorrow"] == 1
    _back(case, again)
    assert [(fields or {})["retryMaxTimes"] for fields in case.fields("G").values()] == [3, 3]


def test_what_was_changed_since_stays(case: Case) -> None:
    done = case.apply(case.update("G", "retryMaxTimes=3").plan)
    case.apply(case.update("G", "consumeEnable=false").plan)
    _back(case, done.receipt)
    for fields in case.fields("G").values():
        assert fields is not None
        assert (fields["retryMaxTimes"], fields["consumeEnable"]) == (16, False)


def test_attributes_that_were_set_since_stay(tmp_path: Path) -> None:
    case = Case(cluster(), tmp_path)
    done = case.apply(case.update("G", "+x=1", at=["broker-a"]).plan)
    case.apply(case.update("G", "+y=2", at=["broker-a"]).plan)
    _back(case, done.receipt)
    assert case.cluster.brokers["broker-a"].group_configs["G"]["attributes"] == {"y": "2"}


def test_attributes_go_back(tmp_path: Path) -> None:
    case = Case(cluster(), tmp_path)
    case.cluster.brokers["broker-a"].group_configs["G"] = {"attributes": {"x": "1"}}
    done = case.apply(case.update("G", "-x", "+y=2", at=["broker-a"]).plan)
    _back(case, done.receipt)
    assert case.cluster.brokers["broker-a"].group_configs["G"]["attributes"] == {"x": "1"}


def test_a_group_that_was_made_goes_again(case: Case) -> None:
    done = case.apply(case.create("N").plan)
    assert case.undo(done.receipt).plan.operation is Operation.GROUP_DELETE
    case.cluster.brokers["broker-a"].offsets["N"] = {"T": {0: 3}}
    planned = case.undo(done.receipt)
    assert (planned.plan.items, codes(planned)) == ((), ["COMES_AGAIN", "OFFSETS_STAY"])
    _back(case, done.receipt)
    assert case.fields("N") == {"broker-a": None, "broker-b": None}
    assert case.cluster.brokers["broker-a"].offsets["N"] == {"T": {0: 3}}


def test_a_group_that_was_made_and_is_used_is_left(case: Case) -> None:
    done = case.apply(case.create("N").plan)
    case.cluster.brokers["broker-a"].groups["N"] = ONLINE
    with pytest.raises(RefusedError, match="members"):
        case.undo(done.receipt)


def test_a_group_comes_back_with_its_offsets(case: Case) -> None:
    case.cluster.brokers["broker-b"].group_configs["G"] = {"retryMaxTimes": 5}
    done = case.apply(case.delete("G", with_offsets=True).plan)
    planned = case.undo(done.receipt)
    assert planned.plan.operation is Operation.GROUP_CREATE
    assert {(item.before, item.target, item.route) for item in planned.plan.items} == {(None, 40, Route.BROKER_WRITE)}
    assert "1 queue" not in text_of(planned, "OFFSETS_BACK")
    again = _back(case, done.receipt)
    for name in _STATES:
        assert case.cluster.brokers[name].offsets["G"] == {"T": {0: 40}}
    assert [(fields or {})["retryMaxTimes"] for fields in case.fields("G").values()] == [16, 5]
    for server in case.cluster.servers.values():
        written = [code for code in server.codes() if code in (WRITE, Q.UPDATE_CONSUMER_OFFSET)]
        assert written == [WRITE, Q.UPDATE_CONSUMER_OFFSET]  # 5.x takes no offset of a group that it does not know
    _back(case, again)
    assert case.fields("G") == {"broker-a": None, "broker-b": None}
    assert not any("G" in case.cluster.brokers[name].offsets for name in _STATES)


def test_what_a_client_has_made_meanwhile_is_put_right(case: Case) -> None:
    case.cluster.brokers["broker-a"].group_configs["G"] = {"retryMaxTimes": 5}
    done = case.apply(case.delete("G", at=["broker-a"]).plan)
    case.cluster.brokers["broker-a"].configured.add("G")
    (item,) = case.undo(done.receipt).plan.configs
    assert (item.before or {})["retryMaxTimes"] == 16
    _back(case, done.receipt)
    assert case.cluster.brokers["broker-a"].group_configs["G"]["retryMaxTimes"] == 5


def test_offsets_of_members_that_have_come_are_left(case: Case) -> None:
    done = case.apply(case.delete("G", with_offsets=True).plan)
    plan = case.undo(done.receipt).plan
    case.cluster.brokers["broker-b"].groups["G"] = ONLINE
    with pytest.raises(RefusedError, match="members"):
        case.undo(done.receipt)
    with pytest.raises(StaleError, match="group had no members, and now has"):
        case.apply(plan)


def test_a_topic_that_is_gone_is_told(tmp_path: Path) -> None:
    case = Case(cluster(), tmp_path)
    done = case.apply(case.delete("G", with_offsets=True, at=["broker-a"]).plan)
    del case.cluster.brokers["broker-a"].topics["T"]
    applied = case.apply(case.undo(done.receipt).plan)
    assert results(applied) == {"broker-a": Result.CONFIRMED, "T@broker-a:0": Result.UNCHANGED}
    assert "Topic T not exist" in applied.receipt.items[0].note
    assert applied.exit_code == 8


def test_offsets_wait_for_the_configuration(tmp_path: Path) -> None:
    case = Case(cluster(), tmp_path)
    done = case.apply(case.delete("G", with_offsets=True, at=["broker-a"]).plan)
    case.cluster.servers["broker-a"].table[WRITE] = refused(R.SYSTEM_ERROR, "no")
    applied = case.apply(case.undo(done.receipt).plan)
    assert results(applied) == {"broker-a": Result.UNCHANGED, "T@broker-a:0": Result.NOT_ATTEMPTED}
    assert applied.receipt.items[0].note == "nothing was sent: the configuration was not written"
    assert case.noted(applied.receipt) == applied.receipt


def test_only_what_was_changed_goes_back(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3").plan
    table = case.cluster.servers["broker-b"].table
    kept, table[WRITE] = table[WRITE], refused(R.SYSTEM_ERROR, "no")
    done = case.apply(plan)
    table[WRITE] = kept
    assert set(case.undo(done.receipt).plan.brokers) == {"broker-a"}
    _back(case, done.receipt)
    assert case.undo(done.receipt).plan.configs == ()


def test_nothing_and_another_cluster_are_refused(case: Case) -> None:
    done = case.apply(case.update("G", "retryMaxTimes=3").plan).receipt
    moved = replace(done, brokers={**done.brokers, "broker-a": "x:1"})
    with pytest.raises(RefusedError, match="another cluster"):
        case.undo(moved)
    planned = case.undo(moved, assume_same_cluster=True)
    assert [item.code for item in planned.plan.consequences][-1] == "MOVED"
    assert planned.plan.brokers == done.brokers
    assert case.apply(planned.plan).exit_code == 0
    with pytest.raises(RefusedError, match="nothing to undo"):
        case.undo(replace(done, configs=()))


def test_a_write_that_was_not_answered_and_came_late_goes_back(case: Case) -> None:
    plan = case.update("G", "retryMaxTimes=3", at=["broker-a"]).plan
    server = case.cluster.servers["broker-a"]
    take = server.table[WRITE]
    assert callable(take)
    late: list[Command] = []
    server.table[WRITE] = lambda request: late.append(request) or SILENCE  # type: ignore[func-returns-value]
    done = case.apply(plan).receipt
    assert [item.result for item in done.configs] == [Result.UNKNOWN]
    server.table[WRITE] = take
    take(late[0])
    fields = case.fields("G")["broker-a"]
    assert fields is not None
    assert fields["retryMaxTimes"] == 3
    _back(case, case.noted(done))
    assert case.fields("G")["broker-a"] == plan.configs[0].before
