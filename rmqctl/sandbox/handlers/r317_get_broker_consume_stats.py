"""GET_BROKER_CONSUME_STATS: the progress of all groups (AdminBrokerProcessor.fetchAllConsumeStatsInBroker)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.consume_stats import broker_consume_stats
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok_json

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Return tables by group and topic; on request, only of ordered topics."""
    return ok_json(broker_consume_stats(broker, ordered_only=request.flag("isOrder")))
