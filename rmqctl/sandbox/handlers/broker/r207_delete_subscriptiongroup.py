"""DELETE_SUBSCRIPTIONGROUP: delete a group's configuration (AdminBrokerProcessor.deleteSubscriptionGroup)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Delete it, and its offsets on request; a missing group is not an error."""
    group = request.text("groupName")
    broker.groups.delete(group)
    if request.flag("cleanOffset" if broker.profile.is_5 else "removeOffset"):
        broker.offsets.delete(group=group)
    elif broker.profile.is_5_5:
        # Checking whether it was a group of lite topics creates it again.
        broker.groups.find_or_create(group)
    if broker.profile.is_5:
        broker.stats.forget(group=group)
        broker.pop.orders.forget(group=group)
    return ok()
