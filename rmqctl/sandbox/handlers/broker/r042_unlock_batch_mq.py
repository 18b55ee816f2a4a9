"""UNLOCK_BATCH_MQ: a client unlocks queues of an orderly group (AdminBrokerProcessor.unlockBatchMQ)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.locks import read_lock_request
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Unlock the queues that the client holds; those of other clients stay locked."""
    group, client_id, queues = read_lock_request(request.json())
    broker.locks.unlock(group, queues, client_id)
    return ok()
