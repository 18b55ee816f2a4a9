"""Measures the clocks of groups' brokers and members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from rmqctl.admin.brokers.probe import measure_clock
from rmqctl.admin.groups.members import addresses_of
from rmqctl.admin.offsets.reading import GroupReading
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.diagnose.clocks import GroupClocks, measure_members
from rmqctl.errors import RmqctlError
from rmqctl.model.group import RunningInfo
from rmqctl.observe.clock_watch import WatchedMember, watch_members

from .facts import GroupFacts


async def measure_clocks(
    client: Client,
    every: Sequence[GroupFacts],
    readings: Sequence[GroupReading],
    later: Mapping[str, Mapping[str, RunningInfo]],
    *,
    is_probe: bool,
) -> list[GroupFacts]:
    """Return the facts of groups, with clocks for the groups that have members; each broker is measured once.

    `later` are the members' second reports, by group and client id.
    Leaves no trace: a broker reports its time when it is asked about a queue that no group has consumed.
    """
    addresses = {
        name: view.address
        for facts, reading in zip(every, readings, strict=True)
        if facts.is_online
        for name, view in reading.views.items()
    }
    answers = await ask_all(addresses, lambda name: measure_clock(client, addresses[name]))
    members = [
        WatchedMember(facts.group, client_id, seen_by, _reported(facts, client_id, later.get(facts.group, {})))
        for facts, reading in zip(every, readings, strict=True)
        for client_id, seen_by in _through(reading).items()
        if client_id in facts.running
    ]
    watched = await watch_members(client, members, is_probe=is_probe)
    looks = {(member.group, member.client_id): answers for member, answers in zip(members, watched, strict=True)}
    unreported: dict[str, RmqctlError | None] = {name: None for name, skew in answers.ok.items() if skew is None}
    unreported |= answers.failed
    skews = {name: skew for name, skew in answers.ok.items() if skew is not None}
    measured = []
    for facts, reading in zip(every, readings, strict=True):
        own = {name: skews[name] for name in reading.views if name in skews}
        reported = {
            client_id: looks[facts.group, client_id] for client_id in facts.running if (facts.group, client_id) in looks
        }
        clocks = GroupClocks(
            own,
            measure_members(reported, facts.rows, own),
            {name: unreported[name] for name in reading.views if name in unreported},
        )
        measured.append(replace(facts, clocks=clocks) if facts.is_online else facts)
    return measured


def _reported(facts: GroupFacts, client_id: str, later: Mapping[str, RunningInfo]) -> tuple[RunningInfo, ...]:
    return tuple(reported[client_id] for reported in (facts.running, later) if client_id in reported)


def _through(reading: GroupReading) -> dict[str, tuple[str, ...]]:
    """Return the addresses of the brokers that see each client id, without ids that are used by two clients."""
    through = addresses_of((view.address, view.connections) for view in reading.views.values())
    counts = [Counter(member.client_id for member in found.members) for found in reading.connections()]
    return {name: each for name, each in through.items() if all(count[name] <= 1 for count in counts)}
