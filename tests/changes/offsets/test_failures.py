"""Plans that are applied where something goes wrong on the way: nothing is claimed that was not seen."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from pathlib import Path

import pytest

from rmqctl.changes.apply import apply_plan
from rmqctl.changes.documents.encode import plan_document
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.rules.reset import TargetKind
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.changes.undo import plan_change_undo
from rmqctl.errors import RmqctlError, StaleError, UnreachableError
from rmqctl.model.failure import Attempt
from rmqctl.model.plan import AwaitedWrite, Route
from rmqctl.model.receipt import Result
from rmqctl.net.clock import pause
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import Cluster
from tests.changes.change_case import (
    WHO,
    apply,
    ask,
    instead,
    journaled,
    many_queues,
    outcome,
    planned,
    pushing,
    results,
    store,
    stored,
    two_brokers,
    written_count,
)
from tests.scripted_peer import DROP, SILENCE, Reply, passing, refused


def name_addresses(cluster: Cluster, addresses: bytes) -> None:
    """Let the name server list these addresses of broker-a by broker id, instead of its master only."""
    usual = cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO]

    def reply(request: Command) -> Reply:
        answer = usual(request)  # type: ignore[operator]
        assert isinstance(answer, Command)
        return Command(answer.code, {}, answer.body.replace(b'{0:"a:1"}', addresses))

    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = reply


# Brokers that refuse, break off, die


def test_one_queue_that_is_refused_is_unchanged_and_says_why() -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    cluster.servers["broker-a"].fail_next(Q.UPDATE_CONSUMER_OFFSET, refused(R.SYSTEM_ERROR, "disk is full"))
    applied = apply(cluster, plan)
    item = outcome(applied)
    assert (item.result, item.after, item.is_after_known) == (Result.UNCHANGED, 60, True)
    assert "disk is full" in item.note
    assert sorted(results(applied).values()) == ["CONFIRMED"] * 3 + ["UNCHANGED"]
    assert applied.exit_code == 8
    assert [(failure.broker_name, failure.attempt) for failure in applied.failures] == [("broker-a", Attempt.WRITE)]
    assert journaled() == applied.receipt


@pytest.mark.parametrize(("code", "exit_code"), [(R.SYSTEM_ERROR, 1), (R.NO_PERMISSION, 4)])
def test_when_all_is_refused_nothing_is_called_done(code: int, exit_code: int) -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    for server in cluster.servers.values():
        server.table[Q.UPDATE_CONSUMER_OFFSET] = refused(code, "no")
    applied = apply(cluster, plan)
    assert (set(results(applied).values()), applied.exit_code) == ({"UNCHANGED"}, exit_code)


def test_a_broker_that_refuses_the_offset_itself_is_heard() -> None:
    """Retention went over the target between the check and the write."""
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan

    def expire(_: Command) -> None:
        cluster.brokers["broker-a"].topics["T"][0].min_offset = 30

    instead(cluster.servers["broker-a"], Q.INVOKE_BROKER_TO_RESET_OFFSET, expire)
    applied = apply(cluster, plan)
    item = outcome(applied)
    assert (item.result, item.after) == (Result.UNCHANGED, 60)
    assert "not in consume queue range" in item.note


@pytest.mark.parametrize("reply", [DROP, SILENCE], ids=["drop", "silence"])
def test_a_broker_that_breaks_off_leaves_it_open_what_it_stored_until_it_is_seen(reply: Reply) -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    state, server = cluster.brokers["broker-a"], cluster.servers["broker-a"]

    def stores_and_breaks_off(request: Command) -> Reply | None:
        if request.ext_fields["queueId"] == "0":
            state.offsets["G"]["T"][0] = 20
        return reply

    instead(server, Q.UPDATE_CONSUMER_OFFSET, stores_and_breaks_off)
    applied = apply(cluster, plan)
    assert results(applied) == {
        "T@broker-a:0": "CONFIRMED", "T@broker-a:1": "UNKNOWN", "T@broker-b:0": "CONFIRMED",
        "T@broker-b:1": "CONFIRMED",
    }  # fmt: skip
    assert applied.exit_code == 9
    (failure,) = applied.failures
    assert isinstance(failure.error, UnreachableError)
    assert failure.attempt is Attempt.UNANSWERED_WRITE
    item = outcome(applied, 1)
    assert (item.after, item.is_after_known, item.may_have_changed) == (60, True, True)
    assert "Offset 60 is stored (last read at 2" in item.note
    assert item.note.endswith("). The write may still take effect.")
    assert journaled() == applied.receipt


def _late(cluster: Cluster, after_s: float) -> None:
    """Let broker-a take offsets, answer nothing, and store them so much later."""
    server, state = cluster.servers["broker-a"], cluster.brokers["broker-a"]

    def take(request: Command) -> Reply:
        fields = request.ext_fields
        change = {int(fields["queueId"]): int(fields["commitOffset"])}
        cluster.clock.call_later(after_s, lambda: state.offsets["G"]["T"].update(change))
        return SILENCE

    instead(server, Q.UPDATE_CONSUMER_OFFSET, take)


def test_a_write_that_takes_effect_after_its_time_out_is_seen() -> None:
    """It was answered by nobody, and reading right after the time-out showed what was stored before."""
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    _late(cluster, 14.0)
    said: list[str] = []
    applied = apply(cluster, plan, timeout_s=30.0, said=said)
    assert set(results(applied).values()) == {"CONFIRMED"}
    assert (applied.exit_code, applied.failures, outcome(applied).note) == (0, (), "")
    assert ["unanswered writes" in text for text in said] == [True]
    assert journaled() == applied.receipt


def test_a_write_that_takes_effect_after_the_last_look_is_unknown_and_can_be_undone() -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    _late(cluster, 28.0)
    applied = apply(cluster, plan, timeout_s=30.0)
    assert results(applied) == {
        "T@broker-a:0": "UNKNOWN", "T@broker-a:1": "UNKNOWN", "T@broker-b:0": "CONFIRMED", "T@broker-b:1": "CONFIRMED",
    }  # fmt: skip
    assert applied.exit_code == 9
    receipt = journaled()
    assert receipt == applied.receipt
    assert all(item.may_have_changed for item in receipt.items)

    def undo() -> PlanReport:
        return ask(
            cluster,
            lambda client: plan_change_undo(
                client, receipt, (), assume_offline=False, assume_same_cluster=False, reason=None
            ),
        )

    # Not yet there: only what was seen goes back. Then it comes, and goes back as well.
    back = undo().plan
    assert [item.awaits for item in back.items] == [AwaitedWrite(receipt.id, 20)] * 2 + [None] * 2
    assert [item.before == item.target for item in back.items] == [True, True, False, False]
    (said,) = [each.text for each in back.consequences if each.code == "NOT_SEEN_YET"]
    assert said.startswith(f"The write of {receipt.id} ")
    assert ": T@broker-a:0, T@b" in said
    ask(cluster, lambda client: pause(client.clock, 20.0))
    assert stored(cluster) == {0: 20, 1: 20}
    del cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET]
    cluster.servers["broker-a"].table |= cluster.brokers["broker-a"].table()
    back = undo().plan
    assert "NOT_SEEN_YET" not in [each.code for each in back.consequences]
    assert apply(cluster, back).exit_code == 0
    assert stored(cluster) == stored(cluster, "broker-b") == {0: 60, 1: 60}


def test_a_reset_that_a_broker_does_not_answer_is_not_called_unchanged() -> None:
    """SERVER_SIDE: the group goes on from its old position, and may be sent away any moment."""
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    for server in cluster.servers.values():
        server.table[Q.INVOKE_BROKER_TO_RESET_OFFSET] = SILENCE
    applied = apply(cluster, plan, wait_s=30.0, timeout_s=100.0)
    assert (set(results(applied).values()), applied.exit_code) == ({"UNKNOWN"}, 9)
    item = outcome(applied)
    assert (item.after, item.is_pending, item.may_have_changed) == (60, False, True)
    assert "The write may still take effect." in item.note
    assert journaled() == applied.receipt


def test_offsets_that_a_broker_does_not_answer_are_told_to_no_client() -> None:
    cluster = pushing()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET] = SILENCE
    applied = apply(cluster, plan, wait_s=30.0, timeout_s=100.0)
    assert (set(results(applied).values()), applied.exit_code) == ({"UNKNOWN"}, 9)
    assert all(item.may_have_changed for item in applied.receipt.items)
    assert Q.INVOKE_BROKER_TO_RESET_OFFSET not in cluster.servers["broker-a"].codes()


def test_a_broker_that_dies_between_two_batches() -> None:
    cluster = many_queues()
    plan = planned(cluster).plan
    state, server = cluster.brokers["broker-a"], cluster.servers["broker-a"]
    stored: list[int] = []

    def die_after_100(request: Command) -> Reply | None:
        if len(stored) >= 100:
            cluster.stop("broker-a")
            return DROP
        stored.append(int(request.ext_fields["queueId"]))
        return None

    instead(server, Q.UPDATE_CONSUMER_OFFSET, die_after_100)
    applied = apply(cluster, plan)
    of_a = [item for item in applied.receipt.items if item.mq.broker_name == "broker-a"]
    assert {item.result for item in applied.receipt.items if item not in of_a} == {Result.CONFIRMED}
    # It can't be read back any more: nothing is claimed of what was sent.
    assert {item.result for item in of_a} == {Result.UNKNOWN, Result.NOT_ATTEMPTED}
    for item in of_a:
        if item.result is Result.NOT_ATTEMPTED:
            assert state.offsets["G"]["T"][item.mq.queue_id] == 1
            assert item.note.startswith("nothing was sent")
        else:
            assert (item.is_after_known, item.after) == (False, None)
            assert "could not be read back" in item.note
    attempted = {item.mq.queue_id for item in of_a if item.result is Result.UNKNOWN}
    assert set(stored) <= attempted
    assert len(attempted) == 128
    assert applied.exit_code == 8
    assert journaled() == applied.receipt


def test_a_broker_that_comes_back_in_time_is_read_back() -> None:
    cluster = many_queues()
    plan = planned(cluster).plan
    server = cluster.servers["broker-a"]
    count = 0

    def break_off_once(_: Command) -> Reply | None:
        nonlocal count
        count += 1
        return SILENCE if count == 70 else None

    instead(server, Q.UPDATE_CONSUMER_OFFSET, break_off_once)
    applied = apply(cluster, plan)
    of_a = {item.mq.queue_id: item for item in applied.receipt.items if item.mq.broker_name == "broker-a"}
    for queue_id, item in of_a.items():
        stored = cluster.brokers["broker-a"].offsets["G"]["T"][queue_id]
        if queue_id < 128:
            assert (item.after, item.is_after_known) == (stored, True)
            assert item.result is (Result.CONFIRMED if stored == 0 else Result.UNKNOWN)
        else:
            assert (item.result, stored) == (Result.NOT_ATTEMPTED, 1)
    assert [item.result for item in of_a.values()].count(Result.UNKNOWN) == 1
    assert applied.exit_code == 8


def test_all_brokers_die_at_once() -> None:
    cluster = two_brokers()
    plan = planned(cluster).plan
    for name, server in cluster.servers.items():
        instead(server, Q.UPDATE_CONSUMER_OFFSET, lambda _, name=name: cluster.stop(name) or DROP)  # type: ignore[misc]
    applied = apply(cluster, plan)
    assert set(results(applied).values()) == {"UNKNOWN"}
    # Something may have been stored.
    assert applied.exit_code == 9


def test_a_broker_without_a_master_is_not_written_to_through_its_slave() -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    told = json.loads(json.dumps(plan_document(plan)))
    assert told["brokers"]["broker-a"] == "a:1"
    slave = store(offsets={"T": {0: 60, 1: 60}})
    cluster.network.add("slave:1", slave.state.table())
    name_addresses(cluster, b'{1:"slave:1"}')
    with pytest.raises(StaleError):
        apply(cluster, plan)
    assert written_count(cluster) == 0
    assert slave.state.offsets["G"]["T"] == {0: 60, 1: 60}


def test_a_slave_that_answers_the_read_back_is_not_taken_for_the_master() -> None:
    """The master dies after the write; its slave, which is there, has the old offsets, or by chance the new ones."""
    cluster = two_brokers()
    slave = store(offsets={"T": {0: 0, 1: 60}})
    asked = cluster.network.add("slave:1", slave.state.table() | slave.table()).asked
    name_addresses(cluster, b'{0:"a:1",1:"slave:1"}')
    plan = planned(cluster).plan
    instead(cluster.servers["broker-a"], Q.UPDATE_CONSUMER_OFFSET, lambda _: cluster.stop("broker-a") or DROP)  # type: ignore[func-returns-value]
    applied = apply(cluster, plan)
    for queue_id in (0, 1):
        item = outcome(applied, queue_id)
        assert (item.result, item.is_after_known, item.after) == (Result.UNKNOWN, False, None)
    assert Q.QUERY_CONSUMER_OFFSET not in [request.code for request in asked]


def test_what_a_slave_tells_at_the_check_is_not_taken_for_what_is_stored() -> None:
    """Its copy can be 10 s old: an undo would lead to where the group was before."""
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    slave = store(offsets={"T": {0: 60, 1: 60}})
    cluster.network.add("slave:1", slave.state.table() | slave.table())
    name_addresses(cluster, b'{0:"a:1",1:"slave:1"}')
    stored(cluster)[0] = 75
    for _ in range(4):
        cluster.servers["broker-a"].fail_next(Q.GET_CONSUME_STATS, DROP)
    with pytest.raises(RmqctlError):
        apply(cluster, plan)
    assert stored(cluster) == {0: 75, 1: 60}


def test_the_name_server_is_gone_after_the_write() -> None:
    """It is needed once more for the wait; what was written must be told all the same."""
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan

    def lose_it(_: Command) -> None:
        cluster.network.refusing.add("ns:1")
        for connection in list(cluster.name_server.connections):
            cluster.name_server.dropping.append(asyncio.ensure_future(connection.stream.aclose()))

    instead(cluster.servers["broker-a"], Q.INVOKE_BROKER_TO_RESET_OFFSET, lose_it)
    applied = apply(cluster, plan, wait_s=5)
    assert outcome(applied).after == 20
    assert journaled() == applied.receipt


def test_what_fails_before_the_first_write_is_no_change_that_was_interrupted() -> None:
    cluster = two_brokers(online=True)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    usual = cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO]
    checked = False

    def once(request: Command) -> Reply:
        nonlocal checked
        first, checked = not checked, True
        return usual if first else refused(R.SYSTEM_ERROR, "gone")

    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = once
    try:
        apply(cluster, plan)
    except RmqctlError:
        assert written_count(cluster) == 0
        with Journal() as journal:
            assert [change for change in journal.history() if change.ended_at_ms is None] == []
    else:
        assert journaled().ended_at_ms is not None


def test_somebody_else_who_stores_meanwhile_is_seen() -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan

    def store_too(_: Command) -> None:
        stored(cluster)[0] = 33

    instead(cluster.servers["broker-a"], Q.QUERY_CONSUMER_OFFSET, store_too)
    stored(cluster)[0] = 60
    applied = apply(cluster, plan)
    item = outcome(applied)
    assert (item.result, item.after) == (Result.UNKNOWN, 33)
    assert item.note.startswith("another client stored")


# A reset of before still waits for its client


def test_an_offset_that_is_held_back_goes_by_another_reset_where_the_broker_resets_itself() -> None:
    cluster = two_brokers()
    state = cluster.brokers["broker-a"]
    state.marks["G", "T", 0] = 60
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    assert plan.route is Route.BROKER_WRITE
    applied = apply(cluster, plan)
    assert (applied.exit_code, stored(cluster)) == (0, {0: 20, 1: 20})
    assert state.marks == {("G", "T", 0): 20}
    resets = [code for code in cluster.servers["broker-a"].codes() if code == Q.INVOKE_BROKER_TO_RESET_OFFSET]
    assert len(resets) == 1


def test_an_offset_that_is_held_back_is_never_reset_where_the_clients_would_be_told() -> None:
    """There the same request would send all queues to the beginning."""
    cluster = two_brokers()
    state, server = cluster.brokers["broker-a"], cluster.servers["broker-a"]
    state.settings["useServerSideResetOffset"] = "false"
    plan = planned(cluster, TargetKind.OFFSET, 20).plan
    server.table[Q.UPDATE_CONSUMER_OFFSET] = refused(R.SUCCESS, "Offset has been previously reset")
    applied = apply(cluster, plan)
    assert Q.INVOKE_BROKER_TO_RESET_OFFSET not in server.codes()
    assert outcome(applied).result is Result.UNCHANGED
    assert "still waits for a client" in outcome(applied).note


# The end comes in the middle


def test_an_interrupt_in_the_middle_leaves_a_journal_that_is_true() -> None:
    cluster = many_queues()
    plan = planned(cluster).plan
    server = cluster.servers["broker-a"]
    document = plan_document(plan)

    async def scenario() -> None:
        async with cluster.client(30) as client:
            with Journal() as journal:
                task = asyncio.ensure_future(
                    apply_plan(
                        client, plan, json.dumps(document), document["sha256"], journal, WHO, strict=False, wait_s=0,
                        report=lambda _: None,
                    )
                )  # fmt: skip
                count = 0

                def interrupt(_: Command) -> Reply | None:
                    nonlocal count
                    count += 1
                    if count == 100:
                        task.cancel()
                    return SILENCE if count >= 100 else None

                instead(server, Q.UPDATE_CONSUMER_OFFSET, interrupt)
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(passing(cluster.clock, scenario()))
    with Journal() as journal:
        (change,) = journal.history()
    assert change.ended_at_ms is None
    receipt = journaled()
    assert receipt.ended_at_ms is None
    for item in receipt.items:
        stored = cluster.brokers[item.mq.broker_name].offsets["G"]["T"][item.mq.queue_id]
        assert item.result in (Result.UNKNOWN, Result.NOT_ATTEMPTED)
        if item.result is Result.NOT_ATTEMPTED:
            assert stored == 1
        else:
            # What is undone then is what was there before.
            assert item.before == 1
    assert {item.result for item in receipt.items} == {Result.UNKNOWN, Result.NOT_ATTEMPTED}


def test_a_journal_that_can_not_be_written_any_more_does_not_hide_what_was_done() -> None:
    cluster = two_brokers()
    plan = planned(cluster, TargetKind.OFFSET, 20).plan

    def break_journal(_: Command) -> None:
        with sqlite3.connect(Path(os.environ["RMQCTL_STATE"]) / "journal.db", isolation_level=None) as connection:
            connection.execute(
                "CREATE TRIGGER full BEFORE UPDATE ON items BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
            )

    instead(cluster.servers["broker-b"], Q.QUERY_CONSUMER_OFFSET, lambda _: None)
    usual = cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET]
    done = False

    def reply(request: Command) -> Reply:
        nonlocal done
        if not done:
            done = True
            break_journal(request)
        return usual

    cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET] = reply
    applied = apply(cluster, plan)
    assert outcome(applied).result is Result.CONFIRMED
    (failure,) = applied.failures
    assert (failure.what, failure.attempt) == ("the journal of this change", Attempt.WRITE)
    assert applied.exit_code != 0
