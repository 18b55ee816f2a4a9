"""GET_ALL_DELAY_OFFSET: how many messages of each delay level were delivered (ScheduleMessageService.encode)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return them; 5.x includes levels without deliveries."""
    del request
    is_5 = broker.profile.is_5
    table = {"offsetTable": dict(sorted(broker.delays.offsets(also_waiting=is_5).items()))}
    return ok_json({"dataVersion": broker.delays.version.to_wire(broker.profile), **table} if is_5 else table)
