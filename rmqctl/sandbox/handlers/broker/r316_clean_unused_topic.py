"""CLEAN_UNUSED_TOPIC: delete messages of topics that do not exist (DefaultMessageStore.cleanUnusedTopic)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, _: Request) -> Command:
    """Delete them."""
    for topic in [name for name in broker.store.queues if broker.topics.find(name) is None]:
        if not broker.topics.is_system(topic):
            broker.store.delete_topic(topic)
    return ok()
