"""CLONE_GROUP_OFFSET: copy a group's offsets to another group (AdminBrokerProcessor.cloneGroupOffset)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, is_blank, ok


def handle(broker: Broker, request: Request) -> Command:
    """Replace a group's offsets of a topic with another's. A missing group field becomes "null", as in Java.

    RocketMQ answers SUCCESS in any case. It skips a topic that does not exist, or to which an online source does not
    subscribe. Without a topic it clones nothing: it loops over the source's topics, and clones the empty one each time.
    """
    source, target = request.text("srcGroup", "null"), request.text("destGroup", "null")
    topic = request.text("topic", "")
    is_known = not is_blank(topic) and broker.topics.find(topic) is not None
    if is_known and (request.flag("offline") or broker.consumers.consumed_topics(source, [topic])):
        broker.offsets.clone(source, target, topic)
    return ok()
