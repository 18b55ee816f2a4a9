from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.model.plan import Route
from rmqctl.model.queue import MessageQueue
from rmqctl.observe.wait_stable import StableResult, wait_until_confirmed
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.rules.written_offsets import ResetOutcome, WrittenOffset
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.scripted_peer import passing, run

A0, A1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
Counts = list[Mapping[ResetOutcome, int]]


def _cluster(*, members: bool = True) -> Cluster:
    state = BrokerState("broker-a", topics={"T": [Queue(100), Queue(100)]}, offsets={"G": {"T": {0: 10, 1: 10}}})
    if members:
        state.groups = {"G": Group({"one": running({mq: held(commit=50) for mq in (A0, A1)})})}
    return Cluster(state)


def _wait(
    cluster: Cluster,
    route: Route,
    *,
    at: Mapping[float, Callable[[BrokerState], None]] | None = None,
    limit_s: float = 30.0,
    timeout_s: float = 50.0,
    was_online: bool = True,
) -> tuple[StableResult, Counts, float]:
    """Wait for 10 in both queues, 50 before, while the broker changes at some times."""
    counts: Counts = []

    async def main() -> tuple[StableResult, float]:
        async with cluster.client(timeout_s=timeout_s) as client:
            brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
            for at_s, change in (at or {}).items():
                cluster.clock.call_later(at_s, lambda change=change: change(cluster.brokers["broker-a"]))  # type: ignore[misc]
            started_s = cluster.clock.monotonic_s()
            written = [WrittenOffset(mq, route, 50, 10) for mq in (A0, A1)]
            waiting = wait_until_confirmed(
                client, "G", written, brokers, limit_s=limit_s, was_online=was_online, on_progress=counts.append
            )
            waited = await passing(cluster.clock, waiting)
            return waited, cluster.clock.monotonic_s() - started_s

    waited, seconds = run(main())
    return waited, counts, seconds


def _take_up(mq: MessageQueue, position: int) -> Callable[[BrokerState], None]:
    """Let the member be at a position in one queue; the other one stays."""

    def change(state: BrokerState) -> None:
        state.offsets["G"]["T"][mq.queue_id] = position
        holds = {each: held(commit=50) for each in (A0, A1)} | {mq: held(commit=position)}
        state.groups["G"].members["one"] = running(holds)

    return change


def test_an_offline_group_takes_one_sample() -> None:
    cluster = _cluster(members=False)
    waited, counts, seconds = _wait(cluster, Route.BROKER_WRITE, was_online=False)

    assert [verdict.outcome for verdict in waited.verdicts.values()] == [ResetOutcome.CONFIRMED] * 2
    assert counts == [{ResetOutcome.CONFIRMED: 2}]
    assert seconds < 1
    assert cluster.servers["broker-a"].codes().count(Q.GET_CONSUME_STATS) == 1


def test_each_queue_is_settled_by_itself_and_not_asked_for_again() -> None:
    cluster = _cluster()

    def both(state: BrokerState) -> None:
        state.offsets["G"]["T"][1] = 12
        state.groups["G"].members["one"] = running({A0: held(commit=25), A1: held(commit=12)})

    waited, counts, seconds = _wait(cluster, Route.SERVER_SIDE, at={3: _take_up(A0, 20), 12: both})

    assert [verdict.outcome for verdict in waited.verdicts.values()] == [ResetOutcome.CONFIRMED] * 2
    assert counts[0] == {ResetOutcome.PENDING: 2}
    assert {ResetOutcome.CONFIRMED: 1, ResetOutcome.PENDING: 1} in counts
    assert counts[-1] == {ResetOutcome.CONFIRMED: 2}
    assert 12 < seconds < 18
    assert waited.last_sample is not None
    # As it was when it was settled; the other one is asked for alone since.
    assert [each.consumer_offset for each in waited.last_sample.queues.values()] == [20, 12]


def test_what_is_never_taken_up_is_pending_when_time_is_up() -> None:
    waited, counts, seconds = _wait(_cluster(), Route.SERVER_SIDE, limit_s=8)

    assert [verdict.outcome for verdict in waited.verdicts.values()] == [ResetOutcome.PENDING] * 2
    assert 8 <= seconds < 9
    # Every 0.5 s at first, every 2 s in the end.
    assert 6 < len(counts) < 12


def test_the_clients_deadline_ends_it_too() -> None:
    waited, _, seconds = _wait(_cluster(), Route.SERVER_SIDE, timeout_s=3)

    assert seconds < 4
    assert {verdict.outcome for verdict in waited.verdicts.values()} == {ResetOutcome.PENDING}


def test_no_time_at_all_leaves_everything_unknown() -> None:
    waited, counts, _ = _wait(_cluster(), Route.SERVER_SIDE, limit_s=0)

    assert [verdict.outcome for verdict in waited.verdicts.values()] == [ResetOutcome.UNKNOWN] * 2
    assert (counts, waited.last_sample) == ([], None)


def test_a_broker_that_goes_away_is_unknown_and_may_come_back() -> None:
    cluster = _cluster()

    def back(_: BrokerState) -> None:
        cluster.network.refusing.clear()

    cluster.network.refusing.add("a:1")
    waited, counts, _ = _wait(cluster, Route.SERVER_SIDE, at={4: _take_up(A0, 20), 4.1: back}, limit_s=12)

    assert counts[0] == {ResetOutcome.UNKNOWN: 2}
    assert waited.verdicts[A0].outcome is ResetOutcome.CONFIRMED
    assert waited.verdicts[A1].outcome is ResetOutcome.PENDING
