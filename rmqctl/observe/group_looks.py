"""One look at a group, and what two looks show of a queue and of the member that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.offsets.conclusion import conclude
from rmqctl.admin.offsets.group import read_group
from rmqctl.admin.offsets.reading import GroupProgress, GroupReading
from rmqctl.admin.topics.queues import QueueChoice
from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.model.group import ProcessQueueInfo, RunningInfo
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health.positions import Position, PositionPair
from rmqctl.rules.holder_report import HolderReport
from rmqctl.rules.member_settings import MemberSettings, member_settings
from rmqctl.rules.stuck_queues import client_now_ms


class GroupScan(Struct, frozen=True):
    """One look at a group: when it started and ended, and the rows of the requested queues."""

    began_s: float
    ended_s: float
    ended_at_ms: int
    reading: GroupReading
    progress: GroupProgress
    rows: Mapping[MessageQueue, QueueProgress]

    def has_heard(self, client_id: str | None) -> bool:
        """Return whether a member answered, or was certainly no member; None means no member."""
        running = self.reading.running
        return client_id is None or client_id in running.ok or not (client_id in running.failed or self.reading.unheard)

    def shows(self, mq: MessageQueue, client_id: str | None) -> tuple[bool, bool, bool]:
        """Return how much a look shows of a queue and a member: the largest is the best to compare with."""
        info = self.reading.running.ok.get(client_id or "")
        is_held = info is not None and mq in info.process_queues
        return self.has_heard(client_id), is_held, mq in self.rows and self.rows[mq].max_offset is not None


async def look_at_group(client: Client, group: str, topics: Sequence[str], choices: Sequence[QueueChoice]) -> GroupScan:
    """Read a group. Raises the errors of read_group(), and UsageError for queues that the group does not have."""
    began_s = client.clock.monotonic_s()
    reading = await read_group(client, group, topics)
    progress = conclude(group, reading)
    look = make_group_scan(client, reading, progress, began_s, choices)
    if choices and not look.rows and not progress.failures:
        raise UsageError(
            f"Group {group} has no queue {choices[0]}.", hint=f"List its queues: rmqctl offset show {group}."
        )
    return look


def make_group_scan(
    client: Client, reading: GroupReading, progress: GroupProgress, began_s: float, choices: Sequence[QueueChoice] = ()
) -> GroupScan:
    """Return the look for a reading that ends now and started at `began_s` (monotonic, by the client's clock)."""
    rows = {row.mq: row for row in progress.rows if not choices or any(choice.has(row.mq) for choice in choices)}
    return GroupScan(began_s, client.clock.monotonic_s(), client.clock.now_ms(), reading, progress, rows)


def between_ms(first: GroupScan, last: GroupScan) -> int:
    """Return the least time between any answer of the first look and any of the last one."""
    return max(0, round((last.began_s - first.ended_s) * 1000))


def watch(
    mq: MessageQueue, client_id: str | None, first: GroupScan, last: GroupScan, report: HolderReport | None
) -> PositionPair:
    """Return a queue and its holder in two looks; `report` is the holder's last one."""
    settings = None if report is None else report.settings

    def position(look: GroupScan) -> Position:
        row, is_heard = look.rows.get(mq), look.has_heard(client_id)
        held = None if client_id is None else _held(look.reading.running.ok.get(client_id), mq, settings)
        if row is None:
            return Position(None, None, held, is_heard=is_heard)
        return Position(row.consumer_offset, row.max_offset, held, row.min_offset, row.pull_offset, is_heard)

    is_orderly = None if settings is None else settings.is_orderly
    return PositionPair(position(first), position(last), between_ms(first, last), is_orderly)


def _held(info: RunningInfo | None, mq: MessageQueue, settings: MemberSettings | None) -> ProcessQueueInfo | None:
    """Return what a member held; None where it was another process that had the same client id."""
    if info is None or (settings is not None and member_settings(info).started_at_ms != settings.started_at_ms):
        return None
    held = info.process_queues.get(mq)
    return None if held is None or held.dropped else held


def now_of(client_id: str, first: GroupScan, last: GroupScan) -> int | None:
    """Return a lower bound of a client's clock now; between two looks it advanced as ours did."""
    seen = [
        at_ms + passed_ms
        for look, passed_ms in ((first, between_ms(first, last)), (last, 0))
        if (info := look.reading.running.ok.get(client_id)) is not None
        if (at_ms := client_now_ms(info)) is not None
    ]
    return max(seen, default=None)
