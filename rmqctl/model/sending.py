"""Messages to be sent, and what brokers say of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from .queue import MessageQueue


class SendStatus(StrEnum):
    """How well a message is stored (SendStatus). Only SEND_OK is all that the broker was set up to do.

    FLUSH_DISK_TIMEOUT: in the master's memory, not yet on its disk. FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE: at the
    master, and not known to be at a slave. Consumers get it all the same.
    """

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class OutgoingMessage(Struct, frozen=True):
    """A message without a place: `properties` are all of them, the system's too; `flag` is the application's own."""

    body: bytes
    properties: Mapping[str, str]
    flag: int = 0


class SendResult(Struct, frozen=True):
    """Where one message is stored (SendResult).

    `unique_key` is the id that consumers see; `offset_id` the broker's, None where it told only one for a whole batch.
    `queue_offset` is that of the topic of waiting messages for one that is to come later. `recall_handle` takes such a
    message back (5.3.2 and newer). `is_traced`: the broker wants producers to trace what they send.
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
