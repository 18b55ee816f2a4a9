"""When clients and brokers act: the periods and delays of RocketMQ's client versions, and of its brokers."""

from __future__ import annotations

from msgspec import Struct


class ClientTiming(Struct, frozen=True, kw_only=True):
    """The periods and delays of one kind of client, in ms."""

    rebalance_min_ms: float
    """Shortest time between two rebalances."""
    first_pull_ms: float
    """Time from taking a queue to its first pull."""
    pull_retry_ms: float = 1000
    """When a failed pull is tried again, with a new connection (pullTimeDelayMillsWhenException)."""
    start_ms: float = 35
    """Time from the start to the first heartbeat: 30 to 50 ms were measured."""
    waits_at_start: bool = True
    """Whether a new client waits `rebalance_min_ms` for its first rebalance, too (RebalanceService)."""
    beats_on_connect: bool = False
    """Whether a new connection gets a heartbeat at once (enableHeartbeatChannelEventListener)."""
    asked_brokers: int = 1
    """How many brokers are asked for the members of a topic, while none answers."""
    retry_ms: float | None = None
    """When a rebalance that could not take its queues is tried again; None at the next regular one."""
    lock_retry_ms: float | None = None
    """When a queue whose lock another client has is tried again; None at the next regular rebalance."""
    commits_last: bool = False
    """Whether a queue that is consumed in order is dropped after its message in the listener (since 5.2)."""
    commits_first: bool = False
    """Whether a rebalance takes queues only after brokers have acknowledged the commits of those that it drops."""
    refused_share: float = 0.0
    """How often brokers refuse the first pulls of taken queues once (SUBSCRIPTION_NOT_LATEST)."""
    refused_first_share: float = 0.0
    """The same for a client's first queues."""
    unheard_share: float = 0.0
    """How often they refuse those of a new client until its next regular heartbeat, or a later change of others."""
    broker_gap_ms: float = 6.0
    """From one broker to the next when a client joins or leaves: 3 to 11 ms were measured, as each has to answer."""
    rebalance_ms: float = 20_000
    heartbeat_ms: float = 30_000
    route_ms: float = 30_000
    """Time between two refreshes of the route (pollNameServerInterval)."""
    first_heartbeat_ms: float = 1000
    """Time from the start to the first regular heartbeat."""
    first_commit_ms: float = 10_000
    """Time from the start to the first regular commit (MQClientInstance.startScheduledTask)."""


# RebalanceService, RebalanceImpl and MQClientInstance of Java's releases, and rmqctl's ConsumerSettings. A rebalance
# changes the version of a subscription, which brokers need before a pull. The pulls of 4.9 race with the heartbeat that
# carries it: 18 of 30 lost in new clients, and 7 of 32 in others. Since 5.2, the first rebalance is when the first
# regular heartbeat is, which had the old version in 10 of 14 starts, while the one with the new version was dropped
# (sendHeartbeatToAllBrokerWithLock).
JAVA_4_9 = ClientTiming(rebalance_min_ms=0, first_pull_ms=0, refused_share=0.2, refused_first_share=0.6)
JAVA_5_0 = ClientTiming(rebalance_min_ms=0, first_pull_ms=500, lock_retry_ms=500)
JAVA_5_2 = ClientTiming(
    rebalance_min_ms=1000, first_pull_ms=500, beats_on_connect=True, retry_ms=1000, lock_retry_ms=500,
    commits_last=True, unheard_share=0.7,
)  # fmt: skip
RMQCTL = ClientTiming(
    rebalance_min_ms=1000, first_pull_ms=500, waits_at_start=False, beats_on_connect=True,
    asked_brokers=3, retry_ms=1000, lock_retry_ms=1000, commits_last=True,
    commits_first=True, broker_gap_ms=0.4,
)  # fmt: skip

# ClientHousekeepingService and ConsumerManager.CHANNEL_EXPIRED_TIMEOUT.
CHANNEL_SCAN_MS, CHANNEL_EXPIRED_MS = 10_000, 120_000
# ProcessQueue.REBALANCE_LOCK_INTERVAL and RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME.
LOCK_RENEW_MS, LOCK_EXPIRED_MS = 20_000, 60_000
# DefaultMQPushConsumer.consumeThreadMin; in order, only one of them consumes a queue.
THREAD_COUNT = 20
# A request takes this long in one direction, with the thread that handles it.
LEAST_DELAY_MS, MOST_DELAY_MS = 0.3, 3.0
# In all of a run, they take from half as long to twice as long on one machine, and again for one client.
SLOWEST = 2.0
