"""What clients recorded about a message on its way (TraceBean, TraceContext). Times are by the clients' clocks."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class TraceEvent(StrEnum):
    """What happened."""

    PUBLISHED = "PUBLISHED"
    TRANSACTION_ENDED = "TRANSACTION_ENDED"
    RECALLED = "RECALLED"
    DELIVERED = "DELIVERED"


class DeliveryStart(Struct, frozen=True):
    """A message was delivered to a listener (SubBefore). `request_id` names the call."""

    at_ms: int
    group: str
    request_id: str
    msg_id: str
    retry_times: int
    keys: str | None
    client_host: str


class DeliveryEnd(Struct, frozen=True):
    """A listener returned (SubAfter). Some clients leave out the time and the group."""

    request_id: str
    msg_id: str
    cost_ms: int
    is_success: bool
    keys: str | None
    result: str | None
    at_ms: int | None
    group: str | None
    client_host: str


class TraceStep(Struct, frozen=True):
    """One event of a message. None: this kind of event does not record the value, or the record is missing.

    `result` of a delivery is the listener's (ConsumeReturnType); None means that it is still running, or that the
    record of its end does not exist (yet).
    """

    event: TraceEvent
    msg_id: str
    group: str | None
    at_ms: int | None
    client_host: str
    topic: str | None = None
    keys: str | None = None
    tags: str | None = None
    cost_ms: int | None = None
    result: str | None = None
    retry_times: int | None = None
    request_id: str | None = None
    store_host: str | None = None
    offset_msg_id: str | None = None
    message_type: str | None = None
    transaction_id: str | None = None


TraceRecord = DeliveryStart | DeliveryEnd | TraceStep
