"""Mission 2: what keeps a consumer from pulling more, each limit of flow control and a pause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rmqctl.consumer.core import ConsumerCore
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.flow_control import FlowControl
from tests.consumer.consumer_cluster import TOPIC, Cluster, Seen, scenario
from tests.consumer.consumer_parts import MQ, message, messages

# Flow control and pausing


def _spread(consumer: ConsumerCore, *found: StoredMessage, queue_count: int = 1) -> FlowControl | None:
    """Return what holds the first of so many queues, with these messages in it."""
    queues = [ProcessQueue(MessageQueue(TOPIC, "broker-a", number)) for number in range(queue_count)]
    consumer.holding.queues.update({queue.mq: queue for queue in queues})
    queues[0].put(list(found))
    return consumer.holding.hold(queues[0])


_MIB = b"x" * (1 << 20)


@pytest.mark.parametrize(
    ("settings", "found", "queue_count", "hold"),
    [
        ({"queue_count_limit": 3}, messages(0, 1, 2), 1, None),
        ({"queue_count_limit": 3}, messages(0, 1, 2, 3), 1, FlowControl.QUEUE_COUNT),
        ({"queue_mib_limit": 1}, [message(0, _MIB)], 1, None),
        ({"queue_mib_limit": 1}, [message(0, _MIB), message(1, _MIB)], 1, FlowControl.QUEUE_SIZE),
        ({"span_limit": 10}, messages(0, 10), 1, None),
        ({"span_limit": 10}, messages(0, 11), 1, FlowControl.SPAN),
        ({"topic_count_limit": 6}, messages(0, 1, 2), 2, None),
        ({"topic_count_limit": 6}, messages(0, 1, 2, 3), 2, FlowControl.TOPIC_COUNT),
        ({"topic_mib_limit": 2}, [message(0, _MIB)], 2, None),
        ({"topic_mib_limit": 2}, [message(0, _MIB), message(1, _MIB)], 2, FlowControl.TOPIC_SIZE),
        ({"queue_count_limit": None, "queue_mib_limit": None, "span_limit": None}, messages(*range(9999)), 1, None),
    ],
)
def test_each_limit_holds_a_queue(
    settings: dict[str, Any], found: list[StoredMessage], queue_count: int, hold: FlowControl | None
) -> None:
    async def work(cluster: Cluster) -> None:
        consumer = cluster.consumer(Seen(), **settings)
        assert _spread(consumer, *found, queue_count=queue_count) == hold

    scenario(work)


@pytest.mark.parametrize(
    ("limits", "stuck", "most"), [({"queue_count_limit": 10}, range(11), 32), ({"span_limit": 100}, (0, 120), 128)]
)
def test_a_queue_is_pulled_no_further_while_a_limit_holds_it(
    limits: dict[str, Any], stuck: Sequence[int], most: int
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.send(*map(str, range(300)))
        seen = Seen()
        seen.hold(*map(str, stuck))
        consumer = await cluster.started(seen, **limits)
        (queue,) = [queue for mq, queue in consumer.process_queues().items() if mq.topic == TOPIC]
        await cluster.passes(30)
        # It is held, and has not expired.
        assert (queue.dropped, queue.max_offset_put) == (False, most - 1)
        (hold,) = consumer.counters.holds
        assert hold.name == ("SPAN" if "span_limit" in limits else "QUEUE_COUNT")
        assert hold == consumer.holding.hold(queue)
        # Each look is counted: 20 a second.
        assert 500 < consumer.counters.holds[hold] < 700
        # That stops the pulling, and can't free a stuck head.
        assert consumer.offsets.read(MQ) == 0
        seen.let_go()
        await cluster.passes(3)
        assert (len(seen.messages), consumer.offsets.read(MQ)) == (300, 300)

    scenario(work)


def test_a_paused_consumer_pulls_nothing_new_and_keeps_its_queues() -> None:
    async def work(cluster: Cluster) -> None:
        seen = Seen()
        consumer = await cluster.started(seen)
        consumer.suspend()
        # A pull that is under way may still bring something.
        await cluster.passes(16)
        await cluster.send("a")
        await cluster.passes(200, step_s=1)
        assert (seen.bodies, len(consumer.holding.held())) == ([], 2)
        assert await cluster.members() == [consumer.client_id]
        consumer.unsuspend()
        await cluster.passes(1.5)
        assert seen.bodies == ["a"]

    scenario(work)
