"""Groups of a scripted cluster for the tests of diagnosis: a healthy one, and ways to make it sick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rmqctl.client.core import Client
from rmqctl.diagnose.finding import Check
from rmqctl.diagnose.look import Look, look_at
from rmqctl.diagnose.table import CHECKS
from rmqctl.protocol.command import Command
from tests.admin.cluster import ON_TIME, Cluster, held, running, subscribed
from tests.cli.group.groups import WORDS, ask, healthy

Change = Callable[[Cluster], None]


def look(
    cluster: Cluster, *groups: str, checks: Sequence[Check] = CHECKS, sample_s: float = 0, topics: Sequence[str] = ()
) -> Look:
    """Look once at groups of a scripted cluster."""

    async def question(client: Client) -> Look:
        return await look_at(client, groups or ("G",), topics, checks, sample_s=sample_s)

    return ask(cluster, question)


def codes(cluster: Cluster, **options: Any) -> list[str]:
    """Return the codes of one group's findings, sorted."""
    (diagnosis,) = look(cluster, **options).diagnoses
    return sorted({finding.code for finding in diagnosis.findings})


def member(*queues: str, wants: Sequence[Any] = (), skew_ms: int = 0, **words: str) -> Command:
    """Return a member that holds queues of T, such as a0 for queue 0 at broker-a; its clock may be off."""
    times_ms = {name: at_ms + skew_ms for name, at_ms in ON_TIME.items()}
    holds = {("T", f"broker-{queue[0]}", int(queue[1])): held(commit=100, **times_ms) for queue in queues}
    return running(holds, subscriptions=wants or [subscribed("T")], **{**WORDS, **words})


def members(**each: Any) -> Change:
    """Return a change that puts these members at both brokers in place of those that there are."""

    def change(cluster: Cluster) -> None:
        for broker in cluster.brokers.values():
            broker.groups["G"].members = dict(each)

    return change


def groups_of(**fields: Any) -> Change:
    """Return a change that sets fields of the group's connections at both brokers."""

    def change(cluster: Cluster) -> None:
        for broker in cluster.brokers.values():
            for name, value in fields.items():
                setattr(broker.groups["G"], name, value)

    return change


def at_a(set_to: Callable[[Any], None]) -> Change:
    """Return a change of broker-a alone."""
    return lambda cluster: set_to(cluster.brokers["broker-a"])


def both(*changes: Change) -> Change:
    """Return several changes as one."""

    def change(cluster: Cluster) -> None:
        for each in changes:
            each(cluster)

    return change


def sick(change: Change) -> Cluster:
    """Return the healthy group after a change."""
    cluster = healthy()
    change(cluster)
    return cluster
