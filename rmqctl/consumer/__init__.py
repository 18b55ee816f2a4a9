"""The local runtime: a push consumer that shares groups with RocketMQ's own clients.

    from rmqctl.consumer import ConsumeStatus, PushConsumer

    def consume(messages, batch):
        print([message.body for message in messages])
        return ConsumeStatus.CONSUME_SUCCESS

    PushConsumer("127.0.0.1:9876", group="my-group", topics=["orders:created || paid"], listener=consume).run()

In a program with an event loop of its own:

    async with PushConsumer("127.0.0.1:9876", group="my-group", topics=["orders"], listener=consume) as consumer:
        ...

Your own strategy is Strategy("my-name", allocate). Its function gets the sorted queues of a topic and the sorted client
ids, and returns each client's queues. All members of a group must use the same strategy.
"""

from __future__ import annotations

from rmqctl.consumer.rules.subscriptions import make_subscription
from rmqctl.model.consumption import (
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    ConsumerCounts,
    ConsumeResult,
    ConsumerWarning,
    ConsumeStatus,
)
from rmqctl.model.failure import Failure
from rmqctl.model.group import BROADCASTING, CLUSTERING, Subscription
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.allocate import Options as StrategyOptions
from rmqctl.rules.allocate import Strategy, find_strategy

from .batch import Batch, Listener, OrderlyBatch, OrderlyListener
from .health import BrokerHealth, ConsumerHealth, HeldQueueHealth
from .process_queue import UnackedMessages
from .push_consumer import PushConsumer
from .rebalance_listener import RebalanceListener
from .reports.failures import ListenerError
from .reports.problems import Problem
from .settings import ConsumerSettings

__all__ = [
    "BROADCASTING",
    "CLUSTERING",
    "Batch",
    "BrokerHealth",
    "ConsumeFromWhere",
    "ConsumeOrderlyStatus",
    "ConsumeResult",
    "ConsumeStatus",
    "ConsumerCounts",
    "ConsumerHealth",
    "ConsumerSettings",
    "ConsumerWarning",
    "Failure",
    "HeldQueueHealth",
    "Listener",
    "ListenerError",
    "MessageQueue",
    "OrderlyBatch",
    "OrderlyListener",
    "Problem",
    "PushConsumer",
    "RebalanceListener",
    "StoredMessage",
    "Strategy",
    "StrategyOptions",
    "Subscription",
    "UnackedMessages",
    "find_strategy",
    "make_subscription",
]
