"""SEND_BATCH_MESSAGE: store messages of one queue; a field marks a real batch (SendMessageProcessor)."""

from __future__ import annotations

from .r010_send_message import handle

__all__ = ["handle"]
