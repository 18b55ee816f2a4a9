"""Resets under running Java push consumers are watched until the group has taken them up, or lost them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import NamedTuple

import pytest

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.client.core import Client
from rmqctl.model.group import GroupState
from rmqctl.model.plan import Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, QueueSample
from rmqctl.observe.group_sampler import sample_every, sample_group
from rmqctl.observe.wait_stable import StableResult, wait_until_confirmed
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection
from rmqctl.protocol.flags import CommandFlag
from rmqctl.rules.written_offsets import HELD_MORE_S, PUSH_S, ResetOutcome, WrittenOffset
from tests.repetition import repeating

from .harness.cluster import Cluster


def _reset(group: str, mq: MessageQueue, target: int) -> Command:
    """Let a broker of 5.x reset one queue by itself (ResetOffsetRequestHeader)."""
    fields = {"group": group, "topic": mq.topic, "queueId": str(mq.queue_id), "offset": str(target)}
    return Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**fields, "timestamp": "0", "isForce": "true"})


def _push_to_start(group: str, mq: MessageQueue, _: int) -> Command:
    """Let a broker of 4.9 tell the clients to begin all queues of the topic again."""
    fields = {"group": group, "topic": mq.topic, "timestamp": "0", "isForce": "true"}
    return Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)


def _store(group: str, mq: MessageQueue, target: int) -> Command:
    fields = {"consumerGroup": group, "topic": mq.topic, "queueId": str(mq.queue_id), "commitOffset": str(target)}
    return Command(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


class _Reset(NamedTuple):
    """A reset to be written and watched; `meanwhile` runs right after the write."""

    group: str
    targets: dict[MessageQueue, int]
    route: Route
    request: Callable[[str, MessageQueue, int], Command]
    limit_s: float = 45.0
    meanwhile: Callable[[], None] = lambda: None


class _Seen(NamedTuple):
    """What came of a reset, the sample from before, and how long it took."""

    outcomes: list[ResetOutcome]
    waited: StableResult
    before: GroupSample
    seconds: float


def _write_and_wait(cluster: Cluster, *resets: _Reset) -> list[_Seen]:
    """Write resets, no request twice, and wait for all of them at once."""

    async def watch(client: Client, reset: _Reset) -> _Seen:
        brokers = {each.broker_name: each for each in (await fetch_cluster(client)).brokers}
        before = await sample_group(client, reset.group, list(reset.targets), brokers)
        requests: dict[tuple[str, ...], tuple[str, Command]] = {}
        for mq, target in reset.targets.items():
            command = reset.request(reset.group, mq, target)
            requests[mq.broker_name, *command.ext_fields.values()] = cluster.addresses[mq.broker_name], command
        for address, command in requests.values():
            await client.ask(address, command)
        reset.meanwhile()
        written = [
            WrittenOffset(mq, reset.route, before.queues[mq].consumer_offset, target)
            for mq, target in reset.targets.items()
        ]
        started_s = time.monotonic()
        was_online = before.state is GroupState.ONLINE
        waited = await wait_until_confirmed(
            client, reset.group, written, brokers, limit_s=reset.limit_s, was_online=was_online, baseline=before
        )
        outcomes = [waited.verdicts[mq].outcome for mq in reset.targets]
        return _Seen(outcomes, waited, before, time.monotonic() - started_s)

    async def main() -> list[_Seen]:
        async with Client([cluster.namesrv], timeout_s=90) as client:
            return await asyncio.gather(*(watch(client, reset) for reset in resets))

    return asyncio.run(main())


def _traffic(cluster: Cluster, mq: MessageQueue) -> AbstractContextManager[None]:
    """Send some thousand messages a second to one queue."""
    queue = f"{mq.broker_name}:{mq.queue_id}"
    return repeating(lambda: cluster.java.produce(mq.topic, 50, batch=50, queue=queue), 0.01)


def _until(cluster: Cluster, group: str, mq: MessageQueue, is_so: Callable[[QueueSample], bool]) -> None:
    async def main() -> None:
        async with Client([cluster.namesrv], timeout_s=30) as client:
            brokers = {each.broker_name: each for each in (await fetch_cluster(client)).brokers}
            async with aclosing(sample_every(client, group, [mq], brokers, interval_s=0.2)) as samples:
                async for sample in samples:
                    if is_so(sample.queues[mq]):
                        return
            raise AssertionError(f"{mq} did not come that far")

    asyncio.run(main())


def _until_stored(cluster: Cluster, consumer_id: str, group: str, mq: MessageQueue, count: int) -> None:
    """Wait until a group has consumed so many messages of a queue, and its broker knows it."""
    cluster.java.wait_consumed(consumer_id, count)
    cluster.java.persist(consumer_id)
    _until(cluster, group, mq, lambda queue: (queue.consumer_offset or 0) >= count)


@pytest.mark.since_5
def test_busy_resets_backward_and_forward_are_confirmed(cluster: Cluster) -> None:
    mq = MessageQueue("StableBusy", "broker-a", 0)
    cluster.create_topic(mq.topic, queue_count=1, brokers=("broker-a",))
    cluster.java.produce(mq.topic, 3000, batch=100)
    client_id = cluster.java.consume("stable", "StableBusy", mq.topic)
    _until_stored(cluster, "stable", "StableBusy", mq, 3000)
    with _traffic(cluster, mq):
        (back,) = _write_and_wait(cluster, _Reset("StableBusy", {mq: 2000}, Route.SERVER_SIDE, _reset))
        (forward,) = _write_and_wait(cluster, _Reset("StableBusy", {mq: 3000}, Route.SERVER_SIDE, _reset))
    cluster.java.stop("stable")

    assert back.before.state is GroupState.ONLINE
    assert [owner.client_id for owner in back.before.queues[mq].owners] == [client_id]
    assert (back.outcomes, forward.outcomes) == ([ResetOutcome.CONFIRMED], [ResetOutcome.CONFIRMED])
    assert client_id in back.waited.verdicts[mq].reason
    assert max(back.seconds, forward.seconds) < 8


@pytest.mark.since_5
def test_idle_and_blocked_members_take_a_reset_up_when_they_pull_again(cluster: Cluster) -> None:
    idle, orderly, blocked = (
        MessageQueue(topic, "broker-b", 0) for topic in ("StableIdle", "StableInOrder", "StableBlocked")
    )
    for mq in (idle, orderly, blocked):
        cluster.create_topic(mq.topic, queue_count=1, brokers=("broker-b",))
        cluster.java.produce(mq.topic, 3000, batch=100, prefix="stuck" if mq is blocked else "m")
    cluster.java.consume("idle", idle.topic, idle.topic)
    cluster.java.consume("orderly", orderly.topic, orderly.topic, orderly=1)
    cluster.java.consume("blocked", blocked.topic, blocked.topic, stuck="stuck")
    # No more is pulled with 1000 messages in hand.
    _until(cluster, blocked.topic, blocked, lambda queue: any(owner.cached_count > 1000 for owner in queue.owners))
    to_blocked = _Reset(blocked.topic, {blocked: 2500}, Route.SERVER_SIDE, _reset, limit_s=3)
    (stuck,) = _write_and_wait(cluster, to_blocked)
    _until_stored(cluster, "idle", idle.topic, idle, 3000)
    _until_stored(cluster, "orderly", orderly.topic, orderly, 3000)
    freed, *waited = _write_and_wait(
        cluster,
        to_blocked._replace(limit_s=45, meanwhile=lambda: cluster.java.release("blocked")),
        *(_Reset(mq.topic, {mq: 2900}, Route.SERVER_SIDE, _reset) for mq in (idle, orderly)),
    )
    for consumer_id in ("idle", "orderly", "blocked"):
        cluster.java.stop(consumer_id)

    assert stuck.outcomes == [ResetOutcome.PENDING]
    assert "has not pulled since" in stuck.waited.verdicts[blocked].reason
    assert freed.outcomes == [ResetOutcome.CONFIRMED]
    # The hundred messages are consumed again at once: only when the queue was taken, or used, tells that they were.
    assert [seen.outcomes for seen in waited] == [[ResetOutcome.CONFIRMED], [ResetOutcome.CONFIRMED]]
    assert max(seen.seconds for seen in waited) < 25


@pytest.fixture
def pushing(cluster: Cluster) -> Iterator[Cluster]:
    """Return a cluster whose brokers reset through their clients, as those before 5.2 do."""

    def switch(value: str) -> None:
        for address in cluster.addresses.values() if cluster.version == "5.4.0" else ():
            words = ("updateBrokerConfig", "-b", address, "-k", "useServerSideResetOffset", "-v", value)
            assert "success" in cluster.java.mqadmin(*words)

    switch("false")
    yield cluster
    switch("true")


def test_plain_offsets_hold_offline_and_are_lost_online_and_pushes_are_confirmed_late(pushing: Cluster) -> None:
    offline, online = (MessageQueue(topic, "broker-a", 0) for topic in ("StableOffline", "StableLost"))
    pushed = [MessageQueue("StablePush", "broker-b", queue_id) for queue_id in range(2)]
    queues = [offline, online, *pushed]
    for mq in queues[:3]:
        pushing.create_topic(mq.topic, queue_count=2 if mq in pushed else 1, brokers=(mq.broker_name,))
    for mq in queues:
        pushing.java.produce(mq.topic, 3000, batch=100, queue=f"{mq.broker_name}:{mq.queue_id}")
    for mq in queues[:3]:
        # Those that are pushed to the start need longer to come back than members take to store where they are.
        pushing.java.consume(mq.topic, mq.topic, mq.topic, **({"each": 30} if mq in pushed else {}))
    pushing.java.wait_consumed("StablePush", 6000)
    for mq in queues:
        _until_stored(pushing, mq.topic, mq.topic, mq, 3000)
    pushing.java.stop(offline.topic)
    held, lost, push = _write_and_wait(
        pushing,
        *(_Reset(mq.topic, {mq: 2900}, Route.BROKER_WRITE, _store) for mq in (offline, online)),
        # One request resets all queues of the topic.
        _Reset("StablePush", dict.fromkeys(pushed, 0), Route.CLIENT_PUSH, _push_to_start),
    )
    pushing.java.wait_consumed("StablePush", 12_000)
    for consumer_id in ("StableLost", "StablePush"):
        pushing.java.stop(consumer_id)

    assert (held.before.state, held.outcomes) == (GroupState.EMPTY, [ResetOutcome.CONFIRMED])
    assert held.waited.last_sample is not None
    assert held.waited.last_sample.queues[offline].consumer_offset == 2900
    assert lost.outcomes == [ResetOutcome.LOST], lost.waited.verdicts
    assert push.outcomes == [ResetOutcome.CONFIRMED, ResetOutcome.CONFIRMED], push.waited.verdicts
    # A pull that was held since before could still move the offset until then.
    assert push.seconds > PUSH_S + HELD_MORE_S


def _store_over(address: str, commands: Sequence[Command], since_s: float, until_s: float) -> None:
    """Send commands again and again, and ask for no answer, from since_s to until_s of the monotonic clock."""
    protocol = Connection()
    frames = [
        protocol.send_request(Command(each.code, each.ext_fields, flag=CommandFlag.ONEWAY))[1] for each in commands
    ]
    host, port = address.rsplit(":", 1)
    time.sleep(max(0.0, since_s - time.monotonic()))
    with socket.create_connection((host, int(port))) as connection:
        while time.monotonic() < until_s:
            connection.sendall(b"".join(frames) * 20)
            time.sleep(0.0005)


def test_members_that_take_the_queue_anew_where_they_were_are_not_confirmed(pushing: Cluster) -> None:
    """A client stores its target and asks at once where to go on. Somebody else stores the old offset in between."""
    mq, groups = MessageQueue("StableOver", "broker-a", 0), [f"StableOver{number}" for number in range(5)]
    pushing.create_topic(mq.topic, queue_count=1, brokers=("broker-a",))
    pushing.java.produce(mq.topic, 500, batch=100)
    for group in groups:
        pushing.java.consume(group, group, mq.topic)
    for group in groups:
        _until_stored(pushing, group, group, mq, 500)
    address, commands = pushing.addresses["broker-a"], [_store(group, mq, 500) for group in groups]
    begun_s = time.monotonic()
    storing = [
        threading.Thread(target=_store_over, args=(address, commands, begun_s + 7, begun_s + 13)) for _ in range(2)
    ]
    for thread in storing:
        thread.start()
    seen = _write_and_wait(pushing, *(_Reset(group, {mq: 0}, Route.CLIENT_PUSH, _push_to_start) for group in groups))
    for thread in storing:
        thread.join()
    went = [int(pushing.java.call("consumed", id=group)) > 500 for group in groups]
    for group in groups:
        pushing.java.stop(group)

    assert not all(went), "nobody came in between"
    for each, has_gone in zip(seen, went, strict=True):
        verdict = each.waited.verdicts[mq]
        assert verdict.outcome is (ResetOutcome.CONFIRMED if has_gone else ResetOutcome.UNKNOWN), verdict
        assert has_gone or "or never moved" in verdict.reason
