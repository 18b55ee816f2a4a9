"""The facts read about a group's offsets, and its progress; sends no requests."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from rmqctl.admin.groups.rules.backlog import count_unread
from rmqctl.admin.results import Answers
from rmqctl.errors import NotRegisteredError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import (
    GroupConnections,
    GroupState,
    Proxies,
    RunningInfo,
)
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import CutQueue, QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.model.stats import ConsumeStats, ConsumeTimeSpan, TopicOffset
from rmqctl.rules.group_state import unseen_reason
from rmqctl.rules.readable_queues import is_unreadable


class GroupProgress(Struct, frozen=True):
    """A group's progress: rows sorted by queue, and the failures.

    `client_ids` are those seen on all brokers. `unseen_reason` is why there may be others although none was seen.
    `consume_tps` is None when a broker did not answer. `notes` are sentences for people about what the numbers cannot
    show. `asked_topics` are the topics that the rows are limited to, empty for all. `unreadable` counts the unread
    messages in queues that no consumer can read, and `cut` are those with a stored offset; these queues have no rows.
    `hidden` is by topic why it may have queues without a row; the key "" means topics whose names are unknown.
    `subscribed` are the topics that members subscribe to, and `left` those with rows that none of them subscribes to;
    neither has a topic for which that is unknown.
    """

    group: str
    asked_topics: tuple[str, ...]
    state: GroupState
    client_ids: frozenset[str]
    unseen_reason: Unknown | None
    message_model: str | None
    consume_type: str | None
    consume_tps: float | None
    rows: tuple[QueueProgress, ...]
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    unreadable: Mapping[MessageQueue, int] = {}
    cut: tuple[CutQueue, ...] = ()
    hidden: Mapping[str, Unknown] = {}
    subscribed: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()

    @property
    def member_count(self) -> int | None:
        """The number of client ids, None when unknown, because of `unseen_reason`."""
        return None if self.state is GroupState.UNKNOWN else len(self.client_ids)

    @property
    def hidden_anywhere(self) -> Unknown | None:
        """Why any topic may have queues without a row, None when all queues have one."""
        return next(iter(self.hidden.values()), None)


class BrokerView(Struct, frozen=True):
    """One broker's first answers about the group. `connections`: None when no member is connected there.

    `at_ms` is when the consume stats came.
    """

    broker: BrokerData
    address: str
    version: int
    stats: ConsumeStats
    connections: GroupConnections | None
    at_ms: int

    def sure_offset(self, mq: MessageQueue) -> int | None:
        """Return the offset in the consume stats if it is certain, i.e. above 0: a 0 can also mean "none stored"."""
        wrapper = self.stats.queues.get(mq)
        return wrapper.consumer_offset if wrapper is not None and wrapper.consumer_offset > 0 else None


class GroupReading(Struct):
    """Everything that was read, by queue, broker name or client id. `stored` are offsets that were read separately.

    `bounds_ms` is by broker and topic when min and max offsets came; `failed_bounds` and `failed_ages` are why they and
    message ages are missing; `failed_stored` why stored offsets are. `silent_masters` are, by broker, why a slave
    answered. `cut` are queues with a stored offset that no consumer can read; brokers in `closed_tables` do not allow
    this account to find them.
    `unrouted` is by topic why its route could not be read. `hidden` is as in GroupProgress. `unreported` are topics in
    which offsets are stored, and that neither brokers nor members report for the group.
    """

    views: Mapping[str, BrokerView]
    failed_brokers: Mapping[str, RmqctlError]
    routes: Mapping[str, TopicRoute] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    asked_topics: tuple[str, ...] = ()
    topic_offsets: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    spans: dict[MessageQueue, ConsumeTimeSpan] = field(default_factory=dict)
    stored: dict[MessageQueue, int | None] = field(default_factory=dict)
    retention_ms: dict[str, int] = field(default_factory=dict)
    running: Answers[str, RunningInfo] = field(default_factory=lambda: Answers({}, {}))
    failures: list[Failure] = field(default_factory=list)
    bounds_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    failed_bounds: dict[tuple[str, str], RmqctlError] = field(default_factory=dict)
    failed_ages: dict[tuple[str, str], RmqctlError] = field(default_factory=dict)
    failed_stored: dict[str, RmqctlError] = field(default_factory=dict)
    silent_masters: Mapping[str, RmqctlError] = field(default_factory=dict)
    cut: dict[MessageQueue, CutQueue] = field(default_factory=dict)
    closed_tables: set[str] = field(default_factory=set)
    proxies: Proxies = Proxies.ABSENT
    unrouted: dict[str, RmqctlError] = field(default_factory=dict)
    unreported: frozenset[str] = frozenset()
    hidden: Mapping[str, Unknown] = field(default_factory=dict)

    def has_queues(self, topic: str, broker_name: str) -> bool:
        """Return whether a broker has queues of a topic, by its route or by the memory of the cluster."""
        route = self.routes.get(topic)
        return route is not None and any(
            data.broker_name == broker_name for data in (*route.queue_data, *route.missing)
        )

    @property
    def unheard(self) -> dict[str, RmqctlError]:
        """The brokers that may see more members than was read, and why."""
        return {**self.silent_masters, **self.failed_brokers}

    def unseen_reason(self) -> Unknown | None:
        """Return why the group may have members although no broker reports any, None when it cannot."""
        return unseen_reason(self.unheard.values(), self.proxies)

    def connections(self) -> list[GroupConnections]:
        """Return the connections on each broker with members."""
        return [view.connections for view in self.views.values() if view.connections is not None]

    def queues(self) -> set[MessageQueue]:
        """Return the queues to show: those readable by the routes, with an offset, or held by a member."""
        routes = [self.routes[topic] for topic in self.topics if topic in self.routes]
        queues = {mq for route in routes for mq in (*route.readable_queues(), *route.missing_queues())}
        for view in self.views.values():
            queues.update(mq for mq in view.stats.queues if mq.topic in self.topics)
        return {mq for mq in queues if not is_unreadable(mq, self.routes.get(mq.topic))} | self.orphans()

    def filters(self) -> dict[str, tuple[str, ...]]:
        """Return the subscribed expressions by topic; each broker reports one member's, each member its own."""
        found: dict[str, set[str]] = {}
        named = [item for view in self.connections() for item in view.subscriptions.values()]
        named += [item for info in self.running.ok.values() for item in info.subscriptions]
        for item in named:
            found.setdefault(item.topic, set()).add(item.filter_key[1])
        return {topic: tuple(sorted(expressions)) for topic, expressions in found.items()}

    def unreadable(self) -> dict[MessageQueue, int]:
        """Return the number of unread messages by queue, for queues that no consumer can read."""
        counts = {
            mq: count_unread(ends, self.cut[mq].consumer_offset if mq in self.cut else ends.min_offset)
            for mq, ends in sorted(self.topic_offsets.items())
            if mq.topic in self.topics and is_unreadable(mq, self.routes.get(mq.topic))
        }
        return {mq: count for mq, count in counts.items() if count}

    def closed_brokers(self) -> dict[str, tuple[str, ...]]:
        """Return by topic the brokers where its permission does not allow reads."""
        found = {
            topic: self.routes[topic].closed_brokers
            for topic in sorted(self.topics & self.routes.keys())
            if not topic.startswith(RETRY_PREFIX)
        }
        return {topic: names for topic, names in found.items() if names}

    def orphans(self) -> set[MessageQueue]:
        """Return queues that members hold on brokers that the name server does not list (any more).

        5.x removes a broker from all routes when it stops: without these, its queues would simply be missing.
        """
        unregistered = {name for name, error in self.failed_brokers.items() if isinstance(error, NotRegisteredError)}
        known = {*self.views, *self.failed_brokers} - unregistered
        return {
            mq
            for info in self.running.ok.values()
            for mq, held in info.process_queues.items()
            if not held.dropped and mq.topic in self.topics and mq.broker_name not in known
            # A static topic's queues carry a made-up broker name.
            if not (mq.topic in self.routes and self.routes[mq.topic].is_static)
        }
