"""The consumer as a library: what its page says works, with the names that the package gives."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
import threading
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import rmqctl.consumer
from rmqctl.client import Client
from rmqctl.consumer import (
    Batch,
    ConsumeFromWhere,
    ConsumerSettings,
    ConsumerWarning,
    ConsumeStatus,
    ListenerError,
    MessageQueue,
    Problem,
    PushConsumer,
    RebalanceListener,
    Strategy,
    StrategyOptions,
    find_strategy,
)
from rmqctl.errors import RefusedError, RmqctlError, UsageError
from rmqctl.producer.producer import Producer
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.topics.table import Topic
from tests.sandbox.peer import Peer

FIRST = ConsumerSettings(consume_from=ConsumeFromWhere.FIRST_OFFSET, first_pull_delay_s=0.0)
SUCCESS = ConsumeStatus.CONSUME_SUCCESS
_WAIT_S = 60


@asynccontextmanager
async def orders(queues: int = 1, *, bodies: Sequence[bytes] = ()) -> AsyncIterator[Sandbox]:
    """A sandbox with the topic orders, and messages in its first queue."""
    async with Sandbox(queues=queues) as sandbox, Client(sandbox.addr, timeout_s=60) as client:
        sandbox.brokers["broker-a"].topics.put(Topic("orders", queues, queues))
        producer = Producer(client, "P")
        for body in bodies:
            await producer.send("orders", body, tag="created", mq=MessageQueue("orders", "broker-a", 0))
        yield sandbox


class Bodies:
    """A listener, in threads: what came, and a wait for so many."""

    def __init__(self, act: Callable[[bytes], ConsumeStatus] = lambda _: SUCCESS) -> None:
        self.act = act
        self.seen: list[bytes] = []
        self.loop = asyncio.get_running_loop()
        self.news = asyncio.Event()

    def __call__(self, messages: Sequence[Any], _: Batch) -> ConsumeStatus:
        self.seen += [each.body for each in messages]
        self.loop.call_soon_threadsafe(self.news.set)
        return self.act(messages[0].body)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(_WAIT_S):
            while len(self.seen) < count:
                await self.news.wait()
                self.news.clear()


def _stored(sandbox: Sandbox, group: str) -> dict[int, int]:
    return dict(sandbox.brokers["broker-a"].offsets.stored.get(("orders", group), {}))


def test_the_examples_on_the_first_page_consume() -> None:
    page = rmqctl.consumer.__doc__ or ""
    blocking, within = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", page, flags=re.MULTILINE)
    code = re.sub("^    ", "", blocking, flags=re.MULTILINE)
    assert ").run()" in code

    async def go() -> list[object]:
        printed: list[object] = []
        is_printed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def note(what: object) -> None:
            printed.append(what)
            loop.call_soon_threadsafe(is_printed.set)

        async with orders(bodies=[b"one"]) as sandbox:
            names: dict[str, Any] = {"print": note, "FIRST": FIRST}
            ready = code.replace("127.0.0.1:9876", sandbox.addr).replace(").run()", ", settings=FIRST)")
            exec(ready.replace("PushConsumer(", "consumer = PushConsumer("), names)
            async with asyncio.timeout(_WAIT_S), names["consumer"]:
                await is_printed.wait()
            body = within.replace("127.0.0.1:9876", sandbox.addr).replace("...", "seen.append(consumer.is_running)")
            names["seen"] = []
            exec(f"async def go():\n{body}", names)
            await names["go"]()
            assert names["seen"] == [True]
        return printed

    assert asyncio.run(go()) == [[b"one"]]


async def test_a_consumer_ends_with_its_block_and_has_stored_what_it_consumed() -> None:
    async with orders(bodies=[b"1", b"2"]) as sandbox:
        seen = Bodies()
        async with PushConsumer(sandbox.addr, group="g", topics="orders", listener=seen, settings=FIRST) as consumer:
            with pytest.raises(RefusedError, match="was started before"):
                await consumer.start()
            await seen.until(2)
            assert consumer.is_running
        assert not consumer.is_running
        assert consumer._core.client.is_closed
        assert (consumer.counts.ok, consumer.counts.failed, consumer.unfinished()) == (2, 0, [])
        assert _stored(sandbox, "g") == {0: 2}
        with pytest.raises(RefusedError, match="was started before"):
            await consumer.start()


async def test_run_ends_at_stop_which_a_listener_may_call() -> None:
    async with orders(bodies=[b"1", b"2"]) as sandbox:

        def consume(messages: Sequence[Any], _: Batch) -> ConsumeStatus:
            if messages[0].body == b"2":
                consumer.stop()
            return SUCCESS

        consumer = PushConsumer(sandbox.addr, group="g", topics=["orders"], listener=consume, settings=FIRST)
        # In another thread, which gets no signals: the sandbox needs this one.
        assert await asyncio.to_thread(consumer.run) == []
        assert _stored(sandbox, "g") == {0: 2}


async def test_queues_are_paused_and_moved_and_another_thread_may_ask_for_health() -> None:
    mq = MessageQueue("orders", "broker-a", 0)
    async with orders(bodies=[b"1", b"2"]) as sandbox:
        seen = Bodies()
        consumer = PushConsumer(sandbox.addr, group="g", topics="orders", listener=seen, settings=FIRST)
        async with consumer:
            await seen.until(2)
            consumer.pause(mq)
            assert await consumer.seek(mq, 1) == 1
            health = await asyncio.to_thread(consumer.health)
            of_orders = {queue.mq: (queue.offset, queue.is_paused) for queue in health.queues if queue.mq == mq}
            assert (health.is_member, of_orders) == (True, {mq: (1, True)})
            for wrong in (1.5, True, "1", None, float("nan")):
                with pytest.raises(UsageError, match="Invalid"):
                    await consumer.seek(mq, wrong)  # type: ignore[arg-type]
                with pytest.raises(UsageError, match="Invalid"):
                    await consumer.seek_to_time(mq, wrong)  # type: ignore[arg-type]
            # Another event loop would wait for ever for the answers of this one.
            with pytest.raises(RefusedError, match="runs in another event loop"):
                await asyncio.to_thread(asyncio.run, consumer.seek(mq, 0))
            with pytest.raises(UsageError, match="Invalid topics: 5"):
                consumer.subscribe(5)  # type: ignore[arg-type]
            consumer.resume(mq)
            await seen.until(3)
            assert await consumer.seek_to_time(mq, 0) == 0
            await seen.until(5)
            consumer.pause()
            consumer.resume()
        assert sorted(seen.seen) == [b"1", b"1", b"2", b"2", b"2"]
        assert not consumer.health().is_member
        with pytest.raises(RefusedError, match="does not hold"):
            consumer.pause(mq)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no signals to send")
@pytest.mark.parametrize(("signals", "left"), [(1, 0), (2, 1)], ids=["drains", "leaves at once"])
async def test_serve_ends_at_a_signal(signals: int, left: int, caplog: pytest.LogCaptureFixture) -> None:
    assert threading.current_thread() is threading.main_thread()
    async with orders(bodies=[b"1"]) as sandbox:
        is_called, gate = asyncio.Event(), asyncio.Event()

        async def consume(_: Sequence[Any], __: Batch) -> ConsumeStatus:
            is_called.set()
            await gate.wait()
            return SUCCESS

        consumer = PushConsumer(sandbox.addr, group="g", topics=["orders"], listener=consume, settings=FIRST)
        serving = asyncio.ensure_future(consumer.serve())
        async with asyncio.timeout(_WAIT_S):
            await is_called.wait()
            for _ in range(signals):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.1)
            if signals == 1:
                assert not serving.done()
                gate.set()
            assert len(await serving) == left
    assert ("g: 1 message not acknowledged, will be redelivered: orders@broker-a:0" in caplog.text) == bool(left)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no signals to send")
async def test_a_signal_ends_all_that_serve_also_after_a_start_that_was_refused() -> None:
    async with orders(bodies=[b"1"]) as sandbox, Client(sandbox.addr) as client:
        seen = Bodies()
        made = [
            PushConsumer(client, group=group, topics=["orders"], listener=seen, settings=FIRST) for group in ("g", "h")
        ]
        serving = [asyncio.ensure_future(each.serve()) for each in made]
        async with asyncio.timeout(_WAIT_S):
            await seen.until(2)
            with pytest.raises(RefusedError, match="was started before"):
                await made[0].serve()
            os.kill(os.getpid(), signal.SIGTERM)
            assert await asyncio.gather(*serving) == [[], []]


async def test_stop_works_after_a_start_in_another_thread_that_was_refused() -> None:
    async with orders(bodies=[b"1"]) as sandbox:
        seen = Bodies()
        consumer = PushConsumer(sandbox.addr, group="g", topics=["orders"], listener=seen, settings=FIRST)
        serving = asyncio.ensure_future(consumer.serve())
        async with asyncio.timeout(_WAIT_S):
            await seen.until(1)
            with pytest.raises(RefusedError, match="was started before"):
                await asyncio.to_thread(consumer.run)
            await asyncio.to_thread(consumer.stop)
            assert await serving == []


_EXAMPLE = Path(__file__).parents[2] / "docs" / "example_service.py"


@pytest.mark.skipif(sys.platform == "win32", reason="it has no signals to send")
async def test_the_example_service_serves_answers_probes_and_ends_at_a_signal() -> None:
    given = [{"id": str(number), "customer": "c", "amount": number} for number in range(3)]
    async with orders(bodies=[json.dumps(order).encode() for order in given]) as sandbox:
        sandbox.brokers["broker-a"].topics.put(Topic("bills", 1, 1))
        service = await asyncio.create_subprocess_exec(
            sys.executable, _EXAMPLE, sandbox.addr, stderr=asyncio.subprocess.PIPE
        )
        try:
            assert service.stderr is not None
            said = ""
            async with asyncio.timeout(_WAIT_S):
                while not all(f"mailed {number}" in said for number in (1, 2)):
                    line = await service.stderr.readline()
                    assert line, said
                    said += line.decode()
                (probe,) = re.findall(r"http://127.0.0.1:\d+", said)
                assert await asyncio.to_thread(lambda: urllib.request.urlopen(probe).status) == 200
                service.send_signal(signal.SIGTERM)
                said += (await service.stderr.read()).decode()
                assert await service.wait() == 0, said
        finally:
            if service.returncode is None:
                service.kill()
                await service.wait()
    assert "order 0 has no amount yet" in said
    assert "queues orders@broker-a:0 from 0" in said
    assert re.search(r"queues .*orders@broker-a:0 are given up", said)
    assert "billing: left; 2 messages consumed, 1 failed." in said


async def test_consumers_and_producers_share_a_client_and_each_is_asked_for_its_own_group() -> None:
    async with orders(bodies=[b"1"]) as sandbox, Client(sandbox.addr, timeout_s=60) as client:
        mine, yours = Bodies(), Bodies()
        first = PushConsumer(client, group="mine", topics=["orders"], listener=mine, settings=FIRST)
        second = PushConsumer(client, group="yours", topics=["orders"], listener=yours, settings=FIRST)
        async with first:
            async with second:
                await asyncio.gather(mine.until(1), yours.until(1))
                peer = await Peer.of_broker(sandbox)
                for each in (first, second):
                    answer = await peer.ask(
                        Q.GET_CONSUMER_RUNNING_INFO, consumerGroup=each.group, clientId=each.client_id
                    )
                    assert answer.code == 0, answer.remark
                third = PushConsumer(client, group="mine", topics=["orders"], listener=mine)
                with pytest.raises(RefusedError, match="already has a consumer of mine"):
                    await third.start()
                # What was refused has taken nothing from the one that is there.
                await third.drain()
                answer = await peer.ask(Q.GET_CONSUMER_RUNNING_INFO, consumerGroup="mine", clientId=first.client_id)
                assert answer.code == 0, answer.remark
                await peer.aclose()
            await Producer(client, "P").send("orders", b"2")
            await mine.until(2)
            assert yours.seen == [b"1"]
            # The group may have a new consumer once the old one has left.
            async with PushConsumer(client, group="yours", topics=["orders"], listener=yours):
                await yours.until(2)


async def test_failures_are_logged_with_their_traceback_by_default(caplog: pytest.LogCaptureFixture) -> None:
    def act(body: bytes) -> ConsumeStatus:
        raise ListenerError("no stock") if body == b"1" else KeyError("id")

    async with orders(bodies=[b"1", b"2"]) as sandbox:
        seen = Bodies(act)
        async with PushConsumer(sandbox.addr, group="g", topics=["orders"], listener=seen, settings=FIRST):
            await seen.until(2)
    said = {record.getMessage(): record for record in caplog.records if record.levelno == logging.WARNING}
    (explained,) = [record for text, record in said.items() if "no stock" in text]
    (raised,) = [record for text, record in said.items() if "KeyError: 'id'" in text]
    assert explained.name == raised.name == "rmqctl.consumer"
    assert explained.getMessage().startswith("g: orders@broker-a:0:0")
    assert explained.exc_info is None
    assert raised.exc_info is not None
    assert ", in act" in logging.Formatter().formatException(raised.exc_info)


async def _skip_later(_: object) -> bool:
    return False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"settings": ConsumerSettings(worker_count=0)}, "Invalid setting worker_count: expected `int` >= 1"),
        ({"settings": ConsumerSettings(batch_size=-1)}, "batch_size"),
        ({"settings": ConsumerSettings(batch_size="5")}, "batch_size: expected `int`, got `str`"),  # type: ignore[arg-type]
        ({"settings": ConsumerSettings(consume_timeout_s=0)}, "consume_timeout_s"),
        ({"settings": ConsumerSettings(heartbeat_s=float("nan"))}, "heartbeat_s"),
        ({"settings": ConsumerSettings(hold_s=float("inf"))}, "hold_s"),
        ({"settings": ConsumerSettings(message_model="both")}, "message_model"),
        ({"settings": ConsumerSettings(consume_from="now")}, "consume_from"),  # type: ignore[arg-type]
        ({"settings": ConsumerSettings(consume_timestamp_ms=10**18)}, "consume_timestamp_ms"),
        ({"settings": ConsumerSettings(instance_name="a@b")}, "instance_name"),
        ({"settings": 5}, "Invalid settings: 5"),
        ({"drain_s": "5"}, "Invalid drain_s"),
        ({"drain_s": -1}, "Invalid drain_s"),
        ({"drain_s": float("nan")}, "Invalid drain_s"),
        ({"report": 5}, "5 is not a function"),
        ({"skip": 5}, "5 is not a function"),
        ({"skip": _skip_later}, "must be a plain function"),
        ({"strategy": None}, "Invalid strategy: None"),
        ({"topics": 5}, "Invalid topics: 5"),
        ({"topics": [None]}, "Invalid topic: None"),
        ({"client": None}, "Invalid name servers None"),
        ({"group": 5}, "Invalid group"),
        ({"settings": ConsumerSettings(group="other")}, "for other, not for g"),
        ({"group": "a b"}, "Invalid group name 'a b'"),
        ({"group": ""}, "empty"),
        ({"topics": []}, "No topic"),
        ({"topics": ["orders", "orders:a"]}, "twice"),
        ({"topics": ["orders:SQL92:price >"]}, "invalid SQL92"),
        ({"listener": Bodies}, "is a class"),
        ({"rebalance_listener": RebalanceListener}, "is not a RebalanceListener"),
        ({"strategy": "sticky"}, "not supported for members"),
        ({"strategy": "averagly"}, "Unknown strategy"),
        ({"client": "127.0.0.1:x"}, "Invalid address"),
        ({"client": []}, "No name server"),
        ({"client": Client("127.0.0.1:1", open_ended=False)}, "deadline"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {
        "client": "127.0.0.1:1", "group": "g", "topics": ["orders"], "listener": lambda *_: SUCCESS, **arguments
    }  # fmt: skip
    with pytest.raises(UsageError) as raised:
        PushConsumer(**given)
    assert words in raised.value.sentence


def test_a_setting_may_be_the_text_of_an_enum() -> None:
    settings = ConsumerSettings(consume_from="CONSUME_FROM_FIRST_OFFSET")  # type: ignore[arg-type]
    consumer = PushConsumer("127.0.0.1:1", group="g", topics="T", listener=lambda *_: SUCCESS, settings=settings)
    assert consumer._core.settings.consume_from is ConsumeFromWhere.FIRST_OFFSET


async def test_a_closed_client_is_refused() -> None:
    client = Client("127.0.0.1:1")
    await client.aclose()
    with pytest.raises(RefusedError, match="closed"):
        await PushConsumer(client, group="g", topics=["orders"], listener=lambda *_: SUCCESS).start()


async def test_who_cannot_join_leaves_nothing_behind() -> None:
    async with orders() as sandbox:
        consumer = PushConsumer(sandbox.addr, group="g", topics=["nowhere"], listener=lambda *_: SUCCESS)
        with pytest.raises(RmqctlError, match="nowhere"):
            async with consumer:
                pass
        assert consumer._core.client.is_closed
        assert await consumer.drain() == []


def _mine(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> dict[str, list[MessageQueue]]:
    return {client_ids[0]: [mq for mq in queues if mq.queue_id == 1]}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (find_strategy("consistent-hash", StrategyOptions(virtual_nodes=20)), {0, 1}),
        (find_strategy("config", StrategyOptions(configured=[MessageQueue("orders", "broker-a", 0)])), {0}),
        (Strategy("my-name", _mine), {1}),
    ],
    ids=["options", "config", "own"],
)
def test_a_strategy_with_options_and_one_of_ones_own(strategy: Strategy, expected: set[int]) -> None:
    async def go() -> set[int]:
        async with orders(2) as sandbox, Client(sandbox.addr, timeout_s=60) as client:
            producer = Producer(client, "P")
            for queue_id in (0, 1):
                await producer.send("orders", b"one", mq=MessageQueue("orders", "broker-a", queue_id))
            seen: set[int] = set()
            is_there = asyncio.Event()

            async def consume(_: Any, batch: Batch) -> ConsumeStatus:
                seen.add(batch.mq.queue_id)
                if seen >= expected:
                    is_there.set()
                return ConsumeStatus.CONSUME_SUCCESS

            consumer = PushConsumer(
                client, group="my-group", topics=["orders"], listener=consume, strategy=strategy, settings=FIRST
            )
            async with asyncio.timeout(60), consumer:
                await is_there.wait()
            balance = consumer._core.rebalance.outcomes["orders"]
            assert {mq.queue_id for mq in balance.share.queues} == expected
            return seen

    assert asyncio.run(go()) == expected


def _failing(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> dict[str, list[MessageQueue]]:
    raise ZeroDivisionError("division by zero")


def test_a_strategy_that_fails_is_reported_and_takes_nothing() -> None:
    async def go() -> list[Problem]:
        told: list[Problem] = []
        is_told = asyncio.Event()

        def report(problem: Problem) -> None:
            told.append(problem)
            is_told.set()

        async with orders() as sandbox:
            consumer = PushConsumer(
                sandbox.addr, group="my-group", topics=["orders"], listener=lambda *_: SUCCESS,
                strategy=Strategy("mine", _failing), report=report,
            )  # fmt: skip
            async with asyncio.timeout(60), consumer:
                await is_told.wait()
                assert consumer._core.process_queues() == {}
        return told

    problem = asyncio.run(go())[0]
    assert problem.kind is ConsumerWarning.STRATEGY
    assert ": division by zero." in problem.sentence
