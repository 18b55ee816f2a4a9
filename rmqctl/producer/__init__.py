"""The producer: sends messages in Python, as RocketMQ's own producer does.

from rmqctl.producer import Producer

async with Producer("127.0.0.1:9876") as producer:
    await producer.send("orders", b"...", keys=["42"], tag="created")
    await producer.send("orders", b"...", sharding_key="customer-7")
    await producer.send("orders", b"...", delay_ms=60_000)
"""

from __future__ import annotations

from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage, SendResult, SendStatus

from .message import MessageOptions, make_message
from .producer import Producer

__all__ = [
    "MessageOptions",
    "MessageQueue",
    "OutgoingMessage",
    "Producer",
    "SendResult",
    "SendStatus",
    "make_message",
]
