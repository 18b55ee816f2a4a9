"""Topics: what brokers and name servers report about one, and how they disagree."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class TopicKind(StrEnum):
    """What a topic is for, derived from its name."""

    NORMAL = "NORMAL"
    RETRY = "RETRY"  # %RETRY%group: messages that a group failed to consume
    DEAD_LETTER = "DEAD_LETTER"  # %DLQ%group: messages that a group gave up on
    DELAY = "DELAY"  # where delayed messages wait for their time
    LIGHT = "LIGHT"  # %LMQ%: a light queue
    SYSTEM = "SYSTEM"


class TopicFinding(StrEnum):
    """An inconsistency of a topic; `TOPIC_FINDINGS` describes each."""

    NOT_AT_NAME_SERVER = "NOT_AT_NAME_SERVER"
    NOT_ON_BROKER = "NOT_ON_BROKER"
    NOT_IN_ROUTE = "NOT_IN_ROUTE"
    QUEUES_DIFFER = "QUEUES_DIFFER"
    PERMISSIONS_DIFFER = "PERMISSIONS_DIFFER"
    ATTRIBUTES_DIFFER = "ATTRIBUTES_DIFFER"
    ROUTE_DIFFERS = "ROUTE_DIFFERS"
    NAME_SERVERS_DIFFER = "NAME_SERVERS_DIFFER"
    UNREAD_QUEUES = "UNREAD_QUEUES"
    UNWRITTEN_QUEUES = "UNWRITTEN_QUEUES"
    UNREAD_MESSAGES = "UNREAD_MESSAGES"
    NOT_READABLE = "NOT_READABLE"
    NOT_WRITABLE = "NOT_WRITABLE"
    NO_MASTER = "NO_MASTER"
    NO_ADDRESS = "NO_ADDRESS"
    BROKER_MISSING = "BROKER_MISSING"


TOPIC_FINDINGS: Mapping[TopicFinding, str] = {
    TopicFinding.NOT_AT_NAME_SERVER: "brokers have the topic, the name server does not: clients get no route",
    TopicFinding.NOT_ON_BROKER: "the name server's route names a broker that does not have the topic",
    TopicFinding.NOT_IN_ROUTE: "a broker has the topic, but the name server's route does not name that broker",
    TopicFinding.QUEUES_DIFFER: "brokers have different numbers of queues",
    TopicFinding.PERMISSIONS_DIFFER: "brokers have different permissions",
    TopicFinding.ATTRIBUTES_DIFFER: "brokers have different attributes or order flags",
    TopicFinding.ROUTE_DIFFERS: "the name server's route and the broker have different queues or permissions",
    TopicFinding.NAME_SERVERS_DIFFER: "name servers return different routes",
    TopicFinding.UNREAD_QUEUES: "more write queues than read queues: messages in the surplus are never consumed",
    TopicFinding.UNWRITTEN_QUEUES: "more read queues than write queues: the surplus gets no new messages",
    TopicFinding.UNREAD_MESSAGES: "messages are in queues that no consumer reads",
    TopicFinding.NOT_READABLE: "no read permission: consumers get no messages",
    TopicFinding.NOT_WRITABLE: "no write permission: producers do not send to it",
    TopicFinding.NO_MASTER: "no master is registered: messages cannot be written",
    TopicFinding.NO_ADDRESS: "the route names the broker without an address",
    TopicFinding.BROKER_MISSING: "a broker that had queues of the topic is not registered now",
}


# Bits of TopicConfig.perm (PermName).
READ = 4
WRITE = 2


class TopicConfig(Struct, frozen=True):
    """One broker's configuration of a topic (TopicConfig); each broker has its own copy. `perm` are PermName bits."""

    topic: str
    read_queue_count: int
    write_queue_count: int
    perm: int
    is_ordered: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_readable(self) -> bool:
        """Whether consumers may read the topic."""
        return bool(self.perm & READ)

    @property
    def is_writable(self) -> bool:
        """Whether producers may write to the topic."""
        return bool(self.perm & WRITE)

    def queues_and_perm(self) -> tuple[int, int, int]:
        """Return the numbers of queues and the permissions, as a route repeats them."""
        return self.read_queue_count, self.write_queue_count, self.perm


class StaticMapping(Struct, frozen=True):
    """Which logical queues of a static topic one broker holds (TopicQueueMappingInfo): logical to physical id."""

    broker_name: str
    logical_queue_count: int
    epoch: int
    queue_ids: Mapping[int, int]
