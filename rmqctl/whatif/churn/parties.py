"""The brokers and members of a simulation: what each of them knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from random import Random

from msgspec import Struct

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Allocate, Assignment, sort_client_ids
from rmqctl.rules.protection import Presence

from .ledger import PullSession
from .timing import SLOWEST, ClientTiming


class ClientList:
    """The client ids that a broker lists, sorted, and each as often as it is connected."""

    __slots__ = ("as_set", "ids")

    def __init__(self, ids: tuple[str, ...]) -> None:
        self.ids = ids
        self.as_set = frozenset(ids)


class ClientLists:
    """One object per list: brokers with the same members have the same one, so that lists compare by identity."""

    def __init__(self) -> None:
        self._lists: dict[tuple[str, ...], ClientList] = {}

    def get(self, ids: Iterable[str]) -> ClientList:
        """Return the list of these ids in any order."""
        key = tuple(sort_client_ids(ids))
        return self._lists.setdefault(key, ClientList(key))


class SimulatedBroker:
    """A broker, and the members that it lists. `newest_version_ms` is the newest version of those that joined."""

    __slots__ = ("_listed", "_lists", "is_up", "members", "name", "newest_version_ms", "scan_phase_ms")

    def __init__(self, name: str, scan_phase_ms: float, lists: ClientLists) -> None:
        self.name = name
        self.scan_phase_ms = scan_phase_ms
        self.is_up = True
        self.newest_version_ms = -inf
        self.members: dict[SimulatedMember, None] = {}
        self._lists = lists
        self._listed: ClientList | None = None

    def add(self, member: SimulatedMember) -> bool:
        """List a member; return whether it is new."""
        if member in self.members:
            return False
        self.members[member] = None
        self._listed = None
        return True

    def remove(self, member: SimulatedMember) -> bool:
        """Remove a member; return whether it was listed."""
        if member not in self.members:
            return False
        del self.members[member]
        self._listed = None
        return True

    def stop(self) -> None:
        """Stop; the list of members is only in memory."""
        self.is_up = False
        self.members.clear()
        self.newest_version_ms = -inf
        self._listed = None

    def listed(self) -> ClientList:
        """Return the clients that the broker lists."""
        if self._listed is None:
            self._listed = self._lists.get(member.client_id for member in self.members)
        return self._listed


class SimulatedRoute:
    """The brokers that are registered, and their queues, as a client knows them since its last refresh."""

    def __init__(self, brokers: Sequence[SimulatedBroker], by_topic: Mapping[str, Sequence[MessageQueue]]) -> None:
        names = {broker.name for broker in brokers}
        self.brokers = tuple(brokers)
        self.queues = {topic: [mq for mq in queues if mq.broker_name in names] for topic, queues in by_topic.items()}
        self.known = {topic: frozenset(queues) for topic, queues in self.queues.items()}
        self.places = {
            topic: [broker for broker in brokers if any(mq.broker_name == broker.name for mq in queues)]
            for topic, queues in self.queues.items()
        }
        self._assignments: dict[tuple[str, ClientList], Assignment] = {}

    def assignment(self, topic: str, counted: ClientList, allocate: Allocate) -> Assignment:
        """Return the shares of a topic among clients."""
        key = topic, counted
        if key not in self._assignments:
            self._assignments[key] = allocate(self.queues[topic], counted.ids)
        return self._assignments[key]


class Holding:
    """A queue that a member has taken.

    `session` pulls it, None before the first pull and while it cannot be pulled. `start` is the offset of the next
    pull, None until it is known. `is_waiting`: a refused pull is tried again later.
    """

    __slots__ = ("is_waiting", "session", "start")

    def __init__(self) -> None:
        self.session: PullSession | None = None
        self.start: int | None = None
        self.is_waiting = False


class ClientTrait(Struct, frozen=True):
    """How far a client's clock is ahead, and how many times as long its requests take."""

    skew_ms: float
    slowness: float


class ClientTraits:
    """What distinguishes clients, and remains after each of their restarts: they run on the same machine.

    Clients with one address share a machine, which is as slow for all of them.
    """

    def __init__(self, random: Random, skew_ms: float) -> None:
        self._random = random
        self._skew_ms = skew_ms
        self._machines: dict[str, float] = {}
        self._traits: dict[str, ClientTrait] = {}

    def get(self, origin: str) -> ClientTrait:
        """Return those of a client."""
        if origin not in self._traits:
            draw = self._random.uniform
            machine = origin.partition("@")[0]
            if machine not in self._machines:
                self._machines[machine] = SLOWEST ** draw(-1, 1)
            slowness = self._machines[machine] * SLOWEST ** draw(-1, 1)
            self._traits[origin] = ClientTrait(draw(-self._skew_ms, self._skew_ms), slowness)
        return self._traits[origin]


class SimulatedMember:
    """One process of a client, with its view of the group.

    `held` are its queues. `cut` are the brokers that it cannot reach. `views` are, by topic, its route and the clients
    that a broker listed at the last rebalance, and those of them that counted. `version_ms` is that of its
    subscriptions, by its own clock. `unheard_ms` is the time in which brokers have an older one, unless another member
    sends a newer one. `notified_ms` is when a broker first reported a change of members after the last rebalance.
    """

    __slots__ = (
        "client_id",
        "commit_phase_ms",
        "cut",
        "heartbeat_phase_ms",
        "held",
        "is_alive",
        "last_rebalance_ms",
        "next_rebalance_ms",
        "notified_ms",
        "origin",
        "presences",
        "route",
        "route_phase_ms",
        "started_ms",
        "timing",
        "trait",
        "unheard_ms",
        "version_ms",
        "views",
        "waits_for_queue",
    )  # fmt: skip

    def __init__(
        self, client_id: str, origin: str, timing: ClientTiming, route: SimulatedRoute, *, started_ms: float,
        phases_ms: tuple[float, float, float], trait: ClientTrait,
    ) -> None:  # fmt: skip
        self.client_id = client_id
        self.origin = origin
        self.timing = timing
        self.route = route
        self.started_ms = started_ms
        self.trait = trait
        self.renew_version(started_ms)
        self.unheard_ms = (-inf, -inf)
        self.heartbeat_phase_ms, self.route_phase_ms, self.commit_phase_ms = phases_ms
        self.is_alive = self.waits_for_queue = True
        self.cut: frozenset[SimulatedBroker] = frozenset()
        self.held: dict[MessageQueue, Holding] = {}
        self.last_rebalance_ms = started_ms
        self.next_rebalance_ms: float | None = None
        self.notified_ms: float | None = None
        self.presences: dict[str, Presence] = {}
        self.views: dict[str, tuple[SimulatedRoute, ClientList, ClientList]] = {}

    def renew_version(self, now_ms: float) -> None:
        """Give its subscriptions a new version: the time of its clock."""
        self.version_ms = now_ms + self.trait.skew_ms

    def reaches(self, broker: SimulatedBroker) -> bool:
        """Return whether requests to a broker are answered."""
        return broker.is_up and broker not in self.cut

    def next_heartbeat_ms(self, now_ms: float) -> float:
        """Return when the member sends its next regular heartbeat."""
        return now_ms + (self.heartbeat_phase_ms - now_ms) % self.timing.heartbeat_ms

    def next_refresh_ms(self, now_ms: float) -> float:
        """Return when the member refreshes its route next."""
        return now_ms + (self.route_phase_ms - now_ms) % self.timing.route_ms
