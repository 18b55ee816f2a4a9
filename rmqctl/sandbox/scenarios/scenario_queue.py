"""The queues of a scripted consumer, and its report of them (ConsumerRunningInfo)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage


class ScenarioQueue:
    """One queue of a consumer: its position, and the messages that were pulled and not finished."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.cached: list[StoredMessage] = []
        self.pulled_at_ms = 0
        self.consumed_at_ms = 0
        self.failed_count = 0
        # The number of consumed messages whose offsets are not committed yet.
        self.done_count = 0

    def to_wire(self) -> dict[str, Any]:
        """Return it as JSON data (ProcessQueueInfo)."""
        offsets = [message.queue_offset for message in self.cached]
        return {
            "cachedMsgCount": len(offsets), "cachedMsgMaxOffset": max(offsets, default=0),
            "cachedMsgMinOffset": min(offsets, default=0), "cachedMsgSizeInMiB": 0, "commitOffset": self.position,
            "droped": False, "lastConsumeTimestamp": self.consumed_at_ms, "lastLockTimestamp": 0,
            "lastPullTimestamp": self.pulled_at_ms, "locked": True, "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0, "transactionMsgMinOffset": 0, "tryUnlockTimes": 0,
        }  # fmt: skip


def running_info(
    queues: Mapping[MessageQueue, ScenarioQueue], subscriptions: list[dict[str, Any]], properties: dict[str, str]
) -> dict[str, Any]:
    """Return a consumer's answer to GET_CONSUMER_RUNNING_INFO."""
    failed: dict[str, int] = {}
    for queue, held in queues.items():
        failed[queue.topic] = failed.get(queue.topic, 0) + held.failed_count
    statuses = {
        topic: {
            "consumeFailedMsgs": count, "consumeFailedTPS": 0.0, "consumeOKTPS": 0.0, "consumeRT": 0.0, "pullRT": 0.0,
            "pullTPS": 0.0,
        }
        for topic, count in failed.items()
    }  # fmt: skip
    return {
        "mqTable": {queue: held.to_wire() for queue, held in queues.items()},
        "properties": properties,
        "statusTable": statuses,
        "subscriptionSet": subscriptions,
    }
