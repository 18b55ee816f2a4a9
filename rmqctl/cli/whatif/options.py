"""The options of `whatif allocate` for queues and strategies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rmqctl.errors import UsageError
from rmqctl.whatif.changes import QueueChange, parse_queue_change

# The strategies that need no options.
_ALL = ("averagely", "circle", "consistent-hash", "sticky", "lag-weighted")


def queue_words(words: Iterable[str]) -> tuple[int | None, QueueChange | None]:
    """Return the number of queues per broker, and the change of that number. Raises UsageError."""
    size: int | None = None
    change: QueueChange | None = None
    for word in words:
        text = word.strip()
        if text.isascii() and text.isdigit():
            if size is not None:
                raise UsageError("--queues gives the number of queues twice.")
            size = int(text.lstrip("0")[:10] or "0")
        else:
            if change is not None:
                raise UsageError("--queues changes the number of queues twice.")
            change = parse_queue_change(text)
    return size, change


def strategy_words(named: Sequence[str], compared: str | None) -> tuple[str, ...]:
    """Return the strategies to try, none for the group's own. Raises UsageError."""
    words = [*named]
    if compared is not None:
        parts = [part.strip() for part in compared.split(",") if part.strip()]
        if not parts:
            raise UsageError("--compare names no strategy.", hint="Use for example --compare averagely,circle, or all.")
        words += [word for part in parts for word in (_ALL if part == "all" else [part])]
    return tuple(dict.fromkeys(words))


def given_options(
    *, virtual_nodes: int | None, rooms: Sequence[str], site_of: str | None, inner: str | None, share_count: int | None
) -> dict[str, Any]:
    """Return the given options of strategies, by their names in a spec."""
    given = {
        "virtual_nodes": virtual_nodes, "rooms": tuple(rooms) or None, "site_of": site_of, "inner": inner,
        "share_count": share_count,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}
