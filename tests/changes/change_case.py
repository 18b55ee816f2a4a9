"""What tests of plans and their application share: clusters with known groups, and short ways to plan and apply."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from rmqctl.changes.apply import apply_plan
from rmqctl.changes.documents.encode import plan_document
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.plan import plan_offsets
from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
from rmqctl.changes.offsets.targets import ResetRequest
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.model.plan import Operation, Plan, PlanItem
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import Receipt, ReceiptItem, ReceiptReport, Who
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.admin.message_store import MessageStore, message_cluster
from tests.scripted_peer import V4_9_7, V5_4_0, Reply, ScriptedServer, passing, run

_T = TypeVar("_T")
WHO = Who("ada", os.uname().nodename, os.getpid(), None)
SERVER_SIDE = {"useServerSideResetOffset": "true"}
WRITES = (Q.UPDATE_CONSUMER_OFFSET, Q.INVOKE_BROKER_TO_RESET_OFFSET)


def store(
    name: str = "broker-a", *, version: int = V5_4_0, counts: Mapping[str, tuple[int, ...]] | None = None,
    offsets: Mapping[str, Mapping[int, int]] | None = None, group: str = "G",
) -> MessageStore:  # fmt: skip
    """Return a broker with so many messages in each queue of each topic, a second apart from NOW_MS on.

    The group's stored offsets are by topic and queue. From 5.2.0 on a broker resets by itself unless it is told not to.
    """
    state = BrokerState(name, version, configured={group})
    if version >= V5_4_0:
        state.settings |= SERVER_SIDE
    messages = MessageStore(state)
    for topic, queues in (counts or {"T": (100, 100)}).items():
        for queue_id, count in enumerate(queues):
            state.topics.setdefault(topic, []).append(Queue())
            for _ in range(count):
                messages.put(topic, queue_id)
    state.offsets[group] = {topic: dict(queues) for topic, queues in (offsets or {}).items()}
    return messages


def join(
    cluster: Cluster, *client_ids: str, group: str = "G", topics: tuple[str, ...] = ("T",), **settings: Any
) -> None:
    """Connect members to all brokers."""
    states = list(cluster.brokers.values())
    for state in states:
        members = {name: following(states, group, topics) for name in client_ids}
        state.groups[group] = Group(members, topics, **settings)


def following(states: Sequence[BrokerState], group: str, topics: tuple[str, ...]) -> Reply:
    """Return the word of a member that is always where the brokers store that it is, and has nothing in its hands."""

    def reply(_: object) -> Reply:
        return running(
            {
                (topic, state.name, queue_id): held(commit=offset)
                for state in states
                for topic in topics
                for queue_id, offset in state.offsets.get(group, {}).get(topic, {}).items()
            }
        )

    return reply


def ask(
    cluster: Cluster, call: Callable[[Client], Awaitable[_T]], *, timeout_s: float = 30.0, step_s: float = 0.25
) -> _T:
    """Run a question against a cluster whose clock moves on."""

    async def scenario() -> _T:
        async with cluster.client(timeout_s) as client:
            return await call(client)

    return run(passing(cluster.clock, scenario(), step_s=step_s))


def planned(
    cluster: Cluster, kind: TargetKind = TargetKind.EARLIEST, value: int = 0, *, group: str = "G",
    operation: Operation = Operation.OFFSET_RESET, topics: tuple[str, ...] = ("T",), **wish: Any,
) -> PlanReport:  # fmt: skip
    """Return the plan of a reset."""
    wanted = ResetRequest(operation, TargetSpec(kind, value), topics, asked="as the test says", **wish)
    return ask(cluster, lambda client: plan_offsets(client, group, wanted))


def apply(
    cluster: Cluster, plan: Plan, *, strict: bool = False, wait_s: float = 0.0, timeout_s: float = 30.0,
    said: list[str] | None = None,
) -> ReceiptReport:  # fmt: skip
    """Apply a plan, with the journal of this test."""
    document = plan_document(plan)
    report: Callable[[str], None] = (lambda _: None) if said is None else said.append
    with Journal() as journal:
        return ask(
            cluster,
            lambda client: apply_plan(
                client, plan, json.dumps(document), document["sha256"], journal, WHO, strict=strict, wait_s=wait_s,
                report=report,
            ),
            timeout_s=timeout_s,
        )  # fmt: skip


def targets(plan: Plan) -> dict[str, int | None]:
    """Return where each queue goes, as `T@broker-a:0`."""
    return {str(item.mq): item.target for item in plan.items}


def the_item(plan: Plan, queue_id: int = 0, topic: str = "T", broker_name: str = "broker-a") -> PlanItem:
    """Return one queue's part of a plan."""
    return next(item for item in plan.items if item.mq == MessageQueue(topic, broker_name, queue_id))


def results(applied: ReceiptReport) -> dict[str, str]:
    """Return the result of each queue."""
    return {str(item.mq): item.result.value for item in applied.receipt.items}


def outcome(applied: ReceiptReport, queue_id: int = 0, topic: str = "T", broker_name: str = "broker-a") -> ReceiptItem:
    """Return what came of one queue."""
    return next(item for item in applied.receipt.items if item.mq == MessageQueue(topic, broker_name, queue_id))


def two_brokers(version: int = V5_4_0, *, online: bool = False) -> Cluster:
    """Return two brokers with two queues of 100 messages each, of which the group has 60."""
    offsets = {"T": {0: 60, 1: 60}}
    cluster = message_cluster(
        store(version=version, offsets=offsets), store("broker-b", version=version, offsets=offsets)
    )
    if online:
        join(cluster, "c1")
    return cluster


def many_queues(count: int = 200) -> Cluster:
    """Return two brokers with so many queues each, several batches, of one message that is consumed."""
    queues, offsets = {"T": (1,) * count}, {"T": dict.fromkeys(range(count), 1)}
    return message_cluster(store(counts=queues, offsets=offsets), store("broker-b", counts=queues, offsets=offsets))


def pushing(**settings: Any) -> Cluster:
    """Return a broker of 4.9, which tells the clients, and a member."""
    cluster = message_cluster(store(version=V4_9_7, offsets={"T": {0: 60, 1: 60}}))
    join(cluster, "c1", **settings)
    return cluster


def stored(cluster: Cluster, broker_name: str = "broker-a", topic: str = "T") -> dict[int, int]:
    """Return the group's stored offsets, to look at and to change."""
    return cluster.brokers[broker_name].offsets["G"][topic]


def written_count(cluster: Cluster) -> int:
    """Return how many requests were sent that change an offset."""
    return sum(code in WRITES for server in cluster.servers.values() for code in server.codes())


def journaled() -> Receipt:
    """Return the only change of the journal."""
    with Journal() as journal:
        (change,) = journal.history()
        receipt = journal.receipt(change.receipt_id)
    assert receipt is not None
    return receipt


def instead(server: ScriptedServer, code: int, work: Callable[[Command], Reply | None]) -> None:
    """Let something happen when a request comes; it is answered as ever where that returns None."""
    usual = server.table[code]

    def reply(request: Command) -> Reply:
        answer = work(request)
        return usual if answer is None else answer

    server.table[code] = reply
