"""A replay from the plan to the last message, for the command and for the job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.changes.dlq.rules.replay import ReplayTarget, ReplayTargetKind, retry_target
from rmqctl.changes.plan_parts import cluster_label
from rmqctl.client.core import Client
from rmqctl.client.duplicates import require_distinct
from rmqctl.errors import UsageError
from rmqctl.model.names import require_target_topic
from rmqctl.model.receipt import Who
from rmqctl.rules.topics import own_topics

from .lanes import LaneSender
from .ledger import Ledger, LedgerIdentity, has_ledger
from .outcome import ReplayOutcome
from .plan import ReplayPlan, check_targets, plan_replay
from .run import Replay, producer_group
from .source import LetterSource

Show = Callable[[int, int], None]


class ReplayWork(Struct, frozen=True):
    """What is replayed: the dead letters of a source, to a target, at most `most`, noted in a ledger.

    `source` returns the same dead letters at each call; it gets a function for the number of offsets read, of how many.
    """

    group: str
    target: ReplayTarget
    ledger_name: str
    most: int | None
    source: Callable[[Client, Show], Awaitable[LetterSource]]

    async def plan(self, client: Client, show: Show, *, is_dry: bool = False) -> ReplayPlan:
        """Read and plan. `is_dry`: nothing is noted.

        Raises what reading raises, and BusyError while another process holds the ledger.
        """
        identity = await self._identity(client)
        await self.check_target(client)
        source = await self.source(client, show)
        ledger = Ledger(identity, client.clock.now_ms()) if has_ledger(identity) else None
        try:
            plan = await plan_replay(source, self.target, ledger, self.most)
            if ledger is not None and not is_dry and not plan.most_count:
                # No run follows: this reading is what the last run left.
                ledger.note_gaps(plan.unread_brokers(), plan.left_count)
        finally:
            if ledger is not None:
                ledger.close()
        await check_targets(client, plan, self.group)
        return plan

    async def check_target(self, client: Client) -> None:
        """Raise UsageError for a topic to which only this cluster itself sends."""
        if not self.target.is_retry and self.target.topic is not None:
            own = own_topics(await client.cluster())
            require_target_topic(self.target.topic, own=own, hint=_other_target_hint(self.group))

    async def run(
        self, client: Client, plan: ReplayPlan, outcome: ReplayOutcome, who: Who, reason: str | None,
        after: Callable[[Replay, Ledger], Awaitable[None]] | None = None,
        sender: Callable[[Ledger, str], LaneSender] | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        """Send what was planned; `after` runs when all is sent.

        `sender` returns what sends, for a ledger and a producer's group; by default this process. `settings` are of
        Replay. Raises what Replay.run() does.
        """
        clock = client.clock
        identity = await self._identity(client)
        await require_distinct(client, identity.brokers)
        ledger = Ledger(identity, clock.now_ms())
        try:
            source = await self.source(client, lambda _, __: None)
            replay = Replay(
                client, source, self.target, ledger, plan.chains, outcome, group=self.group, most=self.most,
                sender=None if sender is None else sender(ledger, producer_group(self.target, self.group)), **settings,
            )  # fmt: skip
            # What cannot be sent was wanted too: dlq status counts it as left.
            planned_count = plan.most_count + plan.unsendable_count
            ledger.begin_run(who, reason, planned_count, clock.now_ms())
            ledger.note_gaps(plan.unread_brokers(), plan.left_count)
            try:
                await replay.run()
                if after is not None:
                    await after(replay, ledger)
            finally:
                ledger.note_gaps(plan.unread_brokers(source.failures()), plan.left_count)
                ledger.end_run(clock.now_ms())
        finally:
            ledger.close()

    async def _identity(self, client: Client) -> LedgerIdentity:
        brokers = (await fetch_cluster(client)).brokers
        masters = {broker.broker_name: broker.master_address for broker in brokers if broker.master_address is not None}
        label = cluster_label(brokers, client.name_servers)
        return LedgerIdentity(label, masters, self.group, self.target, self.ledger_name)


def chosen_target(group: str, *, to_origin: bool, to_topic: str | None) -> ReplayTarget:
    """Return the target that options choose, by default the group's retry topic. Raises UsageError."""
    if to_origin and to_topic is not None:
        raise UsageError("--to-origin and --to-topic cannot be used together.")
    if to_origin:
        return ReplayTarget(ReplayTargetKind.ORIGIN, None)
    if to_topic is None:
        return retry_target(group)
    require_target_topic(to_topic, hint=_other_target_hint(group))
    return ReplayTarget(ReplayTargetKind.TOPIC, to_topic)


def _other_target_hint(group: str) -> str:
    return f"Name another topic, or none: {retry_target(group).topic} is the target without --to-topic."
