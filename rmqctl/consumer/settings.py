"""All settings of a consumer, with the defaults of DefaultMQPushConsumer where it has them."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.consumption import ConsumeFromWhere
from rmqctl.model.group import CLUSTERING
from rmqctl.rules.member_settings import retry_limit


class ConsumerSettings(Struct, frozen=True, kw_only=True):
    """Settings of one consumer. Delays are those of 5.x; settings_of_4_9() returns those of 4.9.

    A limit of None is off. `max_reconsume_times` of -1 means 16, as for brokers.
    """

    group: str
    message_model: str = CLUSTERING
    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    # For ConsumeFromWhere.TIMESTAMP; None is 30 minutes before the start.
    consume_timestamp_ms: int | None = None
    instance_name: str | None = None
    unit_name: str | None = None

    # Membership
    heartbeat_s: float = 30.0
    route_refresh_s: float = 30.0
    rebalance_s: float = 20.0
    rebalance_min_s: float = 1.0
    # Other clients count only after they have been present this long; with 0 all count immediately, as in RocketMQ.
    protect_s: float = 0.0
    # A queue without an answer for this long is given up and taken again (PullTimeDelay, ProcessQueue).
    pull_expired_s: float = 120.0

    # Pulling
    pull_batch_size: int = 32
    pull_interval_s: float = 0.0
    first_pull_delay_s: float = 0.5
    hold_s: float = 15.0
    pull_timeout_s: float = 30.0
    queue_count_limit: int | None = 1000
    queue_mib_limit: int | None = 100
    span_limit: int | None = 2000
    topic_count_limit: int | None = None
    topic_mib_limit: int | None = None
    flow_control_s: float = 0.05
    paused_s: float = 1.0
    not_running_s: float = 3.0
    # After an error or an unusual answer.
    error_delay_s: float = 1.0
    # After "flow control" of the broker (215).
    broker_busy_s: float = 0.02
    illegal_offset_s: float = 0.0

    # Consuming
    batch_size: int = 1
    worker_count: int = 20
    consume_timeout_s: float = 900.0
    max_reconsume_times: int = -1
    # RocketMQ honours ackIndex with CONSUME_SUCCESS only.
    ack_index_on_failure: bool = True
    # For failed messages, unless the listener sets another: 0 leaves it to the broker, -1 makes dead letters.
    delay_level: int = 0
    send_back_timeout_s: float = 5.0
    fallback_timeout_s: float = 3.0
    local_retry_s: float = 5.0
    local_retry_limit: int = 16
    # An event loop that does not run for this long is reported: heartbeats and pulls stop with it.
    loop_watch_s: float = 5.0

    # Messages that are older, or further from the end of their queue, are acknowledged unread.
    skip_older_s: float | None = None
    skip_behind_count: int | None = None
    # Messages are acknowledged unread if this member has consumed their unique key: of the last ones, so many are kept.
    dedup_count: int | None = None

    # Offsets
    persist_s: float = 5.0
    first_persist_s: float = 10.0

    @property
    def retry_count_limit(self) -> int:
        """How often a message is retried before it becomes a dead letter."""
        return retry_limit(self.max_reconsume_times, is_orderly=False) or 0


def settings_of_4_9(settings: ConsumerSettings) -> ConsumerSettings:
    """Return the same settings with the delays of the 4.9 client where they differ from 5.x."""
    return replace(settings, error_delay_s=3.0, illegal_offset_s=10.0, first_pull_delay_s=0.0)
