from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.errors import BrokerError, DeadlineError, UnreachableError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample
from rmqctl.observe.group_sampler import GroupSampler, sample_every, sample_group
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.scripted_peer import SILENCE, V4_9_7, Reply, ok, passing, refused, run

A0, A1, B0 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1), MessageQueue("T", "broker-b", 0)


def _cluster(members: Mapping[str, Reply], *, consume_type: str = "CONSUME_PASSIVELY") -> Cluster:
    """Two brokers that have topic T, with 20 and 5 stored in broker-a's queues, and 7 in broker-b's."""
    group = Group(dict(members), consume_type=consume_type)
    a = BrokerState("broker-a", topics={"T": [Queue(100), Queue(90)]}, offsets={"G": {"T": {0: 20, 1: 5}}})
    b = BrokerState("broker-b", topics={"T": [Queue(50)]}, offsets={"G": {"T": {0: 7}}})
    for broker in (a, b):
        broker.groups = {"G": group} if members else {}
    return Cluster(a, b)


def _held(commit: int, *, lock_ms: int = 5, dropped: bool = False) -> Any:
    times = {"lastLockTimestamp": lock_ms, "lastConsumeTimestamp": 6, "lastPullTimestamp": 7}
    return held(3, commit, commit + 2, commit, dropped=dropped) | times


def _sample(cluster: Cluster, *queues: MessageQueue) -> GroupSample:
    async def main() -> GroupSample:
        async with cluster.client() as client:
            brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
            return await passing(cluster.clock, sample_group(client, "G", queues or (A0, A1, B0), brokers))

    return run(main())


def test_brokers_and_members_are_put_together() -> None:
    one = running({A0: _held(23), A1: _held(5, dropped=True)}, PROP_CONSUMEORDERLY="false")
    two = running({A1: _held(9), B0: _held(8)}, PROP_CONSUMEORDERLY="true")
    cluster = _cluster({"one": one, "two": two})
    sample = _sample(cluster)

    assert (sample.state, sample.client_ids, sample.silent_ids, sample.failures) == (
        GroupState.ONLINE, ("one", "two"), (), (),
    )  # fmt: skip
    assert [(mq, each.consumer_offset, each.max_offset) for mq, each in sample.queues.items()] == [
        (A0, 20, 100), (A1, 5, 90), (B0, 7, 50),
    ]  # fmt: skip
    clients = {client_id: (each.language, each.is_orderly) for client_id, each in sample.clients.items()}
    assert clients == {"one": ("JAVA", False), "two": ("JAVA", True)}
    (owner,) = sample.queues[A0].owners
    assert (owner.client_id, owner.commit_offset, owner.cached_count, owner.begun_at_ms, owner.consumed_at_ms) == (
        "one", 23, 3, 5, 6,
    )  # fmt: skip
    assert [(each.client_id, each.is_dropped) for each in sample.queues[A1].owners] == [("one", True), ("two", False)]
    # Who consumes in order renews its locks: they don't tell when it took the queue.
    assert sample.queues[B0].owners[0].begun_at_ms is None
    assert sample.queues[A0].reasons == {}
    assert sample.at_ms == cluster.clock.now_ms() - round(cluster.clock.monotonic_s() * 1000)


def test_few_requests_are_sent_and_members_are_asked_after_brokers() -> None:
    cluster = _cluster({"one": running({A0: _held(23)})})
    _sample(cluster)

    codes = {name: server.codes() for name, server in cluster.servers.items()}
    assert sorted(codes["broker-a"][:2]) == sorted([Q.GET_CONSUME_STATS, Q.GET_CONSUMER_CONNECTION_LIST])
    assert codes["broker-a"][2:] == [Q.GET_CONSUMER_RUNNING_INFO]
    assert sorted(codes["broker-b"]) == sorted([Q.GET_CONSUME_STATS, Q.GET_CONSUMER_CONNECTION_LIST])


def test_a_member_that_one_broker_does_not_reach_is_asked_through_another() -> None:
    cluster = _cluster({"one": running({A0: _held(23)})})
    cluster.servers["broker-a"].table[Q.GET_CONSUMER_RUNNING_INFO] = SILENCE
    sample = _sample(cluster)
    assert (sample.silent_ids, [each.client_id for each in sample.queues[A0].owners]) == ((), ["one"])


def test_an_offline_group_has_no_members_and_keeps_its_offsets() -> None:
    sample = _sample(_cluster({}))

    assert (sample.state, sample.client_ids) == (GroupState.EMPTY, ())
    assert sample.queues[A0].consumer_offset == 20
    assert sample.queues[A0].reasons == {"clientId": Unknown.NO_MEMBERS}


def test_a_broker_that_is_down_makes_its_part_unknown() -> None:
    cluster = _cluster({})
    cluster.stop("broker-b")
    sample = _sample(cluster)

    assert sample.state is GroupState.UNKNOWN
    assert sample.queues[A0].consumer_offset == 20
    assert sample.queues[B0].consumer_offset is None
    assert sample.queues[B0].reasons == dict.fromkeys(
        ("consumerOffset", "maxOffset", "clientId"), Unknown.BROKER_UNREACHABLE
    )
    assert {(failure.broker_name, failure.what) for failure in sample.failures} >= {
        ("broker-b", "offsets of T"), ("broker-b", "members"),
    }  # fmt: skip


def test_a_broker_that_does_not_list_its_members_may_have_the_holder_of_its_queues() -> None:
    cluster = _cluster({"one": running({})})
    cluster.servers["broker-b"].table[Q.GET_CONSUMER_CONNECTION_LIST] = refused(R.SYSTEM_ERROR, "busy")
    sample = _sample(cluster)

    assert (sample.client_ids, sample.silent_ids) == (("one",), ())
    reasons = {mq: each.reasons["clientId"] for mq, each in sample.queues.items()}
    assert reasons == {A0: Unknown.NOT_ASSIGNED, A1: Unknown.NOT_ASSIGNED, B0: Unknown.BROKER_UNREACHABLE}


def test_a_slave_is_not_asked_for_offsets() -> None:
    cluster = _cluster({})

    async def main() -> GroupSample:
        async with cluster.client() as client:
            brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
            only_slave = type(brokers["broker-a"])("C", "broker-a", {1: "a:1"})
            return await sample_group(client, "G", [A0], {"broker-a": only_slave})

    sample = run(main())
    assert sample.queues[A0].consumer_offset is None
    assert isinstance(sample.failures[0].error, UnreachableError)


def test_what_consume_stats_leave_out_is_asked_for_queue_by_queue() -> None:
    cluster = _cluster({"one": running()})
    beyond = A0._replace(queue_id=9)
    cluster.brokers["broker-a"].offsets["G"]["T"][9] = 3
    sample = _sample(cluster, A0, beyond, A0._replace(queue_id=10))

    assert (sample.queues[beyond].consumer_offset, sample.queues[beyond].max_offset) == (3, None)
    assert sample.queues[beyond].reasons == {"maxOffset": Unknown.NOT_REPORTED, "clientId": Unknown.NOT_ASSIGNED}
    assert sample.queues[A0._replace(queue_id=10)].reasons["consumerOffset"] is Unknown.NEVER_COMMITTED
    assert cluster.servers["broker-a"].codes().count(Q.QUERY_CONSUMER_OFFSET) == 2


def test_popped_queues_are_known_as_such() -> None:
    by_queue = _sample(_cluster({"one": running({}, {A0: 2})}))
    by_broker = _sample(_cluster({"one": running({}, {A0._replace(queue_id=-1): 2})}))
    by_group = _sample(_cluster({"one": running()}, consume_type="CONSUME_POP"))

    # A broker reports the type of the last heartbeat, of whichever member that was.
    mixed = _sample(_cluster({"one": running({}, {B0: 2}), "two": running({A0: _held(5)})}, consume_type="CONSUME_POP"))

    samples = (by_queue, by_broker, by_group, mixed)
    assert [[each.is_popped for each in sample.queues.values()] for sample in samples] == [
        [True, False, False], [True, True, False], [True, True, True], [False, True, True],
    ]  # fmt: skip


def test_silent_members_are_waited_for_once() -> None:
    timed_out = refused(R.CONSUME_MSG_TIMEOUT, "consumer <G> <two> Timeout")
    cluster = _cluster({"one": SILENCE, "two": timed_out, "three": running({A1: _held(5)})})

    async def main() -> tuple[list[GroupSample], list[float]]:
        async with cluster.client(timeout_s=100) as client:
            brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
            sampler, samples, took_s = GroupSampler(client, "G", brokers), [], []
            for wait_s in (0, 0, 12):
                await cluster.clock.advance(wait_s)
                started_s = cluster.clock.monotonic_s()
                samples.append(await passing(cluster.clock, sampler.sample([A0, A1])))
                took_s.append(cluster.clock.monotonic_s() - started_s)
            return samples, took_s

    samples, took_s = run(main())
    assert [sample.silent_ids for sample in samples] == [("one", "two")] * 3
    assert [len(sample.failures) for sample in samples] == [2, 0, 2]
    assert {type(failure.error) for failure in samples[0].failures} == {DeadlineError, BrokerError}
    assert (took_s[0] >= 3, took_s[1] < 1, took_s[2] >= 3) == (True, True, True)
    assert samples[1].queues[A0].reasons["clientId"] is Unknown.CLIENT_SILENT
    assert samples[1].queues[A1].owners[0].client_id == "three"


def test_many_silent_members_do_not_hold_all_of_a_brokers_threads() -> None:
    cluster = _cluster({f"c{number:02}": SILENCE for number in range(40)})
    sample = _sample(cluster, A0)

    assert len(sample.silent_ids) == 40
    assert cluster.servers["broker-a"].codes().count(Q.GET_CONSUMER_RUNNING_INFO) < 12


def test_a_member_that_left_meanwhile_is_asked_again() -> None:
    cluster = _cluster({"one": refused(R.SYSTEM_ERROR, "The Consumer <G> <one> not online")})

    async def main() -> list[GroupSample]:
        async with cluster.client() as client:
            brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
            sampler = GroupSampler(client, "G", brokers)
            return [await sampler.sample([A0]) for _ in range(2)]

    run(main())
    assert cluster.servers["broker-a"].codes().count(Q.GET_CONSUMER_RUNNING_INFO) == 2


def test_samples_come_at_an_interval_until_the_deadline() -> None:
    cluster = _cluster({"one": running({A0: _held(23)})})

    async def main() -> list[float]:
        async with cluster.client(timeout_s=5) as client:
            brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}

            async def read() -> list[float]:
                async with aclosing(sample_every(client, "G", [A0], brokers, interval_s=2)) as samples:
                    return [sample.monotonic_s async for sample in samples]

            return await passing(cluster.clock, read())

    assert run(main()) == [0.0, 2.0, 4.0]


def test_brokers_before_5_are_read_the_same_way() -> None:
    cluster = _cluster({"one": running({A0: _held(23)}, PROP_CONSUMEORDERLY="false")})
    for broker in cluster.brokers.values():
        broker.version = V4_9_7

    assert _sample(cluster).queues[A0].consumer_offset == 20


def test_a_lock_time_may_be_missing_or_a_text() -> None:
    item = {**_held(23), "lastLockTimestamp": "12"}
    without = {name: value for name, value in _held(5).items() if name != "lastLockTimestamp"}
    sample = _sample(_cluster({"one": running({A0: item, A1: without}, PROP_CONSUMEORDERLY="false")}))

    assert [sample.queues[mq].owners[0].begun_at_ms for mq in (A0, A1)] == [12, None]


def test_nonsense_from_a_member_is_its_own_failure() -> None:
    sample = _sample(_cluster({"one": ok(json.dumps({"mqTable": 1}).encode()), "two": running({A0: _held(23)})}))

    assert sample.silent_ids == ("one",)
    assert [owner.client_id for owner in sample.queues[A0].owners] == ["two"]
    assert len(sample.failures) == 1


async def test_a_sample_that_is_not_wanted_any_more_leaves_nothing_behind() -> None:
    cluster = _cluster({"one": SILENCE})

    async with cluster.client() as client:
        brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
        task = asyncio.ensure_future(sample_group(client, "G", [A0], brokers))
        await cluster.clock.advance(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
