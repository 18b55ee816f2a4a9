"""How jobs and the data source ask the cluster: one question, with a client of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from rmqctl.changes.journal.cluster_memory import memory_of_environment_ms, note_sightings, read_expectation
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.model.cluster_memory import Expectation
from rmqctl.net.clock import SystemClock

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


def ask_cluster(
    access: Access, question: Callable[[Client], Awaitable[T]], *, open_ended: bool = False, remembers: bool = False
) -> T:
    """Return the answer to a question; when `open_ended`, the timeout limits its requests, and not all together.

    With `remembers`, the client expects the brokers and queues that rmqctl has seen on this machine, and what it sees
    is remembered: otherwise those of a broker that is not registered now would not exist. Commands of the CLI find
    missing brokers themselves.
    """
    counts_ms = memory_of_environment_ms() if remembers else 0

    def expect(name_servers: Sequence[str]) -> Expectation:
        expectation, problems = read_expectation(name_servers, SystemClock().now_ms(), counts_ms)
        _warn(problems)
        return expectation

    async def ask() -> T:
        async with await access.connect(open_ended=open_ended, expect=expect if counts_ms else None) as client:
            try:
                return await question(client)
            finally:
                if counts_ms:
                    _warn(note_sightings(client.name_servers, client.sightings, client.clock.now_ms()))

    return asyncio.run(ask())


_warned: set[str] = set()


def _warn(problems: Sequence[str]) -> None:
    """Log the problems with the files of the cluster memory, each once."""
    for problem in problems:
        if problem not in _warned:
            _warned.add(problem)
            _LOG.warning("%s", problem)
