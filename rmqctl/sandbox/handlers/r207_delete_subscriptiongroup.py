"""DELETE_SUBSCRIPTIONGROUP: forget a group's configuration (AdminBrokerProcessor.deleteSubscriptionGroup)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Forget it, and its offsets where that is asked for; a group that there is not is no error."""
    group = request.text("groupName")
    broker.groups.delete(group)
    if request.flag("cleanOffset" if broker.profile.is_5 else "removeOffset"):
        broker.offsets.delete(group=group)
    elif broker.profile.is_5_5:
        # Asking whether it was a group of lite topics makes it again.
        broker.groups.find_or_create(group, may_create=broker.settings.flag("autoCreateSubscriptionGroup"))
    if broker.profile.is_5:
        broker.stats.forget(group=group)
        broker.pop.orders.forget(group=group)
    return ok()
