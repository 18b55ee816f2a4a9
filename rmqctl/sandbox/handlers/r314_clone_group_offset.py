"""CLONE_GROUP_OFFSET: give a group the offsets of another (AdminBrokerProcessor.cloneGroupOffset)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok
from rmqctl.sandbox.resets import clone

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Answer SUCCESS, whether anything was cloned or not. A group that is missing is called null, as in Java."""
    source, target = request.text("srcGroup", "null"), request.text("destGroup", "null")
    clone(broker, source, target, request.text("topic", ""), is_offline=request.flag("offline"))
    return ok()
