"""GET_BROKER_CONSUME_STATS: the progress of all groups (AdminBrokerProcessor.fetchAllConsumeStatsInBroker)."""

from __future__ import annotations

from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json
from rmqctl.sandbox.topics.table import Topic

from .r208_get_consume_stats import queue_progress


def handle(broker: Broker, request: Request) -> Command:
    """Return tables by group and topic; on request, only of ordered topics.

    Pull offsets are not filled in, so the total in flight is negative, as in RocketMQ.
    """
    ordered_only = request.flag("isOrder")
    by_group: list[dict[str, Any]] = []
    total_diff = total_in_flight = 0
    for group in list(broker.groups.groups):
        parts = []
        for name in broker.consumers.consumed_topics(group, broker.offsets.topics_of(group)):
            topic = broker.topics.find(name)
            if topic is None or (ordered_only and not topic.is_ordered):
                continue
            table = _topic_progress(broker, group, topic)
            total_diff += sum(entry["brokerOffset"] - entry["consumerOffset"] for entry in table.values())
            total_in_flight -= sum(entry["consumerOffset"] for entry in table.values())
            tps = broker.stats.rate("GROUP_GET_NUMS", f"{name}@{group}").tps
            parts.append({"consumeTps": tps, "offsetTable": table})
        by_group.append({group: parts})
    whole = {"brokerAddr": broker.address, "consumeStatsList": by_group, "totalDiff": total_diff}
    return ok_json({**whole, "totalInflightDiff": total_in_flight} if broker.profile.is_5 else whole)


def _topic_progress(broker: Broker, group: str, topic: Topic) -> dict[MessageQueue, dict[str, int]]:
    table: dict[MessageQueue, dict[str, int]] = {}
    for queue_id in range(topic.write_queue_count):
        entry = table[broker.queue(topic.name, queue_id)] = queue_progress(broker, group, topic.name, queue_id)
        if broker.profile.is_5:
            entry["pullOffset"] = 0
    return table
