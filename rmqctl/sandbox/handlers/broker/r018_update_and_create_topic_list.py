"""UPDATE_AND_CREATE_TOPIC_LIST: create or change several topics (AdminBrokerProcessor.updateAndCreateTopicList)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import UNSET_REMARK, Request, ok
from rmqctl.sandbox.topics.table import Topic

from .r017_update_and_create_topic import check_topic, is_unchanged, put_topic

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Apply all; none when one name is invalid, and none when one topic is already as requested."""
    request.require_body()
    items = request.json()["topicConfigList"]
    # Their attributes are changes, with their signs.
    _update(broker, [Topic.from_wire(str(item.get("topicName") or ""), item) for item in items])
    return ok(remark=UNSET_REMARK)


def _update(broker: Broker, wanted: list[Topic]) -> None:
    """Create or change topics. They are registered at the end, so none is registered when one fails."""
    for topic in wanted:
        check_topic(broker, topic)
        if is_unchanged(broker, topic):
            return
    for topic in wanted:
        put_topic(broker, topic, is_reported=False)
    for topic in wanted:
        broker.topics.on_change(topic.name)
