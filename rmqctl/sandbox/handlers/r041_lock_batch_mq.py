"""LOCK_BATCH_MQ: a client takes queues of an orderly group for itself (AdminBrokerProcessor.lockBatchMQ)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.locks import read_lock_request
from rmqctl.sandbox.request import Request, ok_json

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Answer which of the queues the client holds now. There are no other replicas to ask (onlyThisBroker)."""
    group, client_id, queues = read_lock_request(request.json())
    return ok_json({"lockOKMQSet": broker.locks.lock(group, queues, client_id)})
