"""Redelivers popped messages that were not acknowledged in time (PopReviveService).

Real brokers read the revive topic once a second and are some seconds late; here, check-points are due to the ms.
"""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.net.clock import Clock, Timer
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.record import Host
from rmqctl.rules.pop_handles import normal_topic, pop_retry_topic
from rmqctl.sandbox.groups.offsets import OffsetTable
from rmqctl.sandbox.groups.table import GroupTable
from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.settings import ServerSettings
from rmqctl.sandbox.storage.store import MessageStore, NewMessage, copy_of
from rmqctl.sandbox.topics.table import TopicTable

from .check_points import CheckPoint, CheckPoints

FIRST_POP_TIME = "1ST_POP_TIME"
ORIGIN_GROUP = "ORIGIN_GROUP"

# PopReviveService.ckRewriteIntervalsInSeconds: when to retry what could not be stored.
_AGAIN_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


class Revival:
    """The one timer of a broker's check-points. `revive_messages` returns the offsets that could not be stored."""

    def __init__(
        self, clock: Clock, now_ms: Callable[[], int], check_points: CheckPoints,
        revive_messages: Callable[[CheckPoint], list[int]],
    ) -> None:  # fmt: skip
        self._clock = clock
        self._now_ms = now_ms
        self._check_points = check_points
        self._revive_messages = revive_messages
        self._timer: Timer | None = None
        self._armed_for_ms: int | None = None
        self._is_running = False

    def start(self) -> None:
        """Start; check-points that became due while the broker was down are revived immediately."""
        self._is_running = True
        self.arm()

    def stop(self) -> None:
        """Stop reviving."""
        self._is_running = False
        self._disarm()

    def arm(self) -> None:
        """Set the timer for the check-point that is due next."""
        due_ms = self._check_points.next_due_ms()
        if not self._is_running or due_ms is None or (self._timer is not None and due_ms == self._armed_for_ms):
            return
        self._disarm()
        self._armed_for_ms = due_ms
        wait_s = max(0, due_ms - self._now_ms()) / 1000
        self._timer = self._clock.call_later(wait_s, self._run)

    def rearm(self) -> None:
        """Set the timer again, because the broker's clock was changed."""
        self._disarm()
        self.arm()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _run(self) -> None:
        self._timer = None
        while (point := self._check_points.take_due(self._now_ms())) is not None:
            self._revive(point)
        self.arm()

    def _revive(self, point: CheckPoint) -> None:
        failed = self._revive_messages(point)
        again_s = _AGAIN_S[min(point.failed_count, len(_AGAIN_S) - 1)]
        point.left, point.failed_count = failed, point.failed_count + 1
        point.due_ms = self._now_ms() + again_s * 1000
        try:
            if failed:
                self._check_points.put(point)
            else:
                self._check_points.remove(point.key)
        except RefusalError:
            self._check_points.keep(point)  # the disk is full now


def revive(
    point: CheckPoint, *, store: MessageStore, topics: TopicTable, groups: GroupTable, offsets: OffsetTable,
    settings: ServerSettings, put: Callable[[NewMessage], object], store_host: Host,
) -> list[int]:  # fmt: skip
    """Store the messages of a check-point in the pop retry topic; return the offsets of those that were refused."""
    if topics.find(normal_topic(point.group, point.topic)) is None or groups.find(point.group) is None:
        return []
    retry = point.topic
    if not retry.startswith(RETRY_PREFIX):
        retry = pop_retry_topic(point.group, retry, is_v2=settings.flag("enableRetryTopicV2"))
    refused = []
    for queue_offset in point.left:
        message = store.message_at(point.topic, point.queue_id, queue_offset)
        # A message that is newer than its pop belongs to a topic that was recreated meanwhile.
        if message is None or point.pop_time_ms < message.stored_at_ms:
            continue
        try:
            copy = revived(message, retry, point, store_host)
            copy.queue_id = _retry_queue(point, retry, topics, offsets, settings)
            put(copy)
        except RefusalError:
            refused.append(queue_offset)
    return refused


def _retry_queue(
    point: CheckPoint, retry: str, topics: TopicTable, offsets: OffsetTable, settings: ServerSettings
) -> int:
    """Return the queue of the retry topic for a check-point's messages; create what is missing.

    With useSeparateRetryQueue, the retry topic has a queue for each of the topic's queues (addRetryTopicIfNotExist).
    """
    if not settings.flag("useSeparateRetryQueue"):
        topics.create_for_group(retry, 1)
        count = 1
    else:
        count = topics.topics[normal_topic(point.group, point.topic)].write_queue_count
        if topics.create_for_group(retry, count).write_queue_count != count:
            topics.change(retry, read_queue_count=count, write_queue_count=count)
    for queue_id in range(count):
        if offsets.find(point.group, retry, queue_id) is None:
            offsets.store(point.group, retry, queue_id, 0)
    return point.queue_id if point.queue_id < count and count > 1 else 0


def revived(message: StoredMessage, topic: str, point: CheckPoint, store_host: Host) -> NewMessage:
    """Return the copy of a message for the retry topic; its born host is the broker."""
    properties = message.properties
    if message.reconsume_times == 0 or FIRST_POP_TIME not in properties:
        properties[FIRST_POP_TIME] = str(point.pop_time_ms)
    properties[ORIGIN_GROUP] = point.group
    copy = copy_of(message, properties)
    copy.topic, copy.queue_id, copy.born_host = topic, 0, store_host
    copy.reconsume_times += 1
    return copy
