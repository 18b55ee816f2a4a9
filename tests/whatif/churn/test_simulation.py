"""The simulation: members that leave and join, each with its own timers and its own view of the group."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log
from statistics import mode

import pytest
from msgspec.structs import replace

from rmqctl.rules.allocate.averagely import allocate_averagely
from rmqctl.whatif.churn.changes import (
    BrokerStart,
    BrokerStop,
    Change,
    CutBegin,
    CutEnd,
    Departure,
    MemberEnd,
    MemberStart,
)
from rmqctl.whatif.churn.group import ChurnGroup
from rmqctl.whatif.churn.parties import ClientTrait, ClientTraits
from rmqctl.whatif.churn.scenarios import ChurnScenario, ScenarioKind
from rmqctl.whatif.churn.simulation import ChurnRun, Simulation
from rmqctl.whatif.churn.timing import JAVA_4_9, JAVA_5_2, RMQCTL, ClientTiming
from rmqctl.whatif.sized_group import shape

MINUTE_MS = 60_000
SIZE = shape(2, 4, 3)
# A client of 5.2 whose versions brokers always hear.
HEARD = replace(JAVA_5_2, unheard_share=0.0)
GROUP = ChurnGroup(
    queues=SIZE.queues,
    client_ids=SIZE.client_ids,
    allocate=allocate_averagely,
    timing=HEARD,
    rates=dict.fromkeys(SIZE.queues, 10.0),
)
BROKERS = ("broker-1", "broker-2")
STOPS = MemberEnd(10_000, "client-3")


def _run(
    changes: Sequence[Change],
    group: ChurnGroup = GROUP,
    *,
    protect_ms: int = 0,
    for_ms: int = 5 * MINUTE_MS,
    seed: int = 1,
) -> ChurnRun:
    return Simulation(group, protection_ms=protect_ms, seed=seed).run(changes, for_ms=for_ms)


def _flap(for_ms: int, departure: Departure = Departure.STOP) -> list[Change]:
    scenario = ChurnScenario(kind=ScenarioKind.FLAP, period_ms=10_000, departure=departure)
    return scenario.changes(GROUP.client_ids, BROKERS, for_ms)


def test_nothing_happens_without_changes() -> None:
    run = _run([])
    assert (run.rebalance_count, run.move_count, run.duplicate_count) == (0, 0, 0)
    assert (run.shared_ms, run.unowned_ms, run.settled_ms) == (0, 0, ())
    assert run.most_queues == 3
    assert run.message_count == 8 * 10 * 300


def test_the_same_seed_gives_the_same_run_and_another_one_differs() -> None:
    changes = _flap(5 * MINUTE_MS)
    assert _run(changes) == _run(changes)
    assert len({_run(changes, seed=seed).duplicate_count for seed in range(5)}) > 1


def test_queues_of_a_member_that_stops_have_no_owner_until_the_first_pull_of_the_next_one() -> None:
    run = _run([STOPS])
    # Its two queues; one of the others moves, too, because shares are runs of neighbors.
    assert run.move_count == 3
    assert run.most_queues == 4
    assert 2 * 500 <= run.unowned_ms <= 3 * 1600
    assert run.settled_ms[0] == pytest.approx(1000, abs=600)


@pytest.mark.parametrize(("timing", "most_ms"), [(JAVA_4_9, 1100), (HEARD, 1600), (RMQCTL, 1600)])
def test_how_long_a_group_settles_depends_on_the_version(timing: object, most_ms: int) -> None:
    group = replace(GROUP, timing=timing)
    assert all(settled is not None and settled <= most_ms for settled in _run(_flap(MINUTE_MS), group).settled_ms)


def test_brokers_can_refuse_a_new_member_until_its_next_heartbeat_or_a_later_change_of_another() -> None:
    unheard = replace(GROUP, timing=replace(HEARD, unheard_share=1.0))
    joins = MemberStart(10_000, "client-4")
    waits_ms = [_run([joins], unheard, seed=seed).waited_ms for seed in range(20)]
    # Members that give up its queues after its own rebalance send a newer version.
    assert {round(waited_ms / 1000) for waited_ms in waits_ms} <= {2, 31, 32}
    assert min(waits_ms) < 3000 < max(waits_ms)
    again = _run([joins, MemberStart(15_000, "client-5")], unheard, seed=waits_ms.index(max(waits_ms)))
    assert again.waited_ms < 15_000 + 32_000


def test_brokers_refuse_the_first_pulls_of_4_9_once_or_not_at_all() -> None:
    group = replace(GROUP, timing=JAVA_4_9)
    waits_ms = [_run([MemberStart(10_000, "client-4")], group, seed=seed).waited_ms for seed in range(20)]
    assert {round(waited_ms / 1000) for waited_ms in waits_ms} == {0, 1}


def test_brokers_keep_a_member_that_vanishes_for_two_minutes() -> None:
    vanishes = MemberEnd(10_000, "client-3", Departure.VANISH)
    run = _run([vanishes])
    assert run.settled_ms[0] == pytest.approx(120_000, abs=30_000 + 10_000)
    # Its last heartbeat was up to 30 s before, and brokers look every 10 s.
    assert 2 * 90_000 <= run.unowned_ms <= 2 * 131_600
    assert _run([vanishes], for_ms=MINUTE_MS).settled_ms == (None,)


def test_a_kill_redelivers_what_was_not_committed() -> None:
    stops, killed = (
        sum(_run([MemberEnd(10_000, "client-3", how)], seed=seed).duplicate_count for seed in range(20))
        for how in (Departure.STOP, Departure.KILL)
    )
    assert killed > stops


def test_a_client_that_flaps_moves_queues_once_with_protection_and_each_time_without() -> None:
    changes = _flap(5 * MINUTE_MS)
    without, protected = _run(changes), _run(changes, protect_ms=MINUTE_MS)
    assert without.move_count > 20 * protected.move_count
    assert without.duplicate_count > 2 * protected.duplicate_count
    assert without.unowned_ms > 20 * protected.unowned_ms
    # It pays for that by idling.
    assert protected.waited_ms > without.waited_ms


def test_a_broker_that_restarts_moves_queues_without_protection_only() -> None:
    changes = [BrokerStop(MINUTE_MS, "broker-2"), BrokerStart(MINUTE_MS + 10, "broker-2")]
    group = replace(GROUP, timing=RMQCTL)
    for seed in range(5):
        assert _run(changes, group, protect_ms=15_000, seed=seed).shared_ms == 0
    assert max(_run(changes, group, seed=seed).shared_ms for seed in range(5)) > 5000


def test_the_first_owners_of_queues_take_them_from_no_client() -> None:
    run = _run([MemberStart(10_000, "client-1")], replace(GROUP, client_ids=()))
    assert (run.move_count, run.most_queues) == (0, 8)


def test_a_member_that_joins_with_protection_gets_its_queues_when_it_counts() -> None:
    joins = MemberStart(10_000, "client-4")
    without, protected = _run([joins]), _run([joins], protect_ms=MINUTE_MS)
    assert without.waited_ms == pytest.approx(1500, abs=100)
    assert protected.waited_ms == pytest.approx(MINUTE_MS + 500, abs=1100)
    assert without.move_count == protected.move_count


@pytest.mark.parametrize("gap_ms", [0, 100, 400, 900, 5000])
def test_members_that_start_to_count_soon_after_each_other_never_share_a_queue(gap_ms: int) -> None:
    group = replace(GROUP, timing=RMQCTL)
    changes: list[Change] = [MemberEnd(MINUTE_MS, client_id) for client_id in GROUP.client_ids]
    starts = [MemberStart(70_000 + at * gap_ms, f"{name}~1", name) for at, name in enumerate(GROUP.client_ids)]
    runs = [_run([*changes, *starts], group, protect_ms=15_000, for_ms=2 * MINUTE_MS, seed=seed) for seed in range(20)]
    assert {run.shared_ms for run in runs} == {0}
    # Those that start at once count at once as well, apart from a few ms in some runs.
    assert mode(run.most_queues for run in runs) == (3 if gap_ms == 0 else 8)


def test_all_members_that_restart_within_the_protection_time_leave_their_queues_to_the_last_ones() -> None:
    rolling = ChurnScenario(kind=ScenarioKind.ROLLING, period_ms=15_000, down_ms=5000)
    changes = rolling.changes(GROUP.client_ids, BROKERS, 5 * MINUTE_MS)
    assert _run(changes).most_queues == 4
    assert _run(changes, protect_ms=MINUTE_MS).most_queues == 8


def test_a_member_with_the_id_of_one_that_brokers_still_list_is_listed_twice() -> None:
    ids = ChurnScenario(kind=ScenarioKind.FLAP, period_ms=10_000, departure=Departure.VANISH, new_ids=False)
    changes = ids.changes(GROUP.client_ids, BROKERS, 25_000)
    # RocketMQ gives the second place a share that no client takes.
    assert _run(changes, for_ms=2 * MINUTE_MS).settled_ms[-1] is None


def test_clients_that_the_brokers_of_a_topic_do_not_list_get_none_of_its_queues() -> None:
    group = replace(GROUP, strangers={"topic": frozenset({"client-3"})})
    restart = [STOPS, MemberStart(20_000, "client-3~1", origin="client-3")]
    assert _run(restart, group).move_count == 0
    assert _run(restart).move_count > 0


def test_shares_of_clients_that_do_not_subscribe_to_a_topic_stay_without_an_owner() -> None:
    group = replace(GROUP, topics={"client-3": frozenset({"other"})})
    assert _run([], group, for_ms=MINUTE_MS).unowned_ms == 2 * MINUTE_MS


def test_each_member_acts_by_its_own_version() -> None:
    old = replace(GROUP, timings=dict.fromkeys(GROUP.client_ids, JAVA_4_9))
    assert _run(_flap(MINUTE_MS), old) == _run(_flap(MINUTE_MS), replace(GROUP, timing=JAVA_4_9))


def test_more_members_than_queues_idle() -> None:
    size = shape(1, 2, 3)
    group = replace(GROUP, queues=size.queues, client_ids=size.client_ids)
    assert _run([STOPS], group).move_count == 0


def test_runs_follow_one_another_without_a_trace_of_the_last_one() -> None:
    """Views compare by identity, so lists of one simulation must not reach the next one."""
    runs = [_run(_flap(MINUTE_MS), protect_ms=protect_ms) for protect_ms in (0, MINUTE_MS, 0, MINUTE_MS)]
    assert runs[:2] == runs[2:]
    assert all(before != after for before, after in pairwise(runs))


def test_a_broker_that_restarts_lists_few_members_until_all_have_sent_a_heartbeat() -> None:
    """Members that ask it meanwhile take the queues of those that it does not list."""
    restart = [BrokerStop(10_000, "broker-1"), BrokerStart(15_000, "broker-1")]
    runs = [_run(restart, seed=seed) for seed in range(20)]
    assert any(run.shared_ms > 1000 for run in runs)
    assert any(run.move_count > 0 for run in runs)
    assert all(run.settled_ms[1] is not None for run in runs)


def test_queues_of_a_broker_that_is_down_count_only_while_it_is_up() -> None:
    group = replace(GROUP, queues=shape(1, 4, 1).queues, client_ids=("client-1",))
    run = _run([BrokerStop(10_000, "broker-1"), BrokerStart(70_000, "broker-1")], group)
    assert (run.move_count, run.duplicate_count) == (0, 0)
    # Its client pulls again within 3 s, or takes the queues again when it has seen the broker.
    assert 0 < run.unowned_ms <= 4 * 51_000
    assert run.settled_ms[1] is not None


def test_members_of_4_9_pull_from_a_restarted_broker_only_after_a_heartbeat() -> None:
    restart = [BrokerStop(10_000, "broker-1"), BrokerStart(11_000, "broker-1")]
    old, new = (
        [_run(restart, replace(GROUP, timing=timing), seed=seed).unowned_ms for seed in range(10)]
        for timing in (JAVA_4_9, JAVA_5_2)
    )
    assert max(old) > 2 * max(new)


def test_a_short_partition_moves_nothing_and_a_long_one_gives_queues_two_owners_when_it_heals() -> None:
    def cut(seconds: int, *brokers: str) -> list[Change]:
        return [CutBegin(10_000, "client-3", brokers), CutEnd(10_000 + seconds * 1000, "client-3", brokers)]

    short, long = _run(cut(60, *BROKERS)), _run(cut(200, *BROKERS))
    assert (short.move_count, short.shared_ms) == (0, 0)
    assert 2 * 60_000 <= short.unowned_ms <= 2 * 63_000
    assert long.move_count > 0
    assert long.shared_ms > 0
    # Only one of two brokers has dropped it, so members disagree until it is listed again.
    half = [_run(cut(200, "broker-1"), seed=seed) for seed in range(5)]
    assert max(run.shared_ms for run in half) > 20_000


def test_a_member_that_ends_while_it_is_cut_off_is_kept_until_its_channel_expires() -> None:
    changes = [CutBegin(10_000, "client-3", BROKERS), MemberEnd(20_000, "client-3")]
    run = _run(changes)
    assert run.settled_ms[1] == pytest.approx(110_000, abs=35_000)


@pytest.mark.parametrize(("timing", "most_s"), [(JAVA_4_9, 40), (HEARD, 3)])
def test_queues_that_are_consumed_in_order_never_have_two_owners_and_wait_for_the_lock(
    timing: ClientTiming, most_s: int
) -> None:
    group = replace(GROUP, timing=timing, is_orderly=True)
    runs = [_run(_flap(MINUTE_MS), group, seed=seed) for seed in range(10)]
    assert all(run.shared_ms == 0 for run in runs)
    settled = [settled_ms for run in runs for settled_ms in run.settled_ms if settled_ms is not None]
    assert max(settled) <= most_s * 1000
    # A 4.9 client tries a locked queue again only at its next regular rebalance.
    assert any(None in run.settled_ms for run in runs) is (timing is JAVA_4_9)


def test_the_lock_of_a_client_that_is_killed_lasts_a_minute_except_for_itself() -> None:
    group = replace(GROUP, is_orderly=True)
    killed = MemberEnd(10_000, "client-3", Departure.KILL)
    others = _run([killed], group)
    # Renewed up to 20 s before.
    assert 40_000 <= (others.settled_ms[0] or 0) <= 62_000
    same = _run([killed, MemberStart(15_000, "client-3")], group)
    assert (same.settled_ms[1] or 0) < 3000


def test_a_lock_is_free_after_a_partition_of_a_minute_and_after_a_restart_of_the_broker() -> None:
    group = replace(GROUP, is_orderly=True)
    cut = [CutBegin(10_000, "client-3", BROKERS), CutEnd(400_000, "client-3", BROKERS)]
    run = _run(cut, group, for_ms=7 * MINUTE_MS)
    # Brokers drop the client after about two minutes; its locks are free by then.
    assert run.move_count > 0
    assert run.shared_ms == 0
    restart = [BrokerStop(10_000, "broker-1"), BrokerStart(15_000, "broker-1")]
    assert all(_run(restart, group, seed=seed).settled_ms[1] is not None for seed in range(5))


def test_brokers_that_refuse_older_versions_exchange_two_owners_for_none() -> None:
    joins = MemberStart(10_000, "client-0")
    refusing = replace(GROUP, refuses_older=True)
    plain, strict = ([_run([joins], group, seed=seed) for seed in range(20)] for group in (GROUP, refusing))
    assert sum(run.shared_ms for run in strict) < sum(run.shared_ms for run in plain)
    assert sum(run.unowned_ms for run in strict) > sum(run.unowned_ms for run in plain)
    assert all(run.settled_ms[0] is not None for run in strict)


def test_a_client_whose_clock_is_ahead_blocks_the_others_until_their_clocks_are_there_too() -> None:
    joins = MemberStart(10_000, "client-0")
    skewed = replace(GROUP, refuses_older=True, skew_ms=60_000.0)
    waits_ms = [_run([joins], skewed, seed=seed, for_ms=4 * MINUTE_MS).settled_ms[0] or 0 for seed in range(10)]
    assert max(waits_ms) > 30_000
    assert all(waited_ms <= 125_000 for waited_ms in waits_ms)
    # RocketMQ serves an older pull.
    rocketmq = replace(skewed, refuses_older=False)
    assert all((_run([joins], rocketmq, seed=seed).settled_ms[0] or 0) < 3000 for seed in range(5))


def test_a_client_is_as_slow_after_a_restart_and_a_machine_for_all_its_clients() -> None:
    traits = [ClientTraits(random.Random(seed), 50.0) for seed in range(200)]
    found = [[each.get(name) for name in ("10.1.0.7@1", "10.1.0.7@2", "10.1.0.8@1")] for each in traits]
    assert [each.get("10.1.0.7@1") for each in traits] == [first for first, _, _ in found]
    assert all(1 / 4 <= trait.slowness <= 4 and abs(trait.skew_ms) <= 50 for three in found for trait in three)

    def spread(pairs: Iterable[tuple[ClientTrait, ClientTrait]]) -> float:
        return max(abs(log(one.slowness / other.slowness)) for one, other in pairs)

    assert spread((one, two) for one, two, _ in found) <= log(4)
    assert spread((one, other) for one, _, other in found) > log(4)


def test_a_client_that_commits_before_it_takes_queues_repeats_fewer_messages() -> None:
    changes: list[Change] = []
    for at_ms in range(10_000, 2 * MINUTE_MS, 20_000):
        changes += [MemberStart(at_ms, f"client-4~{at_ms}"), MemberEnd(at_ms + 10_000, f"client-4~{at_ms}")]
    # All see each change at once, so that no queue has two owners.
    at_once = replace(RMQCTL, broker_gap_ms=0.0)
    counts = [
        [_run(changes, replace(GROUP, timing=timing), seed=seed).duplicate_count for seed in range(20)]
        for timing in (at_once, replace(at_once, commits_first=False))
    ]
    assert 1.2 * sum(counts[0]) < sum(counts[1])
