"""UPDATE_BROKER_CONFIG: change settings of the broker (AdminBrokerProcessor.updateBrokerConfig)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok
from rmqctl.sandbox.settings import parse_properties


def handle(broker: Broker, request: Request) -> Command:
    """Apply settings that the sandbox obeys, refuse others. Changed permissions are registered immediately."""
    values = parse_properties(request.command.body)
    if broker.settings.is_forbidden(values):
        raise RefusalError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    broker.settings.check_obeyed(values)
    if values:
        for name, value in broker.settings.update(values).items():
            broker.state.put("settings", name, value)
    if "brokerPermission" in values:
        broker.permission_changed()
    return ok()
