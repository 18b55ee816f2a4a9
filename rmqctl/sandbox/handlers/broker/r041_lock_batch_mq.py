"""LOCK_BATCH_MQ: a client locks queues of an orderly group (AdminBrokerProcessor.lockBatchMQ)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.locks import read_lock_request
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return the queues that the client now holds. onlyThisBroker is ignored: there are no other replicas."""
    group, client_id, queues = read_lock_request(request.json())
    return ok_json({"lockOKMQSet": broker.locks.lock(group, queues, client_id)})
