"""Ids for messages that arrive without one (MessageClientIDSetter.createUniqID)."""

from __future__ import annotations

import itertools
import struct
from datetime import UTC, datetime

from rmqctl.protocol.record import Host

_TAIL = struct.Struct(">HiIH")
_counter = itertools.count()


def new_unique_key(host: Host, now_ms: int) -> str:
    """Return a unique id of address, port (in place of the process), time within the month, and a counter."""
    address, port = host
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    month_ms = round(now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000)
    # From the 25th on the time is a negative number in Java: the same bits.
    return (address + _TAIL.pack(port, 0, now_ms - month_ms, next(_counter) & 0xFFFF)).hex().upper()
