"""Groups that run: clients that are told where to go, and the wait until they went."""

from __future__ import annotations

import json

import pytest

from rmqctl.admin.topics.queues import QueueChoice
from rmqctl.changes.documents.decode import parse_receipt
from rmqctl.changes.documents.encode import receipt_document
from rmqctl.changes.offsets.rules.reset import TargetKind
from rmqctl.cli.change.listings import is_changing, receipt_listing
from rmqctl.errors import RefusedError
from rmqctl.model.plan import Route
from rmqctl.model.receipt import Result
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import Cluster, Group, held, running
from tests.changes.change_case import (
    WRITES,
    apply,
    instead,
    join,
    journaled,
    message_cluster,
    outcome,
    planned,
    pushing,
    results,
    store,
    stored,
    two_brokers,
    written_count,
)
from tests.scripted_peer import DROP, SILENCE, V4_9_7, V5_4_0, Reply, refused

# Clients that are told


def test_clients_are_told_what_was_stored_just_before() -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    assert plan.route is Route.CLIENT_PUSH
    applied = apply(cluster, plan)
    state, server = cluster.brokers["broker-a"], cluster.servers["broker-a"]
    assert [(topic, told) for _, topic, told, _ in state.pushed] == [("T", {0: 20, 1: 20})]
    sent = [code for code in server.codes() if code in WRITES]
    assert sent == [Q.UPDATE_CONSUMER_OFFSET] * 2 + [Q.INVOKE_BROKER_TO_RESET_OFFSET]
    assert (set(results(applied).values()), applied.exit_code) == ({"UNKNOWN"}, 9)
    assert outcome(applied).is_pending


@pytest.mark.parametrize(("languages", "language"), [({}, "PYTHON"), ({"c1": "CPP"}, "CPP"), ({"c1": "GO"}, "PYTHON")])
def test_clients_are_told_in_the_words_that_they_read(languages: dict[str, str], language: str) -> None:
    cluster = pushing(languages=languages)
    apply(cluster, planned(cluster, TargetKind.OFFSET, 20).plan)
    assert [words for *_, words in cluster.brokers["broker-a"].pushed] == [language]


def test_each_topic_is_told_once() -> None:
    cluster = message_cluster(
        store(version=V4_9_7, counts={"T": (9, 9), "U": (9,)}, offsets={"T": {0: 6, 1: 6}, "U": {0: 6}})
    )
    join(cluster, "c1", topics=("T", "U"))
    apply(cluster, planned(cluster, TargetKind.EARLIEST, topics=("T", "U")).plan)
    told = [(topic, offsets) for _, topic, offsets, _ in cluster.brokers["broker-a"].pushed]
    assert told == [("T", {0: 0, 1: 0}), ("U", {0: 0})]


def _stubborn(cluster: Cluster, times: int) -> None:
    """Let a member store its own offset over ours, just before the clients are told, so many times."""
    left = times

    def store_own(_: Command) -> None:
        nonlocal left
        if left > 0:
            left -= 1
            stored(cluster)[0] = 66

    instead(cluster.servers["broker-a"], Q.INVOKE_BROKER_TO_RESET_OFFSET, store_own)


@pytest.mark.parametrize("times", [0, 1, 2])
def test_an_offset_that_a_client_stored_in_between_is_stored_and_told_again(times: int) -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    _stubborn(cluster, times)
    applied = apply(cluster, plan)
    pushed = [told for _, _, told, _ in cluster.brokers["broker-a"].pushed]
    assert pushed == [{0: 66, 1: 20}] * times + [{0: 20, 1: 20}]
    assert outcome(applied).note == ""


def test_three_times_at_most_since_each_stops_the_clients() -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    _stubborn(cluster, 99)
    applied = apply(cluster, plan)
    assert len(cluster.brokers["broker-a"].pushed) == 3
    assert outcome(applied).result is Result.UNKNOWN
    assert outcome(applied).note.startswith("a client committed its own offset each time")
    assert applied.exit_code == 9


@pytest.mark.parametrize(("languages", "seconds"), [({}, 0.0), ({"c1": "GO"}, 2.0)])
def test_go_clients_are_told_of_one_place_after_the_other(languages: dict[str, str], seconds: float) -> None:
    cluster = message_cluster(
        store(version=V4_9_7, counts={"T": (9, 9), "U": (9,)}, offsets={"T": {0: 6, 1: 6}, "U": {0: 6}})
    )
    join(cluster, "c1", topics=("T", "U"), languages=languages)
    plan = planned(cluster, TargetKind.EARLIEST, topics=("T", "U")).plan
    at_s: list[float] = []
    instead(
        cluster.servers["broker-a"],
        Q.INVOKE_BROKER_TO_RESET_OFFSET,
        lambda _: at_s.append(cluster.clock.monotonic_s()),
    )
    apply(cluster, plan)
    assert at_s[1] - at_s[0] == pytest.approx(seconds, abs=0.5)


def test_a_queue_that_is_refused_does_not_stop_the_clients_again_and_again() -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    server = cluster.servers["broker-a"]

    def refuse_0(request: Command) -> Reply | None:
        return refused(R.SYSTEM_ERROR, "no") if request.ext_fields["queueId"] == "0" else None

    instead(server, Q.UPDATE_CONSUMER_OFFSET, refuse_0)
    applied = apply(cluster, plan)
    assert len(cluster.brokers["broker-a"].pushed) == 1
    assert "no" in outcome(applied).note
    assert outcome(applied).after == 60


def test_nobody_is_told_where_nothing_was_stored() -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET] = refused(R.SYSTEM_ERROR, "no")
    applied = apply(cluster, plan)
    assert cluster.brokers["broker-a"].pushed == []
    assert applied.exit_code == 1
    assert set(results(applied).values()) == {"UNCHANGED"}


@pytest.mark.parametrize("reply", [DROP, SILENCE], ids=["drop", "silence"])
def test_a_push_of_which_nothing_is_heard_is_not_repeated(reply: Reply) -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    server = cluster.servers["broker-a"]
    server.table[Q.INVOKE_BROKER_TO_RESET_OFFSET] = reply
    applied = apply(cluster, plan)
    assert server.codes().count(Q.INVOKE_BROKER_TO_RESET_OFFSET) == 1
    assert set(results(applied).values()) == {"UNKNOWN"}
    assert (outcome(applied).after, applied.exit_code) == (20, 9)


def test_members_that_leave_before_they_are_told_find_it_stored() -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    instead(
        cluster.servers["broker-a"],
        Q.INVOKE_BROKER_TO_RESET_OFFSET,
        lambda _: cluster.brokers["broker-a"].groups.clear(),
    )
    applied = apply(cluster, plan)
    assert (outcome(applied).after, outcome(applied).result) == (20, Result.UNKNOWN)
    assert "Consumer not online" in outcome(applied).note


def test_what_no_client_was_told_of_is_looked_at_once_more_and_not_waited_for() -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    server = cluster.servers["broker-a"]
    pushed_at_ms: list[int] = []

    def refuse(_: Command) -> Reply:
        pushed_at_ms.append(cluster.clock.now_ms())
        return refused(R.SYSTEM_ERROR, "no")

    def persist(_: Command) -> None:
        if pushed_at_ms and cluster.clock.now_ms() - pushed_at_ms[0] >= 5_000:
            stored(cluster).update({0: 61, 1: 60})

    instead(server, Q.INVOKE_BROKER_TO_RESET_OFFSET, refuse)
    instead(server, Q.QUERY_CONSUMER_OFFSET, persist)
    began_ms = cluster.clock.now_ms()
    applied = apply(cluster, plan, wait_s=60, timeout_s=100)
    assert 5_000 < cluster.clock.now_ms() - began_ms < 15_000
    assert [(item.after, item.result) for item in applied.receipt.items] == [(61, "UNCHANGED"), (60, "UNCHANGED")]
    assert applied.exit_code == 1


def test_a_topic_of_which_a_queue_has_no_offset_is_refused_before_anything_is_stored() -> None:
    """4.9 tells nobody of a topic before every queue of it has an offset; what was stored would be written over."""
    cluster = pushing()
    del stored(cluster)[1]
    with pytest.raises(RefusedError, match="T@broker-a:1 has no stored offset"):
        planned(cluster, TargetKind.OFFSET, 20, queues=(QueueChoice("broker-a", 0, 0),))
    # Without members nobody has to be told.
    for state in cluster.brokers.values():
        state.groups.clear()
    assert planned(cluster, TargetKind.OFFSET, 20, queues=(QueueChoice("broker-a", 0, 0),)).plan.items


# Waiting for the group


def test_a_group_that_takes_it_up_is_confirmed() -> None:
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan

    def consume() -> None:
        for state in cluster.brokers.values():
            state.marks.clear()
            for queue_id in state.offsets["G"]["T"]:
                state.offsets["G"]["T"][queue_id] = min(100, state.offsets["G"]["T"][queue_id] + 5)

    for after_s in range(1, 15):
        cluster.clock.call_later(after_s, consume)
    applied = apply(cluster, plan, wait_s=60, timeout_s=120)
    assert set(results(applied).values()) == {"CONFIRMED"}
    assert applied.exit_code == 0
    # Its members were at 60, and don't tell when they took their queues.
    assert [item.reconsumed_at_least for item in applied.receipt.items] == [40] * 4
    assert journaled() == applied.receipt
    assert parse_receipt(json.dumps(receipt_document(applied.receipt)).encode(), "test") == applied.receipt
    assert "At least 160 messages are redelivered, before any filter." in receipt_listing(applied.receipt).notes


def test_a_wait_that_ends_without_word_claims_nothing() -> None:
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    for state in cluster.brokers.values():
        state.groups["G"].members = {"c1": refused(R.SYSTEM_ERROR, "silent")}
    applied = apply(cluster, plan, wait_s=3)
    assert set(results(applied).values()) == {"UNKNOWN"}
    assert applied.exit_code == 9


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_a_member_that_does_not_answer_is_named_and_may_hold_what_is_stored(version: int) -> None:
    cluster = message_cluster(store(version=version, offsets={"T": {0: 60, 1: 60}}))
    group = Group({"c2": refused(R.SYSTEM_ERROR, "silent")}, ("T",))
    cluster.brokers["broker-a"].groups["G"] = group
    group.members["c1"] = lambda _: running({("T", "broker-a", 0): held(commit=stored(cluster)[0])})
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    (said,) = [each.text for each in plan.consequences if each.code == "MEMBERS_SILENT"]
    assert said.startswith("c2 did not answer, and may hold T@broker-a:1. ")
    for note in ("", "already at the target"):
        applied = apply(cluster, plan, wait_s=45)
        assert list(results(applied).values()) == ["CONFIRMED", "UNKNOWN"]
        assert applied.exit_code == 9
        assert note in applied.receipt.items[0].note
        assert "c2 did not report, and may hold the queue" in applied.receipt.items[1].note
        plan = planned(cluster, TargetKind.OFFSET, 20).plan
        assert [item.is_there for item in plan.items] == [True, False]
        assert is_changing(plan)
    del group.members["c2"]
    assert set(results(apply(cluster, plan)).values()) == {"CONFIRMED"}


def test_members_that_leave_during_the_wait_leave_it_to_the_next_that_starts() -> None:
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan

    for state in cluster.brokers.values():
        state.groups["G"].members = {"c1": refused(R.SYSTEM_ERROR, "silent")}

    def leave() -> None:
        for state in cluster.brokers.values():
            state.groups.clear()

    cluster.clock.call_later(4, leave)
    applied = apply(cluster, plan, wait_s=60, timeout_s=120)
    assert applied.exit_code == 9
    assert {item.note for item in applied.receipt.items} == {"stored; takes effect when the next member starts"}
    said, *_ = receipt_listing(applied.receipt).notes
    assert "The group has no members: 4 of them will take effect when the next member starts." in said
    assert "No client has resumed" not in said
    assert journaled() == applied.receipt


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_member_ahead_of_the_stored_offset_is_sent_back_to_it(version: int, is_paused: bool) -> None:
    """Its next commit is not due yet, or it is paused and has not followed an earlier reset: both look the same."""
    cluster = message_cluster(store(version=version, offsets={"T": {0: 60, 1: 60}}))
    group = Group({}, ("T",))
    cluster.brokers["broker-a"].groups["G"] = group

    def report(_: Command) -> Reply:
        has_moved = not is_paused and written_count(cluster)
        return running({("T", "broker-a", each): held(commit=60 if has_moved else 70) for each in (0, 1)})

    group.members["c1"] = report
    plan = planned(cluster, TargetKind.CURRENT).plan
    assert is_changing(plan)
    applied = apply(cluster, plan, wait_s=45)
    assert written_count(cluster) > 0
    assert (set(results(applied).values()), applied.exit_code) == (
        ({"UNKNOWN"}, 9) if is_paused else ({"CONFIRMED"}, 0)
    )
