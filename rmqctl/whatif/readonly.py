"""Taking write permission from a broker: whose failed messages can then be put nowhere.

All of it was seen on 4.9.7 and 5.4.0. A client sends a failed message back to the broker that stores it
(CONSUMER_SEND_MSG_BACK), which refuses for want of its own permission; then as a new message to the retry topic, at any
broker that the topic's route calls writable; and when there is none it keeps it, and tries again in 5 s, without end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from rmqctl.model.failure import Failure
from rmqctl.model.group import BROADCASTING, CONSUME_ACTIVELY, CONSUME_POP, GroupConnections, GroupState, RunningInfo
from rmqctl.model.progress import Unknown
from rmqctl.model.route import Broker, TopicRoute
from rmqctl.model.topic import TopicConfig

from .concerns import Concern

_ENDLESS = "-1"  # maxReconsumeTimes of orderly consumers: Integer.MAX_VALUE times


class Way(StrEnum):
    """How the permission is taken."""

    BROKER_PERMISSION = "brokerPermission"  # the broker's setting: it refuses send-backs, and tells name servers
    WIPE_WRITE_PERM = "wipeWritePerm"  # only the name servers' routes: send-backs still go through


class Mode(StrEnum):
    """How a member consumes, as far as its failed messages go."""

    CONCURRENT = "CONCURRENT"
    ORDERLY = "ORDERLY"  # with a maximum of retries, past which it sends to the retry topic
    ORDERLY_ENDLESS = "ORDERLY_ENDLESS"  # without one: it never sends anything
    POP = "POP"  # the broker keeps what was not acknowledged, whatever its permission
    PULL = "PULL"  # a program that pulls by itself: no retries but its own
    BROADCASTING = "BROADCASTING"  # what fails is dropped


class Verdict(StrEnum):
    """What becomes of a group's failed messages, the worst first."""

    BLOCKS = "BLOCKS"
    UNKNOWN = "UNKNOWN"
    FINDS_ANOTHER = "FINDS_ANOTHER"
    NOT_AFFECTED = "NOT_AFFECTED"


class Why(StrEnum):
    """Why a verdict is what it is; beside these, why something is Unknown, and the Mode of one that is not affected."""

    NO_WRITABLE_BROKER = "NO_WRITABLE_BROKER"
    WRITABLE_BROKER = "WRITABLE_BROKER"
    NO_RETRY_TOPIC = "NO_RETRY_TOPIC"
    SEND_BACK_ACCEPTED = "SEND_BACK_ACCEPTED"


class Other(Struct, frozen=True):
    """Another broker, as it takes a message for a retry topic. None: it did not tell, `reason` says why.

    It refuses one of a group that it has not configured, unless it makes groups (autoCreateSubscriptionGroup).
    """

    groups: Collection[str] | None
    makes_groups: bool | None
    is_writable: bool | None
    reason: Unknown | None = None


class Places(Struct, frozen=True):
    """Other brokers that the retry topic's route calls writable: those that take a message, and those not heard.

    `reason`: why it is not known which else there are, or Why.NO_RETRY_TOPIC.
    """

    writable: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    reason: Unknown | Why | None = None


class GroupView(Struct, frozen=True):
    """A group that consumes topics of the broker. `topics` are its queues there by topic.

    `modes` are those of members that told; `silent_reason` says why others did not. `is_connected`: members are
    connected to the broker; else the group has members only elsewhere, if any.
    """

    group: str
    state: GroupState
    unseen_reason: Unknown | None
    member_count: int | None
    consume_type: str | None
    message_model: str | None
    topics: Mapping[str, int]
    modes: frozenset[Mode]
    silent_reason: Unknown | None
    places: Places
    is_connected: bool = True


class Effect(Struct, frozen=True):
    """A group and what would become of its failed messages of the broker."""

    view: GroupView
    verdict: Verdict
    why: Why | Unknown | Mode


class Readonly(Struct, frozen=True):
    """What taking write permission from a broker does. `is_read_only`: it has none already; None when it is not told.

    `missing_names` are brokers of its cluster that should be registered and are not; `is_only_broker` does not count
    them. `unwritable_topics` are those that producers could not send to any more. `wiped_topics` are those for which
    the name server has already taken it, out of `writable_count` that the broker would take messages for.
    """

    broker: Broker
    way: Way
    is_read_only: bool | None
    is_only_broker: bool
    missing_names: tuple[str, ...]
    effects: tuple[Effect, ...]
    unwritable_topics: tuple[str, ...]
    wiped_topics: tuple[str, ...]
    writable_count: int
    concerns: tuple[Concern, ...] = ()
    failures: tuple[Failure, ...] = ()


def told_mode(connections: GroupConnections) -> Mode | None:
    """Return the mode of all members when brokers know it, None when only the members do."""
    if connections.message_model == BROADCASTING:
        return Mode.BROADCASTING
    return {CONSUME_POP: Mode.POP, CONSUME_ACTIVELY: Mode.PULL}.get(connections.consume_type)


def member_mode(info: RunningInfo, topics: Collection[str]) -> Mode | None:
    """Return how a member consumes some topics by its own word (ConsumerRunningInfo), None when it doesn't tell."""
    properties = info.properties
    if properties.get("messageModel") == BROADCASTING:
        return Mode.BROADCASTING
    orderly = properties.get("PROP_CONSUMEORDERLY", "").lower()
    if orderly == "true":
        most = properties.get("maxReconsumeTimes")
        return None if most is None else Mode.ORDERLY_ENDLESS if most == _ENDLESS else Mode.ORDERLY
    if orderly != "false":
        return None
    if properties.get("clientRebalance") != "false":
        return Mode.CONCURRENT
    # Brokers say whether it pops or pulls, a topic at a time (SET_MESSAGE_REQUEST_MODE).
    if any(mq.topic in topics and not held.dropped for mq, held in info.process_queues.items()):
        return Mode.CONCURRENT
    return Mode.POP if any(mq.topic in topics for mq in info.pop_unacked) else None


def find_places(route: TopicRoute, broker_name: str, group: str, others: Mapping[str, Other]) -> Places:
    """Return where else a client would put a failed message, by the route of the group's retry topic.

    Clients take brokers that have a master, permission and queues there
    (MQClientInstance.topicRouteData2TopicPublishInfo).
    """
    masters = {broker.broker_name for broker in route.brokers if broker.master_address is not None}
    writable: list[str] = []
    unheard: list[str] = []
    for data in route.queue_data:
        name = data.broker_name
        if name == broker_name or name not in masters or not data.is_writable or data.write_queue_count <= 0:
            continue
        other = others.get(name, Other(None, None, None, Unknown.BROKER_NOT_REGISTERED))
        if other.groups is not None and (group in other.groups or other.makes_groups):
            writable.append(name)
        elif other.groups is None or other.makes_groups is None:
            unheard.append(name)
    reason = next((others[name].reason for name in unheard if name in others), Unknown.BROKER_NOT_REGISTERED)
    return Places(tuple(sorted(writable)), tuple(sorted(unheard)), reason if unheard and not writable else None)


def decide(view: GroupView, way: Way) -> Effect:
    """Say what would become of a group's failed messages, and never more than is known."""
    if view.state is GroupState.UNKNOWN:
        return Effect(view, Verdict.UNKNOWN, view.unseen_reason or Unknown.BROKER_UNREACHABLE)
    if view.state is GroupState.EMPTY or not view.is_connected:
        return Effect(view, Verdict.UNKNOWN, Unknown.NO_MEMBERS)
    sending = {Mode.ORDERLY} if way is Way.WIPE_WRITE_PERM else {Mode.CONCURRENT, Mode.ORDERLY}
    places = view.places
    if view.modes & sending and not places.writable and places.reason is None:
        return Effect(view, Verdict.BLOCKS, Why.NO_WRITABLE_BROKER)
    if view.silent_reason is not None:
        return Effect(view, Verdict.UNKNOWN, view.silent_reason)
    if view.modes & sending:
        if places.writable:
            return Effect(view, Verdict.FINDS_ANOTHER, Why.WRITABLE_BROKER)
        return Effect(view, Verdict.UNKNOWN, places.reason or Unknown.NOT_REPORTED)
    if Mode.CONCURRENT in view.modes:
        return Effect(view, Verdict.NOT_AFFECTED, Why.SEND_BACK_ACCEPTED)
    if not view.modes:
        return Effect(view, Verdict.UNKNOWN, Unknown.NOT_REPORTED)
    return Effect(view, Verdict.NOT_AFFECTED, min(view.modes))


def by_verdict(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return the effects in order, the worst first."""
    order = list(Verdict)
    return tuple(sorted(effects, key=lambda effect: (order.index(effect.verdict), effect.view.group)))


def writable_topics(configs: Mapping[str, TopicConfig]) -> list[str]:
    """Return the topics that a broker takes messages for, as far as their own configuration goes."""
    return sorted(topic for topic, config in configs.items() if config.is_writable and config.write_queue_count > 0)


def is_writable_elsewhere(route: TopicRoute, broker_name: str) -> bool:
    """Tell whether producers find another broker in a topic's route."""
    masters = {broker.broker_name for broker in route.brokers if broker.master_address is not None} - {broker_name}
    return any(
        data.is_writable and data.write_queue_count > 0 and data.broker_name in masters for data in route.queue_data
    )


def is_wiped(route: TopicRoute, broker_name: str) -> bool:
    """Tell whether a route has queues of a broker without the permission that the broker gives."""
    return any(data.broker_name == broker_name and not data.is_writable for data in route.queue_data)
