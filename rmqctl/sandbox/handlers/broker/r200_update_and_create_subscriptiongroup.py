"""UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: create or change a group's configuration (AdminBrokerProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok
from rmqctl.sandbox.topics.name_rules import check_group_name


def handle(broker: Broker, request: Request) -> Command:
    """Apply it; missing fields get their defaults. 4.9 accepts any name."""
    if broker.profile.is_5 and not request.command.body:
        return ok()
    request.require_body()
    config = broker.groups.read(request.json())
    check_group_name(broker.profile, config["groupName"])
    broker.groups.update(config)
    return ok()
