"""What brokers still retain of topics, and since when they retain all messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.messages.spans import QueueSpan, fetch_spans
from rmqctl.admin.messages.time_search import fetch_message_at
from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.queues import chosen_queues, fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError
from rmqctl.model.failure import Failure

# Topics whose queues are requested at the same time; the client limits the requests.
_TOPICS_AT_ONCE = 64


class RetainedOffsets(Struct, frozen=True):
    """The current offsets of topics' queues; topics that could not be read completely are in `failures` only."""

    spans: Mapping[str, Sequence[QueueSpan]]
    failures: Mapping[str, Failure]

    def filled_topics(self) -> tuple[str, ...]:
        """Return the topics that have a message."""
        return tuple(topic for topic, spans in self.spans.items() if any(_is_filled(span) for span in spans))


async def fetch_retained(client: Client, topics: Iterable[str]) -> RetainedOffsets:
    """Fetch the first and last offsets of topics' queues concurrently; topics deleted meanwhile are left out."""

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
    return RetainedOffsets(spans, failures)


async def fetch_held_since(client: Client, spans: Iterable[QueueSpan], now_ms: int) -> int:
    """Return since when brokers retain every message of the queues, in epoch ms; 0 when nothing was deleted.

    A broker deletes its log from the oldest message on, for all queues together. It retains all messages since the
    oldest one that is left in any of the queues. A broker that has deleted messages and has none left counts as
    retaining nothing. Raises the errors of Client.ask().
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
