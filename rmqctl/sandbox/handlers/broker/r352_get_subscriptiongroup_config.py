"""GET_SUBSCRIPTIONGROUP_CONFIG: one group (AdminBrokerProcessor.getSubscriptionGroup)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok_json

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Return its configuration; as in RocketMQ, the request creates a missing group."""
    config = broker.groups.find_or_create(request.text("group"))
    if config is None:
        raise RefusalError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return ok_json(config)
