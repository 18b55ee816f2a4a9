"""The status of a broker in numbers."""

from __future__ import annotations

from rmqctl.protocol.flags import Permission
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.table import SYSTEM_GROUPS

from .messages import BrokerStatus

_SYSTEM_PREFIX = "CID_RMQ_SYS_"


def broker_status(broker: Broker) -> BrokerStatus:
    """Return the numbers of a broker, without system topics and system groups."""
    topics = [name for name in broker.topics.topics if name not in broker.topics.system_names]
    groups = [
        name for name in broker.groups.groups if name not in SYSTEM_GROUPS and not name.startswith(_SYSTEM_PREFIX)
    ]
    queues = [queue for name in topics for queue in broker.store.queues.get(name, {}).values()]
    is_running = broker.is_running
    producers = [channel for members in broker.producers.groups.values() for channel in members]
    return BrokerStatus(
        broker_name=broker.name,
        broker_addr=broker.address,
        is_running=is_running,
        is_writable=bool(broker.permission & Permission.WRITE),
        clock_skew_ms=broker.skew_ms,
        topic_count=len(topics),
        group_count=len(groups),
        message_count=sum(queue.max_offset - queue.min_offset for queue in queues),
        member_count=sum(len(group.members) for group in broker.consumers.groups.values()) if is_running else None,
        producer_count=len(producers) if is_running else None,
        connection_count=len(broker.server.channels) if is_running else None,
        held_count=len(broker.holds) if is_running else None,
    )
