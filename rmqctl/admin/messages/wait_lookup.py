"""Find messages that are not in their topic yet: delayed ones, failed ones between two attempts, half messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import settings_once
from rmqctl.admin.brokers.probe import fetch_earliest_now_ms
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import NotAuthorisedError, RemoteProtocolError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.names import DELAY_TOPIC, GIVEN_UP_TOPIC, HALF_TOPICS, TIMER_TOPIC, TRANSACTION_CHECKER
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.rules.message_wait import (
    REAL_TOPIC,
    TransactionState,
    judge_wait,
    parse_delay_levels,
    read_transaction,
    read_wait,
    recalled_key,
)

from .filter import MessageFilter
from .index import IndexedMessages, find_indexed
from .pull import FoundMessage

_HALVES = (*HALF_TOPICS, GIVEN_UP_TOPIC)
_WAITING_TOPICS = (DELAY_TOPIC, TIMER_TOPIC, *_HALVES)


class _Progress(Struct, frozen=True):
    """A broker's work on messages that wait; a text instead of a value is the reason why it is unknown.

    `now_ms` is a lower bound of its time; it has delivered the messages of each level up to `delivered_offsets`, and
    checked half messages up to `checked_offset`.
    """

    delays_ms: Sequence[int] | str
    now_ms: int | str
    delivered_offsets: Mapping[int, int] | str
    checked_offset: int | str


async def find_indexed_or_waiting(
    client: Client, route: TopicRoute, wanted: MessageFilter, *, limit: int | None
) -> IndexedMessages:
    """Return the result of find_indexed(); without a match, the newest messages that wait to be stored in the topic.

    Those have a `wait` or a `transaction`. Brokers that did not answer the first request are not asked again.
    """
    indexed = await find_indexed(client, route, wanted, limit=limit)
    silent = {failure.broker_name for failure in indexed.failures}
    brokers = {broker.broker_name: broker for broker in route.brokers if broker.broker_name not in silent}
    if indexed.found or not brokers or route.topic in _WAITING_TOPICS:
        return indexed
    for_topic = replace(wanted, properties=(*wanted.properties, (REAL_TOPIC, route.topic)))

    async def search(topics: Sequence[str], names: Iterable[str]) -> list[IndexedMessages]:
        there = replace(route, brokers=tuple(brokers[name] for name in names))
        searches = [find_indexed(client, replace(there, topic=each), for_topic, limit=limit) for each in topics]
        return list(await asyncio.gather(*searches))

    def latest() -> list[FoundMessage]:
        return _latest(each for page in pages for each in page.found)[-(limit or 0) :]

    pages = await search(_WAITING_TOPICS, brokers)
    places: dict[str, set[str]] = {}
    for each in latest():
        places.setdefault(each.mq.broker_name, set()).add(each.mq.topic)
    answers = await asyncio.gather(*(_fetch_progress(client, brokers[name], topics) for name, topics in places.items()))
    progress = dict(zip(places, answers, strict=True))
    described = _described(latest(), progress)
    if any(map(_may_have_come, described)):
        # Meanwhile, it may have been stored in its topic, or as a half message once more.
        again, halves = await asyncio.gather(
            find_indexed(client, route, wanted, limit=limit), search(_HALVES, progress)
        )
        if again.found:
            return again
        indexed = replace(indexed, failures=_merged((*indexed.failures, *again.failures)))
        pages += halves
        described = _described(latest(), progress)
    failures = {failure.broker_name: failure for page in pages for failure in page.failures}
    refused = {name for name, failure in failures.items() if isinstance(failure.error, NotAuthorisedError)}
    return IndexedMessages(
        found=described,
        failures=(
            *indexed.failures,
            *(replace(each, what="messages that wait") for name, each in failures.items() if name not in refused),
        ),
        is_cut=any(page.is_cut for page in pages),
        crowded=tuple(sorted({name for page in pages for name in page.crowded})),
        hides_waiting=bool(refused),
    )


async def describe_half(client: Client, found: FoundMessage, owner: BrokerData) -> FoundMessage:
    """Return a half message that was found by its place with its transaction; other messages unchanged."""
    properties = _properties(found)
    unique_key, topic = properties.get(UNIQ_KEY), properties.get(REAL_TOPIC)
    if found.mq.topic not in _HALVES or not unique_key or not topic:
        return found
    transaction = read_transaction(found.mq.topic, found.queue_offset, properties, NotAuthorisedError.name)
    route = TopicRoute(topic=topic, queue_data=(), brokers=(owner,))
    indexed = await find_indexed_or_waiting(client, route, MessageFilter(key=unique_key), limit=None)
    last = next((each.transaction for each in reversed(indexed.found) if each.transaction is not None), None)
    if indexed.failures:
        transaction = replace(transaction, state=None, reason=indexed.failures[0].error.name)
    elif last is not None:
        transaction = last
    elif indexed.found:
        transaction = replace(transaction, state=TransactionState.COMMITTED, reason=None)
    return replace(found, transaction=transaction)


def _merged(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    return tuple({failure.broker_name: failure for failure in failures}.values())


def _latest(found: Iterable[FoundMessage]) -> list[FoundMessage]:
    """Return the last copy of each message, oldest first, without those that were recalled.

    A timer beyond the range of the timer wheel is stored several times; so are a message with each attempt and a half
    message with each check.
    """
    latest: dict[tuple[str, str], FoundMessage] = {}
    recalled: set[tuple[str, str]] = set()
    for each in sorted(found, key=_commit_log_offset):
        properties = _properties(each)
        if (key := recalled_key(properties)) is not None:
            recalled.add((each.mq.broker_name, key))
        elif each.message is not None and properties:
            name = properties.get(UNIQ_KEY) or each.message.offset_id
            latest.pop((each.mq.broker_name, name), None)
            latest[each.mq.broker_name, name] = each
    return sorted((each for name, each in latest.items() if name not in recalled), key=_stored_at_ms)


def _commit_log_offset(found: FoundMessage) -> int:
    """Return what orders the messages of a broker: a check can store two copies in one millisecond."""
    return found.message.commit_log_offset if found.message is not None else 0


def _stored_at_ms(found: FoundMessage) -> int:
    return found.message.stored_at_ms if found.message is not None else 0


def _properties(found: FoundMessage) -> Mapping[str, str]:
    """Return a message's properties, empty for an unreadable one, which cannot be matched."""
    try:
        return found.message.properties if found.message is not None else {}
    except RemoteProtocolError:
        return {}


async def fetch_delays_ms(client: Client, broker: BrokerData) -> list[int]:
    """Return the delay of each of a broker's levels, in ms, starting with level 1. Raises as settings_once()."""
    return parse_delay_levels((await settings_once(client, broker)).get("messageDelayLevel", ""))


async def fetch_checked_offset(client: Client, broker: BrokerData) -> int:
    """Return the offset up to which a broker has checked half messages. Raises as fetch_stored_offsets()."""
    halves = MessageQueue(HALF_TOPICS[0], broker.broker_name, 0)
    return (await fetch_stored_offsets(client, broker, TRANSACTION_CHECKER, [halves])).get(halves) or 0


async def _fetch_progress(client: Client, broker: BrokerData, topics: set[str]) -> _Progress:
    """Ask a broker for what is needed to describe the messages that wait in these topics."""

    async def now_ms() -> int | str:
        told_ms = await fetch_earliest_now_ms(client, broker.master_address or broker.broker_name)
        return "NOT_REPORTED" if told_ms is None else told_ms

    async def delivered_offsets() -> Mapping[int, int]:
        answer = await client.ask_broker(broker, headers.get_all_delay_offsets())
        return bodies.decode_delay_offsets(answer.command.body)

    calls: dict[str, Callable[[], Awaitable[object]]] = {}
    if DELAY_TOPIC in topics:
        calls |= {"delays_ms": partial(fetch_delays_ms, client, broker), "delivered_offsets": delivered_offsets}
    if topics & {DELAY_TOPIC, TIMER_TOPIC}:
        calls["now_ms"] = now_ms
    if HALF_TOPICS[0] in topics:
        calls["checked_offset"] = partial(fetch_checked_offset, client, broker)
    answers = await ask_all(calls, lambda name: calls[name]())
    values = {**answers.ok, **{name: error.name for name, error in answers.failed.items()}}
    if broker.broker_name in client.silent_masters:
        # A slave's copies of both can be old.
        values |= dict.fromkeys(values.keys() & {"delivered_offsets", "checked_offset"}, Unknown.SLAVE_ANSWERED)
    unasked = dict.fromkeys(("delays_ms", "now_ms", "delivered_offsets", "checked_offset"), RmqctlError.name)
    return _Progress(**{**unasked, **values})  # type: ignore[arg-type]


def _described(found: Iterable[FoundMessage], progress: Mapping[str, _Progress]) -> tuple[FoundMessage, ...]:
    return tuple(_describe(each, progress[each.mq.broker_name]) for each in found)


def _describe(found: FoundMessage, progress: _Progress) -> FoundMessage:
    mq, properties, queue_offset = found.mq, _properties(found), found.queue_offset
    if mq.topic in _HALVES:
        return replace(found, transaction=read_transaction(mq.topic, queue_offset, properties, progress.checked_offset))
    wait = read_wait(mq.topic, mq.queue_id, _stored_at_ms(found), properties, progress.delays_ms)
    delivered = progress.delivered_offsets
    offset = delivered if isinstance(delivered, str) else delivered.get(wait.delay_level or 0, 0)
    return replace(
        found, wait=judge_wait(wait, queue_offset, progress.now_ms, None if wait.delay_level is None else offset)
    )


def _may_have_come(found: FoundMessage) -> bool:
    """Return whether a message may be in its topic by now."""
    wait, transaction = found.wait, found.transaction
    is_over = transaction is not None and transaction.state is not TransactionState.PREPARED
    return is_over or (wait is not None and wait.overdue_ms != 0)
