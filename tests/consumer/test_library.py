"""The consumer as a library: what its page says works, with the names that the package gives."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

import rmqctl.consumer
from rmqctl.client.core import Client
from rmqctl.client.producer import Producer
from rmqctl.consumer import (
    Batch,
    ConsumeFromWhere,
    ConsumerSettings,
    ConsumeStatus,
    MessageQueue,
    PushConsumer,
    Strategy,
    StrategyOptions,
    find_strategy,
    make_subscription,
)
from rmqctl.consumer.reports.problems import Problem
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.topics.table import Topic


def test_the_example_on_the_first_page_consumes() -> None:
    page = rmqctl.consumer.__doc__ or ""
    (code,) = re.findall(r"\n\n((?:    .*\n|\n)+)\n\S", page)
    text = "import asyncio\n" + re.sub("^    ", "", code, flags=re.MULTILINE)

    async def go() -> list[object]:
        printed: list[object] = []
        is_printed = asyncio.Event()

        def note(what: object) -> None:
            printed.append(what)
            loop.call_soon_threadsafe(is_printed.set)

        loop = asyncio.get_running_loop()
        async with Sandbox(queues=1) as sandbox, Client([sandbox.addr], timeout_s=60) as client:
            broker = sandbox.brokers["broker-a"]
            broker.topics.put(Topic("orders", 1, 1))
            names: dict[str, Any] = {"First": ConsumeFromWhere.FIRST_OFFSET, "print": note, "is_printed": is_printed}
            assert "asyncio.sleep(60)" in text
            ready = text.replace("127.0.0.1:9876", sandbox.addr)
            # It sleeps until the message has come.
            ready = ready.replace("asyncio.sleep(60)", "asyncio.wait_for(is_printed.wait(), 60)")
            exec(ready.replace('group="my-group"', 'group="my-group", consume_from=First'), names)
            await Producer(client, "P").send("orders", b"one", tag="created")
            await names["main"]()
        return printed

    assert asyncio.run(go()) == [[b"one"]]


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
        async with Sandbox(queues=2) as sandbox, Client([sandbox.addr], timeout_s=60, open_ended=True) as client:
            sandbox.brokers["broker-a"].topics.put(Topic("orders", 2, 2))
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

            settings = ConsumerSettings(group="my-group", consume_from=ConsumeFromWhere.FIRST_OFFSET)
            consumer = PushConsumer(client, settings, [make_subscription("orders")], consume, strategy)
            await consumer.start()
            try:
                async with asyncio.timeout(60):
                    await is_there.wait()
            finally:
                await consumer.drain(60.0)
            assert {mq.queue_id for mq in consumer.rebalance.outcomes["orders"].share.queues} == expected
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

        async with Sandbox(queues=1) as sandbox, Client([sandbox.addr], timeout_s=60, open_ended=True) as client:
            sandbox.brokers["broker-a"].topics.put(Topic("orders", 1, 1))
            consumer = PushConsumer(
                client, ConsumerSettings(group="my-group"), [make_subscription("orders")],
                lambda *_: ConsumeStatus.CONSUME_SUCCESS, Strategy("mine", _failing), report=report,
            )  # fmt: skip
            await consumer.start()
            try:
                async with asyncio.timeout(60):
                    await is_told.wait()
                assert consumer.process_queues() == {}
            finally:
                await consumer.drain(0.0)
        return told

    problem = asyncio.run(go())[0]
    assert problem.kind is ConsumerWarning.STRATEGY
    assert ": division by zero." in problem.sentence
