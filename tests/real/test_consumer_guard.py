"""Mission 7.12 on real brokers: locks of orderly members make dead letters of retries sent as new messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rmqctl.client.core import Client
from rmqctl.consumer.guards.retry_guard import RetryGuard
from rmqctl.consumer.rules.retry_locks import SETTLED_S
from rmqctl.consumer.send_back import SendBackRequests
from rmqctl.errors import RefusedError, RmqctlError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.producer.producer import Producer
from rmqctl.protocol import headers
from rmqctl.protocol.message import StoredMessage, iter_messages
from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster

pytestmark = pytest.mark.timeout(120)


class _Misplaced(StoredMessage, frozen=True, eq=False, gc=False):
    """A message that its broker can't find any more, so that it refuses to take it back (36)."""

    @property
    def commit_log_offset(self) -> int:
        return 1 << 40


@pytest.fixture
def group(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Give a group, and topic, with an orderly member at broker-a and a concurrent one at broker-b, both of Java's."""
    name = f"Guarded-{request.node.originalname}"
    cluster.create_topic(name, queue_count=2)
    cluster.java.produce(name, 8, prefix="m")
    # Names order the members, and so the brokers, of the retry topic too: its locks count like the others.
    cluster.java.consume(f"{name}-1", name, name, orderly=1, collect=1, instance="1", heartbeat=1000)
    cluster.java.consume(f"{name}-2", name, name, collect=1, instance="2", heartbeat=1000)
    # A retry topic is made by the first heartbeats, and Java asks for its route only later.
    cluster.wait_for_route(f"%RETRY%{name}", 2)
    for number, broker_name in (("1", "broker-a"), ("2", "broker-b")):
        for topic, queue_count in ((name, 2), (f"%RETRY%{name}", 1)):
            _wait_for_share(
                cluster, f"{name}-{number}", topic, {f"{broker_name}:{each}" for each in range(queue_count)}
            )
    # The locks come with the messages.
    wait_until(lambda: sum(int(cluster.java.call("consumed", id=f"{name}-{each}")) for each in "12") >= 8)
    yield name
    for each in "12":
        cluster.java.stop(f"{name}-{each}")


def _wait_for_share(cluster: Cluster, consumer_id: str, topic: str, wanted: set[str]) -> None:
    def has_it() -> bool:
        cluster.java.call("rebalance", id=consumer_id)
        return cluster.java.queues(consumer_id, topic) == wanted

    wait_until(has_it, 40, lambda: cluster.java.queues(consumer_id, topic))


class _Retries:
    """Sends messages back that no broker finds, and counts where they end."""

    def __init__(self, cluster: Cluster, client: Client, group: str, *, is_guarded: bool) -> None:
        self._cluster, self._client, self._group = cluster, client, group
        self.reports: list[str] = []
        producer = Producer(client, "CLIENT_INNER_PRODUCER")
        self.guard = RetryGuard(client, group, "ours", self._note)
        self._back = SendBackRequests(client, group, producer, guard=self.guard if is_guarded else None)
        self.messages: dict[str, StoredMessage] = {}

    def _note(self, trouble: ConsumerWarning, said: str) -> None:
        assert trouble is ConsumerWarning.GROUP
        self.reports.append(said)

    async def read(self) -> None:
        for name, address in self._cluster.addresses.items():
            answer = await self._client.ask(address, headers.pull_without_trace(self._group, 0, 0))
            self.messages[name] = next(iter_messages(answer.body))

    async def by_place(self) -> None:
        """Give messages back as it is usual, at every broker."""
        for name, message in self.messages.items():
            await self._back(message, 0, broker_name=name)
        assert self._back.fallback_count == 0

    async def anew(self, count: int) -> None:
        """Give one message back so many times, as a new message each."""
        message = self.messages["broker-a"]
        lost = _Misplaced.decode(message.record)
        before = self._back.fallback_count
        for _ in range(count):
            await self._back(lost, 0, broker_name="broker-a")
        assert self._back.fallback_count == before + count

    async def dead_counts(self) -> dict[str, int]:
        found = {}
        for name, address in self._cluster.addresses.items():
            try:
                answer = await self._client.ask(address, headers.get_max_offset(f"%DLQ%{self._group}", 0))
            except RmqctlError:
                continue
            found[name] = int(answer.ext_fields["offset"])
        return found


def _run(cluster: Cluster, group: str, *, is_guarded: bool) -> tuple[dict[str, int], list[str]]:
    """Send 12 retries as new messages; return how many dead letters each broker has then, and what the guard told."""

    async def go() -> tuple[dict[str, int], list[str]]:
        async with Client([cluster.namesrv], timeout_s=20, open_ended=True) as client:
            retries = _Retries(cluster, client, group, is_guarded=is_guarded)
            await retries.read()
            await retries.by_place()
            assert set((await retries.dead_counts()).values()) <= {0}
            if is_guarded and cluster.version != "4.9.7":
                # Who has just come sees everybody come: the orderly member may be about to lock anything.
                with pytest.raises(RefusedError, match="consumes orderly in group"):
                    await retries.anew(1)
                await asyncio.sleep(SETTLED_S + 1)
            await retries.anew(12)
            # Brokers answer before their queues show what they took.
            await asyncio.sleep(1)
            return await retries.dead_counts(), retries.reports

    return asyncio.run(go())


def test_without_a_guard_a_retry_becomes_a_dead_letter_where_locks_are_held_from_5_1_1_on(
    cluster: Cluster, group: str
) -> None:
    """What is guarded against is there: 12 new messages, round both brokers; giving back by place is not concerned."""
    dead, _ = _run(cluster, group, is_guarded=False)
    assert dead.get("broker-b", 0) == 0
    assert dead.get("broker-a", 0) == (0 if cluster.version == "4.9.7" else 6)


def test_7_12_guarded_retries_go_to_the_broker_without_locks(cluster: Cluster, group: str) -> None:
    dead, reports = _run(cluster, group, is_guarded=True)
    assert (set(dead.values()) <= {0}, reports) == (True, [])
