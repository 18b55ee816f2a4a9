"""GET_CONSUMER_RUNNING_INFO: a client's own report (AdminBrokerProcessor.getConsumerRunningInfo)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request

from .relay import relay


async def handle(broker: Broker, request: Request) -> Command | None:
    """Forward the request to the client, and return the client's answer."""
    return await relay(broker, request, request.fields, request.command.body)
