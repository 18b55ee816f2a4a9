"""Removing write permission from a broker: which groups then cannot store their failed messages.

All of this was observed on 4.9.7 and 5.4.0. A client sends a failed message back to the broker that stores it
(CONSUMER_SEND_MSG_BACK), which refuses without write permission. The client then sends it as a new message to the retry
topic, at any broker that is writable according to the topic's route. Without such a broker it keeps the message, and
retries every 5 s for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from rmqctl.model.failure import Failure
from rmqctl.model.group import BROADCASTING, CONSUME_ACTIVELY, CONSUME_POP, GroupConnections, GroupState, RunningInfo
from rmqctl.model.progress import Unknown
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.model.topic import TopicConfig
from rmqctl.rules.member_settings import consumes_orderly
from rmqctl.text.words import listed

from .concerns import Concern

_ENDLESS = "-1"  # maxReconsumeTimes of orderly consumers: Integer.MAX_VALUE times


class RemovalMethod(StrEnum):
    """How the permission is removed."""

    BROKER_PERMISSION = "brokerPermission"  # the broker's setting: it refuses send-backs, and informs name servers
    WIPE_WRITE_PERM = "wipeWritePerm"  # only the name servers' routes: send-backs are still accepted


class MemberMode(StrEnum):
    """How a member consumes, as far as it affects its failed messages."""

    CONCURRENT = "CONCURRENT"
    ORDERLY = "ORDERLY"  # with a retry limit, after which it sends to the retry topic
    ORDERLY_ENDLESS = "ORDERLY_ENDLESS"  # without a limit: it never sends messages
    POP = "POP"  # the broker keeps unacknowledged messages, whatever its permission
    PULL = "PULL"  # a program that pulls: only its own retries
    BROADCASTING = "BROADCASTING"  # failed messages are dropped


class ReadonlyVerdict(StrEnum):
    """What happens to a group's failed messages, the worst first."""

    BLOCKS = "BLOCKS"
    UNKNOWN = "UNKNOWN"
    FINDS_ANOTHER = "FINDS_ANOTHER"
    NOT_AFFECTED = "NOT_AFFECTED"


class ReadonlyReason(StrEnum):
    """The reason for a verdict; other reasons are Unknown values, and the MemberMode of a group that is unaffected."""

    NO_WRITABLE_BROKER = "NO_WRITABLE_BROKER"
    WRITABLE_BROKER = "WRITABLE_BROKER"
    NO_RETRY_TOPIC = "NO_RETRY_TOPIC"
    SEND_BACK_ACCEPTED = "SEND_BACK_ACCEPTED"


class OtherBroker(Struct, frozen=True):
    """Another broker, as a place for a message to a retry topic. None: not reported, `reason` says why.

    It refuses messages of a group without a configuration, unless it creates groups (autoCreateSubscriptionGroup).
    """

    groups: Collection[str] | None
    makes_groups: bool | None
    is_writable: bool | None
    reason: Unknown | None = None


class RetryBrokers(Struct, frozen=True):
    """Other brokers that are writable by the retry topic's route: those that accept a message, and silent ones.

    `reason`: why further brokers are unknown, or ReadonlyReason.NO_RETRY_TOPIC.
    """

    writable: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    reason: Unknown | ReadonlyReason | None = None


class GroupView(Struct, frozen=True):
    """A group that consumes topics of the broker. `topics` has the number of its queues there by topic.

    `modes` are those that members reported; `silent_reason` says why others did not. `is_connected`: members are
    connected to the broker; else the group has members only elsewhere, if any.
    """

    group: str
    state: GroupState
    unseen_reason: Unknown | None
    member_count: int | None
    consume_type: str | None
    message_model: str | None
    topics: Mapping[str, int]
    modes: frozenset[MemberMode]
    silent_reason: Unknown | None
    places: RetryBrokers
    is_connected: bool = True


class ReadonlyEffect(Struct, frozen=True):
    """A group, and what would happen to its failed messages from the broker."""

    view: GroupView
    verdict: ReadonlyVerdict
    why: ReadonlyReason | Unknown | MemberMode


class Readonly(Struct, frozen=True):
    """The effects of removing write permission from a broker. `is_read_only`: it is read-only already; None: unknown.

    `missing_names` are brokers of its cluster that should be registered but are not; `is_only_broker` does not count
    them. `unwritable_topics` are topics that producers could no longer send to. `wiped_topics` are topics for which the
    name server has already removed the permission, out of `writable_count` that the broker itself accepts. `why` is why
    the way was chosen, as the end of a sentence; empty for a requested way.
    """

    broker: BrokerData
    way: RemovalMethod
    is_read_only: bool | None
    is_only_broker: bool
    missing_names: tuple[str, ...]
    effects: tuple[ReadonlyEffect, ...]
    unwritable_topics: tuple[str, ...]
    wiped_topics: tuple[str, ...]
    writable_count: int
    concerns: tuple[Concern, ...] = ()
    failures: tuple[Failure, ...] = ()
    why: str = ""


def reported_mode(connections: GroupConnections) -> MemberMode | None:
    """Return the mode of all members if brokers know it, None if only the members do."""
    if connections.message_model == BROADCASTING:
        return MemberMode.BROADCASTING
    return {CONSUME_POP: MemberMode.POP, CONSUME_ACTIVELY: MemberMode.PULL}.get(connections.consume_type)


def member_mode(info: RunningInfo, topics: Collection[str]) -> MemberMode | None:
    """Return how a member consumes some topics by its own report (ConsumerRunningInfo), None when not reported."""
    properties = info.properties
    if properties.get("messageModel") == BROADCASTING:
        return MemberMode.BROADCASTING
    orderly = consumes_orderly(info)
    if orderly:
        most = properties.get("maxReconsumeTimes")
        return None if most is None else MemberMode.ORDERLY_ENDLESS if most == _ENDLESS else MemberMode.ORDERLY
    if orderly is None:
        return None
    if properties.get("clientRebalance") != "false":
        return MemberMode.CONCURRENT
    # Brokers decide per topic whether it pops or pulls (SET_MESSAGE_REQUEST_MODE).
    if any(mq.topic in topics and not held.dropped for mq, held in info.process_queues.items()):
        return MemberMode.CONCURRENT
    return MemberMode.POP if any(mq.topic in topics for mq in info.pop_unacked) else None


def find_retry_brokers(
    route: TopicRoute, broker_name: str, group: str, others: Mapping[str, OtherBroker]
) -> RetryBrokers:
    """Return where else a client would send a failed message, by the route of the group's retry topic.

    Clients use brokers that have a master, permission and queues there
    (MQClientInstance.topicRouteData2TopicPublishInfo).
    """
    masters = {broker.broker_name for broker in route.brokers if broker.master_address is not None}
    writable: list[str] = []
    unheard: list[str] = []
    for data in route.queue_data:
        name = data.broker_name
        if name == broker_name or name not in masters or not data.is_writable or data.write_queue_count <= 0:
            continue
        other = others.get(name, OtherBroker(None, None, None, Unknown.BROKER_NOT_REGISTERED))
        if other.groups is not None and (group in other.groups or other.makes_groups):
            writable.append(name)
        elif other.groups is None or other.makes_groups is None:
            unheard.append(name)
    reason = next((others[name].reason for name in unheard if name in others), Unknown.BROKER_NOT_REGISTERED)
    return RetryBrokers(tuple(sorted(writable)), tuple(sorted(unheard)), reason if unheard and not writable else None)


def decide(view: GroupView, way: RemovalMethod) -> ReadonlyEffect:
    """Return what would happen to a group's failed messages; UNKNOWN where that is not certain."""
    if view.state is GroupState.UNKNOWN:
        return ReadonlyEffect(view, ReadonlyVerdict.UNKNOWN, view.unseen_reason or Unknown.BROKER_UNREACHABLE)
    if view.state is GroupState.EMPTY or not view.is_connected:
        return ReadonlyEffect(view, ReadonlyVerdict.UNKNOWN, Unknown.NO_MEMBERS)
    sending = (
        {MemberMode.ORDERLY} if way is RemovalMethod.WIPE_WRITE_PERM else {MemberMode.CONCURRENT, MemberMode.ORDERLY}
    )
    places = view.places
    if view.modes & sending and not places.writable and places.reason is None:
        return ReadonlyEffect(view, ReadonlyVerdict.BLOCKS, ReadonlyReason.NO_WRITABLE_BROKER)
    if view.silent_reason is not None:
        return ReadonlyEffect(view, ReadonlyVerdict.UNKNOWN, view.silent_reason)
    if view.modes & sending:
        if places.writable:
            return ReadonlyEffect(view, ReadonlyVerdict.FINDS_ANOTHER, ReadonlyReason.WRITABLE_BROKER)
        return ReadonlyEffect(view, ReadonlyVerdict.UNKNOWN, places.reason or Unknown.NOT_REPORTED)
    if MemberMode.CONCURRENT in view.modes:
        return ReadonlyEffect(view, ReadonlyVerdict.NOT_AFFECTED, ReadonlyReason.SEND_BACK_ACCEPTED)
    if not view.modes:
        return ReadonlyEffect(view, ReadonlyVerdict.UNKNOWN, Unknown.NOT_REPORTED)
    return ReadonlyEffect(view, ReadonlyVerdict.NOT_AFFECTED, min(view.modes))


def choose_removal(found: Readonly) -> tuple[RemovalMethod, str]:
    """Return how to remove the permission, and why, as the end of a sentence; `found` is for BROKER_PERMISSION.

    The setting of the broker outlasts restarts and registrations. Without it, the broker accepts failed messages.
    """
    blocked = [effect.view.group for effect in found.effects if effect.verdict is ReadonlyVerdict.BLOCKS]
    unsure = [
        effect.view.group
        for effect in found.effects
        if is_mixed(effect) or (effect.verdict is ReadonlyVerdict.UNKNOWN and may_block(effect))
    ]
    if blocked or unsure:
        could = f"{listed(blocked, 5)} could not" if blocked else f"{listed(unsure, 5)} might not"
        return RemovalMethod.WIPE_WRITE_PERM, f"with brokerPermission, failed messages of {could} be stored"
    return RemovalMethod.BROKER_PERMISSION, "no group is known to block, and it outlasts restarts of name servers"


def may_block(effect: ReadonlyEffect) -> bool:
    """Return whether an unknown effect may be that the group blocks; not where another broker stores its messages."""
    places = effect.view.places
    return effect.why is not Unknown.NO_MEMBERS or (not places.writable and places.reason is None)


def is_mixed(effect: ReadonlyEffect) -> bool:
    """Return whether some members of a group consume in order and others do not."""
    modes = effect.view.modes
    return MemberMode.CONCURRENT in modes and bool(modes & {MemberMode.ORDERLY, MemberMode.ORDERLY_ENDLESS})


def by_verdict(effects: Iterable[ReadonlyEffect]) -> tuple[ReadonlyEffect, ...]:
    """Return the effects in order, the worst first."""
    order = list(ReadonlyVerdict)
    return tuple(sorted(effects, key=lambda effect: (order.index(effect.verdict), effect.view.group)))


def writable_topics(configs: Mapping[str, TopicConfig]) -> list[str]:
    """Return the topics that accept messages at a broker, by their own configuration."""
    return sorted(topic for topic, config in configs.items() if config.is_writable and config.write_queue_count > 0)


def is_writable_elsewhere(route: TopicRoute, broker_name: str) -> bool:
    """Tell whether producers find another broker in a topic's route."""
    masters = {broker.broker_name for broker in route.brokers if broker.master_address is not None} - {broker_name}
    return any(
        data.is_writable and data.write_queue_count > 0 and data.broker_name in masters for data in route.queue_data
    )


def is_wiped(route: TopicRoute, broker_name: str) -> bool:
    """Tell whether a route lists queues of a broker as not writable."""
    return any(data.broker_name == broker_name and not data.is_writable for data in route.queue_data)
