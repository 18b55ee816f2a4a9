"""Read which groups have passed messages, by the offsets that they committed at the messages' brokers.

A push consumer commits an offset only when all earlier messages of the queue are done. mqadmin's queryMsgById compares
offsets too (DefaultMQAdminExtImpl.consumed), but finds the broker by its address: where that has changed, it reports
every message as not consumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.groups.members import fetch_connections, find_proxies
from rmqctl.admin.messages.pull import FoundMessage
from rmqctl.admin.results import Answers, ask_all
from rmqctl.admin.rules.passage import GroupPassage, Verdict, judge
from rmqctl.admin.topics.stats import fetch_queue_offsets, fetch_topic_groups
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_stored_offsets
from rmqctl.errors import BrokerError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import BROADCASTING, CONSUME_POP, GroupConnections, Proxies, Subscription
from rmqctl.model.names import DELAY_TOPIC, HALF_TOPICS, RETRY_PREFIX, TIMER_TOPIC
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.protocol import group_bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.properties import LITE_TOPIC
from rmqctl.rules.group_state import reason_of
from rmqctl.rules.message_filters.subscription import matches

from .retry_topics import find_retry_topics


class MessagePassages(Struct, frozen=True):
    """The groups of one message, sorted; None with a `reason` when no group can have it, or when they are unknown.

    The reason is WAITS, HALF_MESSAGE or LITE_TOPIC, or the name of the error of the message's broker.
    """

    groups: tuple[GroupPassage, ...] | None
    reason: str | None = None


class PassageReport(Struct, frozen=True):
    """The passages of several messages, in their order, and the failures.

    `proxies`: whether proxies are connected to a broker that sees no member of a group; else ABSENT.
    """

    messages: tuple[MessagePassages, ...]
    proxies: Proxies
    failures: tuple[Failure, ...]


class _Group(Struct, frozen=True):
    """What a message's broker reports about a group. `offsets` lacks queues whose offset only the master knows."""

    connections: GroupConnections | None
    offsets: Mapping[MessageQueue, int | None]
    is_pop: bool


class _Place(Struct, frozen=True):
    """A topic on one broker: its groups, and the ends of its queues by queue id."""

    groups: Answers[str, _Group]
    ends: Mapping[int, TopicOffset]


async def fetch_passages(
    client: Client, found: Sequence[FoundMessage], *, groups: Sequence[str] | None = None
) -> PassageReport:
    """Return for each message the groups that have members or an offset for its topic at its broker.

    `groups` are the only ones to judge. Only the messages' brokers are asked. Failures are data: a group that could not
    be read has no verdict.
    """
    reasons = [_no_groups(each) for each in found]
    queues: dict[tuple[str, str], set[MessageQueue]] = {}
    for each, reason in zip(found, reasons, strict=True):
        if reason is None:
            queues.setdefault((each.mq.broker_name, each.mq.topic), set()).add(each.mq)
    brokers = {broker.broker_name: broker for broker in (await client.cluster()).brokers}
    # A name server may leave out a broker that another one's route names.
    brokers |= {name: BrokerData("", name, {}) for name, _ in queues if name not in brokers}
    places = await ask_all(
        queues, lambda place: _read_place(client, brokers[place[0]], place[1], sorted(queues[place]), groups)
    )
    failures = [Failure(name, f"groups of {topic}", error) for (name, topic), error in places.failed.items()]
    failures += [
        Failure(name, f"offsets of group {group}", error)
        for (name, _), place in places.ok.items()
        for group, error in place.groups.failed.items()
    ]
    unseen = {name for (name, _), place in places.ok.items() if _lacks_members(place)}
    proxies = Proxies.ABSENT
    if unseen:
        proxies, proxy_failures = await find_proxies(client, [brokers[name] for name in sorted(unseen)])
        failures += proxy_failures
    return PassageReport(
        messages=tuple(_judged(each, reason, places) for each, reason in zip(found, reasons, strict=True)),
        proxies=proxies,
        failures=tuple(failures),
    )


def _no_groups(found: FoundMessage) -> str | None:
    """Return why no group can have a message, None for an ordinary one."""
    if found.wait is not None or found.mq.topic in (DELAY_TOPIC, TIMER_TOPIC):
        return "WAITS"
    if found.transaction is not None or found.mq.topic in HALF_TOPICS:
        return "HALF_MESSAGE"
    # Groups consume it from its lite topic, where its offset is another one.
    return "LITE_TOPIC" if LITE_TOPIC in _properties(found) else None


def _properties(found: FoundMessage) -> Mapping[str, str]:
    try:
        return {} if found.message is None else found.message.properties
    except RmqctlError:
        return {}


async def _read_place(
    client: Client, broker: BrokerData, topic: str, queues: Sequence[MessageQueue], groups: Sequence[str] | None
) -> _Place:
    names, ends, popping = await asyncio.gather(
        _read_names(client, broker, topic, groups),
        fetch_queue_offsets(client, broker, topic),
        _fetch_popping(client, broker, topic),
    )
    return _Place(
        groups=await ask_all(names, lambda group: _read_group(client, broker, group, topic, queues, popping)),
        ends=ends,
    )


async def _read_names(client: Client, broker: BrokerData, topic: str, groups: Sequence[str] | None) -> Collection[str]:
    return await fetch_topic_groups(client, broker, topic) if groups is None else groups


async def _fetch_popping(client: Client, broker: BrokerData, topic: str) -> frozenset[str]:
    """Return the groups for which the broker has clients pop the topic (setConsumeMode); 4.9 has no such table."""
    try:
        answer = await client.ask_broker(broker, headers.get_request_modes())
    except BrokerError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return frozenset()
        raise
    return group_bodies.decode_pop_groups(topic, answer.command.body)


async def _read_group(
    client: Client, broker: BrokerData, group: str, topic: str, queues: Sequence[MessageQueue], popping: frozenset[str]
) -> _Group:
    connections, offsets, retry_topics = await asyncio.gather(
        fetch_connections(client, broker, group),
        fetch_stored_offsets(client, broker, group, queues),
        find_retry_topics(client, group, [topic]),
    )
    own_retry_topic = RETRY_PREFIX + group
    is_pop = (
        (connections is not None and connections.consume_type == CONSUME_POP)
        or group in popping
        # Brokers create it when they redeliver a popped message for the first time.
        or bool(retry_topics - {own_retry_topic})
        or (topic.startswith(RETRY_PREFIX) and topic != own_retry_topic)
    )
    return _Group(connections, offsets, is_pop)


def _lacks_members(place: _Place) -> bool:
    groups = place.groups.ok.values()
    return not groups or any(group.connections is None for group in groups)


def _judged(found: FoundMessage, reason: str | None, places: Answers[tuple[str, str], _Place]) -> MessagePassages:
    key = found.mq.broker_name, found.mq.topic
    if reason is not None:
        return MessagePassages(None, reason)
    if key in places.failed:
        return MessagePassages(None, places.failed[key].name)
    place = places.ok[key]
    names: Collection[str] = place.groups.ok.keys() | place.groups.failed.keys()
    return MessagePassages(tuple(_passage(found, name, place) for name in sorted(names)))


def _passage(found: FoundMessage, name: str, place: _Place) -> GroupPassage:
    group = place.groups.ok.get(name)
    if group is None:
        reason = reason_of([place.groups.failed[name]])
        return GroupPassage(name, None, None, None, dict.fromkeys(("verdict", "consumerOffset", "subString"), reason))
    subscription = None if group.connections is None else group.connections.subscriptions.get(found.mq.topic)
    offset = group.offsets.get(found.mq, Unknown.SLAVE_ANSWERED)
    if offset is None:
        offset = Unknown.NEVER_COMMITTED
    end = place.ends.get(found.mq.queue_id)
    verdict = judge(
        found.queue_offset,
        offset,
        None if end is None else end.max_offset,
        is_broadcasting=group.connections is not None and group.connections.message_model == BROADCASTING,
        is_pop=group.is_pop,
        is_match=None if subscription is None else _matches(found, subscription),
    )
    reasons: dict[str, Unknown] = {}
    if isinstance(verdict, Unknown):
        reasons["verdict"] = verdict
    if isinstance(offset, Unknown):
        reasons["consumerOffset"] = offset
    if subscription is None:
        reasons["subString"] = Unknown.NO_MEMBERS if group.connections is None else Unknown.NOT_REPORTED
    return GroupPassage(
        group=name,
        verdict=verdict if isinstance(verdict, Verdict) else None,
        consumer_offset=None if isinstance(offset, Unknown) else offset,
        subscription=subscription,
        reasons=reasons,
    )


def _matches(found: FoundMessage, subscription: Subscription) -> bool | None:
    """Return whether a subscription matches a message, None for a message that cannot be read."""
    if found.message is None:
        return None
    try:
        return matches(subscription, found.message.tags, found.message.properties)
    except RmqctlError:
        return None
