"""Where a group's failed messages can be sent back, according to brokers and routes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class RetryHindrance(StrEnum):
    """Why a broker does not store a message that is sent back, or acknowledges and loses it (NO_RETRY_QUEUES)."""

    NO_MASTER = "NO_MASTER"
    GROUP_UNKNOWN = "GROUP_UNKNOWN"
    BROKER_NOT_WRITABLE = "BROKER_NOT_WRITABLE"
    NO_RETRY_QUEUES = "NO_RETRY_QUEUES"
    RETRY_TOPIC_NOT_WRITABLE = "RETRY_TOPIC_NOT_WRITABLE"


HINDRANCES: Mapping[RetryHindrance, str] = {
    RetryHindrance.NO_MASTER: "has no master",
    RetryHindrance.GROUP_UNKNOWN: "does not know the group",
    RetryHindrance.BROKER_NOT_WRITABLE: "is not writable (brokerPermission)",
    RetryHindrance.NO_RETRY_QUEUES: "has no retry queue for the group (retryQueueNums=0): it loses messages sent back",
    RetryHindrance.RETRY_TOPIC_NOT_WRITABLE: "has the group's retry topic without write permission",
}


class RetryPlace(Struct, frozen=True, kw_only=True):
    """One broker, as a place for a group's failed messages; None means unknown.

    `makes_groups`: it creates the configuration of an unknown group (autoCreateSubscriptionGroup). It creates a missing
    retry topic on demand; `is_topic_writable` has no value until then.
    """

    has_master: bool = True
    is_writable: bool | None = None
    is_group_known: bool | None = None
    makes_groups: bool | None = None
    retry_queue_count: int | None = None
    is_topic_writable: bool | None = None

    @property
    def hindrance(self) -> RetryHindrance | None:
        """Why CONSUMER_SEND_MSG_BACK fails there, in the order of SendMessageProcessor.consumerSendMsgBack."""
        if not self.has_master:
            return RetryHindrance.NO_MASTER
        if self.is_group_known is False and self.makes_groups is False:
            return RetryHindrance.GROUP_UNKNOWN
        if self.is_writable is False:
            return RetryHindrance.BROKER_NOT_WRITABLE
        if self.retry_queue_count is not None and self.retry_queue_count <= 0:
            return RetryHindrance.NO_RETRY_QUEUES
        return RetryHindrance.RETRY_TOPIC_NOT_WRITABLE if self.is_topic_writable is False else None


def blocks_retries(places: Mapping[str, RetryPlace], broker_name: str) -> RetryHindrance | None:
    """Return why a client cannot send back a failed message that it read from a broker; None where it can, or may.

    If the broker refuses it, the client sends a new message to the retry topic at any broker that is writable according
    to the route. A message that a broker acknowledges and loses does not block.
    """
    place = places.get(broker_name)
    hindrance = None if place is None else place.hindrance
    if hindrance is None or hindrance is RetryHindrance.NO_RETRY_QUEUES:
        return None
    can_elsewhere = any(
        other.has_master and other.is_topic_writable and other.is_writable is not False for other in places.values()
    )
    return None if can_elsewhere else hindrance
