"""SEND_REPLY_MESSAGE_V2: hand on a reply; fields have one-letter names (ReplyMessageProcessor)."""

from __future__ import annotations

from .r324_send_reply_message import handle

__all__ = ["handle"]
