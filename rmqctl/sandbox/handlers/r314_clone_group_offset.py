"""CLONE_GROUP_OFFSET: copy a group's offsets to another group (AdminBrokerProcessor.cloneGroupOffset)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok
from rmqctl.sandbox.resets import clone

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Return SUCCESS, whether anything was cloned or not. A missing group field becomes "null", as in Java."""
    source, target = request.text("srcGroup", "null"), request.text("destGroup", "null")
    clone(broker, source, target, request.text("topic", ""), is_offline=request.flag("offline"))
    return ok()
