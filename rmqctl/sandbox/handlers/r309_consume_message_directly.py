"""CONSUME_MESSAGE_DIRECTLY: let a client consume one message (AdminBrokerProcessor.consumeMessageDirectly)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.relaying import consume_directly
from rmqctl.sandbox.request import Request

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, Command | None]:
    """Forward the request with the message, and return the client's answer; nothing is committed."""
    return consume_directly(broker, request)
