"""Summarise what was read about a group for the list of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rmqctl.admin.groups.rules.attention import Part, unchecked_parts
from rmqctl.admin.groups.rules.backlog import (
    Backlog,
    TopicPart,
    count_unread,
    find_leftovers,
    merge_backlogs,
    sum_backlog,
)
from rmqctl.admin.results import Answers, as_reported
from rmqctl.admin.rules.retry_topics import own_retry_topics
from rmqctl.errors import RmqctlError
from rmqctl.model.group import BROADCASTING, GroupConfig, GroupConnections, GroupState, Proxies
from rmqctl.model.names import RETRY_PREFIX, dead_letter_topic
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.rules.group_state import agreed, group_state, reason_of, unseen_reason
from rmqctl.rules.lite_topics import bound_topic

from .ages import GroupAges
from .letters import LetterCount, LetterCounts
from .tables import GroupTables

# Min and max by queue id, by broker and topic.
_TopicAnswers = Answers[tuple[BrokerData, str], Mapping[int, TopicOffset]]


class GroupSummary(Struct, frozen=True):
    """One group over all brokers. The reason for a None is in `reasons` under its JSON name.

    `lag`: None when a part of it is unknown; `lag_at_least` is the sum of the known parts. `lost` likewise counts
    messages that were deleted before the group read them. `topics` are those with a stored offset, a live
    subscription, or messages for which the group has no offset. `client_version` is the oldest among the members.
    `time_lag_ms` is the age of the oldest unread message; it is only read for the groups that are furthest behind,
    `is_age_asked` is whether it was for this one. `unreadable_count` is the number of messages in queues that no
    consumer can read; lags do not include them. `connections` and `configs` are by broker that answered, `backlogs` by
    topic. `has_leftovers`: offsets are stored for queues that do not exist. `closed_brokers` are, by topic, the brokers
    where its permission does not allow reads; `unserved_brokers` those without members while other brokers have some.
    `letters` are its dead letters, None when they were not counted; `unchecked` is what was not checked.
    `lite_bind_topic` is the topic whose lite topics it consumes, None for other groups.
    """

    group: str
    state: GroupState
    member_count: int | None
    consume_type: str | None
    message_model: str | None
    client_version: str | None
    topics: tuple[str, ...]
    lag: int | None
    lag_at_least: int
    lost: int | None
    lost_at_least: int
    time_lag_ms: int | None
    is_age_asked: bool
    unreadable_count: int
    connections: Mapping[str, GroupConnections | None]
    configs: Mapping[str, GroupConfig | None]
    backlogs: Mapping[str, Backlog]
    has_leftovers: bool
    closed_brokers: Mapping[str, tuple[str, ...]]
    unserved_brokers: Mapping[str, tuple[str, ...]]
    letters: LetterCount | None
    unchecked: Mapping[Part, str]
    broker_names: tuple[str, ...]
    reasons: Mapping[str, Unknown]
    lite_bind_topic: str | None = None


class ListFacts(Struct, frozen=True):
    """Everything that was read, for all groups. Answers about members and topics are by broker and name.

    `consumed` are the topics in which a group may have unread messages; `cut_queues` are queues with offsets that their
    topics no longer have. `copies` are the brokers whose slave answered, which are in `failed` too: what is not in
    their tables may exist.
    """

    tables: Mapping[BrokerData, GroupTables]
    failed: Mapping[BrokerData, RmqctlError]
    members: Answers[tuple[BrokerData, str], GroupConnections | None]
    consumed: Mapping[str, frozenset[str]]
    topics: _TopicAnswers
    cut_queues: Answers[MessageQueue, TopicOffset]
    letters: LetterCounts
    copies: frozenset[str]

    def connected(self, name: str) -> list[GroupConnections]:
        """Return the connections on each broker with members."""
        return _connected(name, self.tables, self.members)

    def is_broadcasting(self, name: str) -> bool:
        """Return whether any member broadcasts: then offsets on brokers are leftovers."""
        return any(item.message_model == BROADCASTING for item in self.connected(name))

    def stored_topics(self, name: str) -> set[str]:
        """Return the topics in which the group has an offset."""
        return {topic for table in self.tables.values() for topic in table.offsets.get(name, {})}

    def backlogs(self, name: str) -> dict[str, Backlog]:
        """Return the unread messages of the group, summed by topic."""
        return {
            topic: sum_backlog(self._part(broker, name, topic) for broker in self.tables)
            for topic in sorted(self.consumed[name])
        }

    def closed_brokers(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return by topic the brokers where its permission does not allow reads."""
        found: dict[str, list[str]] = {}
        for broker, table in self.tables.items():
            for topic in self.consumed[name]:
                config = (table.topics or {}).get(topic)
                if config is not None and not config.is_readable and not topic.startswith(RETRY_PREFIX):
                    found.setdefault(topic, []).append(broker.broker_name)
        return {topic: tuple(sorted(names)) for topic, names in sorted(found.items())}

    def unserved_brokers(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return by topic the brokers that have it but no members, while members elsewhere subscribe to it."""
        found: dict[str, list[str]] = {}
        subscribed = {topic for item in self.connected(name) if item.members for topic in item.subscriptions}
        topics = {topic for topic in subscribed if not topic.startswith(RETRY_PREFIX)}
        for broker, table in self.tables.items():
            seen = self.members.ok.get((broker, name))
            if (broker, name) in self.members.failed or (seen is not None and seen.members):
                continue
            if broker.broker_name in self.copies:
                continue
            for topic in topics:
                config = (table.topics or {}).get(topic)
                if config is not None and config.is_readable and config.read_queue_count > 0:
                    found.setdefault(topic, []).append(broker.broker_name)
        return {topic: tuple(sorted(names)) for topic, names in sorted(found.items())}

    def unread_reason(self, name: str) -> Unknown | None:
        """Return why a part of the facts about a group is missing, None when they are complete."""
        asked = [self.topics.failed.get((broker, topic)) for broker in self.tables for topic in self.consumed[name]]
        asked += [self.members.failed.get((broker, name)) for broker in self.tables]
        asked += [self.letters.failed.get((broker, dead_letter_topic(name))) for broker in self.tables]
        asked += [
            error
            for mq, error in self.cut_queues.failed.items()
            if any(mq.queue_id in table.offsets.get(name, {}).get(mq.topic, {}) for table in self.tables.values())
        ]
        errors = [*self.failed.values(), *(error for error in asked if error is not None)]
        if errors:
            return reason_of(errors)
        return Unknown.NOT_REPORTED if any(table.topics is None for table in self.tables.values()) else None

    def _part(self, broker: BrokerData, name: str, topic: str) -> TopicPart:
        table, queues = self.tables[broker], self.topics.ok.get((broker, topic))
        return TopicPart(
            broker_name=broker.broker_name,
            topic=topic,
            offsets=table.offsets.get(name, {}).get(topic, {}),
            queues=queues,
            config=table.topics.get(topic) if table.topics is not None else None,
            is_copy=broker.broker_name in self.copies,
            reason=None if queues is not None else reason_of([self.topics.failed[broker, topic]]),
            cut_queues={
                mq.queue_id: self.cut_queues.ok[mq]
                for queue_id in table.offsets.get(name, {}).get(topic, {})
                if (mq := MessageQueue(topic, broker.broker_name, queue_id)) in self.cut_queues.ok
            },
        )

    def has_leftovers(self, name: str) -> bool:
        """Return whether offsets are stored for queues that do not exist and have no unread messages."""
        for broker, table in self.tables.items():
            stored = table.offsets.get(name, {})
            is_known = table.topics is not None and broker.broker_name not in self.copies
            for topic, queue_id in find_leftovers(stored, table.topics or {}) if is_known else ():
                queue = self.cut_queues.ok.get(MessageQueue(topic, broker.broker_name, queue_id))
                if queue is None or not count_unread(queue, stored[topic][queue_id]):
                    return True
        return False


def _connected(
    name: str, brokers: Iterable[BrokerData], members: Answers[tuple[BrokerData, str], GroupConnections | None]
) -> list[GroupConnections]:
    return [found for broker in brokers if (found := members.ok.get((broker, name))) is not None]


def summarise(
    name: str, facts: ListFacts, backlogs: Mapping[str, Backlog], ages: GroupAges, proxies: Proxies
) -> GroupSummary:
    """Return the summary of one group; `backlogs` are its unread messages by topic."""
    tables = facts.tables
    knowing = [broker for broker, table in tables.items() if name in table.names]
    connected = facts.connected(name)
    connections = {(member.client_id, member.client_address): member for item in connected for member in item.members}
    client_ids = {client_id for client_id, _ in connections}
    unreported = [facts.members.failed[broker, name] for broker in tables if (broker, name) in facts.members.failed]
    unseen = unseen_reason([*facts.failed.values(), *unreported], proxies)
    state = group_state(unseen, has_members=bool(client_ids))
    subscribed = {topic for item in connected for topic in item.subscriptions}
    with_offsets = facts.stored_topics(name)

    letters = facts.letters.by_group.get(name)
    reasons: dict[str, Unknown] = {}
    backlog = merge_backlogs(backlogs.values())
    lag, lost, lag_reason = backlog.lag, backlog.lost, backlog.reason
    is_broadcasting = facts.is_broadcasting(name)
    if is_broadcasting:
        lag, lost, lag_reason = 0, 0, Unknown.BROADCASTING
    elif facts.failed:
        lag_reason = reason_of(facts.failed.values())
    elif not with_offsets:
        lag_reason = Unknown.NEVER_COMMITTED
    if lag_reason is not None:
        reasons["lag"] = reasons["lost"] = lag_reason
    time_lag_ms = ages.of(name) if lag else 0
    if lag_reason is not None or time_lag_ms is None:
        time_lag_ms = None
        reasons["timeLagMs"] = lag_reason or Unknown.NOT_REPORTED
    if not client_ids:
        no_members = unseen or Unknown.NO_MEMBERS
        reasons |= dict.fromkeys(("consumeType", "messageModel", "clientVersion"), no_members)
        if state is GroupState.UNKNOWN:
            reasons["memberCount"] = no_members
    consume_type = agreed(item.consume_type for item in connected)
    message_model = agreed(item.message_model for item in connected)
    if connected:
        for key, value in (("consumeType", consume_type), ("messageModel", message_model)):
            reasons |= {} if value is not None else {key: Unknown.BROKERS_DIFFER}
    return GroupSummary(
        group=name,
        state=state,
        member_count=None if state is GroupState.UNKNOWN else len(client_ids),
        consume_type=consume_type if client_ids else None,
        message_model=message_model if client_ids else None,
        client_version=plain_version(version_name(min(m.version for m in connections.values())))
        if connections
        else None,
        topics=tuple(sorted(with_offsets | subscribed | {topic for topic, each in backlogs.items() if each.reason})),
        lag=None if "lag" in reasons else lag,
        lag_at_least=lag,
        lost=None if "lost" in reasons else lost,
        lost_at_least=lost,
        time_lag_ms=time_lag_ms,
        is_age_asked=ages.is_asked(name) or not lag,
        unreadable_count=backlog.unreadable_count,
        connections=as_reported(
            facts.copies, {each.broker_name: facts.members.ok.get((each, name)) for each in tables}
        ),
        configs=as_reported(
            facts.copies, {each.broker_name: table.configs.get(name) for each, table in tables.items()}
        ),
        backlogs=backlogs,
        has_leftovers=facts.has_leftovers(name),
        closed_brokers=facts.closed_brokers(name),
        unserved_brokers=facts.unserved_brokers(name),
        letters=letters,
        unchecked=unchecked_parts(state, unseen, facts.unread_reason(name), are_letters_asked=letters is not None),
        broker_names=tuple(sorted(broker.broker_name for broker in knowing)),
        reasons=reasons,
        lite_bind_topic=bound_topic(table.configs.get(name) for table in tables.values()),
    )


def consumed_topics(
    names: Iterable[str],
    tables: Mapping[BrokerData, GroupTables],
    members: Answers[tuple[BrokerData, str], GroupConnections | None],
) -> dict[str, frozenset[str]]:
    """Return by group the topics in which it may have unread messages, including its retry topics.

    For a live group, offsets of topics that it no longer consumes are ignored, as brokers do (ConsumeStats).
    """
    groups = {group for table in tables.values() for group in table.names}
    known = {topic for table in tables.values() for topic in table.topics or ()}
    consumed: dict[str, frozenset[str]] = {}
    for name in names:
        topics = {topic for item in _connected(name, tables, members) for topic in item.subscriptions}
        topics = topics or {topic for table in tables.values() for topic in table.offsets.get(name, {})}
        consumed[name] = own_retry_topics(name, topics, known, groups) | topics
    return consumed
