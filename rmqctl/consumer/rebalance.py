"""Share the queues of a group with its other members (RebalanceService, RebalanceImpl)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.client.core import Client
from rmqctl.consumer.rules.rebalance import (
    Share,
    UnchangedReason,
    compute_moves,
    compute_share,
    find_unsubscribed,
    share_of_all,
)
from rmqctl.errors import BrokerError, RmqctlError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.group import BROADCASTING
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.net.clock import pause, wait_for
from rmqctl.rules.allocate import Allocate, sort_client_ids, sort_queues
from rmqctl.rules.protection import Presence, counted_clients, look, next_change_ms, since_notified_ms
from rmqctl.text.words import listed

from .membership import Membership
from .reports.problems import Problems
from .routes import Routes
from .settings import ConsumerSettings

# One broker gives the member list; another one is asked only if it fails.
_BROKERS_ASKED = 3
# The pause after an incomplete round; it doubles with each further one. RocketMQ retries every second.
_RETRY_S = 1.0
# The reason of a queue that is only not ready yet.
_NOT_NOW = "NOT_NOW"
_OLD = "old routes"
# Why a topic keeps its queues, and that no topic does any more.
_KEPT_WORDS = {
    UnchangedReason.NO_ROUTE: (ConsumerWarning.ROUTE, "it has no route", "All topics have routes again"),
    UnchangedReason.NO_QUEUES: (
        ConsumerWarning.ROUTE,
        "its route has no readable queues",
        "All topics have readable queues again",
    ),
    UnchangedReason.NO_CLIENTS: (ConsumerWarning.GROUP, "the members are unknown", "The members are known again"),
    UnchangedReason.STRATEGY_FAILED: (ConsumerWarning.STRATEGY, "the strategy failed", "The strategy works again"),
}


class RebalanceOwner(Protocol):
    """The consumer that holds the queues."""

    def held(self) -> Mapping[MessageQueue, float]:
        """Return the held queues, and how long ago each was last pulled or paused, in s."""

    async def claim(self, mqs: Collection[MessageQueue]) -> Mapping[MessageQueue, str | None]:
        """Lock queues that are taken next; return those that cannot be, with the reason; None if another one has it."""

    async def take(self, mq: MessageQueue) -> bool:
        """Take a queue; return False or raise RmqctlError if it cannot be taken now."""

    def announce(self) -> None:
        """Have taken queues prepared by the application."""

    async def revoke(self, mqs: Sequence[MessageQueue]) -> None:
        """Have queues finished that are given up next."""

    async def drop(self, mq: MessageQueue) -> bool:
        """Give up a queue; return False or raise RmqctlError if it cannot be given up yet."""


class TopicBalance(Struct, frozen=True):
    """The result of the last rebalance of a topic.

    `client_ids` is the list of the broker `asked`; `counted_ids` are the clients that share queues. `refused` has the
    queues that could not be taken or dropped, with the reason; they are retried soon.
    """

    topic: str
    at_ms: int
    share: Share
    asked: str | None = None
    client_ids: tuple[str, ...] = ()
    counted_ids: tuple[str, ...] = ()
    refused: Mapping[MessageQueue, str] = {}

    @property
    def is_settled(self) -> bool:
        """Whether the rebalance is complete."""
        return self.share.kept is None and not self.refused


class Rebalance:
    """Decides which queues this client holds, and has its owner take and drop them.

    `allocate` is the strategy's function; `by_place` is passed to compute_share(). `shuffle` orders the brokers of a
    topic for the request. `problems` receives what prevents a rebalance, `on_ids` the client ids that a broker lists.
    """

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        membership: Membership,
        routes: Routes,
        allocate: Allocate,
        owner: RebalanceOwner,
        *,
        by_place: bool = False,
        shuffle: Callable[[list[BrokerData]], object] = random.shuffle,
        problems: Problems | None = None,
        on_ids: Callable[[str, Collection[str]], None] = lambda _, __: None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._membership = membership
        self._routes = routes
        self._allocate = allocate
        self._by_place = by_place
        self._owner = owner
        self._shuffle = shuffle
        self._problems = problems or Problems(lambda _: None, client.clock)
        self._on_ids = on_ids
        self._wake = asyncio.Event()
        self._namesake_topics: set[str] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._presences: dict[str, Presence] = {}
        # When it was woken first: since the last round began, and before.
        self._woken_ms: int | None = None
        self._notified_ms: int | None = None
        # By topic, for callers.
        self.outcomes: dict[str, TopicBalance] = {}

    def wake(self) -> None:
        """Rebalance as soon as allowed: a broker reports a change of members (NOTIFY_CONSUMER_IDS_CHANGED)."""
        if self._woken_ms is None:
            self._woken_ms = self._now_ms()
        self._wake.set()

    async def next_round(self) -> None:
        """Return once a rebalance that begins from now on has ended."""
        ended = asyncio.get_running_loop().create_future()
        self._waiting.append(ended)
        self.wake()
        await ended

    async def run(self) -> None:
        """Rebalance until cancelled: immediately, every rebalance_s, when woken, and sooner after failures.

        The pause between rounds is never shorter than rebalance_min_s, unless a client starts to count: all members
        have to give up and take its queues at that time.
        """
        settings, clock = self._settings, self._client.clock
        retry_s = _RETRY_S
        while True:
            self._wake.clear()
            self._notified_ms, self._woken_ms = self._woken_ms, None
            began_s = clock.monotonic_s()
            waiting, self._waiting = self._waiting, []
            try:
                is_complete = await self.round()
            finally:
                for ended in waiting:
                    if not ended.done():
                        ended.set_result(None)
            if is_complete:
                rest_s, retry_s = settings.rebalance_s, _RETRY_S
            elif self._waits_for_members:
                rest_s = _RETRY_S
            else:
                rest_s, retry_s = retry_s, min(retry_s * 2, settings.rebalance_s)
            counted_s = self._next_counted_s(began_s)
            until_s = min(began_s + rest_s, counted_s)
            await pause(clock, max(0.0, min(began_s + settings.rebalance_min_s, counted_s) - clock.monotonic_s()))
            try:
                await wait_for(clock, self._wake.wait(), max(0.0, until_s - clock.monotonic_s()))
                retry_s = _RETRY_S
            except TimeoutError:
                pass

    @property
    def _waits_for_members(self) -> bool:
        """Whether only queues are missing that other members, or running batches, have not given up yet."""
        outcomes = self.outcomes.values()
        reasons = {reason for outcome in outcomes for reason in outcome.refused.values()}
        return reasons == {_NOT_NOW} and all(outcome.share.kept is None for outcome in outcomes)

    def _next_counted_s(self, began_s: float) -> float:
        """Return when the next client starts to count after a round at `began_s`, monotonic s; inf for none."""
        began_ms, protect_ms = int(began_s * 1000), self._protect_ms()
        changes = [next_change_ms(presence, began_ms, protect_ms) for presence in self._presences.values()]
        return min((at_ms / 1000 for at_ms in changes if at_ms is not None), default=inf)

    async def round(self) -> bool:
        """Rebalance all topics once; return whether nothing needs a retry soon.

        A failure in one topic or queue does not stop the others.
        """
        topics = list(self._membership.subscriptions())
        await self._routes.refresh(topics)
        for known in (self._presences, self.outcomes):
            for topic in [topic for topic in known if topic not in topics]:
                del known[topic]
        self._report_old_routes()
        before = dict(self.outcomes)
        leftovers, stuck = await self._drop(find_unsubscribed(self._owner.held(), topics))
        changed = await asyncio.gather(*map(self._balance, topics))
        self._report_kept(before)
        if leftovers or any(changed):
            self._membership.renew([topic for topic, has_changed in zip(topics, changed, strict=True) if has_changed])
            self._membership.beat_soon()
        return not stuck and all(outcome.is_settled for outcome in self.outcomes.values())

    async def _balance(self, topic: str) -> bool:
        """Rebalance one topic; return whether its queues have changed."""
        outcome = await self._find_share(topic)
        held = {mq: idle_s for mq, idle_s in self._owner.held().items() if mq.topic == topic}
        expired = frozenset(mq for mq, idle_s in held.items() if idle_s > self._settings.pull_expired_s)
        moves = compute_moves(held, outcome.share, expired)
        dropped, stuck = await self._drop(moves.drop)
        wanted = [mq for mq in moves.take if mq not in stuck]
        claimed = await self._owner.claim(wanted)
        unclaimed = {mq: _NOT_NOW if reason is None else reason for mq, reason in claimed.items()}
        taken, refused = await self._each([mq for mq in wanted if mq not in unclaimed], self._owner.take)
        self._owner.announce()
        self.outcomes[topic] = replace(outcome, refused={**stuck, **unclaimed, **refused})
        self._report_refused(self.outcomes[topic])
        return bool(dropped or taken)

    def _report_old_routes(self) -> None:
        """Report that routes are not refreshed, while no name server answers."""
        errors = {error.sentence: error for error in self._routes.old.values()}
        for sentence in sorted(errors):
            self._problems(
                ConsumerWarning.ROUTE, f"New brokers and queues are not seen, old routes are used: {sentence}", _OLD
            )
        if not errors:
            self._problems.works(ConsumerWarning.ROUTE, _OLD, "Routes are up to date again")

    def _report_kept(self, before: Mapping[str, TopicBalance]) -> None:
        """Report topics that keep their shares. What a broker or name server does not know yet may only be new."""
        topics: dict[tuple[UnchangedReason, str], list[str]] = {}
        for topic, outcome in self.outcomes.items():
            kept = outcome.share.kept
            was = before.get(topic)
            has_lasted = was is not None and was.share.kept is kept
            if kept is not None and (has_lasted or kept is UnchangedReason.STRATEGY_FAILED):
                topics.setdefault((kept, (outcome.share.detail or "").rstrip(".")), []).append(topic)
        for (kept, reason), names in topics.items():
            kind, why, _ = _KEPT_WORDS[kept]
            verb = "keeps its" if len(names) == 1 else "keep their"
            detail = f": {reason}" if reason else ""
            self._problems(kind, f"{listed(names)} {verb} queues, because {why}{detail}.", kept)
        # A topic that keeps its queues for one reason was not asked about the others.
        if all(outcome.share.kept is None for outcome in self.outcomes.values()):
            for kept, (kind, _, works) in _KEPT_WORDS.items():
                self._problems.works(kind, kept, works)

    def _tell_namesake(self, topic: str, asked: str, ids: Sequence[str]) -> None:
        """Report another connection with this client's id, if it is not unique by itself, once while it lasts."""
        own_id = self._membership.client_id
        if self._settings.instance_name is None or ids.count(own_id) < 2:
            self._namesake_topics.discard(topic)
            return
        is_first = not self._namesake_topics
        self._namesake_topics.add(topic)
        if is_first:
            self._problems(
                ConsumerWarning.GROUP,
                f"{asked} lists {own_id} {ids.count(own_id)} times: another member has the same id and gets the same "
                "queues, or a lost connection of this member is not forgotten yet (after 2 minutes).",
            )

    def _report_refused(self, outcome: TopicBalance) -> None:
        """Report queues that cannot be taken or dropped."""
        topic = outcome.topic
        by_reason: dict[str, list[MessageQueue]] = {}
        for mq, reason in outcome.refused.items():
            if reason != _NOT_NOW:
                by_reason.setdefault(reason, []).append(mq)
        for reason, queues in by_reason.items():
            where = listed([str(mq) for mq in sorted(queues)])
            self._problems(ConsumerWarning.TAKE, f"Cannot take or give up {where} yet: {reason}", topic)
        if outcome.is_settled:
            self._problems.works(ConsumerWarning.TAKE, topic, f"All queues of {topic} can be taken or given up")

    async def _drop(self, queues: Sequence[MessageQueue]) -> tuple[list[MessageQueue], dict[MessageQueue, str]]:
        await self._owner.revoke(queues)
        return await self._each(queues, self._owner.drop)

    async def _each(
        self, queues: Sequence[MessageQueue], call: Callable[[MessageQueue], Awaitable[bool]]
    ) -> tuple[list[MessageQueue], dict[MessageQueue, str]]:
        """Call for all queues concurrently; return the queues that worked, and the reasons of the others."""

        async def guarded(mq: MessageQueue) -> str | None:
            try:
                return None if await call(mq) else _NOT_NOW
            except RmqctlError as error:
                return error.sentence

        reasons = dict(zip(queues, await asyncio.gather(*map(guarded, queues)), strict=True))
        failed = {mq: reason for mq, reason in reasons.items() if reason is not None}
        return [mq for mq in queues if mq not in failed], failed

    async def _find_share(self, topic: str) -> TopicBalance:
        at_ms, route = self._client.clock.now_ms(), self._routes.route(topic)
        if route is None:
            error = self._routes.errors.get(topic)
            return TopicBalance(
                topic, at_ms, Share(kept=UnchangedReason.NO_ROUTE, detail=error.sentence if error else None)
            )
        queues = sort_queues(route.readable_queues())
        if self._settings.message_model == BROADCASTING or not queues:
            return TopicBalance(topic, at_ms, share_of_all(queues))
        try:
            asked, ids = await self._ask_ids(route)
        except RmqctlError as error:
            if isinstance(error, BrokerError):
                self._membership.beat_soon()  # it knows no member of the group, so not us either
            return TopicBalance(topic, at_ms, Share(kept=UnchangedReason.NO_CLIENTS, detail=error.sentence))
        if self._membership.client_id not in ids:
            # The broker has lost us, after a restart or a lost connection; other members have taken our queues.
            self._membership.beat_soon()
        self._on_ids(asked, ids)
        self._tell_namesake(topic, asked, ids)
        counted = self._count(topic, await self._with_missing(route, asked, ids))
        own_id = self._membership.client_id
        share = compute_share(queues, counted, own_id, self._allocate, by_place=self._by_place)
        return TopicBalance(topic, at_ms, share, asked, ids, tuple(counted))

    async def _ask_ids(self, route: TopicRoute) -> tuple[str, tuple[str, ...]]:
        """Return a broker of the topic and the client ids that it lists. Raises the first error if all fail."""
        brokers = [broker for broker in route.brokers if broker.addresses]
        self._shuffle(brokers)
        first_error: RmqctlError | None = None
        for broker in brokers[:_BROKERS_ASKED]:
            try:
                return broker.broker_name, await self._membership.fetch_ids(broker)
            except RmqctlError as error:
                first_error = first_error or error
        raise first_error or RmqctlError(f"No broker of {route.topic} has an address.")

    async def _with_missing(self, route: TopicRoute, asked: str, ids: Sequence[str]) -> Sequence[str]:
        """Return the ids, with protection also those missing that other brokers still list.

        A broker that has restarted lists only members that have sent it a heartbeat. The others would have to wait for
        the whole time again, and meanwhile their queues would have two owners.
        """
        presence = self._presences.get(route.topic)
        if not self._settings.protect_s or presence is None:
            return ids
        found = list(ids)
        others = [broker for broker in route.brokers if broker.addresses and broker.broker_name != asked]
        for broker in others[: _BROKERS_ASKED - 1]:
            missing = presence.client_ids.difference(found)
            if not missing:
                break
            with suppress(RmqctlError):
                found += missing.intersection(await self._membership.fetch_ids(broker))
        return found

    def _count(self, topic: str, ids: Collection[str]) -> list[str]:
        """Return the clients that share, sorted. Without protection all do, even twice if listed twice."""
        if not self._settings.protect_s or not ids:
            return sort_client_ids(ids)
        now_ms = self._now_ms()
        joined_ms = since_notified_ms(self._notified_ms, now_ms, round(self._settings.rebalance_min_s * 1000))
        presence = look(self._presences.get(topic), ids, now_ms, own_id=self._membership.client_id, joined_ms=joined_ms)
        self._presences[topic] = presence
        return counted_clients(presence, now_ms, self._protect_ms())

    def _protect_ms(self) -> int:
        return round(self._settings.protect_s * 1000)

    def _now_ms(self) -> int:
        # Monotonic, so that a step of the system clock does not change how long clients have been present.
        return int(self._client.clock.monotonic_s() * 1000)
