from __future__ import annotations

from collections.abc import Sequence

from rmqctl.rules.allocate import Assignment, Options, find_strategy
from rmqctl.whatif.churn import Churn, MembershipEvent, restarts, simulate
from rmqctl.whatif.group_snapshot import GroupSnapshot
from rmqctl.whatif.sized_group import shape

SECOND_MS = 1000
# Eight queues: c1 has 0-3, c2 has 4-7.
TWO = GroupSnapshot(shape(1, 8, 1).queues, ("c1", "c2"))


def _simulate(
    events: Sequence[MembershipEvent],
    protection_ms: int = 0,
    snapshot: GroupSnapshot = TWO,
    strategy: str = "averagely",
) -> Churn:
    return simulate(
        snapshot, lambda shares: find_strategy(strategy, Options(previous=shares)), events, protection_ms=protection_ms
    )


def test_restarts_follow_one_another() -> None:
    assert restarts(["c1", "c2"], every_ms=60_000, down_ms=5000, times=1, new_ids=False) == [
        MembershipEvent(60_000, "c1", is_there=False),
        MembershipEvent(65_000, "c1", is_there=True),
        MembershipEvent(120_000, "c2", is_there=False),
        MembershipEvent(125_000, "c2", is_there=True),
    ]


def test_restarts_may_overlap_and_still_come_in_order() -> None:
    events = restarts(["c1", "c2", "c3"], every_ms=10, down_ms=25, times=1, new_ids=False)
    assert [event.at_ms for event in events] == [10, 20, 30, 35, 45, 55]


def test_a_process_that_comes_back_has_another_id_beside_the_old_one() -> None:
    events = restarts(["c1", "c2"], every_ms=10, down_ms=1, times=2, new_ids=True)
    assert [(event.client_id, event.is_there) for event in events] == [
        ("c1", False), ("c1~", True), ("c2", False), ("c2~", True),
        ("c1~", False), ("c1~~", True), ("c2~", False), ("c2~~", True),
    ]  # fmt: skip


def test_nothing_happens_without_events() -> None:
    assert _simulate([]) == Churn(0, 0, 0, 0, 4, 0, 0)


def test_each_restart_moves_queues_twice_without_protection() -> None:
    churn = _simulate(restarts(["c1"], every_ms=1000, down_ms=500, times=1, new_ids=False))
    # c1's four go to c2 and come back: only on the way back is there an owner that goes on meanwhile.
    assert churn == Churn(
        protection_ms=0, share_count=2, move_count=8, twice_count=4, most_queues=8, unowned_ms=0, duration_ms=1500
    )


def test_with_protection_who_comes_back_waits() -> None:
    events = restarts(["c1"], every_ms=1000, down_ms=500, times=1, new_ids=False)
    churn = _simulate(events, 60_000)
    assert (churn.share_count, churn.move_count, churn.duration_ms) == (2, 8, 1500 + 60_000)


def test_a_client_that_flaps_moves_queues_once_with_protection_and_each_time_without() -> None:
    events = [MembershipEvent(1000 * turn, "c2", is_there=turn % 2 == 0) for turn in range(1, 11)]
    without, with_it = _simulate(events), _simulate(events, 60_000)
    assert (without.share_count, without.move_count, without.twice_count) == (10, 40, 20)
    assert (with_it.share_count, with_it.move_count, with_it.twice_count) == (2, 8, 4)
    assert with_it.duration_ms == 10_000 + 60_000


def test_while_nobody_is_there_queues_have_no_owner() -> None:
    alone = GroupSnapshot(TWO.queues, ("c1",))
    churn = _simulate(restarts(["c1"], every_ms=1000, down_ms=500, times=1, new_ids=False), snapshot=alone)
    assert (churn.unowned_ms, churn.move_count, churn.twice_count) == (8 * 500, 16, 0)


def test_where_all_are_new_protection_does_not_leave_queues_alone() -> None:
    alone = GroupSnapshot(TWO.queues, ("c1",))
    churn = _simulate(restarts(["c1"], every_ms=1000, down_ms=500, times=1, new_ids=False), 60_000, snapshot=alone)
    assert churn.unowned_ms == 8 * 500


def test_a_strategy_that_looks_back_is_told_who_has_what() -> None:
    four = GroupSnapshot(TWO.queues, ("c1", "c2", "c3", "c4"))
    events = restarts(four.client_ids, every_ms=1000, down_ms=500, times=1, new_ids=False)
    sticky, averagely = (_simulate(events, snapshot=four, strategy=name) for name in ("sticky", "averagely"))
    assert sticky.move_count == 4 * 4 < averagely.move_count


def test_events_at_one_time_are_one_change() -> None:
    seen: list[Assignment] = []

    def strategy_after(shares: Assignment) -> object:
        seen.append(shares)
        return find_strategy("averagely")

    events = [MembershipEvent(1000, "c2", is_there=False), MembershipEvent(1000, "c3", is_there=True)]
    churn = simulate(TWO, strategy_after, events, protection_ms=0)  # type: ignore[arg-type]
    assert len(seen) == 2
    assert (churn.share_count, churn.move_count) == (1, 4)


def test_a_stranger_to_a_topics_brokers_stays_one_when_it_comes_back_under_another_id() -> None:
    snapshot = GroupSnapshot(TWO.queues, ("c1", "c2", "c3"), strangers={TWO.queues[0].topic: frozenset({"c3"})})
    events = restarts(["c3"], every_ms=1000, down_ms=10, times=2, new_ids=True)
    assert _simulate(events, snapshot=snapshot).move_count == 0
    assert _simulate(events, snapshot=GroupSnapshot(TWO.queues, ("c1", "c2", "c3"))).move_count > 0
