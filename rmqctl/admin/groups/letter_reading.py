"""Read a group's dead letters, oldest first, and collect those that cannot be read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.admin.messages.pull import FoundMessage
from rmqctl.admin.messages.search import MessageSearch
from rmqctl.admin.messages.spans import QueueSpan, fetch_spans
from rmqctl.admin.results import all_failed
from rmqctl.admin.topics.queues import fetch_route, opening_hint
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import slave_failures
from rmqctl.errors import NotFoundError, RefusedError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.names import dead_letter_topic
from rmqctl.protocol.message import StoredMessage
from rmqctl.text.words import counted, listed

from .names import require_group

# Unreadable places are listed individually up to this number.
_MOST_NAMED = 100


class Letters(Struct, frozen=True):
    """Where a group's dead letters are, at the time of the look-up, and the failures."""

    group: str
    spans: tuple[QueueSpan, ...]
    failures: tuple[Failure, ...]

    @property
    def topic(self) -> str:
        """The dead-letter topic."""
        return dead_letter_topic(self.group)


async def find_letters(
    client: Client, group: str, *, since_ms: int | None = None, until_ms: int | None = None
) -> Letters:
    """Return where a group's dead letters are; no spans for a group that never had any.

    Raises NotFoundError for a group that does not exist, RefusedError when no broker allows its topic to be read, and
    the brokers' error when none of them answers.
    """
    topic = dead_letter_topic(group)
    try:
        route = await fetch_route(client, topic)
    except NotFoundError:
        brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
        await require_group(client, group, brokers, {})
        return Letters(group, (), ())
    closed = route.closed_brokers
    queues = (*route.readable_queues(), *route.missing_queues())
    refusal = RefusedError(
        f"The dead-letter topic of {group} is write-only on {listed(closed)}, as brokers before 4.9.2 create it.",
        hint=opening_hint(route),
    )
    if not queues:
        raise refusal
    spans, failures = await fetch_spans(client, route, queues, since_ms=since_ms, until_ms=until_ms)
    if not spans:
        raise all_failed(failure.error for failure in failures)
    failures += [Failure(name, "dead letters", refusal) for name in closed]
    return Letters(group, tuple(spans), tuple(failures))


class Letter(Struct, frozen=True, gc=False):
    """One readable dead letter. `body` is as the producer sent it."""

    found: FoundMessage
    message: StoredMessage
    properties: dict[str, str]
    body: bytes


class LetterReading:
    """Reads dead letters that were looked up. `failures` and `unreadable_count` are complete after run().

    `on_progress` is called with the number of offsets read and the total number.
    """

    def __init__(
        self, client: Client, letters: Letters, wanted: MessageFilter, *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:  # fmt: skip
        self._client = client
        self._letters = letters
        self._search = MessageSearch(client, letters.spans, wanted, on_progress=on_progress)
        self.unreadable_count = 0
        self._named: list[Failure] = []

    @property
    def read_count(self) -> int:
        """The number of offsets that have been read or skipped."""
        return self._search.read_count

    @property
    def failures(self) -> list[Failure]:
        """The failures, one per place; of many places only the first ones, and the number of others."""
        gone = [
            Failure(mq.broker_name, f"{_stretch(first, end)} of {mq}", _deleted(end - first))
            for mq, first, end in self._search.gaps
        ]
        places = [*gone, *self._named]
        more = len(gone) + self.unreadable_count - _MOST_NAMED
        if more > 0:
            error = RmqctlError(f"{counted(more, 'more place')} cannot be read.")
            places = [*places[:_MOST_NAMED], Failure(None, f"dead letters of {self._letters.group}", error)]
        return [*self._letters.failures, *self._search.failures, *places, *slave_failures(self._client)]

    async def run(self) -> AsyncGenerator[list[Letter]]:
        """Yield the readable dead letters in batches. Raises the brokers' error when no queue can be read at all."""
        if not self._letters.spans:
            return
        async with aclosing(self._search.run()) as batches:
            async for found in batches:
                readable = [letter for each in found if (letter := self._read(each)) is not None]
                if readable:
                    yield readable

    def _read(self, found: FoundMessage) -> Letter | None:
        error = found.error
        if found.message is not None:
            try:
                return Letter(found, found.message, found.message.properties, found.message.body)
            except RmqctlError as broken:
                error = broken
        self.unreadable_count += 1
        if len(self._named) < _MOST_NAMED:
            what = f"offset {found.queue_offset} of {found.mq}"
            self._named.append(Failure(found.mq.broker_name, what, error or RmqctlError("The message cannot be read.")))
        return None


def _stretch(first: int, end: int) -> str:
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"


def _deleted(count: int) -> RmqctlError:
    return RmqctlError(
        f"The broker deleted {counted(count, 'message')} while {'it was' if count == 1 else 'they were'} read."
    )
