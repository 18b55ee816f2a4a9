"""CLEAN_EXPIRED_CONSUMEQUEUE: delete queues without messages left (cleanExpiredConsumerQueue)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, _: Request) -> Command:
    """Delete them: they count from 0 again."""
    broker.store.drop_gone_queues(broker.topics.is_system)
    return ok()
