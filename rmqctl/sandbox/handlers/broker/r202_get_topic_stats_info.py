"""GET_TOPIC_STATS_INFO: smallest and next offset of each queue of a topic (AdminBrokerProcessor.getTopicStatsInfo)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return the table by queue."""
    topic = broker.topics.require(request.text("topic"))
    table = {}
    for queue_id in range(max(topic.read_queue_count, topic.write_queue_count)):
        high = broker.store.max_offset(topic.name, queue_id)
        table[broker.queue(topic.name, queue_id)] = {
            "lastUpdateTimestamp": broker.store.stored_at_ms(topic.name, queue_id, high - 1) if high > 0 else 0,
            "maxOffset": high,
            "minOffset": broker.store.min_offset(topic.name, queue_id),
        }
    if not broker.profile.is_5:
        return ok_json({"offsetTable": table})
    return ok_json({"offsetTable": table, "topicPutTps": broker.stats.rate("TOPIC_PUT_NUMS", topic.name).tps})
