"""What brokers still hold of topics, and since when they hold everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.queues import QueueSpan, chosen_queues, fetch_route, fetch_spans
from rmqctl.admin.results import ask_all
from rmqctl.admin.time_search import fetch_message_at
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError
from rmqctl.model.failure import Failure

# Topics whose queues are asked about at the same time; the client bounds the requests.
_TOPICS_AT_ONCE = 64


class Retained(Struct, frozen=True):
    """The queues of topics as they stand now; topics of which some part could not be read are in `failures` only."""

    spans: Mapping[str, Sequence[QueueSpan]]
    failures: Mapping[str, Failure]

    def filled_topics(self) -> tuple[str, ...]:
        """Return the topics that hold a message."""
        return tuple(topic for topic, spans in self.spans.items() if any(_is_filled(span) for span in spans))


async def fetch_retained(client: Client, topics: Iterable[str]) -> Retained:
    """Ask where the queues of topics begin and end, of many at once; those that are gone meanwhile are left out."""

    async def ask(topic: str) -> tuple[list[QueueSpan], list[Failure]]:
        route = await fetch_route(client, topic)
        return await fetch_spans(client, route, chosen_queues(route, ()))

    answers = await ask_all(topics, ask, at_once=_TOPICS_AT_ONCE)
    failures = {
        topic: Failure(None, f"messages of {topic}", error)
        for topic, error in answers.failed.items()
        if not isinstance(error, NotFoundError)
    }
    failures |= {topic: failed[0] for topic, (_, failed) in answers.ok.items() if failed}
    spans = {topic: found for topic, (found, failed) in answers.ok.items() if not failed}
    return Retained(spans, failures)


async def fetch_held_since(client: Client, spans: Iterable[QueueSpan], now_ms: int) -> int:
    """Return since when the brokers of queues hold every message of them, in epoch ms; 0 where nothing is deleted.

    A broker deletes its log from the old end on, for all queues at once: since the oldest message that it holds in any
    of the queues, it holds all. One that has deleted and holds none is taken to hold nothing. Raises what
    Client.ask() raises.
    """
    of_broker: dict[str, list[QueueSpan]] = {}
    for span in spans:
        of_broker.setdefault(span.mq.broker_name, []).append(span)
    held_since_ms = 0
    for queues in of_broker.values():
        if any(span.min_offset > 0 for span in queues):
            held_since_ms = max(held_since_ms, await _oldest_ms(client, queues, now_ms))
    return held_since_ms


async def _oldest_ms(client: Client, queues: Sequence[QueueSpan], now_ms: int) -> int:
    async def ask(index: int) -> int:
        span = queues[index]
        message = await fetch_message_at(client, span.address, span.mq, span.min_offset)
        return now_ms if message is None else message.stored_at_ms

    answers = await ask_all((at for at, span in enumerate(queues) if _is_filled(span)), ask)
    for error in answers.failed.values():
        raise error
    return min(answers.ok.values(), default=now_ms)


def _is_filled(span: QueueSpan) -> bool:
    return span.max_offset > span.min_offset
