"""Unique keys, as producers create them (MessageClientIDSetter): the ids that messages keep over retries."""

from __future__ import annotations

import struct
from datetime import datetime, timedelta, tzinfo

_PID_AND_LOADER = struct.Struct(">HI")
# A clock that went back by at most this was set by NTP; a time further below 0 is one late in the month.
_SET_BACK_MS = 1_000_000


class UniqueKeys:
    """Creates the keys of one process: address, process id, a distinguishing number, time of the month, counter.

    `address` has 4 bytes (keys of 32 digits) or 16 bytes (56 digits). `number` replaces the hash of Java's class
    loader; it must differ between makers that share address and process id. `zone` defaults to the machine's.
    """

    def __init__(self, address: bytes, pid: int, number: int, *, zone: tzinfo | None = None) -> None:
        self._start = (address + _PID_AND_LOADER.pack(pid & 0xFFFF, number & 0xFFFFFFFF)).hex().upper()
        self._zone = zone
        self._counter = 0
        self._month_ms, self._next_month_ms = 0, 0

    def make(self, now_ms: int) -> str:
        """Return the next key; up to 65,536 keys of one ms are unique."""
        if now_ms >= self._next_month_ms:
            self._month_ms, self._next_month_ms = month_ms(now_ms, self._zone)
        since_ms = now_ms - self._month_ms
        if -_SET_BACK_MS < since_ms < 0:
            since_ms = 0
        counter, self._counter = self._counter, (self._counter + 1) & 0xFFFF
        # From the 25th on the time is a negative number in Java, with the same bits.
        return f"{self._start}{since_ms & 0xFFFFFFFF:08X}{counter:04X}"


def month_ms(now_ms: int, zone: tzinfo | None = None) -> tuple[int, int]:
    """Return when the month of a time starts in a zone, and when the next month starts; epoch ms."""
    now = datetime.fromtimestamp(now_ms // 1000, zone).astimezone(zone)
    first = now.replace(tzinfo=None, day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return _epoch_ms(first, zone), _epoch_ms(following, zone)


def _epoch_ms(local: datetime, zone: tzinfo | None) -> int:
    # Without a zone astimezone() uses the machine's, with the offset of that day, which may differ from today's.
    aware = local.astimezone() if zone is None else local.replace(tzinfo=zone)
    return round(aware.timestamp() * 1000)
