"""Where a broker keeps its tables: topics, groups, offsets, delays and all else that must survive a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

Undo = dict[tuple[str, str], bytes | None]


class StateStore:
    """Tables of JSON values by text keys, written through at each change. This class keeps them in memory only.

    Values are kept as they were at `put()`: later changes of the object have no effect.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, bytes]] = {}
        # The value of each changed entry at the last flush, None when it did not exist.
        self._undo: Undo = {}
        # Returns the function that flushes the messages. It runs before each flush of the tables: a power cut must not
        # keep the note that a message was delivered or read, and lose the message.
        self.make_flush_before: Callable[[], Callable[[], None]] = lambda: lambda: None

    def load(self, table: str) -> dict[str, Any]:
        """Return a table's entries by key."""
        return {key: decode(value) for key, value in self.tables.get(table, {}).items()}

    def put(self, table: str, key: str, value: Any) -> None:
        """Write one entry. Raises RefusalError, without any change, when that is not possible."""
        data = encode(value)
        entries = self.tables.setdefault(table, {})
        before = entries.get(key)
        if before != data:
            self._write(table, key, data)
            self._undo.setdefault((table, key), before)
            entries[key] = data

    def delete(self, table: str, key: str) -> None:
        """Remove one entry; a missing one is ignored. Raises as put() does."""
        before = self.tables.get(table, {}).get(key)
        if before is not None:
            self._write(table, key, None)
            self._undo.setdefault((table, key), before)
            del self.tables[table][key]

    def _write(self, table: str, key: str, value: bytes | None) -> None:
        """Write a change to storage that survives the process; None removes the entry."""

    def flush(self) -> None:
        """Make all changes survive a power cut, the messages first."""
        self.make_flush_before()()
        self._undo.clear()

    def flush_behind(self) -> None:
        """Do the same in the background where it is slow."""
        self.flush()

    def lose_unflushed(self) -> None:
        """Restore the state that a power cut would have left."""
        for (table, key), before in self._undo.items():
            if before is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = before
        self._undo.clear()

    def close(self) -> None:
        """Close open files."""
