"""INVOKE_BROKER_TO_GET_CONSUMER_STATUS: offsets in the memory of clients (AdminBrokerProcessor.getConsumerStatus)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.member_offsets import members_offsets
from rmqctl.sandbox.request import Request

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, Command]:
    """Return tables by client, without clients that do not answer in time."""
    return members_offsets(broker, request)
