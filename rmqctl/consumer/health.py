"""How a consumer is: whether it is a member, when each queue was last pulled and consumed, and what is stuck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.head_notes import Head

from .assigned_queues import AssignedQueues
from .membership import Membership
from .offsets.store import OffsetStore
from .process_queue import ProcessQueue
from .rebalance import Rebalance

# A broker forgets a member that it has not heard of for this long (ClientManageProcessor, CHANNEL_EXPIRED_TIMEOUT).
_FORGOTTEN_S = 120.0


class BrokerHealth(Struct, frozen=True, kw_only=True):
    """Whether a broker knows this member, as far as this member can know.

    `accepted_at_ms` is when it last accepted a heartbeat, epoch ms, None for never; `error` is why it did not accept
    the newest one.
    """

    broker_name: str
    broker_id: int
    address: str
    is_member: bool
    accepted_at_ms: int | None
    error: str | None


class HeldQueueHealth(Struct, frozen=True, kw_only=True):
    """A held queue. Times are epoch ms, None for never.

    `pulled_at_ms` is when a pull was last answered, `consumed_at_ms` when the listener last succeeded. `offset` is the
    one up to which the queue is done. `lag` is the number of messages from there to the end of the queue as of
    pulled_at_ms, None before the first pull. `in_flight_count` messages are pulled and not done.

    The listener has had the first of these, at `head_offset`, for `head_age_ms`; both are None if it does not have it.
    `is_blocked`: nothing is pulled until a broker accepts failed messages. `is_preparing`: nothing is pulled until
    assigned() of the rebalance listener returns.
    """

    mq: MessageQueue
    taken_at_ms: int
    pulled_at_ms: int | None
    consumed_at_ms: int | None
    offset: int
    lag: int | None
    in_flight_count: int
    head_offset: int | None
    head_age_ms: int | None
    is_paused: bool
    is_blocked: bool
    is_preparing: bool


class ConsumerHealth(Struct, frozen=True, kw_only=True):
    """How a consumer is, at `at_ms`.

    `is_member`: a broker knows this member, and no broker that was asked for the members at the last rebalance left it
    out. `problems` are the sentences of those that last, or that occurred in the last minutes.
    """

    at_ms: int
    is_member: bool
    brokers: tuple[BrokerHealth, ...]
    queues: tuple[HeldQueueHealth, ...]
    problems: tuple[str, ...]

    def stuck(self, for_s: float = 60.0) -> list[HeldQueueHealth]:
        """Return blocked queues, and those whose first message the listener has had for longer than `for_s`."""
        return [
            queue
            for queue in self.queues
            if queue.is_blocked or (queue.head_age_ms is not None and queue.head_age_ms > for_s * 1000)
        ]


def look_at(
    client_id: str, membership: Membership, rebalance: Rebalance, holding: AssignedQueues, *, offsets: OffsetStore,
    heads: Mapping[MessageQueue, Head], problems: Sequence[str],
) -> ConsumerHealth:  # fmt: skip
    """Return how a consumer is now, from its parts. Any thread may call it."""
    clock = holding.client.clock
    now_s = clock.monotonic_s()
    brokers = tuple(
        BrokerHealth(
            broker_name=heard.broker_name,
            broker_id=heard.broker_id,
            address=heard.address,
            is_member=heard.error is None and heard.at_s is not None and now_s - heard.at_s < _FORGOTTEN_S,
            accepted_at_ms=heard.at_ms,
            error=None if heard.error is None else heard.error.sentence,
        )
        for heard in membership.heard()
    )

    def queue_health(mq: MessageQueue, queue: ProcessQueue) -> HeldQueueHealth:
        done, first, end, head = offsets.read(mq), queue.first_offset, queue.end_offset, heads.get(mq)
        offset = done if done is not None else queue.next_offset if first is None else first
        return HeldQueueHealth(
            mq=mq,
            taken_at_ms=queue.taken_at_ms,
            pulled_at_ms=queue.answered_at_ms,
            consumed_at_ms=queue.succeeded_at_ms,
            offset=offset,
            lag=None if end is None else max(0, end - offset),
            in_flight_count=queue.count,
            head_offset=None if head is None else head.queue_offset,
            head_age_ms=None if head is None else head.for_ms,
            is_paused=queue.is_paused,
            is_blocked=queue.is_blocked,
            is_preparing=holding.calls.is_waiting(mq),
        )

    outcomes = list(rebalance.outcomes.values())
    is_left_out = any(each.asked is not None and client_id not in each.client_ids for each in outcomes)
    return ConsumerHealth(
        at_ms=clock.now_ms(),
        is_member=holding.is_running and not is_left_out and any(broker.is_member for broker in brokers),
        brokers=brokers,
        queues=tuple(queue_health(mq, queue) for mq, queue in sorted(holding.queues.items())),
        problems=tuple(problems),
    )
