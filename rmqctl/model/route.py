"""Where a topic's queues are, and which brokers a cluster has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from .queue import MessageQueue
from .topic import StaticMapping

MASTER_ID = 0


class Absence(Struct, frozen=True):
    """Why a broker is expected although no name server lists it.

    `last_seen_ms` and `address` are those of its last registration that rmqctl saw; None when a context names a broker
    that rmqctl has never seen. `is_named`: a context names it. `topics`: only their routes name it. `is_held`: known
    only from members, which held queues of it at that time.
    """

    last_seen_ms: int | None
    address: str | None = None
    is_named: bool = False
    topics: tuple[str, ...] = ()
    is_held: bool = False


class BrokerData(Struct, frozen=True):
    """A broker name with its replicas: broker id (0 is the master) to host:port.

    A broker with an `absence` has no addresses: it should be registered, and is not.
    """

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]
    absence: Absence | None = None

    def __hash__(self) -> int:
        return hash((self.cluster, self.broker_name))

    @property
    def master_address(self) -> str | None:
        """Address of the master, None while the name server does not know one."""
        return self.addresses.get(MASTER_ID)

    @property
    def read_addresses(self) -> tuple[str, ...]:
        """Addresses to ask, the best first: the master, then slaves by id."""
        return tuple(self.addresses[broker_id] for broker_id in sorted(self.addresses))


class QueueData(Struct, frozen=True):
    """How many queues of a topic one broker has, and their permissions (RocketMQ's QueueData).

    `perm` are all bits (PermName); is_readable and is_writable are two of them.
    """

    broker_name: str
    read_queue_count: int
    write_queue_count: int
    is_readable: bool
    is_writable: bool
    perm: int = 6


class TopicRoute(Struct, frozen=True):
    """A topic's route (TopicRouteData), of one name server or the union of several.

    `missing` are queues of brokers that are not registered now, as rmqctl last saw them; these brokers are among
    `brokers`, with an absence. Clients see neither.

    `is_static`: a static topic, whose logical queues are mapped onto brokers; the queues here are the physical ones.
    `order_conf`: queues per broker for ordered messages ("broker-a:4;broker-b:4"), None when the name server has none.
    """

    topic: str
    queue_data: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    is_static: bool = False
    order_conf: str | None = None
    mappings: tuple[StaticMapping, ...] = ()
    missing: tuple[QueueData, ...] = ()

    def readable_queues(self) -> tuple[MessageQueue, ...]:
        """Return the queues that consumers share, sorted (MQClientInstance.topicRouteData2TopicSubscribeInfo)."""
        return _readable(self.topic, self.queue_data)

    @property
    def closed_brokers(self) -> tuple[str, ...]:
        """The brokers where the topic has no read permission, sorted."""
        return tuple(sorted(data.broker_name for data in self.queue_data if not data.is_readable))

    def missing_queues(self) -> tuple[MessageQueue, ...]:
        """Return the readable queues of brokers that are not registered now, sorted."""
        return _readable(self.topic, self.missing)


def _readable(topic: str, queue_data: Iterable[QueueData]) -> tuple[MessageQueue, ...]:
    return tuple(
        sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in queue_data
            if data.is_readable
            for queue_id in range(data.read_queue_count)
        )
    )


class ClusterInfo(Struct, frozen=True):
    """All brokers that name servers know, and all that should be registered, sorted (RocketMQ's ClusterInfo).

    `clusters` are those in which one name server lists each broker name; there should be one.
    """

    brokers: tuple[BrokerData, ...]
    clusters: Mapping[str, tuple[str, ...]] = {}

    @property
    def registered(self) -> tuple[BrokerData, ...]:
        """Brokers that a name server lists now."""
        return tuple(broker for broker in self.brokers if broker.absence is None)

    @property
    def missing(self) -> tuple[BrokerData, ...]:
        """Brokers that should be registered and are not."""
        return tuple(broker for broker in self.brokers if broker.absence is not None)
