"""A member's report, as the facts by which each queue that it holds is judged."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.model.group import RunningInfo
from rmqctl.model.queue import MessageQueue

from .flow_control import FlowLimits, flow_limits
from .head_notes import head_for_ms
from .member_settings import MemberSettings, member_settings, pulls_by_itself


class Holder(Struct, frozen=True):
    """The member that holds a queue; None means unknown.

    `now_ms` is the least time of its clock at the last sample. `held_count` counts all queues that it holds.
    `busy_count` of its `thread_count` threads are in the listener, each with at most `batch_size` messages;
    `in_hand_count` messages of all its queues are in flight. `average_ms` is the topic's average time in the listener.
    `head_for_ms` is how long the listener has had the head, by the member's own report. `pull_interval_ms` is its pause
    between two pulls of a queue; 0, the default of all clients, where it reports none. `is_polled`: its application
    polls (DefaultLitePullConsumer), so that it has prefetched its messages, but they are not in consumption. A poll
    serves one queue: `polled_at_ms` is when it last took messages from any of them.
    """

    client_id: str
    now_ms: int | None = None
    is_orderly: bool | None = None
    held_count: int = 1
    thread_count: int | None = None
    busy_count: int | None = None
    batch_size: int | None = None
    average_ms: float = 0.0
    in_hand_count: int = 0
    failed_tps: float = 0.0
    head_for_ms: int | None = None
    limits: FlowLimits = FlowLimits()
    pull_interval_ms: int = 0
    is_polled: bool = False
    polled_at_ms: int | None = None

    @property
    def polled_ago_ms(self) -> int | None:
        """How long ago its application last took messages from any queue."""
        if self.now_ms is None or self.polled_at_ms is None:
            return None
        return max(0, self.now_ms - self.polled_at_ms)

    @property
    def listening_max(self) -> int | None:
        """The largest number of messages that are in the listener, None when unknown."""
        busy_count, size = self.busy_count, self.batch_size
        return None if busy_count is None or size is None else busy_count * size

    @property
    def is_exhausted(self) -> bool:
        """Whether all of its threads are in the listener, as far as it reports them."""
        return bool(self.thread_count) and self.busy_count is not None and self.busy_count >= (self.thread_count or 0)


class HolderReport(Struct, frozen=True):
    """A member's report, and what follows from it for all queues that it holds.

    `now_ms` is the least time that its clock shows.
    """

    client_id: str
    info: RunningInfo
    settings: MemberSettings
    limits: FlowLimits
    now_ms: int | None
    held_count: int
    in_hand_count: int
    polled_at_ms: int | None = None


def report_of(client_id: str, info: RunningInfo, now_ms: int | None) -> HolderReport:
    """Return a member's report with what follows from it."""
    held = [each for each in info.process_queues.values() if not each.dropped]
    return HolderReport(
        client_id=client_id,
        info=info,
        settings=member_settings(info),
        limits=flow_limits(info.properties),
        now_ms=now_ms,
        held_count=len(held),
        in_hand_count=sum(each.in_hand_count for each in held),
        polled_at_ms=max((at for each in held if (at := each.last_consume_at_ms) is not None), default=None),
    )


def holder_of(mq: MessageQueue, word: HolderReport, thread_count: int | None, busy_count: int | None) -> Holder:
    """Return the member as the holder of a queue; `busy_count` threads are in its listener, None if unknown."""
    info = word.info
    status = info.statuses.get(mq.topic)
    return Holder(
        client_id=word.client_id,
        now_ms=word.now_ms,
        is_orderly=word.settings.is_orderly,
        held_count=word.held_count,
        thread_count=thread_count,
        busy_count=busy_count,
        batch_size=word.settings.batch_size,
        in_hand_count=word.in_hand_count,
        average_ms=0.0 if status is None else status.consume_rt_ms,
        failed_tps=0.0 if status is None else status.consume_failed_tps,
        head_for_ms=head_for_ms(info.notes, mq, info.process_queues[mq].head_offset),
        limits=word.limits,
        pull_interval_ms=max(0, word.settings.pull_interval_ms or 0),
        is_polled=pulls_by_itself(info),
        polled_at_ms=word.polled_at_ms,
    )
