"""SEND_MESSAGE_V2: store a message; fields have one-letter names (SendMessageProcessor)."""

from __future__ import annotations

from .r010_send_message import handle

__all__ = ["handle"]
