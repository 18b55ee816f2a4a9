"""What the smoke puts into the sandbox, and reads there without Spark."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.message import StoredMessage
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.sandbox import progress, sender
from tests.sandbox.peer import Peer, consumer_data, subscription

# Options of sources and sinks: the sandbox shares two cores with Spark, and must not seem dead when it is only slow.
PATIENT = {"rocketmq.timeout": "60s"}
BROKERS = ("broker-a", "broker-b")


class Sent(NamedTuple):
    """A message, and where its broker has put it."""

    body: str
    broker_name: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    msg_id: str


def create_topic(sandbox: ThreadedSandbox, topic: str, *, queue_count: int = 2) -> None:
    """Make a topic on both brokers, or give it more queues."""

    async def create(peer: Peer) -> None:
        await peer.ask_ok(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic=topic, defaultTopic="TBW102", readQueueNums=queue_count,
            writeQueueNums=queue_count, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False,
        )  # fmt: skip

    for name in BROKERS:
        _with_peer(sandbox, name, create)


def put(sandbox: ThreadedSandbox, topic: str, place: str, bodies: Iterable[str], **properties: str) -> list[Sent]:
    """Send messages to a queue, broker-a:0, all with these properties."""
    broker_name, _, queue = place.partition(":")

    async def send(peer: Peer) -> list[Sent]:
        sent = []
        for body in bodies:
            answer = await sender.send(peer, topic, body.encode(), properties=sender.pairs(**properties), e=queue)
            at, fields = sender.log_offset(answer), answer.ext_fields
            sent.append(Sent(body, broker_name, int(queue), int(fields["queueOffset"]), at, fields["msgId"]))
        return sent

    return _with_peer(sandbox, broker_name, send)


def read_all(sandbox: ThreadedSandbox, topic: str, *, queue_count: int = 2) -> list[StoredMessage]:
    """Return what stands in all queues of a topic, as a client reads it."""
    return [each for queue in read_queues(sandbox, topic, queue_count=queue_count).values() for each in queue]


def read_queues(
    sandbox: ThreadedSandbox, topic: str, *, queue_count: int = 2
) -> dict[tuple[str, int], list[StoredMessage]]:
    """Return the same by broker and queue id."""

    async def read(peer: Peer) -> dict[int, list[StoredMessage]]:
        return {queue_id: await sender.read(peer, topic, queue_id) for queue_id in range(queue_count)}

    return {(name, at): held for name in BROKERS for at, held in _with_peer(sandbox, name, read).items()}


def leave(sandbox: ThreadedSandbox, group: str, topic: str, offsets: Mapping[str, int]) -> None:
    """Have a group that was there and left; offsets are by place, broker-a:0."""

    async def join(peer: Peer) -> None:
        await peer.heartbeat("gone", consumer_data(group, subscription(topic)))

    for name in BROKERS:
        _with_peer(sandbox, name, join)
    for place, offset in offsets.items():
        broker_name, _, queue = place.partition(":")

        async def commit(peer: Peer, queue_id: int = int(queue), offset: int = offset) -> None:
            await progress.commit(peer, group, topic, queue_id, offset)

        _with_peer(sandbox, broker_name, commit)


@contextmanager
def joined(sandbox: ThreadedSandbox, group: str, topic: str) -> Iterator[None]:
    """Have a member in a group."""

    async def join(inner: Sandbox) -> Peer:
        return await progress.join(inner, "member", group, topic)

    async def close(peer: Peer) -> None:
        await peer.aclose()
        await sandbox.sandbox.await_idle()

    peer = sandbox.run(join(sandbox.sandbox))
    try:
        yield
    finally:
        sandbox.run(close(peer))


def delete_group(sandbox: ThreadedSandbox, group: str, *, with_offsets: bool) -> None:
    """Delete a group on both brokers."""

    async def delete(peer: Peer) -> None:
        await peer.ask_ok(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName=group, cleanOffset=with_offsets)

    for name in BROKERS:
        _with_peer(sandbox, name, delete)


def delete_before(sandbox: ThreadedSandbox, topic: str, first: Sent) -> None:
    """Let a queue begin at a message, as after its broker has deleted files."""
    sandbox.call(
        lambda inner: (
            inner.brokers[first.broker_name].store.queue(topic, first.queue_id).drop_before(first.commit_log_offset)
        )
    )


def _with_peer(sandbox: ThreadedSandbox, broker_name: str, work: Callable[[Peer], Coroutine[Any, Any, Any]]) -> Any:
    async def run(inner: Sandbox) -> Any:
        peer = await Peer.of_broker(inner, broker_name)
        try:
            return await work(peer)
        finally:
            await peer.aclose()
            await inner.await_idle()

    return sandbox.run(run(sandbox.sandbox))
