"""A member's report, as the facts by which each queue that it holds is judged."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.model.group import RunningInfo
from rmqctl.model.queue import MessageQueue

from .flow_control import FlowLimits, flow_limits
from .head_notes import head_for_ms
from .member_settings import MemberSettings, member_settings
from .stuck_queues import Holder


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
    )
