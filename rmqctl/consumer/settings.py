"""All settings of a consumer, with the defaults of DefaultMQPushConsumer where it has them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from rmqctl.errors import UsageError
from rmqctl.model.consumption import ConsumeFromWhere
from rmqctl.model.group import BROADCASTING, CLUSTERING
from rmqctl.rules.member_settings import retry_limit

_Count = Annotated[int, Meta(ge=1)]
_Size = Annotated[int, Meta(ge=1, le=1024)]
_Delay = Annotated[float, Meta(ge=0)]
_Interval = Annotated[float, Meta(gt=0)]


class ConsumerSettings(Struct, frozen=True, kw_only=True):
    """Settings of one consumer. Delays are those of 5.x; settings_of_4_9() returns those of 4.9.

    A limit of None is off. `max_reconsume_times` of -1 means 16, as for brokers. PushConsumer sets the `group`.
    """

    group: str = ""
    message_model: str = CLUSTERING
    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    # For ConsumeFromWhere.TIMESTAMP; None is 30 minutes before the start.
    consume_timestamp_ms: int | None = None
    instance_name: str | None = None
    unit_name: str | None = None

    # Membership
    heartbeat_s: _Interval = 30.0
    route_refresh_s: _Interval = 30.0
    rebalance_s: _Interval = 20.0
    rebalance_min_s: _Delay = 1.0
    # Other clients count only after they have been present this long; with 0 all count immediately, as in RocketMQ.
    protect_s: _Delay = 0.0
    # A queue without an answer for this long is given up and taken again (PullTimeDelay, ProcessQueue).
    pull_expired_s: _Interval = 120.0

    # Pulling
    pull_batch_size: _Size = 32
    pull_interval_s: _Delay = 0.0
    first_pull_delay_s: _Delay = 0.5
    hold_s: _Interval = 15.0
    pull_timeout_s: _Interval = 30.0
    queue_count_limit: _Count | None = 1000
    queue_mib_limit: _Count | None = 100
    span_limit: _Count | None = 2000
    topic_count_limit: _Count | None = None
    topic_mib_limit: _Count | None = None
    flow_control_s: _Interval = 0.05
    paused_s: _Interval = 1.0
    not_running_s: _Interval = 3.0
    # After an error or an unusual answer.
    error_delay_s: _Interval = 1.0
    # After "flow control" of the broker (215).
    broker_busy_s: _Delay = 0.02
    illegal_offset_s: _Delay = 0.0

    # Consuming
    batch_size: _Size = 1
    worker_count: _Size = 20
    consume_timeout_s: _Interval = 900.0
    max_reconsume_times: Annotated[int, Meta(ge=-1)] = -1
    # RocketMQ honours ackIndex with CONSUME_SUCCESS only.
    ack_index_on_failure: bool = True
    # For failed messages, unless the listener sets another: 0 leaves it to the broker, -1 makes dead letters.
    delay_level: Annotated[int, Meta(ge=-1)] = 0
    send_back_timeout_s: _Interval = 5.0
    fallback_timeout_s: _Interval = 3.0
    local_retry_s: _Delay = 5.0
    local_retry_limit: Annotated[int, Meta(ge=0)] = 16
    # An event loop that does not run for this long is reported: heartbeats and pulls stop with it.
    loop_watch_s: _Interval = 5.0

    # Messages that are older, or further from the end of their queue, are acknowledged unread.
    skip_older_s: _Interval | None = None
    skip_behind_count: _Count | None = None
    # Messages are acknowledged unread if this member has consumed their unique key: of the last ones, so many are kept.
    dedup_count: _Count | None = None

    # Offsets
    persist_s: _Interval = 5.0
    first_persist_s: _Delay = 10.0

    @property
    def retry_count_limit(self) -> int:
        """How often a message is retried before it becomes a dead letter."""
        return retry_limit(self.max_reconsume_times, is_orderly=False) or 0


def settings_of_4_9(settings: ConsumerSettings) -> ConsumerSettings:
    """Return the same settings with the delays of the 4.9 client where they differ from 5.x."""
    return replace(settings, error_delay_s=3.0, illegal_offset_s=10.0, first_pull_delay_s=0.0)


def require_valid(settings: ConsumerSettings) -> None:
    """Raise UsageError for settings that are out of range or of another type."""
    try:
        msgspec.convert(asdict(settings), ConsumerSettings)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).rpartition(" - at `$.")
        raise UsageError(f"Invalid setting {where.rstrip('`')}: {reason[:1].lower()}{reason[1:]}.") from None
    if settings.message_model not in (CLUSTERING, BROADCASTING):
        raise UsageError(f"Invalid setting message_model: use {CLUSTERING} or {BROADCASTING}.")
