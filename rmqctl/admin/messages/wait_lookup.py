"""Find messages that are not in their topic yet: delayed ones, and failed ones between two attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import settings_once
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import NotAuthorisedError, RemoteProtocolError
from rmqctl.model.names import DELAY_TOPIC, TIMER_TOPIC
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.rules.message_wait import REAL_TOPIC, parse_delay_levels, read_wait, recalled_key

from .filter import MessageFilter
from .index import IndexedMessages, find_indexed
from .pull import FoundMessage

_WAITING_TOPICS = (DELAY_TOPIC, TIMER_TOPIC)


async def find_indexed_or_waiting(
    client: Client, route: TopicRoute, wanted: MessageFilter, *, limit: int | None
) -> IndexedMessages:
    """Return the result of find_indexed(); without a match, the newest messages that wait to be stored in the topic.

    Those have a `wait`. Brokers that did not answer the first request are not asked again.
    """
    indexed = await find_indexed(client, route, wanted, limit=limit)
    silent = {failure.broker_name for failure in indexed.failures}
    brokers = {broker.broker_name: broker for broker in route.brokers if broker.broker_name not in silent}
    if indexed.found or not brokers or route.topic in _WAITING_TOPICS:
        return indexed
    for_topic = replace(wanted, properties=(*wanted.properties, (REAL_TOPIC, route.topic)))
    pages = await asyncio.gather(
        *(
            find_indexed(client, replace(route, topic=topic, brokers=tuple(brokers.values())), for_topic, limit=limit)
            for topic in _WAITING_TOPICS
        )
    )
    waiting = _latest(each for page in pages for each in page.found)
    delays = await _fetch_delays(
        client, brokers, {each.mq.broker_name for each in waiting if each.mq.topic == DELAY_TOPIC}
    )
    failures = {failure.broker_name: failure for page in pages for failure in page.failures}
    refused = {name for name, failure in failures.items() if isinstance(failure.error, NotAuthorisedError)}
    return IndexedMessages(
        found=tuple(_with_wait(each, delays) for each in waiting[-(limit or 0) :]),
        failures=(
            *indexed.failures,
            *(replace(each, what="messages that wait") for name, each in failures.items() if name not in refused),
        ),
        is_cut=any(page.is_cut for page in pages),
        crowded=tuple(sorted({name for page in pages for name in page.crowded})),
        hides_waiting=bool(refused),
    )


def _latest(found: Iterable[FoundMessage]) -> list[FoundMessage]:
    """Return the last copy of each message, oldest first, without those that were recalled.

    A timer beyond the range of the timer wheel is stored several times; so is a message with each attempt.
    """
    latest: dict[tuple[str, str], FoundMessage] = {}
    recalled: set[tuple[str, str]] = set()
    for each in sorted(found, key=_stored_at_ms):
        properties = _properties(each)
        if (key := recalled_key(properties)) is not None:
            recalled.add((each.mq.broker_name, key))
        elif each.message is not None and properties:
            name = properties.get(UNIQ_KEY) or each.message.offset_id
            latest.pop((each.mq.broker_name, name), None)
            latest[each.mq.broker_name, name] = each
    return [each for name, each in latest.items() if name not in recalled]


def _stored_at_ms(found: FoundMessage) -> int:
    return found.message.stored_at_ms if found.message is not None else 0


def _properties(found: FoundMessage) -> Mapping[str, str]:
    """Return a message's properties, empty for an unreadable one, which cannot be matched."""
    try:
        return found.message.properties if found.message is not None else {}
    except RemoteProtocolError:
        return {}


async def _fetch_delays(
    client: Client, brokers: Mapping[str, BrokerData], names: Iterable[str]
) -> dict[str, Sequence[int] | str]:
    """Return the `delays_ms` argument of read_wait() for each of these brokers."""

    async def ask(name: str) -> Sequence[int]:
        return parse_delay_levels((await settings_once(client, brokers[name])).get("messageDelayLevel", ""))

    answers = await ask_all(names, ask)
    return {**answers.ok, **{name: error.name for name, error in answers.failed.items()}}


def _with_wait(found: FoundMessage, delays: Mapping[str, Sequence[int] | str]) -> FoundMessage:
    mq, properties = found.mq, _properties(found)
    wait = read_wait(mq.topic, mq.queue_id, _stored_at_ms(found), properties, delays.get(mq.broker_name, ()))
    return replace(found, wait=wait)
