"""Where a broker keeps its tables: topics, groups, offsets, delays and whatever else must survive a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

Undo = dict[tuple[str, str], bytes | None]


class StateStore:
    """Tables of texts to JSON values, written through at each change. This one forgets them with the process.

    Values are kept as they were when they were put: changing one afterwards changes nothing here.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, bytes]] = {}
        # What each entry was at the last flush, None for one that was not there.
        self._undo: Undo = {}
        # Gives what flushes the messages that the tables tell of. It comes before each flush of the tables: a power cut
        # must not leave a note that a message was delivered or read, and take the message.
        self.make_flush_before: Callable[[], Callable[[], None]] = lambda: lambda: None

    def load(self, table: str) -> dict[str, Any]:
        """Return a table as it was last written."""
        return {key: decode(value) for key, value in self.tables.get(table, {}).items()}

    def put(self, table: str, key: str, value: Any) -> None:
        """Write one entry. Raises RefusalError when that is not possible, and nothing has changed then."""
        data = encode(value)
        entries = self.tables.setdefault(table, {})
        before = entries.get(key)
        if before != data:
            self._write(table, key, data)
            self._undo.setdefault((table, key), before)
            entries[key] = data

    def delete(self, table: str, key: str) -> None:
        """Remove one entry; does nothing when there is none. Raises as put() does."""
        before = self.tables.get(table, {}).get(key)
        if before is not None:
            self._write(table, key, None)
            self._undo.setdefault((table, key), before)
            del self.tables[table][key]

    def _write(self, table: str, key: str, value: bytes | None) -> None:
        """Write a change to where it survives the process; None removes."""

    def flush(self) -> None:
        """Make everything so far survive a power cut, first the messages."""
        self.make_flush_before()()
        self._undo.clear()

    def flush_behind(self) -> None:
        """Do the same beside the event loop where it takes time."""
        self.flush()

    def lose_unflushed(self) -> None:
        """Go back to what a power cut would have left."""
        for (table, key), before in self._undo.items():
            if before is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = before
        self._undo.clear()

    def close(self) -> None:
        """Let go of what is held open."""
