"""GET_SUBSCRIPTIONGROUP_CONFIG: one group (AdminBrokerProcessor.getSubscriptionGroup)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import RefusalError, Request, ok_json

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Answer its configuration; as with RocketMQ the question makes a group that there is not."""
    may_create = broker.settings.flag("autoCreateSubscriptionGroup")
    config = broker.groups.find_or_create(request.text("group"), may_create=may_create)
    if config is None:
        raise RefusalError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return ok_json(config)
