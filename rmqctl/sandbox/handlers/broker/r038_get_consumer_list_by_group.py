"""GET_CONSUMER_LIST_BY_GROUP: the client ids of a group (ConsumerManageProcessor.getConsumerListByGroup)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return the ids, one per connection."""
    name = request.text("consumerGroup")
    group = broker.consumers.find(name)
    if group is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return ok_json({"consumerIdList": group.client_ids})
