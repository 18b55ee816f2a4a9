"""VIEW_BROKER_STATS_DATA: a counter over the last minute, hour and day (AdminBrokerProcessor.ViewBrokerStatsData)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok_json
from rmqctl.sandbox.stats import DAY_S, HOUR_S, MINUTE_S

_SPANS_S = {"statsMinute": MINUTE_S, "statsHour": HOUR_S, "statsDay": DAY_S}


def handle(broker: Broker, request: Request) -> Command:
    """Return sums and rates; a counter exists only after its first count."""
    name, key = request.text("statsName", "null"), request.text("statsKey", "null")
    if not broker.stats.has(name, key):
        raise RefusalError(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    return ok_json({field: broker.stats.rate(name, key, span_s).to_wire() for field, span_s in _SPANS_S.items()})
