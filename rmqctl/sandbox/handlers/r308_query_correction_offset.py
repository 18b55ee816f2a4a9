"""QUERY_CORRECTION_OFFSET: the smallest offsets over all groups (AdminBrokerProcessor.queryCorrectionOffset)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok_json
from rmqctl.sandbox.resets import correction

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Return offsets by queue. Naming groups to filter out deletes their offsets."""
    topic = _topic(broker, request)
    compared, dropped = request.text("compareGroup", "null"), request.text("filterGroups", "")
    return ok_json({"correctionOffsets": correction(broker, topic, compared, dropped)})


def _topic(broker: Broker, request: Request) -> str:
    """Return the topic; a missing field is an error only when there are stored offsets to compare."""
    return str(request.text("topic") if broker.offsets.stored else request.text("topic", ""))
