"""A small cluster with groups, and ways to change them as the command line does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmqctl.changes.apply import apply_plan
from rmqctl.changes.configs.rules.fields import parse_changes
from rmqctl.changes.documents.decode import parse_plan
from rmqctl.changes.documents.encode import plan_document
from rmqctl.changes.groups.dead_letter_permission import plan_permission
from rmqctl.changes.groups.delete import plan_group_deletion
from rmqctl.changes.groups.plan import ConfigRequest, plan_creation, plan_update
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.changes.undo import plan_change_undo
from rmqctl.client.core import Client
from rmqctl.model.plan import Consequence, Plan
from rmqctl.model.receipt import Receipt, ReceiptReport, Result, Who
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, running
from tests.scripted_peer import V5_4_0, passing, run

ONLINE = Group({"client@1": running()})


def cluster(*, version: int = V5_4_0, brokers: Sequence[str] = ("broker-a", "broker-b")) -> Cluster:
    """Return brokers with the group G, which has offsets and no members."""
    states = []
    for name in brokers:
        state = BrokerState(name, version)
        state.topics["T"] = [Queue(100), Queue(100)]
        state.configured |= {"G", "TOOLS_CONSUMER"}
        state.offsets["G"] = {"T": {0: 40, 1: -1}}
        states.append(state)
    return Cluster(*states)


class Case:
    """One cluster and one journal."""

    def __init__(self, at: Cluster, folder: Path) -> None:
        self.cluster = at
        self.folder = folder

    async def _planned(self, made: Any) -> PlanReport:
        async with self.cluster.client() as client:
            planned: PlanReport = await passing(self.cluster.clock, made(client))
            return planned

    def create(self, group: str, *pairs: str, at: Sequence[str] = (), source: str | None = None) -> PlanReport:
        """Plan a new group."""
        wish = ConfigRequest(group, parse_changes(pairs, {}), tuple(at))
        return run(self._planned(lambda client: plan_creation(client, wish, source)))

    def update(self, group: str, *pairs: str, at: Sequence[str] = ()) -> PlanReport:
        """Plan a change."""
        wish = ConfigRequest(group, parse_changes(pairs, {}), tuple(at), " ".join(pairs), "why")
        return run(self._planned(lambda client: plan_update(client, wish)))

    def delete(
        self, group: str, *, with_offsets: bool = False, assume_offline: bool = False, at: Sequence[str] = ()
    ) -> PlanReport:
        """Plan the end of a group."""

        async def plan(client: Client) -> PlanReport:
            return await plan_group_deletion(
                client, group, at, with_offsets=with_offsets, assume_offline=assume_offline, asked="", reason=None
            )

        return run(self._planned(plan))

    def open_dead_letters(self, group: str = "G") -> PlanReport:
        """Plan to let a group's dead-letter topic be read."""
        return run(self._planned(lambda client: plan_permission(client, group, reason="why")))

    def undo(self, receipt: Receipt, *, assume_offline: bool = False, assume_same_cluster: bool = False) -> PlanReport:
        """Plan the way back."""

        async def plan(client: Client) -> PlanReport:
            return await plan_change_undo(
                client, receipt, (), assume_offline=assume_offline, assume_same_cluster=assume_same_cluster, reason=None
            )

        return run(self._planned(plan))

    def apply(self, plan: Plan, *, strict: bool = False) -> ReceiptReport:
        """Apply a plan that was saved and read again."""
        document = plan_document(plan)
        text = json.dumps(document)
        plan, sha256 = parse_plan(text.encode(), "plan.json")
        who = Who("somebody", "here", 1, None)

        async def go() -> ReceiptReport:
            async with self.cluster.client() as client:
                with Journal(self.folder / "journal.db") as journal:
                    return await passing(
                        self.cluster.clock,
                        apply_plan(
                            client, plan, text, sha256, journal, who, strict=strict, wait_s=0, report=lambda _: None
                        ),
                    )

        return run(go())

    def noted(self, receipt: Receipt) -> Receipt:
        """Return what the journal says of a change."""
        with Journal(self.folder / "journal.db") as journal:
            found = journal.receipt(receipt.id)
        assert found is not None
        return found

    def fields(self, group: str) -> dict[str, dict[str, Any] | None]:
        """Return what each broker holds beyond the defaults, None for nothing."""
        brokers = self.cluster.brokers.items()
        return {
            name: state.group_configs.get(group, {}) if group in state.configured else None for name, state in brokers
        }


def results(applied: ReceiptReport) -> dict[str, Result]:
    """Return what came of each broker and queue."""
    found = {item.broker_name: item.result for item in applied.receipt.configs}
    return found | {str(item.mq): item.result for item in applied.receipt.items}


def codes(planned: PlanReport) -> list[str]:
    """Return the codes of what follows."""
    return [item.code for item in planned.plan.consequences]


def text_of(planned: PlanReport, code: str) -> str:
    """Return what is said under a code."""
    (found,) = (item for item in planned.plan.consequences if item.code == code)
    assert isinstance(found, Consequence)
    return found.text
