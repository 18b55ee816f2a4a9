"""What rmqctl remembers of a cluster: the brokers that it saw registered, their queues by topic, and when."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class SeenBroker(Struct, frozen=True):
    """A broker as it was last registered. `address` is the master's, None when only slaves were registered.

    `is_held`: it was never seen registered, but members held queues of it. `others` are other addresses of masters
    of the same name, and when they were last seen; None if no run has compared them.
    """

    cluster: str
    address: str | None
    last_seen_ms: int
    is_held: bool = False
    others: Mapping[str, int] | None = None


class SeenQueues(Struct, frozen=True):
    """A topic's queues on one broker, as last listed in a route. `perm` are PermName bits."""

    read_queue_count: int
    write_queue_count: int
    perm: int
    last_seen_ms: int


class ClusterMemory(Struct, frozen=True):
    """Brokers by name, queues by topic and broker name. Empty before the first command that asked the cluster.

    `forgotten` is when the operator removed brokers from the memory: older sightings, on any machine, do not count.
    """

    brokers: Mapping[str, SeenBroker] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, SeenQueues]] = field(default_factory=dict)
    forgotten: Mapping[str, int] = field(default_factory=dict)


class Expectation(Struct, frozen=True):
    """What should exist now: `brokers` by name, None for one that a context names and that was never seen.

    `topics` as in the memory. `is_named`: a context names the brokers. `is_first`: no topic is remembered, so missing
    queues cannot be found from it. `faded` were seen too long ago to be expected. `forgotten` as in the memory.
    """

    brokers: Mapping[str, SeenBroker | None] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, SeenQueues]] = field(default_factory=dict)
    is_named: bool = False
    is_first: bool = False
    faded: Mapping[str, SeenBroker] = field(default_factory=dict)
    forgotten: Mapping[str, int] = field(default_factory=dict)


class Sightings(Struct):
    """What one run saw: registered brokers, and queues by topic and broker, empty for a topic without a route.

    `held` are queues that members hold at brokers that are not registered: their number by topic and broker.
    `has_missing`: expected brokers were not registered.
    """

    brokers: dict[str, SeenBroker] = field(default_factory=dict)
    topics: dict[str, dict[str, SeenQueues]] = field(default_factory=dict)
    # What all brokers of the cluster reported of topics, without a request for their routes.
    reported: dict[str, dict[str, SeenQueues]] = field(default_factory=dict)
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    has_missing: bool = False
