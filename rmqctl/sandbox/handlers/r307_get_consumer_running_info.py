"""GET_CONSUMER_RUNNING_INFO: what a client says of itself (AdminBrokerProcessor.getConsumerRunningInfo)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.relaying import relay
from rmqctl.sandbox.request import Request

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, Command | None]:
    """Hand the request on as it is, and the client's answer back."""
    return relay(broker, request, request.fields, request.command.body)
