"""CLONE_GROUP_OFFSET: copy a group's offsets to another group (AdminBrokerProcessor.cloneGroupOffset)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, is_blank, ok


def handle(broker: Broker, request: Request) -> Command:
    """Return SUCCESS, whether anything was cloned or not. A missing group field becomes "null", as in Java."""
    source, target = request.text("srcGroup", "null"), request.text("destGroup", "null")
    _clone(broker, source, target, request.text("topic", ""), is_offline=request.flag("offline"))
    return ok()


def _clone(broker: Broker, source: str, target: str, topic: str, *, is_offline: bool) -> None:
    """Replace a group's offsets of a topic with another's (cloneGroupOffset).

    RocketMQ answers SUCCESS in any case. It skips a topic that does not exist, or to which an online source does not
    subscribe. Without a topic it clones nothing: it loops over the source's topics, and clones the empty one each time.
    """
    if is_blank(topic) or broker.topics.find(topic) is None:
        return
    if not is_offline and not broker.consumers.consumed_topics(source, [topic]):
        return
    broker.offsets.clone(source, target, topic)
