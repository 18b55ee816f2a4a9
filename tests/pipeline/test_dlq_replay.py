"""The job `dlq-replay` without Spark: shards, what an attempt at one sends, and when an attempt ends itself."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest

from rmqctl.changes.dlq import copies
from rmqctl.changes.dlq.ledger import LedgerRow
from rmqctl.changes.dlq.reconciliation import SentCopies, check_copies
from rmqctl.changes.dlq.requests import ReplayChunk, ReplayItem, ReplayRequest
from rmqctl.changes.dlq.rules.replay import MARK, mark_of
from rmqctl.changes.dlq.source import DeadLetter
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import RefusedError, RmqctlError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.pipeline.jobs.dlq_replay import task
from rmqctl.pipeline.jobs.dlq_replay.shards import Errand, Shard, share_out
from rmqctl.pipeline.jobs.dlq_replay.task import DetachedError, Leash
from rmqctl.pipeline.source.task_access import task_access
from rmqctl.producer.producer import Producer
from rmqctl.protocol.sends import batch_part
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox

_LEDGER, _MQ = "1a2b3c", MessageQueue("T", "broker-a", 0)


@pytest.fixture(autouse=True)
def _nothing_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_IN_FLIGHT_S", 0.0)


@pytest.fixture
def sandbox() -> Iterator[ThreadedSandbox]:
    with ThreadedSandbox(brokers=2) as running:
        running.create_topic("T", queues=2)
        yield running


def _message(number: int) -> OutgoingMessage:
    mark = mark_of(_LEDGER, "broker-a", 0, number)
    return OutgoingMessage(f"m{number}".encode(), {"UNIQ_KEY": f"ID{number}", MARK: mark})


def _request(address: str, *numbers: int, mq: MessageQueue = _MQ) -> ReplayRequest:
    items = [
        ReplayItem(DeadLetter("broker-a", 0, at, f"ID{at}", 0, 0, 0, {}, b""), _message(at), "T") for at in numbers
    ]
    parts = [batch_part(item.message) for item in items] if len(items) > 1 else None
    rows = [LedgerRow("broker-a", 0, at, f"ID{at}", "", *mq, 0, 0) for at in numbers]
    return ReplayRequest(mq, address, ReplayChunk(items, parts), rows)


def _errand(name_servers: str) -> Errand:
    return Errand(task_access(Access(name_servers, 10)), _LEDGER, "P", 60)


def _shard(sandbox: ThreadedSandbox, *lanes: list[tuple[int, ...]]) -> Shard:
    address = sandbox.brokers["broker-a"]
    made = [[_request(address, *numbers) for numbers in lane] for lane in lanes]
    (shard,) = share_out(made, 1, _errand(sandbox.addr))
    return shard


def _sent(sandbox: ThreadedSandbox) -> list[str]:
    async def read() -> list[str]:
        async with Client([sandbox.addr]) as client:
            found = await copies.read_copies(client, _LEDGER, _MQ, 0)
        return [copy.mark.rpartition(":")[2] for copy in found]

    return asyncio.run(read())


def _attempt(shard: Shard, leash: Leash | None = None, *, is_later: bool = False) -> list[tuple[int, list[int], bool]]:
    result = asyncio.run(task._send(shard, leash or Leash(60), is_later=is_later))
    assert result.errors == {}
    return result.stored


@pytest.mark.parametrize(
    ("queues", "count", "wanted"),
    [
        ([0, 0, 0, 0], 2, [(0, 1), (2, 3)]),
        ([1, 0, 1, 0], 2, [(1, 3), (0, 2)]),
        ([0, 1], 8, [(0,), (1,)]),
        ([0, 0, 0], 2, [(0, 1), (2,)]),
    ],
)
def test_lanes_are_shared_out_by_queues(queues: list[int], count: int, wanted: list[tuple[int, ...]]) -> None:
    lanes = [
        [_request("a", 2 * number, 2 * number + 1, mq=_MQ._replace(queue_id=at))] for number, at in enumerate(queues)
    ]
    shards = share_out(lanes, count, _errand("n:1"))
    assert [shard.numbers for shard in shards] == wanted
    # A batch is in its parts; its messages stay on the driver.
    assert all(request.chunk.items == [] for shard in shards for lane in shard.lanes for request in lane)


def test_each_attempt_sends_only_what_is_not_there(sandbox: ThreadedSandbox) -> None:
    whole = _shard(sandbox, [(0,), (1,)], [(2, 3, 4)], [(5,)])
    assert _attempt(_shard(sandbox, [(0,)], [(2, 3, 4)])) == [(0, [0], True), (1, [1, 2, 3], True)]
    for is_later in (False, True):
        stored = _attempt(whole, is_later=is_later)
        assert sorted(stored) == [(0, [0], True), (0, [4], True), (1, [1, 2, 3], True), (2, [5], True)]
    assert sorted(_sent(sandbox)) == ["0", "1", "2", "3", "4", "5"]


def test_a_part_of_a_batch_is_not_sent_again(sandbox: ThreadedSandbox) -> None:
    _attempt(_shard(sandbox, [(2,)]))
    result = asyncio.run(task._send(_shard(sandbox, [(2, 3)], [(4,)]), Leash(60), is_later=True))
    assert (list(result.errors), result.stored) == ([0], [(1, [1], True)])
    assert _sent(sandbox) == ["2", "4"]


def test_where_an_earlier_attempt_was_all_queues_must_be_read(sandbox: ThreadedSandbox) -> None:
    address = sandbox.brokers["broker-a"]
    lanes = [[_request(address, 0)], [_request(address, 1, mq=_MQ._replace(broker_name="gone"))]]
    (shard,) = share_out(lanes, 1, _errand(sandbox.addr))
    _attempt(_shard(sandbox, [(0,)]))
    for is_later in (False, True):
        with pytest.raises(RmqctlError, match="gone"):
            _attempt(shard, is_later=is_later)
    assert _sent(sandbox) == ["0"]


def test_an_attempt_that_may_not_be_the_only_one_sends_nothing(
    sandbox: ThreadedSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, parent = 100.0, os.getppid()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    stopped, orphan, slow = Leash(60), Leash(60), Leash(60)
    for leash in (stopped, orphan, slow):
        leash.check()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getppid", lambda: parent + 1)
        with pytest.raises(DetachedError):
            orphan.check()
    with pytest.raises(DetachedError):
        orphan.check()
    for _ in range(10):
        now_s += 7
        slow._look()
    with pytest.raises(RefusedError):
        slow.check()
    with pytest.raises(DetachedError):
        stopped.check()
    monkeypatch.undo()
    with pytest.raises(ExceptionGroup) as raised:
        _attempt(_shard(sandbox, [(0,)]), stopped)
    assert raised.group_contains(DetachedError)
    assert _sent(sandbox) == []


def test_copies_are_counted_on_the_target(sandbox: ThreadedSandbox) -> None:
    other = _MQ._replace(queue_id=1)

    async def check() -> list[tuple[str | None, str]]:
        async with Client([sandbox.addr]) as client:
            producer = Producer(client, "P")
            for number, mq in ((0, _MQ), (1, _MQ), (1, other), (2, other)):
                await producer.send_message("T", _message(number), mq=mq)
            sent = {_MQ: SentCopies(0, 2), other: SentCopies(0, 3), _MQ._replace(broker_name="gone"): SentCopies(0, 1)}
            return [(each.broker_name, each.what) for each in await check_copies(client, _LEDGER, sent)]

    assert asyncio.run(check()) == [
        ("gone", "copies in T@gone:0"), ("broker-a", "copies in T@broker-a:1"), (None, "1 dead letter"),
    ]  # fmt: skip
