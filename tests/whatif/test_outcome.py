from __future__ import annotations

import pytest

from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Assignment
from rmqctl.whatif.outcome import Spread, TrialOutcome, UnknownWork, Work, compute_balance, compute_outcome

Q = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(6)]
WORK = Work(
    lag={mq: 10 * mq.queue_id for mq in Q}, rate=dict.fromkeys(Q, 0.5), duplicate_risk={mq: mq.queue_id for mq in Q}
)


def _compare(before: Assignment, after: Assignment, work: Work = WORK, **queues: list[MessageQueue]) -> TrialOutcome:
    return compute_outcome("averagely", before, after, queues.get("now", Q), queues.get("had", Q), work)


def test_queues_that_change_owners_move_and_carry_their_risk() -> None:
    outcome = _compare({"c1": Q[:3], "c2": Q[3:]}, {"c1": Q[:2], "c2": Q[2:4], "c3": Q[4:]})
    assert [(move.mq, move.before, move.after, move.duplicate_risk) for move in outcome.moved] == [
        (Q[2], ("c1",), ("c2",), 2), (Q[4], ("c2",), ("c3",), 4), (Q[5], ("c2",), ("c3",), 5),
    ]  # fmt: skip


def test_a_client_shows_what_it_gets_and_gives_and_the_work_it_has() -> None:
    outcome = _compare({"c1": Q[:3], "c2": Q[3:]}, {"c2": Q[:]})
    gone, left = outcome.clients
    assert (gone.client_id, gone.queue_count_before, gone.queue_count, gone.lost) == ("c1", 3, 0, tuple(Q[:3]))
    assert (left.gained, left.lost, left.lag, left.rate) == (tuple(Q[:3]), (), 150, 3.0)
    assert outcome.idle == ()


def test_queues_that_come_and_go_are_no_moves() -> None:
    outcome = _compare({"c1": Q[:4]}, {"c1": Q[2:]}, now=Q[2:], had=Q[:4])
    assert (outcome.moved, outcome.added, outcome.removed) == ((), tuple(Q[4:]), tuple(Q[:2]))


def test_a_queue_that_nobody_had_can_not_be_consumed_twice_by_moving() -> None:
    (move,) = _compare({"c1": Q[:5]}, {"c1": Q}).moved
    assert (move.mq, move.before, move.duplicate_risk, move.reason) == (Q[5], (), 0, None)


def test_unowned_shared_and_idle() -> None:
    outcome = _compare({}, {"c1": Q[:3], "c2": Q[2:4], "c3": []})
    assert (outcome.unowned, outcome.shared, outcome.idle) == (tuple(Q[4:]), (Q[2],), ("c3",))


def test_who_pops_from_all_queues_of_a_broker_owns_each() -> None:
    everything = MessageQueue("T", "broker-a", -1)
    outcome = _compare({}, {"c1": [everything]})
    assert outcome.unowned == ()
    (client,) = outcome.clients
    assert (client.lag, client.reasons) == (None, {"lag": Unknown.POP, "rate": Unknown.POP})
    assert outcome.balance.reasons == {"lag": Unknown.POP, "rate": Unknown.POP}
    # What stands for all queues of a broker counts as so many.
    assert (client.queue_count_before, client.queue_count) == (0, 6)
    assert outcome.balance.queues == Spread(6, 6, 0)
    fewer = _compare({"c1": [everything]}, {"c1": [everything]}, now=Q[:2])
    assert [(each.queue_count_before, each.queue_count) for each in fewer.clients] == [(6, 2)]


def test_a_queue_moves_between_one_owner_and_those_that_pop_from_all() -> None:
    everything = [MessageQueue("T", "broker-a", -1)]
    alone, all_pop = {"c1": Q, "c2": []}, {"c1": everything, "c2": everything}
    outcome = _compare(alone, all_pop)
    assert {(move.before, move.after) for move in outcome.moved} == {(("c1",), ("c1", "c2"))}
    assert [move.duplicate_risk for move in outcome.moved] == [0, 1, 2, 3, 4, 5]
    back = _compare(all_pop, alone).moved
    assert {(move.before, move.after) for move in back} == {(("c1", "c2"), ("c1",))}
    assert _compare(all_pop, {**all_pop, "c3": everything}).moved == ()


def test_one_owner_more_is_a_move() -> None:
    (move,) = _compare({"c1": Q}, {"c1": Q, "c2": Q[:1]}).moved
    assert (move.before, move.after) == (("c1",), ("c1", "c2"))


def test_a_risk_that_is_not_known_has_its_reason() -> None:
    work = Work(duplicate_risk={Q[0]: None}, reasons={Q[0]: {"duplicateRisk": Unknown.NEVER_COMMITTED}})
    first, second = _compare({"c1": Q[:2]}, {"c2": Q[:2]}, work, now=Q[:2], had=Q[:2]).moved
    assert (first.duplicate_risk, first.reason) == (None, Unknown.NEVER_COMMITTED)
    assert (second.duplicate_risk, second.reason) == (None, Unknown.NOT_REPORTED)


def test_balance_is_least_most_and_deviation() -> None:
    balance = compute_balance({"c1": Q[:4], "c2": Q[4:]}, Q, WORK)
    assert balance.queues == Spread(2, 4, 1.0)
    assert balance.lag == Spread(60, 90, 15.0)
    assert balance.rate == Spread(1.0, 2.0, 0.5)
    assert balance.reasons == {}


def test_the_deviation_is_that_of_all_clients_not_of_a_sample() -> None:
    balance = compute_balance({"c1": Q[:4], "c2": Q[4:5], "c3": Q[5:]}, Q, WORK)
    assert balance.queues.deviation == pytest.approx(2**0.5)


def test_one_queue_that_is_not_known_leaves_the_balance_open() -> None:
    work = Work(
        lag={**WORK.lag, Q[3]: None}, reasons={Q[3]: {"lag": Unknown.OFFSET_BEYOND_MAX}},
        missing={"rate": UnknownWork.NOT_SAMPLED},
    )  # fmt: skip
    balance = compute_balance({"c1": Q[:3], "c2": Q[3:]}, Q, work)
    assert (balance.lag, balance.rate) == (None, None)
    assert balance.reasons == {"lag": Unknown.OFFSET_BEYOND_MAX, "rate": UnknownWork.NOT_SAMPLED}
    first, second = _compare({}, {"c1": Q[:3], "c2": Q[3:]}, work).clients
    assert (first.lag, first.reasons) == (30, {"rate": UnknownWork.NOT_SAMPLED})
    assert (second.lag, second.reasons["lag"]) == (None, Unknown.OFFSET_BEYOND_MAX)


def test_nobody_has_nothing() -> None:
    assert compute_balance({}, (), WORK).queues == Spread(0, 0, 0)


def test_many_owners_of_many_queues_do_not_take_long() -> None:
    queues = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(50)]
    clients = [f"c{number}" for number in range(5000)]
    outcome = _compare({}, dict.fromkeys(clients, queues), Work(), now=queues, had=queues)
    assert len(outcome.shared) == 50
    assert len(outcome.moved[0].after) == 5000
