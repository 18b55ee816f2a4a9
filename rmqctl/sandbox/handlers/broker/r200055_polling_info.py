"""POLLING_INFO: how many pops wait (PollingInfoProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import UNSET_REMARK, Request, ok

from .read_checks import ReadTarget, require_group, require_readable_broker, require_topic

SINCE_5 = True

_NO_POLLS: dict[str, object] = {"pollingNum": 0}


def handle(broker: Broker, request: Request) -> Command:
    """Return how many pops of a group wait for a queue, or for all queues. Raises RefusalError."""
    require_readable_broker(broker, "polling info", _NO_POLLS)
    target = ReadTarget.of(request)
    require_topic(broker, request, target, _NO_POLLS)
    require_group(broker, target.group, _NO_POLLS)
    count = broker.pop.polling.count((target.topic, target.group, target.queue_id))
    return ok(remark=UNSET_REMARK, pollingNum=count)
