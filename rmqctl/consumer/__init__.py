"""The local runtime: a push consumer that shares groups with RocketMQ's own clients.

    from rmqctl.client.core import Client
    from rmqctl.consumer import ConsumerSettings, ConsumeStatus, PushConsumer, find_strategy, make_subscription

    def consume(messages, batch):
        print([message.body for message in messages])
        return ConsumeStatus.CONSUME_SUCCESS

    async def main():
        async with Client(["127.0.0.1:9876"], open_ended=True) as client:
            consumer = PushConsumer(
                client, ConsumerSettings(group="my-group"), [make_subscription("orders", "created || paid")], consume,
                find_strategy("averagely"),
            )
            await consumer.start()
            await asyncio.sleep(60)
            await consumer.drain(30.0)

Options of a strategy go into StrategyOptions: find_strategy("consistent-hash", StrategyOptions(virtual_nodes=20)), or
find_strategy("config", StrategyOptions(configured=[MessageQueue("orders", "broker-a", 0)])).

Your own strategy is Strategy("my-name", allocate). Its function gets the sorted queues of a topic and the sorted client
ids, and returns each client's queues. All members of a group must use the same strategy.
"""

from __future__ import annotations

from rmqctl.consumer.rules.subscriptions import make_subscription
from rmqctl.model.consumption import ConsumeFromWhere, ConsumeStatus
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Options as StrategyOptions
from rmqctl.rules.allocate import Strategy, find_strategy

from .batch import Batch, Listener
from .push_consumer import PushConsumer
from .reports.failures import ListenerError
from .reports.problems import Problem
from .settings import ConsumerSettings

__all__ = [
    "Batch",
    "ConsumeFromWhere",
    "ConsumeStatus",
    "ConsumerSettings",
    "Listener",
    "ListenerError",
    "MessageQueue",
    "Problem",
    "PushConsumer",
    "Strategy",
    "StrategyOptions",
    "find_strategy",
    "make_subscription",
]
