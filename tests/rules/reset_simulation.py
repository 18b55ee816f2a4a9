"""A small model of a broker, a queue, and the members that hold it one after the other, while a reset is taken up.

Times are in s since the write. It does what was seen of RocketMQ 5.4.0 and 4.9.7: marks, pulls that store the old
position over the target, held pulls, positions stored every 5 s, clients that stop for 10 s, members that die or join.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rmqctl.model.group import GroupState
from rmqctl.model.plan import Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, OwnerSample, QueueSample
from rmqctl.rules.written_offsets import WrittenOffset

MQ = MessageQueue("T", "broker-a", 0)
_TICK_S = 0.05


@dataclass
class Member:
    """A client that holds the queue. `position` is its commit offset."""

    name: str
    position: float
    begun_s: float
    consumed_s: float = 0.0
    pulls_at_s: float = 0.0
    # Until when it has dropped the queue, to go to the target then; and until when a pull of it is held.
    moves_at_s: float | None = None
    held_until_s: float = -1.0
    stores_at_s: float = 5.0


@dataclass
class Case:
    """One reset and what happens around it. What is None does not happen."""

    route: Route
    before: int
    target: int
    backlog: int = 0
    arriving_per_s: float = 0.0
    consuming_per_s: float = 1000.0
    # How long the member needs from a pull's answer to the target: 10 s before 5.2.
    moving_s: float = 0.1
    # How much later the broker has the target from it.
    storing_s: float = 0.0
    # A held pull ends then, unless a message arrives.
    held_s: float = 15.0
    ahead: int = 0
    is_orderly: bool = False
    is_silent: bool = False
    dies_at_s: float | None = None
    dies_after_mark_s: float | None = None
    dies_after_moving_s: float | None = None
    joins_at_s: float | None = None
    stranger_pulls_at_s: float | None = None
    is_push_lost: bool = False
    # The member asks the broker where to go on before the broker has the target from it.
    is_store_overtaken: bool = False
    sharing_s: float = 0.3


@dataclass
class Simulation:
    """Runs a case. `is_lost` tells at any time what became of the reset in fact."""

    case: Case
    now_s: float = 0.0
    stored: float = 0.0
    has_mark: bool = False
    max_offset: float = 0.0
    members: list[Member] = field(default_factory=list)
    owner: Member | None = None
    # How far messages were consumed without a gap since a member went to the target.
    reached: float | None = None
    takes_over_at_s: float | None = None
    names: int = 0

    def __post_init__(self) -> None:
        case = self.case
        self.stored = case.before
        start = case.before + case.ahead
        self.max_offset = start + case.backlog
        self._join(start)
        assert self.owner is not None
        self.owner.begun_s = -100.0
        self.owner.held_until_s = case.held_s if case.backlog == 0 else -1.0

    def write(self) -> None:
        """Write the reset."""
        case = self.case
        if case.route is not Route.CLIENT_PUSH:
            self.stored = case.target
        self.has_mark = case.route is Route.SERVER_SIDE
        if case.route is Route.CLIENT_PUSH and not case.is_push_lost and self.owner is not None:
            self.owner.moves_at_s = self.now_s + 10.0

    @property
    def is_forward(self) -> bool:
        """Whether the target is not before the position of the member."""
        return self.case.target >= self.case.before + self.case.ahead

    @property
    def is_lost(self) -> bool:
        """Whether the group stands before a target ahead of it, or did not read on from one behind it without a gap."""
        position = self.owner.position if self.owner is not None else self.stored
        return position < self.case.target if self.is_forward else self.reached is None

    def _join(self, position: float) -> None:
        self.names += 1
        self.owner = Member(f"c{self.names}", position, self.now_s, self.now_s, pulls_at_s=self.now_s + 0.5)
        self.owner.stores_at_s = self.now_s + 5.0
        self.members.append(self.owner)
        if self.reached is not None and position > self.reached:
            self.reached = None
        if self.reached is None and position == self.case.target and self.now_s > 0:
            self.reached = position

    def advance(self, until_s: float) -> None:
        """Let time pass."""
        while self.now_s < until_s - 1e-9:
            self.now_s += min(_TICK_S, until_s - self.now_s)
            self._tick(_TICK_S)

    def _tick(self, step_s: float) -> None:
        case, now_s = self.case, self.now_s
        self.max_offset += case.arriving_per_s * step_s
        if case.stranger_pulls_at_s is not None and now_s >= case.stranger_pulls_at_s:
            case.stranger_pulls_at_s = None
            self.has_mark = False
        if case.dies_at_s is not None and now_s >= case.dies_at_s and self.owner is not None:
            case.dies_at_s = None
            self.members.remove(self.owner)
            self.owner, self.takes_over_at_s = None, now_s + case.sharing_s
        if case.joins_at_s is not None and now_s >= case.joins_at_s and self.owner is not None:
            # The one that held it goes on in the group, without the queue; a push finds it gone.
            case.joins_at_s = None
            self._join(self.stored)
        if self.takes_over_at_s is not None and now_s >= self.takes_over_at_s:
            self.takes_over_at_s = None
            self._join(self.stored)
        for member in self.members:
            if member is self.owner:
                self._run(member, step_s)
            elif member.moves_at_s is not None and now_s >= member.moves_at_s:
                member.moves_at_s = None

    def _run(self, owner: Member, step_s: float) -> None:
        case, now_s = self.case, self.now_s
        if owner.moves_at_s is not None:
            if now_s >= owner.moves_at_s:
                owner.moves_at_s = None
                if not case.is_store_overtaken:
                    owner.position = self.reached = case.target
                owner.begun_s = owner.consumed_s = now_s
                owner.stores_at_s = now_s + case.storing_s
                if case.dies_after_moving_s is not None:
                    case.dies_at_s = now_s + case.dies_after_moving_s
                owner.pulls_at_s, owner.held_until_s = now_s + 0.5, -1.0
                self._store(owner)
            return
        is_held = owner.held_until_s > now_s and owner.position >= math.floor(self.max_offset)
        if now_s >= owner.pulls_at_s and not is_held:
            self._pull(owner)
        if owner.moves_at_s is None and now_s >= owner.pulls_at_s:
            moved = min(math.floor(self.max_offset), owner.position + case.consuming_per_s * step_s)
            if moved > owner.position:
                owner.position, owner.consumed_s = moved, now_s
                if self.reached is not None:
                    self.reached = max(self.reached, moved)
        self._store(owner)

    def _store(self, owner: Member) -> None:
        if self.now_s >= owner.stores_at_s:
            owner.stores_at_s = self.now_s + 5.0
            if not self.has_mark:
                self.stored = math.floor(owner.position)

    def _pull(self, owner: Member) -> None:
        """Pull, with the position to be stored, as Java's push consumer does; the broker tells it of the mark."""
        now_s = self.now_s
        self.stored = math.floor(owner.position)
        if self.has_mark:
            self.has_mark = False
            owner.moves_at_s = now_s + self.case.moving_s
            if self.case.dies_after_mark_s is not None:
                self.case.dies_at_s = now_s + self.case.dies_after_mark_s
        elif owner.position >= math.floor(self.max_offset):
            owner.held_until_s = now_s + self.case.held_s

    def sample(self, latency_s: float = 0.0) -> GroupSample:
        """Look at it as a sampler does: at the broker first, at the members a little later."""
        at_s, stored = self.now_s, math.floor(self.stored)
        self.advance(self.now_s + latency_s)
        owners = [
            OwnerSample(
                client_id=member.name,
                commit_offset=math.floor(member.position),
                cached_count=0,
                cached_min_offset=0,
                is_dropped=member.moves_at_s is not None,
                begun_at_ms=None if self.case.is_orderly else round(member.begun_s * 1000),
                consumed_at_ms=round(member.consumed_s * 1000),
            )
            for member in self.members
            if member is self.owner or member.moves_at_s is not None
        ]
        names = tuple(sorted(member.name for member in self.members))
        return GroupSample(
            at_ms=round(at_s * 1000),
            monotonic_s=at_s,
            group="G",
            state=GroupState.ONLINE if names else GroupState.EMPTY,
            client_ids=names,
            queues={
                MQ: QueueSample(
                    mq=MQ,
                    consumer_offset=stored,
                    max_offset=math.floor(self.max_offset),
                    owners=() if self.case.is_silent else tuple(owners),
                )
            },
            silent_ids=names if self.case.is_silent else (),
        )

    def written(self) -> WrittenOffset:
        """Return what the judge is told."""
        return WrittenOffset(MQ, self.case.route, self.case.before, self.case.target)
