"""Where a topic's queues live, and which brokers a cluster has."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from .queue import MessageQueue
from .topic import StaticMapping

MASTER_ID = 0


class Broker(Struct, frozen=True):
    """A broker name with its replicas: broker id (0 is the master) to host:port."""

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]

    def __hash__(self) -> int:
        return hash((self.cluster, self.broker_name))

    @property
    def master_address(self) -> str | None:
        """Address of the master, None while the name server knows of none."""
        return self.addresses.get(MASTER_ID)

    @property
    def read_addresses(self) -> tuple[str, ...]:
        """Addresses to ask, the best first: the master, then slaves by id."""
        return tuple(self.addresses[broker_id] for broker_id in sorted(self.addresses))


class QueueData(Struct, frozen=True):
    """How many queues of a topic one broker has, and what may be done with them (RocketMQ's QueueData).

    `perm` are all bits (PermName); is_readable and is_writable are two of them.
    """

    broker_name: str
    read_queue_count: int
    write_queue_count: int
    is_readable: bool
    is_writable: bool
    perm: int = 6


class TopicRoute(Struct, frozen=True):
    """A topic's route as one name server tells it (TopicRouteData).

    `is_static`: a static topic, whose logical queues are mapped onto brokers; the queues here are the physical ones.
    `order_conf`: queues a broker for messages in order ("broker-a:4;broker-b:4"), None when the name server has none.
    """

    topic: str
    queue_data: tuple[QueueData, ...]
    brokers: tuple[Broker, ...]
    is_static: bool = False
    order_conf: str | None = None
    mappings: tuple[StaticMapping, ...] = ()

    def readable_queues(self) -> tuple[MessageQueue, ...]:
        """Return the queues that consumers share, sorted (MQClientInstance.topicRouteData2TopicSubscribeInfo)."""
        return tuple(
            sorted(
                MessageQueue(self.topic, data.broker_name, queue_id)
                for data in self.queue_data
                if data.is_readable
                for queue_id in range(data.read_queue_count)
            )
        )


class ClusterInfo(Struct, frozen=True):
    """All brokers that a name server knows, sorted by cluster and name (RocketMQ's ClusterInfo)."""

    brokers: tuple[Broker, ...]
