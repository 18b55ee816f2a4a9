"""INVOKE_BROKER_TO_RESET_OFFSET: move a group to a time or an offset (AdminBrokerProcessor.resetOffset)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.member_offsets import tell_members
from rmqctl.sandbox.request import Request
from rmqctl.sandbox.resets import reset_here

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Answer where each queue goes. 4.9, and 5.x when it is told so, leaves it to the members to go there."""
    if broker.settings.flag("useServerSideResetOffset"):
        return reset_here(broker, request)
    return tell_members(broker, request)
