"""What is drift, and what is only progress."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rmqctl.changes.offsets.rules.drift import ConsumedCount, CurrentState, count_moved, find_drift, is_there
from rmqctl.model.group import GroupState
from rmqctl.model.plan import Operation, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue

_MQ = MessageQueue("T", "broker-a", 0)
_OTHER = MessageQueue("T", "broker-a", 1)


def _plan(
    state: GroupState = GroupState.ONLINE, before: int | None = 50, target: int | None = 20, *,
    route: Route = Route.SERVER_SIDE, **changes: Any,
) -> Plan:  # fmt: skip
    if state is GroupState.EMPTY:
        route = Route.BROKER_WRITE
    plan = Plan(
        id="p",
        operation=Operation.OFFSET_RESET,
        created_at_ms=1,
        cluster="C",
        brokers={"broker-a": "a:1"},
        group="G",
        route=route,
        state=state,
        consume_type=None if state is GroupState.EMPTY else "CONSUME_PASSIVELY",
        message_model=None if state is GroupState.EMPTY else "CLUSTERING",
        read_queue_counts={("T", "broker-a"): 2},
        items=(PlanItem(_MQ, before, target, route),),
    )
    return replace(plan, **changes)


def _now(plan: Plan, **changes: Any) -> CurrentState:
    """Return what is found when nothing has changed, but for some."""
    now = CurrentState(
        state=plan.state,
        consume_type=plan.consume_type,
        message_model=plan.message_model,
        brokers=plan.brokers,
        read_queue_counts=plan.read_queue_counts,
        offsets={item.mq: item.before for item in plan.items},
        routes={item.mq.broker_name: item.route for item in plan.items},
        bounds={item.mq: (item.min_offset or 0, item.max_offset or 0) for item in plan.items},
    )
    return replace(now, **changes)


def _drift(plan: Plan, *, strict: bool = False, **changes: Any) -> list[str]:
    return find_drift(plan, _now(plan, **changes), strict=strict)


def _at(plan: Plan, offset: int | None, *, strict: bool = False) -> list[str]:
    return _drift(plan, strict=strict, offsets={_MQ: offset})


@pytest.mark.parametrize("state", list(GroupState))
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("before", [None, 0, 50])
def test_nothing_changed_is_no_drift(state: GroupState, strict: bool, before: int | None) -> None:
    assert _drift(_plan(state, before), strict=strict) == []


@pytest.mark.parametrize("after", [None, 0, 49, 51, 10_000])
def test_without_members_any_other_offset_is_drift(after: int | None) -> None:
    (sentence,) = _at(_plan(GroupState.EMPTY), after)
    shown = "none" if after is None else after
    assert sentence == f"T@broker-a:0: its offset was 50 and is {shown}."


@pytest.mark.parametrize("after", [0, 51])
def test_an_offset_that_came_since_is_drift_without_members(after: int) -> None:
    assert _at(_plan(GroupState.EMPTY, None), after) == [f"T@broker-a:0: its offset was none and is {after}."]


@pytest.mark.parametrize("before", [None, 50])
def test_what_a_run_of_before_has_done_already_is_no_drift(before: int | None) -> None:
    assert _at(_plan(GroupState.EMPTY, before), 20) == []
    assert _at(_plan(GroupState.EMPTY, before), 20, strict=True) != []


def test_a_word_that_nobody_consumes_is_refuted_by_an_offset_that_moves() -> None:
    plan = _plan(GroupState.UNKNOWN, route=Route.BROKER_WRITE)
    assert _at(plan, 50) == []
    for after in (51, 60, 10, None):
        assert _at(plan, after) != [], after


@pytest.mark.parametrize("after", [51, 60, 5000])
def test_a_running_group_that_is_sent_back_may_come_further(after: int) -> None:
    assert _at(_plan(target=20), after) == []
    assert _at(_plan(target=20), after, strict=True) == [f"T@broker-a:0: its offset was 50 and is {after}."]


@pytest.mark.parametrize("after", [0, 19, 20, 49])
def test_a_running_group_that_went_back_is_drift(after: int) -> None:
    assert _at(_plan(target=20), after) == [f"T@broker-a:0: its offset was 50 and is {after}: it went back."]
    assert _at(_plan(target=80), after) == [f"T@broker-a:0: its offset was 50 and is {after}: it went back."]


def test_a_target_that_was_gone_over_is_drift() -> None:
    plan = _plan(target=80)
    for after in (51, 79, 80):
        assert _at(plan, after) == []
    assert _at(plan, 81) == ["T@broker-a:0: its offset was 50 and is 81: it passed its target 80."]


def test_a_group_is_not_sent_back_where_the_plan_said_that_nothing_changes() -> None:
    plan = _plan(items=(PlanItem(_MQ, 50, 50, Route.SERVER_SIDE, is_there=True),))
    assert _at(plan, 60) == []
    assert is_there(plan.items[0], 60, (60, 63))
    assert _at(plan, 60, strict=True) != []


@pytest.mark.parametrize("after", [100, 101, 5000])
def test_a_group_that_reached_the_end_by_itself_needs_nothing(after: int) -> None:
    item = PlanItem(_MQ, 90, 100, Route.SERVER_SIDE, 0, 100)
    plan = _plan(items=(item,))
    assert _at(plan, after) == []
    assert is_there(item, after, (after, after + 7))
    assert not is_there(item, 95, (95,))
    # Stored past the end before the plan: the group did not get there by itself.
    assert not is_there(replace(item, before=120), 120, (120,))
    # Of a queue that was to go elsewhere it is drift.
    assert _at(_plan(items=(replace(item, target=95),)), after) != []


@pytest.mark.parametrize(
    ("is_planned_there", "places", "is_at_target"),
    [
        (False, (50,), True),  # no member holds the queue
        (False, (50, 50), True),
        (False, (50, 60), False),  # the member's next commit is not due yet
        (False, (50, 40), False),  # stored by hand, and soon overwritten
        (False, (50, 50, 60), False),  # two members hold it
        (False, (), False),  # its holder did not answer
        (True, (50, 60), True),  # it can only have gone on since
        (True, (), True),
    ],
)
@pytest.mark.parametrize("route", [Route.SERVER_SIDE, Route.CLIENT_PUSH])
def test_what_is_stored_is_the_target_only_where_each_member_is_there(
    is_planned_there: bool, places: tuple[int, ...], is_at_target: bool, route: Route
) -> None:
    item = PlanItem(_MQ, 50, 50, route, 0, 100, is_there=is_planned_there)
    assert is_there(item, 50, places) is is_at_target


def test_where_nobody_consumes_only_the_target_itself_needs_nothing() -> None:
    item = PlanItem(_MQ, 50, 50, Route.BROKER_WRITE, 0, 50)
    assert is_there(item, 50)
    assert not any(is_there(item, after) for after in (None, 49, 51))
    gone = PlanItem(_MQ, 50, None, Route.BROKER_WRITE)
    assert is_there(gone, None)
    assert not is_there(gone, 50)
    assert not is_there(PlanItem(_MQ, None, 0, Route.BROKER_WRITE), None)


def test_a_first_offset_behind_the_target_is_drift_and_one_before_it_is_not() -> None:
    plan = _plan(before=None, target=50)
    assert _at(plan, 10) == []
    assert _at(plan, 80) != []


def test_an_offset_that_is_gone_is_drift() -> None:
    assert _at(_plan(), None) == ["T@broker-a:0: its offset was 50 and is none."]


def test_an_offset_that_could_not_be_read_is_drift() -> None:
    assert _drift(_plan(), offsets={}) == ["T@broker-a:0: its stored offset could not be read."]


@pytest.mark.parametrize("before", list(GroupState))
@pytest.mark.parametrize("after", list(GroupState))
def test_members_that_came_or_went_are_drift(before: GroupState, after: GroupState) -> None:
    plan = _plan(before)
    sentences = _drift(plan, state=after)
    assert sentences == ([] if before is after else [f"The group was {before} and is {after}."])


def test_another_way_of_consuming_is_drift() -> None:
    plan = _plan()
    assert _drift(plan, consume_type="CONSUME_POP") == ["The consume type was CONSUME_PASSIVELY and is CONSUME_POP."]
    assert _drift(plan, message_model=None) == ["The message model was CLUSTERING and is unknown."]
    assert _drift(plan, message_model="BROADCASTING") == ["The message model was CLUSTERING and is BROADCASTING."]


def test_another_broker_of_that_name_is_drift() -> None:
    assert _drift(_plan(), brokers={"broker-a": "b:1"}) == [
        "Broker broker-a was at a:1 and is at b:1: it may be another cluster."
    ]


def test_a_broker_that_is_gone_is_drift_and_is_said_once() -> None:
    assert _drift(_plan(), brokers={}, offsets={}) == ["Broker broker-a is not registered or does not answer."]


def test_another_route_is_drift() -> None:
    plan = _plan()
    assert _drift(plan, routes={"broker-a": Route.CLIENT_PUSH}) == [
        "Broker broker-a was to be changed by SERVER_SIDE, and now by CLIENT_PUSH."
    ]
    # Of brokers that the plan is not about nothing is said.
    routes = {"broker-a": Route.SERVER_SIDE, "broker-b": Route.CLIENT_PUSH}
    assert _drift(plan, routes=routes, brokers={"broker-a": "a:1", "broker-b": "b:1"}) == []


def test_a_broker_that_has_the_topic_now_is_drift() -> None:
    counts = {("T", "broker-a"): 2, ("T", "broker-b"): 4}
    brokers = {"broker-a": "a:1", "broker-b": "b:1"}
    assert _drift(_plan(), read_queue_counts=counts, brokers=brokers) == ["Topic T had 0 queues at broker-b and has 4."]
    # Of other topics nothing is said.
    counts = {("T", "broker-a"): 2, ("U", "broker-b"): 4}
    assert _drift(_plan(), read_queue_counts=counts, brokers=brokers) == []


def test_no_item_goes_another_way_than_its_broker() -> None:
    """Clients are told by a request that sends all queues to the end where the broker resets by itself."""
    other = PlanItem(_OTHER, 50, 20, Route.SERVER_SIDE)
    for items in ((PlanItem(_MQ, 50, 20, Route.CLIENT_PUSH), other), (other, PlanItem(_MQ, 50, 20, Route.CLIENT_PUSH))):
        routes = {"broker-a": Route.SERVER_SIDE}
        assert _drift(_plan(items=items), routes=routes) == [
            "Broker broker-a was to be changed by CLIENT_PUSH, and now by SERVER_SIDE."
        ]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_other_queues_are_drift(count: int) -> None:
    counts = {("T", "broker-a"): count} if count else {}
    assert _drift(_plan(), read_queue_counts=counts) == [f"Topic T had 2 queues at broker-a and has {count}."]


def test_everything_that_drifted_is_told_queue_by_queue() -> None:
    items = (PlanItem(_MQ, 50, 20, Route.SERVER_SIDE), PlanItem(_OTHER, 50, 80, Route.SERVER_SIDE))
    plan = _plan(items=items)
    sentences = _drift(plan, offsets={_MQ: 10, _OTHER: 90}, consume_type="CONSUME_POP")
    assert [sentence.split(":")[0] for sentence in sentences] == [
        "The consume type was CONSUME_PASSIVELY and is CONSUME_POP.", "T@broker-a", "T@broker-a"
    ]  # fmt: skip


def test_how_far_a_group_has_come() -> None:
    items = (
        PlanItem(_MQ, 50, 20, Route.SERVER_SIDE),
        PlanItem(_OTHER, 10, 20, Route.SERVER_SIDE),
        PlanItem(MessageQueue("T", "broker-a", 2), None, 20, Route.SERVER_SIDE),
        PlanItem(MessageQueue("T", "broker-a", 3), 9, 20, Route.SERVER_SIDE),
    )
    plan = _plan(items=items)
    offsets = {_MQ: 60, _OTHER: 13, items[2].mq: 5, items[3].mq: 9}
    assert count_moved(plan, _now(plan, offsets=offsets)) == ConsumedCount(13, 2)
    assert count_moved(plan, _now(plan, offsets={})) == ConsumedCount(0, 0)


@pytest.mark.parametrize(("target", "after"), [(20, 20), (100, 100), (100, 107)])
def test_what_a_first_run_of_the_plan_did_is_not_the_group_that_has_come_further(target: int, after: int) -> None:
    plan = _plan(items=(PlanItem(_MQ, 12, target, Route.SERVER_SIDE, 0, 100),))
    assert count_moved(plan, _now(plan, offsets={_MQ: after})) == ConsumedCount(0, 0)
    stays = _plan(items=(PlanItem(_MQ, 12, 12, Route.SERVER_SIDE, 0, 100),))
    assert count_moved(stays, _now(stays, offsets={_MQ: 15})) == ConsumedCount(3, 1)


_OFFSET = st.none() | st.integers(0, 30)


@given(_OFFSET, st.integers(0, 30), _OFFSET)
def test_what_passes_never_does_the_opposite_of_what_was_planned(
    before: int | None, target: int, after: int | None
) -> None:
    """A plan that skips does not send back, one that sends back does not skip; --strict lets no change pass."""
    item = PlanItem(_MQ, before, target, Route.SERVER_SIDE, is_there=before == target)
    plan = _plan(items=(item,))
    if _at(plan, after, strict=True) == []:
        assert after == before
    if _at(plan, after) == [] and before is not None and not is_there(item, after, () if after is None else (after,)):
        assert after is not None
        assert (target >= before) <= (target >= after)
        assert (target < before) <= (target < after)
