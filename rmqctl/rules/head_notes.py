"""The notes by which rmqctl's consumer reports how long its listener has had the first message of a queue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rmqctl.model.queue import MessageQueue


class Head(NamedTuple):
    """The first message of a queue in flight, and how long a listener has had it."""

    queue_offset: int
    for_ms: int


def note_of_head(mq: MessageQueue, head: Head) -> tuple[str, str]:
    """Return the note (userConsumerInfo) by which rmqctl's consumer reports how long its listener has had a head."""
    return f"{_HEAD_NOTE}{mq}", f"offset {head.queue_offset} for {head.for_ms} ms"


def head_for_ms(notes: Mapping[str, str], mq: MessageQueue, head_offset: int | None) -> int | None:
    """Return how long a client's listener has had a queue's head, None when the client does not report it."""
    note = re.fullmatch(r"offset (\d+) for (\d{1,18}) ms", notes.get(f"{_HEAD_NOTE}{mq}", ""), re.ASCII)
    return int(note[2]) if note is not None and note[1] == str(head_offset) else None


_HEAD_NOTE = "inConsumption "
