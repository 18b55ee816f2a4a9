"""The data read for `whatif readonly`, and the views of groups that follow from it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.admin.results import Answers
from rmqctl.errors import NotFoundError, NotRegisteredError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupConfig, GroupConnections, GroupState, Proxies, RunningInfo
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import Unknown
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.model.topic import TopicConfig
from rmqctl.rules.broker_config import may_write
from rmqctl.rules.group_state import group_state, reason_of, unseen_reason

from .readonly import (
    GroupView,
    OtherBroker,
    ReadonlyReason,
    RetryBrokers,
    find_retry_brokers,
    member_mode,
    reported_mode,
)


class Tables(Struct, frozen=True):
    """The broker's own tables: its topics, and stored offsets by group, topic and queue id."""

    topics: Mapping[str, TopicConfig]
    stored: Mapping[str, Mapping[str, Mapping[int, int]]]


class BrokerReading(Struct, frozen=True):
    """All answers. `configs` and `settings` are by broker name, the rest is for the one broker.

    `seen` has, by group, the address that answered, and the connections there, None without any. For groups without
    connections there, `seen_elsewhere` has them by group and broker. `running` is by group and client id,
    `retry_routes` by group, `topic_routes` by topic that producers may send to.
    """

    broker: BrokerData
    brokers: Mapping[str, BrokerData]
    tables: Tables
    configs: Answers[str, dict[str, GroupConfig]]
    settings: Answers[str, dict[str, str]]
    seen: Answers[str, tuple[str, GroupConnections | None]]
    seen_elsewhere: Answers[tuple[str, str], GroupConnections | None]
    running: Answers[tuple[str, str], RunningInfo]
    retry_routes: Answers[str, TopicRoute]
    topic_routes: Answers[str, TopicRoute]
    proxies: Proxies

    def view(self, group: str, topics: Mapping[str, int]) -> GroupView:
        """Return a group that consumes topics of the broker."""
        connections = self.connections(group)
        client_ids = {member.client_id for member in connections.members} if connections is not None else set()
        every_id = client_ids | self._ids_elsewhere(group)
        silent_at = [error for (each, _), error in self.seen_elsewhere.failed.items() if each == group]
        unreported = [*self.configs.failed.values(), *silent_at]
        unreported += [self.seen.failed[group]] if group in self.seen.failed else []
        unseen = unseen_reason(unreported, self.proxies)
        state = group_state(unseen, has_members=bool(every_id))
        reported = reported_mode(connections) if connections is not None else None
        asked = client_ids if reported is None else set()
        infos = [info for client_id in asked if (info := self.running.ok.get((group, client_id))) is not None]
        modes = [reported] if reported is not None else [member_mode(info, topics) for info in infos]
        silent = Unknown.NOT_REPORTED if None in modes else None
        return GroupView(
            group=group,
            state=state,
            unseen_reason=unseen,
            member_count=None if state is GroupState.UNKNOWN else len(every_id),
            consume_type=connections.consume_type if connections is not None and client_ids else None,
            message_model=connections.message_model if connections is not None and client_ids else None,
            topics=topics,
            modes=frozenset(mode for mode in modes if mode is not None),
            silent_reason=Unknown.CLIENT_SILENT if len(infos) < len(asked) else silent,
            places=self._places(group),
            is_connected=bool(client_ids),
        )

    def _ids_elsewhere(self, group: str) -> set[str]:
        reported = [found for (each, _), found in self.seen_elsewhere.ok.items() if each == group and found is not None]
        return {member.client_id for found in reported for member in found.members}

    def connections(self, group: str) -> GroupConnections | None:
        """Return a group's connections to the broker, None without any and when the broker did not report them."""
        return self.seen.ok[group][1] if group in self.seen.ok else None

    def others(self) -> dict[str, OtherBroker]:
        """Return the other brokers by name."""
        return {name: self._other(name) for name in self.brokers if name != self.broker.broker_name}

    def _other(self, name: str) -> OtherBroker:
        errors = [answers.failed[name] for answers in (self.configs, self.settings) if name in answers.failed]
        makes = self.settings.ok.get(name, {}).get("autoCreateSubscriptionGroup")
        return OtherBroker(
            groups=self.configs.ok.get(name),
            makes_groups=None if makes is None else makes.lower() == "true",
            is_writable=self.is_writable(name),
            reason=reason_of(errors) if errors else Unknown.NOT_REPORTED,
        )

    def is_writable(self, broker_name: str) -> bool | None:
        """Return whether a broker's own setting allows writes, None when it is not reported."""
        return may_write(self.settings.ok.get(broker_name, {}))

    def _places(self, group: str) -> RetryBrokers:
        route = self.retry_routes.ok.get(group)
        if route is not None:
            return find_retry_brokers(route, self.broker.broker_name, group, self.others())
        error = self.retry_routes.failed[group]
        missing = [each for each in self.configs.failed.values() if isinstance(each, NotRegisteredError)]
        is_none = isinstance(error, NotFoundError) and not missing
        return RetryBrokers(reason=ReadonlyReason.NO_RETRY_TOPIC if is_none else reason_of(missing or [error]))

    def failures(self) -> list[Failure]:
        """Return what could not be read; several failures for one reason become one."""
        name = self.broker.broker_name
        failures = [Failure(other, "groups", error) for other, error in self.configs.failed.items()]
        # A broker that failed above fails here for the same reason.
        failures += [
            Failure(other, "configuration", error)
            for other, error in self.settings.failed.items()
            if other not in self.configs.failed
        ]
        failures += _first(name, {f"members of {group}": error for group, error in self.seen.failed.items()})
        for other in self.brokers:
            unreported = {group: error for (group, at), error in self.seen_elsewhere.failed.items() if at == other}
            failures += _first(other, {f"members of {group}": error for group, error in unreported.items()})
        silent = {f"running info of {client_id}": error for (_, client_id), error in self.running.failed.items()}
        routes = {f"route of {RETRY_PREFIX}{group}": error for group, error in self.retry_routes.failed.items()}
        routes |= {f"route of {topic}": error for topic, error in self.topic_routes.failed.items()}
        # Without a route: the topic was deleted meanwhile, or the group has never consumed.
        routes = {what: error for what, error in routes.items() if not isinstance(error, NotFoundError)}
        return [*failures, *_first(None, silent), *_first(None, routes)]


def topics_of(group: str, tables: Tables, connections: GroupConnections | None) -> dict[str, int]:
    """Return how many queues the broker has of each topic that a group consumes, without its retries.

    Topics in which a running group has offsets, but to which it no longer subscribes, are not consumed.
    """
    wanted = tables.stored.get(group, {}) if connections is None else connections.subscriptions
    return {
        topic: config.read_queue_count
        for topic in sorted(wanted)
        if not topic.startswith(RETRY_PREFIX)
        and (config := tables.topics.get(topic)) is not None
        and config.is_readable
        and config.read_queue_count > 0
    }


def _first(broker_name: str | None, failed: Mapping[str, RmqctlError]) -> list[Failure]:
    by_reason: dict[str, list[tuple[str, RmqctlError]]] = {}
    for what, error in failed.items():
        by_reason.setdefault(error.name, []).append((what, error))
    failures = []
    for (what, error), *rest in by_reason.values():
        failures.append(Failure(broker_name, f"{what} and {len(rest)} more" if rest else what, error))
    return failures
