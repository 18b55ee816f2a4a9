"""Facts about one group, as values: the input of every check."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from rmqctl.diagnose.clocks import GroupClocks
from rmqctl.model.group import (
    CONSUME_PASSIVELY,
    GroupConfig,
    GroupConnections,
    GroupState,
    MemberView,
    RunningInfo,
    Subscription,
)
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.group_state import agreed
from rmqctl.rules.health.positions import Motion, PositionPair
from rmqctl.rules.member_settings import (
    MemberSettings,
    broadcasts,
    is_among,
    is_broadcasting_group,
    member_settings,
    pops,
    pulls,
)
from rmqctl.rules.message_wait import HeldBack
from rmqctl.rules.pop_checkpoints import UnrevivedRecords
from rmqctl.rules.retry_places import RetryPlace
from rmqctl.rules.stuck_queues import StuckVerdict
from rmqctl.whatif.group_snapshot import GroupSnapshot


class TopicFacts(Struct, frozen=True):
    """Sums over a group's queues of one topic. The numbers are lower bounds.

    Unreadable queues become readable with readQueueNums=`unreadable_end`. `uncommitted_count` are messages in queues
    without a stored offset.
    """

    topic: str
    lag: int = 0
    lost: int = 0
    is_lost_exact: bool = True
    beyond_max_count: int = 0
    unreadable_count: int = 0
    unreadable_queue_count: int = 0
    unreadable_end: int = 0
    uncommitted_count: int = 0

    @property
    def waiting_count(self) -> int:
        """The number of messages that certainly wait; without a stored offset, only those of a retry topic.

        Retries are meant for this group; in other topics, a member may start with later messages.
        """
        return self.lag + (self.uncommitted_count if self.topic.startswith(RETRY_PREFIX) else 0)


class QueueMotion(Struct, frozen=True):
    """The change of one queue between two readings, by the report of a member that holds it (`client_id`), if any.

    `verdict`: None for a healthy queue. `passed_ms` is the time between the readings, to compute rates;
    `watched.for_ms` is shorter, a lower bound. `is_exhausted`: all threads of the member are in the listener.
    """

    mq: MessageQueue
    client_id: str | None
    watched: PositionPair
    passed_ms: int = 0
    verdict: StuckVerdict | None = None
    is_exhausted: bool = False

    @property
    def is_stuck(self) -> bool:
        """Whether the member has had the same message in flight for too long."""
        return self.verdict is not None and self.verdict.is_stuck is True

    @property
    def is_served(self) -> bool:
        """Whether a member consumes the queue, however slowly."""
        is_idle = self.watched.motion in (Motion.IDLES, Motion.UNHELD, Motion.UNKNOWN)
        return not self.is_stuck and not is_idle and not (self.verdict is not None and self.verdict.is_overdue)

    @property
    def head_offset(self) -> int | None:
        """The first offset that the member has in flight."""
        held = self.watched.last.held
        return None if held is None else held.head_offset

    @property
    def in_hand_ms(self) -> int:
        """The least time that the member has had the head in flight, in ms; 0 if unknown."""
        return 0 if self.verdict is None else self.verdict.at_least_ms or 0

    def per_second(self, count: int) -> float:
        """Return a count between the two readings as a rate per second."""
        return count * 1000 / self.passed_ms if self.passed_ms > 0 else 0.0


class FilterSample(Struct, frozen=True):
    """The number of waiting messages of a topic that were sampled, and how many of them pass the members' filter."""

    count: int = 0
    passing_count: int = 0


# With a dict for cached properties: checks ask them for each queue and member.
class GroupFacts(Struct, frozen=True, dict=True):
    """One group as brokers and members report it, read at `at_ms` by this machine's clock.

    Brokers' tables give for every group: `connections` and `configs` by broker that answered (None: no member is
    connected there, or it has no configuration for the group), `topics`, `has_leftovers` (offsets are stored for
    queues that do not exist; `leftovers` lists them where the group was read in full).

    Where members were asked: `members` as brokers see them, `running` their own reports by client id, `silent` the
    reasons why others did not answer (the deadline left no time to ask those in `unasked`), `rows` by queue,
    `snapshot` for the shares of queues. `clocks` are empty if not
    measured. `put_rates` are messages per second by queue over `sampled_s`, None if not measured. `closed_brokers` are
    brokers of a subscribed topic without read permission, by topic; `closed_letter_brokers` those of the group's
    dead-letter topic, if the group was read in full. `unserved_brokers` are brokers without a connected
    member although other brokers have some, if members were not asked. `motions` compare two readings; with one, they
    are the queues that it proves to be idle. `memberships` are the client ids that brokers listed meanwhile, at several
    moments. `proxied` are the answers of the asked proxies by address, None without members; `silent_proxies` did not
    answer.

    Details of the backlog: `broker_settings` and `unrevived` by broker; `filter_samples` by topic; `read_elsewhere`
    the id of the replica that a master sends members to, by queue. `stored_topics` are existing topics with stored
    offsets; `unwanted_counts` the unread messages in those that the group does not consume, None where unknown.
    `held_back` is by broker.
    """

    group: str
    at_ms: int
    state: GroupState
    connections: Mapping[str, GroupConnections | None] = {}
    configs: Mapping[str, GroupConfig | None] = {}
    topics: tuple[TopicFacts, ...] = ()
    has_leftovers: bool = False
    leftovers: tuple[MessageQueue, ...] = ()
    members: tuple[MemberView, ...] = ()
    running: Mapping[str, RunningInfo] = {}
    silent: Mapping[str, str] = {}
    unasked: frozenset[str] = frozenset()
    rows: tuple[QueueProgress, ...] = ()
    snapshot: GroupSnapshot | None = None
    put_rates: Mapping[MessageQueue, float] | None = None
    sampled_s: float = 0.0
    dead_letter_count: int | None = None
    last_dead_letter_at_ms: int | None = None
    closed_letter_brokers: tuple[str, ...] = ()
    retry_places: Mapping[str, RetryPlace] = {}
    broker_versions: Mapping[str, int] = {}
    closed_brokers: Mapping[str, tuple[str, ...]] = {}
    clocks: GroupClocks = GroupClocks()
    motions: tuple[QueueMotion, ...] = ()
    memberships: tuple[frozenset[str], ...] = ()
    proxied: Mapping[str, GroupConnections | None] = {}
    silent_proxies: tuple[str, ...] = ()
    broker_settings: Mapping[str, Mapping[str, str]] = {}
    unrevived: Mapping[str, UnrevivedRecords] = {}
    filter_samples: Mapping[str, FilterSample] = {}
    read_elsewhere: Mapping[MessageQueue, int] = {}
    stored_topics: frozenset[str] = frozenset()
    unwanted_counts: Mapping[str, int | None] = {}
    unserved_brokers: Mapping[str, tuple[str, ...]] = {}
    held_back: Mapping[str, HeldBack] = {}

    @property
    def is_online(self) -> bool:
        """Whether a broker sees members."""
        return self.state is GroupState.ONLINE

    @cached_property
    def is_broadcasting(self) -> bool:
        """Whether the members broadcast, so that each of them holds every queue; with mixed models (MEM003), False.

        Brokers keep the model of the last heartbeat. It counts where no member reports its own.
        """
        return is_broadcasting_group(
            self.running.values(), (found.message_model for found in self.connections.values() if found is not None)
        )

    @cached_property
    def broadcasting(self) -> frozenset[str]:
        """The members that report that they broadcast."""
        return frozenset(client_id for client_id, info in self.running.items() if broadcasts(info))

    @cached_property
    def popping(self) -> frozenset[str]:
        """The members that pop, so that brokers distribute single messages among them.

        A member can pop from one topic and pull another. One that did not answer is neither here nor in `sharers`.
        """
        at_brokers = self._type_at_brokers()
        return frozenset(client_id for client_id, info in self.running.items() if pops(info, at_brokers))

    @cached_property
    def sharers(self) -> frozenset[str]:
        """The members that share queues and commit offsets of them: those that pull and do not broadcast."""
        if self.is_broadcasting:
            return frozenset()
        at_brokers = self._type_at_brokers()
        return frozenset(
            client_id for client_id, info in self.running.items() if pulls(info, at_brokers) and not broadcasts(info)
        )

    @cached_property
    def senders(self) -> frozenset[str]:
        """The members that send failed messages back to a broker: push consumers that share queues."""
        types = self.consume_types()
        return frozenset(client_id for client_id in self.sharers if types.get(client_id) == CONSUME_PASSIVELY)

    def is_popped(self, mq: MessageQueue) -> bool:
        """Return whether any member pops from a queue, whose offset then moves with each pop."""
        return is_among(mq, self._popped)

    @cached_property
    def _popped(self) -> frozenset[MessageQueue]:
        return frozenset(mq for info in self.running.values() for mq in info.pop_unacked)

    def _type_at_brokers(self) -> str | None:
        return agreed(found.consume_type for found in self.connections.values() if found is not None)

    @cached_property
    def settings(self) -> Mapping[str, MemberSettings]:
        """The settings that each member reports, by client id."""
        return {client_id: member_settings(info) for client_id, info in self.running.items()}

    def wanted(self) -> dict[str, dict[str, Subscription]]:
        """Return the subscriptions that members report, by topic and client id, without retry topics."""
        return _by_topic({client_id: info.subscriptions for client_id, info in self.running.items()})

    def filtered(self) -> dict[str, dict[str, Subscription]]:
        """Return the filters of brokers with members, by topic and broker name, without retry topics."""
        found = {name: each for name, each in self.connections.items() if each is not None and each.members}
        return _by_topic({name: tuple(each.subscriptions.values()) for name, each in found.items()})

    def registered(self, broker_name: str) -> frozenset[str]:
        """Return the client ids that a broker lists."""
        found = self.connections.get(broker_name)
        return frozenset() if found is None else frozenset(member.client_id for member in found.members)

    def consume_types(self) -> dict[str, str]:
        """Return the consume type that members report (push or pull), by client id."""
        reported = ((client_id, info.properties.get("PROP_CONSUME_TYPE")) for client_id, info in self.running.items())
        return {client_id: consume_type for client_id, consume_type in reported if consume_type}

    def holders(self) -> frozenset[str]:
        """Return the members that report which queues they hold: push consumers, and others that report a queue."""
        types = self.consume_types()
        return frozenset(
            client_id
            for client_id, info in self.running.items()
            if types.get(client_id) == CONSUME_PASSIVELY or info.process_queues or info.pop_unacked
        )

    @property
    def knows_holders(self) -> bool:
        """Whether every queue's holder is known: all brokers and members answered, and members report their queues."""
        live = None if self.snapshot is None else self.snapshot.live
        return (
            self.is_online
            and (live is None or not live.silent_brokers)
            and not self.silent
            and not self.broadcasting
            and bool(self.sharers)
            and self.holders() == {member.client_id for member in self.members}
        )


def _by_topic(tables: Mapping[str, tuple[Subscription, ...]]) -> dict[str, dict[str, Subscription]]:
    by_topic: dict[str, dict[str, Subscription]] = {}
    for name, subscriptions in sorted(tables.items()):
        for item in subscriptions:
            if not item.topic.startswith(RETRY_PREFIX):
                by_topic.setdefault(item.topic, {})[name] = item
    return dict(sorted(by_topic.items()))
