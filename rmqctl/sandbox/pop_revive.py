"""Redelivers popped messages that were not acknowledged in time (PopReviveService).

Real brokers read the revive topic once a second and are some seconds late; here, check-points are due to the ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.net.clock import Timer
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.pop_handles import normal_topic, pop_retry_topic

from .pop_checkpoints import CheckPoint, CheckPoints
from .request import RefusalError
from .store import NewMessage

if TYPE_CHECKING:
    from .broker import Broker

FIRST_POP_TIME = "1ST_POP_TIME"
ORIGIN_GROUP = "ORIGIN_GROUP"

# PopReviveService.ckRewriteIntervalsInSeconds: when to retry what could not be stored.
_AGAIN_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


class Revival:
    """The one timer of a broker's check-points."""

    def __init__(self, broker: Broker, check_points: CheckPoints) -> None:
        self._broker = broker
        self._check_points = check_points
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
        wait_s = max(0, due_ms - self._broker.now_ms()) / 1000
        self._timer = self._broker.clock.call_later(wait_s, self._run)

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
        while (point := self._check_points.take_due(self._broker.now_ms())) is not None:
            self._revive(point)
        self.arm()

    def _revive(self, point: CheckPoint) -> None:
        broker = self._broker
        topic_exists = broker.topics.find(normal_topic(point.group, point.topic)) is not None
        failed = []
        if topic_exists and broker.groups.find(point.group) is not None:
            failed = [offset for offset in point.left if not self._put_back(point, offset)]
        again_s = _AGAIN_S[min(point.failed_count, len(_AGAIN_S) - 1)]
        point.left, point.failed_count = failed, point.failed_count + 1
        point.due_ms = broker.now_ms() + again_s * 1000
        try:
            if failed:
                self._check_points.put(point)
            else:
                self._check_points.remove(point.key)
        except RefusalError:
            self._check_points.keep(point)  # the disk is full now

    def _put_back(self, point: CheckPoint, queue_offset: int) -> bool:
        """Store a message in the pop retry topic; return whether it is finished."""
        broker = self._broker
        message = broker.store.message_at(point.topic, point.queue_id, queue_offset)
        # A message that is newer than its pop belongs to a topic that was recreated meanwhile.
        if message is None or point.pop_time_ms < message.stored_at_ms:
            return True
        topic = point.topic
        if not topic.startswith(RETRY_PREFIX):
            topic = pop_retry_topic(point.group, topic, is_v2=broker.settings.flag("enableRetryTopicV2"))
        try:
            broker.topics.create_for_group(topic, 1)
            if broker.offsets.find(point.group, topic, 0) is None:
                broker.offsets.store(point.group, topic, 0, 0)
            broker.put(revived(message, topic, point, broker.store_host))
        except RefusalError:
            return False
        return True


def revived(message: StoredMessage, topic: str, point: CheckPoint, store_host: tuple[bytes, int]) -> NewMessage:
    """Return the copy of a message for the retry topic; its born host is the broker."""
    properties = message.properties
    if message.reconsume_times == 0 or FIRST_POP_TIME not in properties:
        properties[FIRST_POP_TIME] = str(point.pop_time_ms)
    properties[ORIGIN_GROUP] = point.group
    return NewMessage(
        topic=topic, queue_id=0, body=message.stored_body, properties=properties, flag=message.flag,
        sys_flag=message.sys_flag, born_at_ms=message.born_at_ms, born_host=store_host,
        reconsume_times=message.reconsume_times + 1,
    )  # fmt: skip
