"""Offsets in memory and at brokers: what is sent, what is made of the answers, what of it a reset can undo."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rmqctl.client.core import Client
from rmqctl.consumer.offsets.store import BrokerOffsets
from rmqctl.errors import BrokerError, DeadlineError, NotAuthorisedError, UnreachableError
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import Deadline
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import SILENCE, V4_9_7, V5_4_0, Late, ok, passing, refused, run

_T = TypeVar("_T")
_MQ = MessageQueue("T", "broker-a", 0)
_OTHER = MessageQueue("T", "broker-b", 0)
_ADDRESSES = {"broker-a": "a:1", "broker-b": "b:1"}


def _cluster(version: int = V5_4_0) -> Cluster:
    return Cluster(
        *(
            BrokerState(
                name, version, topics={"T": [Queue(100), Queue(100)]}, configured={"G"},
                settings={"useServerSideResetOffset": "true"},
            )
            for name in _ADDRESSES
        )
    )  # fmt: skip


def _store(client: Client) -> BrokerOffsets:
    return BrokerOffsets(client, "G", lambda mq: _ADDRESSES.get(mq.broker_name))


def _with(cluster: Cluster, call: Callable[[BrokerOffsets], Awaitable[_T]]) -> _T:
    async def scenario() -> _T:
        async with cluster.client(9) as client:
            client.deadline = Deadline(cluster.clock, 9, open_ended=True)
            return await call(_store(client))

    return run(passing(cluster.clock, scenario()))


def _stored(cluster: Cluster, mq: MessageQueue = _MQ) -> int | None:
    return cluster.brokers[mq.broker_name].offsets.get("G", {}).get(mq.topic, {}).get(mq.queue_id)


def test_concurrent_progress_never_goes_backwards_but_by_a_correction() -> None:
    async def call(store: BrokerOffsets) -> list[int | None]:
        seen = [store.read(_MQ)]
        for offset, increase_only in ((0, True), (7, True), (5, True), (5, False), (6, True)):
            store.update(_MQ, offset, increase_only=increase_only)
            seen.append(store.read(_MQ))
        return seen

    assert _with(_cluster(), call) == [None, 0, 7, 7, 5, 6]


def test_what_is_persisted_is_fetched() -> None:
    cluster = _cluster()

    async def call(store: BrokerOffsets) -> tuple[object, ...]:
        before = await store.fetch(_MQ)
        store.update(_MQ, 0, increase_only=True)
        store.update(_OTHER, 9, increase_only=True)
        failures = await store.persist()
        return before, failures, await store.fetch(_MQ), await store.fetch(_OTHER), store.snapshot()

    assert _with(cluster, call) == (None, [], 0, 9, {_MQ: 0, _OTHER: 9})


def test_only_the_named_queues_are_persisted_and_only_what_is_known() -> None:
    cluster = _cluster()

    async def call(store: BrokerOffsets) -> object:
        store.update(_MQ, 3, increase_only=True)
        store.update(_OTHER, 9, increase_only=True)
        return await store.persist([_MQ, _MQ, MessageQueue("T", "broker-a", 1)])

    assert _with(cluster, call) == []
    assert (_stored(cluster), _stored(cluster, _OTHER)) == (3, None)
    assert cluster.servers["broker-a"].codes() == [Q.UPDATE_CONSUMER_OFFSET]


def test_a_queue_that_is_forgotten_is_not_persisted_and_stays_stored() -> None:
    cluster = _cluster()

    async def call(store: BrokerOffsets) -> tuple[object, ...]:
        store.update(_MQ, 3, increase_only=True)
        await store.persist()
        store.update(_MQ, 4, increase_only=True)
        store.forget(_MQ)
        store.forget(_OTHER)
        return store.read(_MQ), store.snapshot(), await store.persist(), await store.fetch(_MQ)

    assert _with(cluster, call) == (None, {}, [], 3)


def test_fetching_leaves_memory_as_it_is() -> None:
    cluster = _cluster()
    cluster.brokers["broker-a"].offsets["G"] = {"T": {0: 50}}

    async def call(store: BrokerOffsets) -> tuple[object, ...]:
        return await store.fetch(_MQ), store.read(_MQ)

    assert _with(cluster, call) == (50, None)


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_7_4_a_small_new_queue_may_answer_zero_as_it_does_to_java(version: int) -> None:
    cluster = _cluster(version)
    cluster.servers["broker-a"].table[Q.QUERY_CONSUMER_OFFSET] = ok(offset="0")
    assert _with(cluster, lambda store: store.fetch(_MQ)) == 0
    (request,) = cluster.servers["broker-a"].asked
    assert request.ext_fields == {"consumerGroup": "G", "topic": "T", "queueId": "0"}


def test_7_4_none_is_told_from_an_error() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.QUERY_CONSUMER_OFFSET] = refused(
        R.QUERY_NOT_FOUND, "maybe this group boot first"
    )
    assert _with(cluster, lambda store: store.fetch(_MQ)) is None
    cluster.servers["broker-a"].table[Q.QUERY_CONSUMER_OFFSET] = ok(offset="-1")
    assert _with(cluster, lambda store: store.fetch(_MQ)) is None
    for reply, error in (
        (refused(R.SYSTEM_ERROR, "no"), BrokerError),
        (refused(R.NO_PERMISSION, "no"), NotAuthorisedError),
        (SILENCE, DeadlineError),
    ):
        cluster.servers["broker-a"].table[Q.QUERY_CONSUMER_OFFSET] = reply
        with pytest.raises(error):
            _with(cluster, lambda store: store.fetch(_MQ))
    with pytest.raises(UnreachableError, match="broker-x: no route has"):
        _with(cluster, lambda store: store.fetch(MessageQueue("T", "broker-x", 0)))


def test_what_one_broker_refuses_is_a_failure_and_the_others_are_stored() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET] = refused(R.SUBSCRIPTION_GROUP_NOT_EXIST, "no G")
    lost = MessageQueue("T", "broker-x", 3)

    async def call(store: BrokerOffsets) -> list[tuple[str | None, str, type]]:
        for mq in (_MQ, _OTHER, lost):
            store.update(mq, 9, increase_only=True)
        failures = await store.persist()
        return [(failure.broker_name, failure.what, type(failure.error)) for failure in failures]

    assert _with(cluster, call) == [
        ("broker-a", "offset of T:0", BrokerError),
        ("broker-x", "offset of T:3", UnreachableError),
    ]
    assert _stored(cluster, _OTHER) == 9


def test_a_silent_broker_holds_up_no_other() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET] = SILENCE

    async def call(store: BrokerOffsets) -> tuple[object, ...]:
        store.update(_MQ, 9, increase_only=True)
        slow = asyncio.ensure_future(store.persist())
        await asyncio.sleep(0)
        store.update(_OTHER, 9, increase_only=True)
        quick = await store.persist([_OTHER])
        was_done = slow.done()
        (failure,) = await slow
        return quick, was_done, type(failure.error)

    assert _with(cluster, call) == ([], False, DeadlineError)


def test_an_offset_that_the_broker_holds_back_is_no_failure_but_told() -> None:
    cluster = _cluster()
    broker = cluster.brokers["broker-a"]
    broker.offsets["G"] = {"T": {0: 20}}
    broker.marks["G", "T", 0] = 20

    async def call(store: BrokerOffsets) -> list[object]:
        store.update(_MQ, 90, increase_only=True)
        store.update(_OTHER, 90, increase_only=True)
        seen: list[object] = [await store.persist(), set(store.held), _stored(cluster)]
        del broker.marks["G", "T", 0]
        seen += [await store.persist(), set(store.held), _stored(cluster)]
        broker.marks["G", "T", 0] = 20
        await store.persist()
        store.forget(_MQ)
        return [*seen, set(store.held)]

    assert _with(cluster, call) == [[], {_MQ}, 20, [], set(), 90, set()]


def test_an_older_offset_under_way_never_lands_after_a_reset() -> None:
    cluster = _cluster()
    server, broker = cluster.servers["broker-a"], cluster.brokers["broker-a"]

    def store_late(request: Command) -> Late:
        return Late(1.0, lambda _: broker._store_offset(request))

    async def call(store: BrokerOffsets) -> object:
        store.update(_MQ, 90, increase_only=True)
        server.fail_next(Q.UPDATE_CONSUMER_OFFSET, store_late)
        periodic = asyncio.ensure_future(store.persist())
        await cluster.clock.await_idle()
        assert len(server.asked) == 1
        # The order of a reset: the target is put in memory and stored at once, whatever else is under way.
        store.update(_MQ, 20, increase_only=False)
        return await store.persist([_MQ]), await periodic

    assert _with(cluster, call) == ([], [])
    assert _stored(cluster) == 20


@pytest.mark.parametrize("away_s", [14, 16])
def test_what_others_have_stored_in_a_long_absence_is_not_overwritten(away_s: float) -> None:
    cluster = _cluster()

    async def call(store: BrokerOffsets) -> list[object]:
        store.update(_MQ, 20, increase_only=True)
        store.update(_OTHER, 20, increase_only=True)
        await store.persist()
        # The process is stopped; others consume one of the queues further, and one is where it was.
        cluster.brokers["broker-a"].offsets["G"]["T"][0] = 90
        await cluster.clock.advance(away_s)
        store.update(_MQ, 25, increase_only=True)
        store.update(_OTHER, 25, increase_only=True)
        said = [f"{each.what}: {each.error.sentence}" for each in await store.persist()]
        again = [each.what for each in await store.persist([_MQ])]
        return [said, again]

    found = _with(cluster, call)
    if away_s == 14:
        # Offsets are stored each 5 s: nothing has come in between, and nobody is asked.
        assert (found, _stored(cluster), _stored(cluster, _OTHER)) == ([[], []], 25, 25)
        assert Q.QUERY_CONSUMER_OFFSET not in cluster.servers["broker-a"].codes()
    else:
        ((said,), others) = found
        assert said.startswith("offset of T:0: Another member has stored 90 ")
        assert (said.endswith(" 25."), others) == (True, ["offset of T:0"])
        assert (_stored(cluster), _stored(cluster, _OTHER)) == (90, 25)


def test_a_correction_is_stored_whatever_is_and_so_is_what_follows_a_new_start() -> None:
    cluster = _cluster()

    async def call(store: BrokerOffsets) -> list[object]:
        store.update(_MQ, 20, increase_only=True)
        await store.persist()
        await cluster.clock.advance(60)
        cluster.brokers["broker-a"].offsets["G"]["T"][0] = 90
        store.update(_MQ, 10, increase_only=False)
        seen: list[object] = [await store.persist(), _stored(cluster)]
        store.forget(_MQ)
        cluster.brokers["broker-a"].offsets["G"]["T"][0] = 90
        await cluster.clock.advance(60)
        seen.append(await store.fetch(_MQ))
        store.update(_MQ, 91, increase_only=True)
        return [*seen, await store.persist(), _stored(cluster)]

    assert _with(cluster, call) == [[], 10, 90, [], 91]


def test_queues_that_are_dropped_at_once_do_not_wait_for_a_silent_broker_in_turn() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.UPDATE_CONSUMER_OFFSET] = SILENCE

    async def call(store: BrokerOffsets) -> float:
        queues = [MessageQueue("T", "broker-a", number) for number in range(8)]
        for mq in queues:
            store.update(mq, 9, increase_only=True)
        began_s = cluster.clock.monotonic_s()
        failures = await asyncio.gather(*(store.persist([mq]) for mq in queues))
        assert all(len(each) == 1 for each in failures)
        return cluster.clock.monotonic_s() - began_s

    assert _with(cluster, call) < 4  # an attempt has 3 s


@pytest.mark.parametrize("refused_count", [0, 1, 2])
def test_the_first_offset_of_a_topic_goes_alone_until_one_has_succeeded(refused_count: int) -> None:
    """Of two first ones that come at once brokers lose one (ConsumerOffsetManager.commitOffset)."""
    cluster = _cluster()
    server, broker = cluster.servers["broker-a"], cluster.brokers["broker-a"]
    for _ in range(refused_count):
        server.fail_next(Q.UPDATE_CONSUMER_OFFSET, refused(R.NO_PERMISSION))
    server.fail_next(Q.UPDATE_CONSUMER_OFFSET, lambda request: Late(1.0, lambda _: broker._store_offset(request)))

    async def call(store: BrokerOffsets) -> list[object]:
        queues = [MessageQueue("T", "broker-a", number) for number in range(5)]
        for mq in queues:
            store.update(mq, 9, increase_only=True)
        first = asyncio.ensure_future(store.persist())
        await cluster.clock.await_idle()
        alone_count = len(server.asked)
        failures = [len(await first), len(await store.persist())]
        return [alone_count, *failures, [_stored(cluster, mq) for mq in queues]]

    assert _with(cluster, call) == [refused_count + 1, refused_count, 0, [9] * 5]


class _Machine(RuleBasedStateMachine):
    """Against two dicts, what is in memory and what each broker stores; brokers fail and hold back now and then."""

    queues = st.sampled_from([_MQ, _OTHER, MessageQueue("T", "broker-a", 1), MessageQueue("T", "broker-x", 0)])

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.cluster = _cluster()
        self.client = self.cluster.client(9)
        self.store = _store(self.client)
        self.memory: dict[MessageQueue, int] = {}
        self.stored: dict[MessageQueue, int] = {}
        self.refusing: set[str] = set()
        self.reset: dict[MessageQueue, int] = {}

    def _run(self, awaitable: Awaitable[_T]) -> _T:
        async def scenario() -> _T:
            return await awaitable

        return self.runner.run(passing(self.cluster.clock, scenario()))

    @rule(mq=queues, offset=st.integers(0, 100), increase_only=st.booleans())
    def update(self, mq: MessageQueue, offset: int, increase_only: bool) -> None:
        self.store.update(mq, offset, increase_only=increase_only)
        self.memory[mq] = max(offset, self.memory.get(mq, 0)) if increase_only else offset

    @rule(mq=queues)
    def forget(self, mq: MessageQueue) -> None:
        self.store.forget(mq)
        self.memory.pop(mq, None)

    @rule(mqs=st.none() | st.lists(queues, max_size=3))
    def persist(self, mqs: list[MessageQueue] | None) -> None:
        failed = self._run(self.store.persist(mqs))
        wanted = [mq for mq in self.memory if mqs is None or mq in mqs]
        bad = {mq for mq in wanted if mq.broker_name in {"broker-x", *self.refusing}}
        assert {(each.broker_name, each.what) for each in failed} == {
            (mq.broker_name, f"offset of T:{mq.queue_id}") for mq in bad
        }
        held = {mq for mq in wanted if mq in self.reset and mq not in bad}
        assert held <= self.store.held
        self.stored |= {mq: self.memory[mq] for mq in wanted if mq not in bad | held}

    @rule(mq=queues)
    def fetch(self, mq: MessageQueue) -> None:
        if mq.broker_name != "broker-x":
            assert self._run(self.store.fetch(mq)) == self.stored.get(mq)

    @rule(name=st.sampled_from(sorted(_ADDRESSES)))
    def refuse_or_take(self, name: str) -> None:
        server, broker = self.cluster.servers[name], self.cluster.brokers[name]
        self.refusing ^= {name}
        refusal = refused(R.SYSTEM_ERROR, "no")
        server.table[Q.UPDATE_CONSUMER_OFFSET] = refusal if name in self.refusing else broker._store_offset

    @rule(mq=st.sampled_from([_MQ, _OTHER]), back_to=st.integers(0, 100))
    def reset_or_pull(self, mq: MessageQueue, back_to: int) -> None:
        broker = self.cluster.brokers[mq.broker_name]
        place = ("G", mq.topic, mq.queue_id)
        if mq in self.reset:
            del self.reset[mq], broker.marks[place]
        else:
            self.reset[mq] = broker.marks[place] = back_to
            broker.offsets.setdefault("G", {}).setdefault("T", {})[mq.queue_id] = back_to
            self.stored[mq] = back_to

    @invariant()
    def equals_the_model(self) -> None:
        assert self.store.snapshot() == self.memory
        stored = {
            MessageQueue("T", name, queue_id): offset
            for name, broker in self.cluster.brokers.items()
            for queue_id, offset in broker.offsets.get("G", {}).get("T", {}).items()
        }
        assert stored == self.stored
        assert self.store.held <= self.memory.keys()

    def teardown(self) -> None:
        self._run(self.client.aclose())
        self.runner.close()


TestAgainstTheModel = _Machine.TestCase
TestAgainstTheModel.settings = settings(max_examples=25, stateful_step_count=20)
