"""GET_BROKER_RUNTIME_INFO: the broker's state in figures (AdminBrokerProcessor.getBrokerRuntimeInfo)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok_json
from rmqctl.sandbox.runtime_info import runtime_info

SERVER = BROKER


def handle(broker: Broker, _: Request) -> Command:
    """Return the table; all values are texts."""
    return ok_json({"table": runtime_info(broker)})
