"""LITE_PULL_MESSAGE: messages of one queue, now or when some arrive (PullMessageProcessor, lite pull consumers)."""

from __future__ import annotations

from .r011_pull_message import handle

SINCE_5 = True
__all__ = ["handle"]
