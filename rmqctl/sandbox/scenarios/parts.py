"""The parts of scenarios. Each creates its topic and group, and leaves its clients as guests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rmqctl.net.clock import pause
from rmqctl.sandbox.sandbox import Sandbox
from rmqctl.sandbox.topics.table import dlq_topic
from rmqctl.text.words import agreeing, counted

from .consumer import ScenarioConsumer
from .producer import ScenarioProducer, Ticker, in_the_past
from .seeded_group import SeededGroup

_QUEUE_COUNT = 4
_POLL_S = 0.02
_GIVE_UP_S = 10.0
# A little faster than the slow consumer of disagreeing_group() can follow.
_TICK_S = 0.1
# A message counts as stuck after a minute.
_STUCK_S = 180


@asynccontextmanager
async def _producing(sandbox: Sandbox, topic: str) -> AsyncIterator[ScenarioProducer]:
    """Create a topic, and yield a producer for it."""
    producer = ScenarioProducer(sandbox)
    producer.create_topic(topic, _QUEUE_COUNT)
    try:
        yield producer
    finally:
        await producer.aclose()


async def healthy_group(sandbox: Sandbox, topic: str, group: str, *, count: int = 200) -> SeededGroup:
    """Add two consumers that are up to date."""
    async with _producing(sandbox, topic) as producer:
        for number in range(count):
            await producer.send(topic, f"{topic} {number}", tag="new", key=f"{topic}-{number}")
        consumers = [ScenarioConsumer(sandbox, f"{group}-{name}", group, topic) for name in ("a", "b")]
        await _join(sandbox, consumers)
        is_done = await _consumed(sandbox, consumers, count)
    return _made(topic, group, count, "two consumers are up to date", is_done=is_done)


async def disagreeing_group(sandbox: Sandbox, topic: str, group: str, *, count: int = 240) -> SeededGroup:
    """Add three consumers: one fast, one slow, one with a different subscription."""
    async with _producing(sandbox, topic) as producer:
        # Brokers keep the newest subscription, so the one whose clock is behind is ignored.
        consumers = [
            ScenarioConsumer(sandbox, f"{group}-a", group, topic, "paid || refunded"),
            ScenarioConsumer(sandbox, f"{group}-b-slow", group, topic, "paid || refunded", work_s=1.0),
            ScenarioConsumer(sandbox, f"{group}-c-wrong", group, topic, "paid", clock_ahead_ms=-60_000),
        ]
        await _join(sandbox, consumers)
        for number in range(count):
            tag = "refunded" if number % 5 == 0 else "paid"
            await producer.send(topic, f'{{"order": {1000 + number}}}', tag=tag, key=f"order-{1000 + number}")
        sandbox.guests.append(Ticker(sandbox, topic, _TICK_S, lambda number: f'{{"order": {9000 + number}}}', "paid"))
        is_done = await _until(sandbox, lambda: _is_committed(sandbox, topic, group))
    summary = "three consumers: one is slow, one has a different subscription"
    return _made(topic, group, count, summary, is_done=is_done)


async def dead_letters(sandbox: Sandbox, topic: str, group: str, *, count: int = 12) -> SeededGroup:
    """Add a consumer that fails on some messages until they are dead letters."""
    async with _producing(sandbox, topic) as producer:
        for number in range(count * 4):
            body = f'{{"payment": {number}, "card": "{"expired" if number % 4 == 0 else "ok"}"}}'
            await producer.send(topic, body, tag="card", key=f"payment-{number}")
        consumer = ScenarioConsumer(sandbox, f"{group}-a", group, topic, fails=lambda body: "expired" in body,
                            max_reconsume_times=0)  # fmt: skip
        await _join(sandbox, [consumer])
        is_done = await _consumed(sandbox, [consumer], count * 4)
    summary = f"{counted(count, 'message')} failed and {agreeing(count, 'is')} in {dlq_topic(group)}"
    return _made(topic, group, count * 4, summary, is_done=is_done)


async def offline_backlog(sandbox: Sandbox, topic: str, group: str, *, count: int = 300) -> SeededGroup:
    """Add a group that read the first third and went offline; its messages span the last two hours."""
    async with _producing(sandbox, topic) as producer:
        consumer = ScenarioConsumer(sandbox, f"{group}-a", group, topic)
        is_done = False
        for number in range(count):
            with in_the_past(sandbox, 7200 - 7000 * number / count):
                await producer.send(topic, f"{topic} {number}", tag="parcel", key=f"parcel-{number}")
            if number + 1 == count // 3:
                await consumer.start()
                is_done = await _consumed(sandbox, [consumer], count // 3)
                await consumer.aclose()
    summary = f"offline with a lag of {counted(count - count // 3, 'message')}"
    return _made(topic, group, count, summary, is_done=is_done)


async def stuck_message(sandbox: Sandbox, topic: str, group: str, *, count: int = 80) -> SeededGroup:
    """Add a consumer that has been stuck on one message for three minutes, so that its queue stalls."""
    async with _producing(sandbox, topic) as producer:
        consumers = [
            ScenarioConsumer(sandbox, f"{group}-{name}", group, topic, sticks=lambda body: "blocked" in body,
                             clock_ahead_ms=-_STUCK_S * 1000)
            for name in ("a", "b")
        ]  # fmt: skip
        # Brokers would drop members whose heartbeat is that old.
        await _join(sandbox, consumers)
        blocked, queue_count = count // 4, _QUEUE_COUNT * len(sandbox.brokers)
        with in_the_past(sandbox, _STUCK_S):
            for number in range(count):
                word = "blocked" if number == blocked else "invoice"
                await producer.send(topic, f"{word} {number}", tag="invoice", key=f"invoice-{number}")
            waiting_count = len(range(blocked, count, queue_count))
            is_done = await _consumed(sandbox, consumers, count - waiting_count)
        for consumer in consumers:
            consumer.catch_up()
    summary = f"one message has been stuck for {_STUCK_S // 60} minutes and blocks its queue"
    return _made(topic, group, count, summary, is_done=is_done)


def _made(topic: str, group: str, count: int, summary: str, *, is_done: bool) -> SeededGroup:
    """Return the result; under an injected fault it may be incomplete."""
    return SeededGroup(topic, group, count, summary if is_done else f"incomplete after {_GIVE_UP_S:.0f} s")


async def _join(sandbox: Sandbox, consumers: list[ScenarioConsumer]) -> None:
    for consumer in consumers:
        sandbox.guests.append(consumer)
        await consumer.start()


async def _consumed(sandbox: Sandbox, consumers: list[ScenarioConsumer], count: int) -> bool:
    """Wait until the consumers have processed `count` messages; return whether they have."""
    return await _until(sandbox, lambda: sum(consumer.consumed_count for consumer in consumers) >= count)


def _is_committed(sandbox: Sandbox, topic: str, group: str) -> bool:
    return all(
        broker.offsets.find(group, topic, queue_id) is not None
        for broker in sandbox.brokers.values() for queue_id in range(_QUEUE_COUNT)
    )  # fmt: skip


async def _until(sandbox: Sandbox, is_done: Callable[[], bool]) -> bool:
    """Wait for a condition; return whether it was met in time, which an injected fault can prevent."""
    give_up_at_s = sandbox.clock.monotonic_s() + _GIVE_UP_S
    while not is_done() and sandbox.clock.monotonic_s() < give_up_at_s:
        await pause(sandbox.clock, _POLL_S)
    return is_done()
