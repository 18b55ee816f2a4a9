"""GET_CONSUMER_RUNNING_INFO: a client's own report (AdminBrokerProcessor.getConsumerRunningInfo)."""

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
    """Forward the request to the client, and return the client's answer."""
    return relay(broker, request, request.fields, request.command.body)
