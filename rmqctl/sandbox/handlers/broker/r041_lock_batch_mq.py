"""LOCK_BATCH_MQ: a client locks queues of an orderly group (AdminBrokerProcessor.lockBatchMQ)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.locks import read_lock_request
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return the queues that the client now holds. onlyThisBroker is ignored: there are no other replicas."""
    data = request.json()
    if isinstance(data, dict) and data.get("mqSet", []) == []:
        return ok_json({"lockOKMQSet": []})  # before anything of the request is used
    group, client_id, queues = read_lock_request(data)
    return ok_json({"lockOKMQSet": broker.locks.lock(group, queues, client_id)})
