"""UNLOCK_BATCH_MQ: a client gives queues of an orderly group back (AdminBrokerProcessor.unlockBatchMQ)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.locks import read_lock_request
from rmqctl.sandbox.request import Request, ok

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Free those that the client holds; other clients' stay as they are."""
    group, client_id, queues = read_lock_request(request.json())
    broker.locks.unlock(group, queues, client_id)
    return ok()
