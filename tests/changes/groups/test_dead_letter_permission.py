"""A dead-letter topic that can't be read is opened at each broker, and closed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.undo import find_later
from rmqctl.errors import NotFoundError, RefusedError, StaleError, UnreachableError, UsageError
from rmqctl.model.plan import ConfigItem, Operation, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Queue
from tests.scripted_peer import DROP, SILENCE, V4_9_7, V5_4_0, Reply, ok, refused

from .group_case import Case, cluster, codes, results

TOPIC = "%DLQ%G"
WRITE = Q.UPDATE_AND_CREATE_TOPIC


@pytest.fixture(params=[V5_4_0, V4_9_7])
def case(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    """A broker with a write-only topic that is not as usual, one with an open one, and one that has none."""
    at = cluster(version=request.param, brokers=("broker-a", "broker-b", "broker-c"))
    for name, config in (("broker-a", {"perm": 2, "topicSysFlag": 1, "writeQueueNums": 2}), ("broker-b", {})):
        at.brokers[name].topics[TOPIC] = [Queue(3)]
        at.brokers[name].topic_configs[TOPIC] = config
    if request.param == V5_4_0:
        at.brokers["broker-a"].topic_configs[TOPIC] |= {"order": True, "attributes": {"message.type": "NORMAL"}}
    return Case(at, tmp_path)


def _a(case: Case) -> BrokerState:
    return case.cluster.brokers["broker-a"]


def _perms(case: Case) -> list[int | None]:
    states = case.cluster.brokers.values()
    return [state.topic_config(TOPIC)["perm"] if TOPIC in state.topics else None for state in states]


def _writes(case: Case) -> list[Command]:
    return [each for server in case.cluster.servers.values() for each in server.asked if each.code == WRITE]


def test_it_is_opened_where_it_is_closed_and_goes_back(case: Case) -> None:
    before = _a(case).topic_config(TOPIC)
    planned = case.open_dead_letters()
    (item,) = planned.plan.configs
    assert (item.broker_name, item.before, item.target) == ("broker-a", before, {**before, "perm": 6})
    assert (planned.plan.operation, planned.plan.route) == (Operation.DLQ_FIX_PERMISSION, Route.TOPIC_CONFIG)
    assert codes(planned) == ["OPENED", "LEFT_ALONE", "NO_TOPIC"]
    assert planned.failures == ()

    done = case.apply(planned.plan)
    assert (done.exit_code, results(done)) == (0, {"broker-a": Result.CONFIRMED})
    assert done.receipt.configs[0].after == _a(case).topic_config(TOPIC) == {**before, "perm": 6}
    assert case.noted(done.receipt) == done.receipt
    assert _perms(case) == [6, 6, None]
    assert len(_writes(case)) == 1

    back = case.undo(done.receipt)
    assert (back.plan.operation, codes(back)) == (Operation.DLQ_FIX_PERMISSION, ["CLOSED"])
    undone = case.apply(back.plan)
    assert _perms(case) == [2, 6, None]
    assert case.apply(case.undo(undone.receipt).plan).exit_code == 0
    assert _perms(case) == [6, 6, None]


def test_where_all_can_read_it_there_is_nothing_to_do(case: Case) -> None:
    _a(case).topic_configs[TOPIC]["perm"] = 6
    planned = case.open_dead_letters()
    assert planned.plan.configs == ()
    assert codes(planned) == ["NOTHING_TO_DO", "NO_TOPIC"]


def test_a_group_without_dead_letters_is_not_found(case: Case) -> None:
    with pytest.raises(NotFoundError) as caught:
        case.open_dead_letters("g")
    assert caught.value.suggestions == ("G",)
    case.cluster.stop("broker-c")
    with pytest.raises(UnreachableError, match="broker-c could not be read"):
        case.open_dead_letters("other")


def test_a_broker_that_does_not_answer_is_a_failure(case: Case) -> None:
    case.cluster.stop("broker-b")
    planned = case.open_dead_letters()
    assert [(item.broker_name, item.route) for item in planned.plan.configs] == [
        ("broker-a", Route.TOPIC_CONFIG),
        ("broker-b", Route.UNSEEN),
    ]
    assert [failure.broker_name for failure in planned.failures] == ["broker-b"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"perm": 6}, "broker-a had perm=2, and now has perm=6"),
        ({"perm": 0}, "broker-a had perm=2, and now has perm=0"),
        ({"readQueueNums": 9}, "broker-a had readQueueNums=1, and now has readQueueNums=9"),
        ({"ofTomorrow": 1}, "ofTomorrow"),
        (None, f"broker-a had topic {TOPIC}, and no longer"),
    ],
)
def test_a_topic_that_was_changed_meanwhile_is_drift(case: Case, change: dict[str, Any] | None, said: str) -> None:
    plan = case.open_dead_letters().plan
    if change is None:
        del _a(case).topics[TOPIC]
    else:
        _a(case).topic_configs[TOPIC] |= change
    with pytest.raises(StaleError, match=said):
        case.apply(plan)
    assert _writes(case) == []


def _late(case: Case, take: Callable[[Command], Reply]) -> Reply:
    return lambda request: (case.cluster.clock.call_later(6.0, lambda: take(request)), SILENCE)[1]


def _half(case: Case) -> Reply:
    return lambda request: (_a(case).topic_configs[TOPIC].update(perm=4), ok())[1]


@pytest.mark.parametrize(
    ("reply", "result", "exit_code"),
    [
        (lambda case, take: refused(R.SYSTEM_ERROR, "no"), Result.UNCHANGED, 1),
        (lambda case, take: refused(R.NO_PERMISSION, "no"), Result.UNCHANGED, 4),
        (lambda case, take: ok(), Result.UNCHANGED, 1),
        (lambda case, take: SILENCE, Result.UNKNOWN, 9),
        (lambda case, take: lambda request: (case.cluster.stop("broker-a"), DROP)[1], Result.UNKNOWN, 9),
        (lambda case, take: lambda request: (take(request), SILENCE)[1], Result.CONFIRMED, 0),
        (_late, Result.CONFIRMED, 0),
        (lambda case, take: _half(case), Result.UNKNOWN, 9),
    ],
    ids=["refused", "no right", "not done", "silent", "dead", "done and silent", "late", "half"],
)
def test_only_what_is_read_back_is_confirmed(case: Case, reply: Any, result: Result, exit_code: int) -> None:
    plan = case.open_dead_letters().plan
    table = case.cluster.servers["broker-a"].table
    table[WRITE] = reply(case, table[WRITE])
    applied = case.apply(plan)
    assert (results(applied), applied.exit_code) == ({"broker-a": result}, exit_code)
    assert case.noted(applied.receipt) == applied.receipt


def test_it_is_noted_before_it_is_sent(case: Case) -> None:
    plan, seen = case.open_dead_letters().plan, []

    def look(request: Command) -> Reply:
        with Journal(case.folder / "journal.db") as journal:
            (change,) = journal.history(name="G")
            receipt = journal.receipt(change.receipt_id)
        assert receipt is not None
        seen.append([item.result for item in receipt.configs])
        return ok()

    case.cluster.servers["broker-a"].table[WRITE] = look
    case.apply(plan)
    assert seen == [[Result.UNKNOWN]]


def test_an_undo_leaves_all_but_the_permission(case: Case) -> None:
    done = case.apply(case.open_dead_letters().plan).receipt
    _a(case).topic_configs[TOPIC]["readQueueNums"] = 9
    assert case.apply(case.undo(done).plan).exit_code == 0
    assert (_a(case).topic_config(TOPIC)["readQueueNums"], _perms(case)[0]) == (9, 2)
    assert codes(case.undo(done)) == ["NOTHING_TO_DO"]
    del _a(case).topics[TOPIC]
    assert (case.undo(done).plan.configs, codes(case.undo(done))) == ((), ["NO_TOPIC"])
    with pytest.raises(RefusedError, match="nothing to undo"):
        case.undo(replace(done, configs=()))


def test_it_is_no_later_change_of_the_group_itself(case: Case) -> None:
    group = case.apply(case.update("G", "retryMaxTimes=3").plan).receipt
    first = case.apply(case.open_dead_letters().plan).receipt
    second = case.apply(case.undo(first).plan).receipt
    with Journal(case.folder / "journal.db") as journal:
        assert find_later(journal, group) == []
        assert find_later(journal, first) == [second.id]


def test_a_plan_that_does_more_is_no_plan(case: Case) -> None:
    plan = case.open_dead_letters().plan
    before = dict(plan.configs[0].before or {})
    for target in (None, {**before, "perm": 6, "readQueueNums": 9}):
        with pytest.raises(UsageError, match="permission"):
            case.apply(replace(plan, configs=(ConfigItem("broker-a", before, target),)))
    queue = PlanItem(MessageQueue("T", "broker-a", 0), 40, 0, Route.BROKER_WRITE)
    with pytest.raises(UsageError, match="permission"):
        case.apply(replace(plan, items=(queue,)))
