"""Unique keys, as producers make them (MessageClientIDSetter): the ids that messages keep over retries."""

from __future__ import annotations

import struct
from datetime import datetime, timedelta, tzinfo

_PID_AND_LOADER = struct.Struct(">HI")
# A clock that goes back by no more than this was set by NTP; what is further below 0 is a time late in the month.
_SET_BACK_MS = 1_000_000


class UniqueKeys:
    """Makes the keys of one process: address, process, a number of its own, time of the month, counter.

    `address` has 4 bytes (32 digits) or 16 (56 digits). `number` stands in the place of the hash of Java's class
    loader: whoever shares address and process id with another needs another one. `zone` is the machine's unless given.
    """

    def __init__(self, address: bytes, pid: int, number: int, *, zone: tzinfo | None = None) -> None:
        self._start = (address + _PID_AND_LOADER.pack(pid & 0xFFFF, number & 0xFFFFFFFF)).hex().upper()
        self._zone = zone
        self._counter = 0
        self._month_ms, self._next_month_ms = 0, 0

    def make(self, now_ms: int) -> str:
        """Return the next key. 65,536 of one ms differ."""
        if now_ms >= self._next_month_ms:
            self._month_ms, self._next_month_ms = month_ms(now_ms, self._zone)
        since_ms = now_ms - self._month_ms
        if -_SET_BACK_MS < since_ms < 0:
            since_ms = 0
        counter, self._counter = self._counter, (self._counter + 1) & 0xFFFF
        # From the 25th on the time is a negative number in Java: the same bits.
        return f"{self._start}{since_ms & 0xFFFFFFFF:08X}{counter:04X}"


def month_ms(now_ms: int, zone: tzinfo | None = None) -> tuple[int, int]:
    """Return when the month of a time begins in a zone, and when the next one does."""
    now = datetime.fromtimestamp(now_ms // 1000, zone).astimezone(zone)
    first = now.replace(tzinfo=None, day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return _epoch_ms(first, zone), _epoch_ms(following, zone)


def _epoch_ms(local: datetime, zone: tzinfo | None) -> int:
    # Without a zone astimezone() takes the machine's, with the offset of that day: it may be another one than today's.
    aware = local.astimezone() if zone is None else local.replace(tzinfo=zone)
    return round(aware.timestamp() * 1000)
