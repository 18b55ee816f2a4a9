"""UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: create or change several groups' configurations (AdminBrokerProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok
from rmqctl.sandbox.topics.name_rules import check_group_name

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Apply all, or none when one name is invalid."""
    request.require_body()
    configs = [broker.groups.read(item) for item in request.json()["groupConfigList"]]
    for config in configs:
        check_group_name(broker.profile, config["groupName"])
    for config in configs:
        broker.groups.update(config)
    return ok()
