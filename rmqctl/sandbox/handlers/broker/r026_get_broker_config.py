"""GET_BROKER_CONFIG: all settings of the broker (AdminBrokerProcessor.getBrokerConfig)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.protocol.java_dumps import dumps
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, _: Request) -> Command:
    """Return them as a properties file."""
    version = dumps(broker.settings.version.to_wire(broker.profile)).decode()
    return ok(broker.settings.to_properties(), version=version)
