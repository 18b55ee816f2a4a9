"""The messages that changes made from this machine skipped: the group's offset was moved past them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import Result

from .file import JournalFile
from .rows import has_broker


class Skip(Struct, frozen=True):
    """A group's offset of a queue that a change moved forward, or may have moved, from `from_offset` to `to_offset`.

    `ended_ms` is when the change ended; of an interrupted one, when it last attempted anything.
    """

    group: str
    mq: MessageQueue
    from_offset: int
    to_offset: int
    ended_ms: int


def journal_skips(brokers: Mapping[str, str], topics: Collection[str], *, path: Path | None = None) -> list[Skip]:
    """Return what changes skipped in topics; the oldest change first. Raises the errors of Journal's methods.

    `brokers` are addresses by name. `path` is the journal, if it is not the user's.
    """
    query = (
        "SELECT changes.brokers, changes.group_name, items.*, "
        "coalesce(changes.ended_at_ms, changes.attempted_at_ms, changes.started_at_ms) AS ended_ms FROM items "
        "JOIN changes ON changes.number = items.change "
        "WHERE items.topic IS NOT NULL AND items.target > coalesce(items.before, 0) AND items.result NOT IN (?, ?) "
        "ORDER BY items.change, items.number"
    )
    with closing(JournalFile(path)) as file, file.transaction() as connection:
        return [
            Skip(
                row["group_name"],
                MessageQueue(row["topic"], row["broker_name"], row["queue_id"]),
                row["before"] or 0,
                row["target"],
                row["ended_ms"],
            )
            for row in connection.execute(query, (Result.NOT_ATTEMPTED.value, Result.UNCHANGED.value))
            if row["topic"] in topics and has_broker(row, brokers)
        ]
