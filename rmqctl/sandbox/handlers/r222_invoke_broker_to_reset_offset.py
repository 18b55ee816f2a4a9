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
    """Return the target of each queue. Without useServerSideResetOffset (since 5.x), members reset themselves."""
    if broker.settings.flag("useServerSideResetOffset"):
        return reset_here(broker, request)
    return tell_members(broker, request)
