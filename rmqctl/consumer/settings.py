"""All settings of a consumer, with the defaults of DefaultMQPushConsumer where it has them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from rmqctl.errors import UsageError
from rmqctl.model.checked import YEAR_S, Count, EpochMs, Seconds, checked
from rmqctl.model.consumption import ConsumeFromWhere
from rmqctl.model.group import BROADCASTING, CLUSTERING
from rmqctl.rules.member_settings import retry_limit

Size = Annotated[int, Meta(ge=1, le=1024)]
Delay = Seconds
Interval = Annotated[float, Meta(gt=0, le=YEAR_S)]
# A part of a client id: clients and tools split it at @.
IdPart = Annotated[str, Meta(pattern=r"^[^@\x00-\x1f\x7f]+\Z")]


class ConsumerSettings(Struct, frozen=True, kw_only=True):
    """Settings of one consumer. Delays are those of 5.x; settings_of_4_9() returns those of 4.9.

    A limit of None is off. Delays may be 0, intervals may not; a size is 1 to 1024.
    """

    group: str = ""
    """PushConsumer sets it."""
    message_model: str = CLUSTERING
    """CLUSTERING or BROADCASTING."""
    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    """Where a group starts that has no offsets yet."""
    consume_timestamp_ms: EpochMs | None = None
    """For ConsumeFromWhere.TIMESTAMP; None is 30 minutes before the start."""
    instance_name: IdPart | None = None
    """The second part of the client id; None makes a new one for each consumer."""
    unit_name: IdPart | None = None
    """The third part of the client id."""

    # Membership
    heartbeat_s: Interval = 30.0
    """Between two heartbeats to each broker."""
    route_refresh_s: Interval = 30.0
    """How old the known brokers and queues may get."""
    rebalance_s: Interval = 20.0
    """Between two rebalances; a change of members starts one at once."""
    rebalance_min_s: Delay = 1.0
    """The shortest pause between two rebalances."""
    protect_s: Delay = 0.0
    """Other members count only after they have been present this long; with 0 all count immediately, as in RocketMQ."""
    revoke_wait_s: Delay = 5.0
    """With a rebalance listener: how long a queue that is given up waits for its batches, and then for revoked()."""
    pull_expired_s: Interval = 120.0
    """A queue without an answer for this long is given up and taken again (PullTimeDelay, ProcessQueue)."""

    # Pulling
    pull_batch_size: Size = 32
    """Most messages of one pull."""
    pull_interval_s: Delay = 0.0
    """The pause after a pull that found messages."""
    first_pull_delay_s: Delay = 0.5
    """The pause before the first pull of a queue that was taken."""
    hold_s: Interval = 15.0
    """How long a broker may wait for a message before it answers a pull."""
    pull_timeout_s: Interval = 30.0
    """The time limit of a pull."""
    queue_count_limit: Count | None = 1000
    """A queue with more messages in flight is not pulled."""
    queue_mib_limit: Count | None = 100
    """The same, in MiB."""
    span_limit: Count | None = 2000
    """A queue is not pulled while the offsets of its messages in flight span more than this."""
    topic_count_limit: Count | None = None
    """As queue_count_limit, for all queues together."""
    topic_mib_limit: Count | None = None
    """As queue_mib_limit, for all queues together."""
    flow_control_s: Interval = 0.05
    """The pause while a limit holds a queue."""
    paused_s: Interval = 1.0
    """The pause between two looks whether a paused queue may be pulled."""
    not_running_s: Interval = 3.0
    """The same for a consumer that does not run yet."""
    error_delay_s: Interval = 1.0
    """The pause after an error or an unusual answer."""
    broker_busy_s: Delay = 0.02
    """The pause after "flow control" of the broker (215)."""
    illegal_offset_s: Delay = 0.0
    """The pause before a queue continues whose offset the broker does not have."""

    # Consuming
    batch_size: Size = 1
    """Most messages that the listener gets in one call."""
    worker_count: Size = 20
    """The number of batches that are consumed at the same time."""
    consume_timeout_s: Interval = 900.0
    """A batch that takes longer is sent back."""
    max_reconsume_times: Annotated[int, Meta(ge=-1)] = -1
    """A message that failed more often becomes a dead letter; -1 means 16, and no limit for orderly consumers."""
    ack_index_on_failure: bool = True
    """Whether Batch.ack_index counts for batches that failed; RocketMQ honours it with CONSUME_SUCCESS only."""
    delay_level: Annotated[int, Meta(ge=-1)] = 0
    """For failed messages, unless the listener sets another: 0 leaves it to the broker, -1 makes dead letters."""
    is_orderly: bool = False
    """Whether the messages of a queue are consumed in order, one batch at a time. All members of a group must agree."""
    suspend_s: Annotated[float, Meta(ge=0.01, le=30.0)] = 1.0
    """Orderly: the pause of a queue after a batch that failed, unless the listener sets suspend_ms."""
    send_back_timeout_s: Interval = 5.0
    """The time limit to send a failed message back."""
    fallback_timeout_s: Interval = 3.0
    """The time limit to send it to another broker instead."""
    local_retry_s: Delay = 5.0
    """The pause before a message that no broker accepts is consumed again here, and before assigned() is repeated."""
    local_retry_limit: Annotated[int, Meta(ge=0)] = 16
    """How often it is; then its queue is blocked."""
    loop_watch_s: Interval = 5.0
    """An event loop that does not run for this long is reported: heartbeats and pulls stop with it."""

    # Messages that are acknowledged unread.
    skip_older_s: Interval | None = None
    """Those that are older."""
    skip_behind_count: Count | None = None
    """Those that are further from the end of their queue."""
    dedup_count: Count | None = None
    """Those whose unique key this member has consumed; the number of the last keys that are kept."""

    # Offsets
    persist_s: Interval = 5.0
    """Between two times that offsets are stored."""
    first_persist_s: Delay = 10.0
    """The time before that."""

    @property
    def retry_count_limit(self) -> int:
        """How often a message is retried before it becomes a dead letter."""
        return retry_limit(self.max_reconsume_times, is_orderly=self.is_orderly) or 0


def settings_of_4_9(settings: ConsumerSettings) -> ConsumerSettings:
    """Return the same settings with the delays of the 4.9 client where they differ from 5.x."""
    return replace(settings, error_delay_s=3.0, illegal_offset_s=10.0, first_pull_delay_s=0.0)


def valid_settings(settings: ConsumerSettings) -> ConsumerSettings:
    """Return the same settings, with enums for names. Raises UsageError for what is out of range or of another type."""
    found: ConsumerSettings = checked("setting", asdict(settings), ConsumerSettings)
    if settings.message_model not in (CLUSTERING, BROADCASTING):
        raise UsageError(f"Invalid setting message_model: use {CLUSTERING} or {BROADCASTING}.")
    if settings.is_orderly and settings.dedup_count is not None:
        raise UsageError("Invalid setting dedup_count: an orderly consumer cannot have messages wait for others.")
    return found
