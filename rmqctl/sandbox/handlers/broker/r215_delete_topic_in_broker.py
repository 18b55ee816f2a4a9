"""DELETE_TOPIC_IN_BROKER: delete a topic with its messages (AdminBrokerProcessor.deleteTopic)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok
from rmqctl.sandbox.topics.name_rules import check_no_system_topic, check_topic_name
from rmqctl.sandbox.topics.table import retry_topic


def handle(broker: Broker, request: Request) -> Command:
    """Delete it; a missing topic is not an error. The name server keeps it until its own request."""
    topic = request.text("topic", "")
    if not topic.strip() or not broker.profile.is_5:
        check_topic_name(broker.profile, topic)
    check_no_system_topic(broker.profile, topic, broker.topics.system_names)
    _delete_all(broker, topic)
    return ok()


def _delete_all(broker: Broker, name: str) -> None:
    """Delete a topic with its messages; 5.x also deletes the groups' offsets of it and their retry topics for pops."""
    if broker.settings.flag("clearRetryTopicWhenDeleteTopic"):  # which 4.9 does not have
        for group in broker.offsets.groups_of(name):
            for separator in ("+", "_"):
                retry = f"{retry_topic(group)}{separator}{name}"
                if broker.topics.find(retry) is not None:
                    _delete(broker, retry)
    _delete(broker, name)


def _delete(broker: Broker, name: str) -> None:
    if broker.profile.is_5:
        broker.offsets.delete(topic=name)
        broker.stats.forget(topic=name)
        broker.pop.orders.forget(topic=name)
    broker.topics.delete(name)
    broker.store.delete_topic(name)
    broker.holds.end_all(name)
