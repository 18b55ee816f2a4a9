"""The connected members of groups and their subscriptions (ConsumerManager, ProducerManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from rmqctl.sandbox.channel import Channel
from rmqctl.sandbox.profile import Profile

from .filters import ExpressionTable
from .subscription import SubscriptionData

# ConsumerManager.CHANNEL_EXPIRED_TIMEOUT; checked every 10 s.
CHANNEL_EXPIRED_S = 120.0
# BrokerConfig.subscriptionExpiredTimeout: how long 5.x keeps the subscriptions of pulls without a heartbeat.
PULLED_EXPIRED_S = 600.0

BROADCASTING = "BROADCASTING"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"


class MemberChannel(Struct):
    """One connection of a group; last heard from at `heard_at_s` (monotonic clock), `heard_at_ms` (broker's clock)."""

    client_id: str
    language: str
    version: int
    heard_at_s: float
    heard_at_ms: int = 0


class ConsumerGroup(Struct):
    """One group as a broker knows it while it has members (ConsumerGroupInfo).

    Its type, model and start position are those of the last heartbeat, None for values unknown to RocketMQ. It has the
    topics of the last heartbeat, each with its newest subscription by version.
    """

    name: str
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    members: dict[Channel, MemberChannel] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    def merge(self, subscriptions: list[SubscriptionData]) -> bool:
        """Merge the subscriptions of a heartbeat; return whether the set of topics changed (updateSubscription)."""
        changed = False
        for new in subscriptions:
            old = self.subscriptions.get(new.topic)
            if old is None:
                changed = True
            if old is None or new.version_ms > old.version_ms:
                self.subscriptions[new.topic] = new
        for topic in self.subscriptions.keys() - {new.topic for new in subscriptions}:
            del self.subscriptions[topic]
            changed = True
        return changed

    def hear(self, channel: Channel, member: MemberChannel) -> bool:
        """Record a heartbeat; return whether the connection is new in the group.

        The language and version from the first heartbeat are kept until the connection sends another client id.
        """
        known = self.members.get(channel)
        if known is not None and known.client_id == member.client_id:
            known.heard_at_s, known.heard_at_ms = member.heard_at_s, member.heard_at_ms
            return False
        self.members[channel] = member
        return known is None

    @property
    def client_ids(self) -> list[str]:
        """The client ids of the members; a client with two connections is listed twice."""
        return [member.client_id for member in self.members.values()]

    def find(self, client_id: str) -> Channel | None:
        """Return the connection of a client, None when it has none."""
        return next((channel for channel, member in self.members.items() if member.client_id == client_id), None)


class ConsumerTable:
    """All groups that have members, and the SQL92 `expressions` of groups.

    `on_change` is called with a group whose members or topics changed, and with whether a broken connection was the
    cause: brokers then ignore the group's notifyConsumerIdsChangedEnable.
    """

    def __init__(self, monotonic_s: Callable[[], float], profile: Profile) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.expressions = ExpressionTable(monotonic_s, has_text_operators=profile.is_5)
        self.on_change: Callable[[ConsumerGroup, bool], None] = lambda _group, _by_close: None
        self._monotonic_s = monotonic_s
        self._pulled: dict[tuple[str, str], tuple[SubscriptionData, float, int]] = {}
        self._fingerprints: dict[str, int] = {}

    def find(self, group: str) -> ConsumerGroup | None:
        """Return a group, None when it has no members."""
        return self.groups.get(group)

    def register(
        self, name: str, channel: Channel, member: MemberChannel, *, consume_type: str | None,
        message_model: str | None, consume_from_where: str | None, subscriptions: list[SubscriptionData] | None,
    ) -> None:  # fmt: skip
        """Register a heartbeat's data of one group; `subscriptions` None keeps the known ones."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = ConsumerGroup(name)
        group.consume_type, group.message_model = consume_type, message_model
        group.consume_from_where = consume_from_where
        is_new = group.hear(channel, member)
        topics_changed = subscriptions is not None and group.merge(subscriptions)
        if is_new or topics_changed:
            self.on_change(group, False)
        if subscriptions is not None:
            self.expressions.register(name, subscriptions)

    def swap_fingerprint(self, group: str, fingerprint: int) -> bool:
        """Store the fingerprint of a group's heartbeat; return whether it differs from the one before."""
        before = self._fingerprints.get(group, fingerprint)
        self._fingerprints[group] = fingerprint
        return before != fingerprint

    def unregister(self, name: str, channel: Channel) -> None:
        """Remove a connection from a group. The members are notified even when the connection was not one of them."""
        group = self.groups.get(name)
        if group is None:
            return
        group.members.pop(channel, None)
        self._drop_if_empty(group)
        self.on_change(group, False)

    def forget(self, channel: Channel) -> None:
        """Remove a broken connection from all groups."""
        for group in list(self.groups.values()):
            if group.members.pop(channel, None) is not None:
                self._drop_if_empty(group)
                self.on_change(group, True)

    def _drop_if_empty(self, group: ConsumerGroup) -> None:
        if not group.members:
            del self.groups[group.name]
            self.expressions.forget(group.name)

    def take_expired(self) -> list[Channel]:
        """Remove and return the connections without a heartbeat for 120 s.

        Members are not notified: brokers notify them only of connections that the other side closes.
        """
        limit_s = self._monotonic_s() - CHANNEL_EXPIRED_S
        expired = []
        for group in list(self.groups.values()):
            silent = [channel for channel, member in group.members.items() if member.heard_at_s < limit_s]
            for channel in silent:
                del group.members[channel]
            if not group.members:
                del self.groups[group.name]
            expired += silent
        return expired

    def note_pulled(self, group: str, subscription: SubscriptionData, now_ms: int) -> None:
        """Remember the subscription that a pull request carried (compensateSubscribeData)."""
        self._pulled[group, subscription.topic] = (subscription, self._monotonic_s(), now_ms)

    def drop_expired_pulls(self) -> None:
        """Drop the subscriptions of pulls that were not repeated for 600 s."""
        limit_s = self._monotonic_s() - PULLED_EXPIRED_S
        self._pulled = {key: pulled for key, pulled in self._pulled.items() if pulled[1] >= limit_s}

    def find_subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return a group's subscription to a topic, from its members or else its last pull; None without either."""
        online = self.groups.get(group)
        if online is not None and topic in online.subscriptions:
            return online.subscriptions[topic]
        pulled = self._pulled.get((group, topic))
        if pulled is None:
            return None
        subscription, pulled_at_s, version_ms = pulled
        if self._monotonic_s() - pulled_at_s > PULLED_EXPIRED_S:
            del self._pulled[group, topic]
            return None
        return replace(subscription, version_ms=version_ms)

    def consumed_topics(self, group: str, topics: Iterable[str]) -> list[str]:
        """Return the topics that a group consumes: all if it is offline, only its subscriptions if it is online."""
        online = self.find(group)
        if online is None or not online.subscriptions:
            return list(topics)
        return [topic for topic in topics if self.find_subscription(group, topic) is not None]


class ProducerTable:
    """All producer groups that have members."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self.groups: dict[str, dict[Channel, MemberChannel]] = {}
        self._channels: dict[str, Channel] = {}
        self._turn = 0
        self._monotonic_s = monotonic_s

    def register(self, group: str, channel: Channel, member: MemberChannel) -> None:
        """Register a heartbeat's data of one group; the client id, language and version of the first one are kept."""
        members = self.groups.setdefault(group, {})
        if channel not in members:
            self._channels[member.client_id] = channel
        known = members.setdefault(channel, member)
        known.heard_at_s, known.heard_at_ms = member.heard_at_s, member.heard_at_ms

    def unregister(self, group: str, channel: Channel) -> None:
        """Remove a connection from a group. As in RocketMQ, replies no longer reach any group of that client."""
        members = self.groups.get(group, {})
        member = members.pop(channel, None)
        if member is not None:
            self._channels.pop(member.client_id, None)
        if not members:
            self.groups.pop(group, None)

    def forget(self, channel: Channel) -> None:
        """Remove a connection from all groups."""
        for group in list(self.groups):
            self.unregister(group, channel)

    def find(self, client_id: str) -> Channel | None:
        """Return the connection of a client, None when it has none (findChannel)."""
        return self._channels.get(client_id)

    def choose(self, group: str) -> Channel | None:
        """Return a connection of a group, each in turn; None when it has none (getAvailableChannel)."""
        channels = list(self.groups.get(group, ()))
        self._turn += 1
        return channels[self._turn % len(channels)] if channels else None

    def take_expired(self) -> list[Channel]:
        """Remove and return the connections without a heartbeat for 120 s."""
        limit_s = self._monotonic_s() - CHANNEL_EXPIRED_S
        expired = []
        for name, members in list(self.groups.items()):
            gone = [channel for channel, member in members.items() if member.heard_at_s < limit_s]
            for channel in gone:
                self.unregister(name, channel)
            expired += gone
        return expired
