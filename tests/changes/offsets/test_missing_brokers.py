"""Queues whose broker is not among those that were read: silent, removed or renamed in the meantime."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from rmqctl.changes.offsets import apply as applying
from rmqctl.changes.offsets.check import PlanCheck, check_plan
from rmqctl.changes.offsets.group_lookup import find_group
from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
from rmqctl.changes.offsets.targets import ResetRequest, look_up_targets
from rmqctl.changes.plan_parts import broker_of
from rmqctl.client.core import Client
from rmqctl.errors import UnreachableError
from rmqctl.model.plan import Operation, Plan
from rmqctl.model.route import BrokerData
from tests.changes.change_case import apply, ask, planned, results, stored, two_brokers


def _without_a(brokers: Mapping[str, BrokerData]) -> dict[str, BrokerData]:
    return {name: broker for name, broker in brokers.items() if name != "broker-a"}


def test_a_broker_that_was_not_read_is_an_error_of_the_cluster() -> None:
    with pytest.raises(UnreachableError, match="broker-a"):
        broker_of({}, "broker-a")


@pytest.mark.parametrize("kind", [TargetKind.EARLIEST, TargetKind.OFFSET, TargetKind.TIME])
def test_targets(kind: TargetKind) -> None:
    cluster = two_brokers()
    request = ResetRequest(Operation.OFFSET_RESET, TargetSpec(kind, 20), ("T",))

    async def look_up(client: Client) -> tuple[set[str], set[str | None]]:
        found = await find_group(client, "G", ("T",))
        found = replace(found, brokers=_without_a(found.brokers))
        targets, failures = await look_up_targets(client, found, request, list(found.rows.values()))
        return {mq.broker_name for mq in targets}, {failure.broker_name for failure in failures}

    assert ask(cluster, look_up) == ({"broker-b"}, {"broker-a"})


@pytest.mark.parametrize("is_online", [False, True])
def test_writes(is_online: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = two_brokers(online=is_online)
    plan = planned(cluster, TargetKind.OFFSET, 20).plan

    async def check(client: Client, plan: Plan, *, strict: bool) -> PlanCheck:
        checked = await check_plan(client, plan, strict=strict)
        return replace(checked, brokers=_without_a(checked.brokers))

    monkeypatch.setattr(applying, "check_plan", check)
    applied = apply(cluster, plan)
    assert (results(applied)["T@broker-a:0"], stored(cluster)) == ("NOT_ATTEMPTED", {0: 60, 1: 60})
    assert stored(cluster, "broker-b") == {0: 20, 1: 20}
    assert {failure.broker_name for failure in applied.failures} >= {"broker-a"}
    assert applied.exit_code != 0
