"""Messages to be sent, and how brokers stored them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from .queue import MessageQueue


class SendStatus(StrEnum):
    """How safely a message is stored (SendStatus). Only SEND_OK meets the broker's configuration.

    FLUSH_DISK_TIMEOUT: in the master's memory, not yet on its disk. FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE: at the
    master, and not known to be at a slave. Consumers receive the message in any case.
    """

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class OutgoingMessage(Struct, frozen=True):
    """A message that is not stored yet. `properties` include the system's; `flag` is the application's own."""

    body: bytes
    properties: Mapping[str, str]
    flag: int = 0


class SendResult(Struct, frozen=True):
    """Where one message is stored (SendResult).

    `unique_key` is the id that consumers see; `offset_id` is the broker's, None if it returned one for a whole batch.
    For a delayed message, `queue_offset` is that in the topic of waiting messages, and `recall_handle` recalls it
    (5.3.2 and newer). `is_traced`: the broker requests that producers trace what they send.
    """

    mq: MessageQueue
    status: SendStatus
    queue_offset: int
    unique_key: str
    offset_id: str | None
    region_id: str | None = None
    is_traced: bool = True
    transaction_id: str | None = None
    recall_handle: str | None = None
