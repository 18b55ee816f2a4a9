"""Groups of a scripted cluster for the tests of diagnosis: a healthy one, and ways to make it sick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rmqctl.client.core import Client
from rmqctl.diagnose.diagnosis import DiagnosisRound, diagnose_groups
from rmqctl.diagnose.finding import Check
from rmqctl.diagnose.table import CHECKS
from rmqctl.protocol.command import Command
from tests.admin.cluster import HOUR_MS, ON_TIME, Cluster, held, running, subscribed
from tests.cli.group.groups import WORDS, ask, healthy

Change = Callable[[Cluster], None]


def look(
    cluster: Cluster,
    *groups: str,
    checks: Sequence[Check] = CHECKS,
    sample_s: float = 0,
    topics: Sequence[str] = (),
    proxies: Sequence[str] = (),
    is_final: bool = False,
) -> DiagnosisRound:
    """Look once at groups of a scripted cluster."""

    async def question(client: Client) -> DiagnosisRound:
        return await diagnose_groups(
            client, groups or ("G",), topics, checks, sample_s=sample_s, is_final=is_final, proxies=proxies
        )

    return ask(cluster, question, open_ended=True)


def codes(cluster: Cluster, **options: Any) -> list[str]:
    """Return the codes of one group's findings, sorted."""
    (diagnosis,) = look(cluster, **options).diagnoses
    return sorted({finding.code for finding in diagnosis.findings})


def member(
    *queues: str, wants: Sequence[Any] = (), skew_ms: int = 0, dropped: Sequence[str] = (),
    statuses: Mapping[str, Any] | None = None, fields: Mapping[str, int] | None = None, commit: int = 100,
    pops: Sequence[str] = (), **words: str,
) -> Command:  # fmt: skip
    """Return a member that holds queues of T, such as a0 for queue 0 at broker-a; its clock may be off.

    `fields` are of each queue; `dropped` are queues that it gave up. It `pops` queue b1, or all queues of T at a broker
    such as a, and has acknowledged everything.
    """
    told = {name: value + skew_ms if name.endswith("Timestamp") else value for name, value in ON_TIME.items()}
    told |= fields or {}

    def mq(queue: str) -> tuple[str, str, int]:
        return "T", f"broker-{queue[0]}", int(queue[1])

    holds = {mq(queue): held(commit=commit, **told) for queue in queues}
    holds |= {mq(queue): held(commit=100, dropped=True, **told) for queue in dropped}
    popped = {("T", f"broker-{queue[0]}", int(queue[1:] or -1)): 0 for queue in pops}
    return running(holds, popped, subscriptions=wants or [subscribed("T")], statuses=statuses, **{**WORDS, **words})


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


def second_group(cluster: Cluster) -> None:
    """Add H, a group like G."""
    for broker in cluster.brokers.values():
        broker.configured.add("H")
        broker.groups["H"], broker.offsets["H"] = broker.groups["G"], broker.offsets["G"]
        broker.topics["%RETRY%H"] = broker.topics["%RETRY%G"]


def half_down() -> Cluster:
    """Return the healthy group while broker-b does not answer."""
    cluster = healthy()
    cluster.stop("broker-b")
    return cluster


def idle(**fields: int) -> Change:
    """Let c1 hold both queues of broker-a with these fields, and nothing in flight of 25 messages in the first one.

    They are unread for an hour.
    """

    def change(cluster: Cluster) -> None:
        cluster.brokers["broker-a"].topics["T"][0].head_age_ms = HOUR_MS

    own = member("a0", "a1", commit=75, fields=fields)
    return both(change, members(c1=own, c2=member("b0", "b1")))


def pulling(cluster: Cluster) -> None:
    """Let both members pull by themselves, with 25 messages that are unread for an hour in the first queues."""
    own = member(PROP_CONSUME_TYPE="CONSUME_ACTIVELY")
    both(members(c1=own, c2=own), groups_of(consume_type="CONSUME_ACTIVELY"))(cluster)
    for broker in cluster.brokers.values():
        broker.topics["T"][0].head_age_ms = HOUR_MS


def filtered(codes: list[int]) -> Change:
    """Let the members want A only of a backlog whose messages have these tag hashes in turn."""

    wanted = subscribed("T", "A")

    def change(cluster: Cluster) -> None:
        for broker in cluster.brokers.values():
            broker.tag_codes["T"] = codes
            broker.offsets["G"]["T"] = {0: 40, 1: 40}

    return both(
        change,
        members(c1=member("a0", "a1", wants=[wanted]), c2=member("b0", "b1", wants=[wanted])),
        groups_of(subscriptions={"T": wanted}),
    )
