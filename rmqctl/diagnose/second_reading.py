"""Reads groups a second time and derives the change of each queue from both readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.group_details import GroupDetails
from rmqctl.admin.offsets.group import read_group
from rmqctl.admin.offsets.reading import conclude
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState, RunningInfo
from rmqctl.observe.group_looks import GroupScan, make_group_scan
from rmqctl.observe.stuck_scan import StuckScan, conclude_scans

from .facts import QueueMotion


class FirstReading(Struct, frozen=True):
    """The first reading of one group, with its time."""

    details: GroupDetails
    look: GroupScan


class SecondReadings(Struct, frozen=True):
    """The changes of queues, by group. `unknown` gives the reason for missing groups; `failures` are failed reads.

    `running` are the members' own reports, by group and client id.
    """

    motions: Mapping[str, tuple[QueueMotion, ...]] = {}
    running: Mapping[str, Mapping[str, RunningInfo]] = {}
    unknown: Mapping[str, str] = {}
    failures: tuple[Failure, ...] = ()


def first_reading(client: Client, details: GroupDetails, began_s: float) -> FirstReading:
    """Return a reading that ends now, for comparison with a second one."""
    return FirstReading(details, make_group_scan(client, details.reading, details.progress, began_s))


async def read_again(
    client: Client, readings: Sequence[FirstReading], topics: Sequence[str], *, at_once: int
) -> SecondReadings:
    """Read each group with members again. Groups without members are skipped: nothing can move there."""
    online = {
        each.details.progress.group: each for each in readings if each.details.progress.state is GroupState.ONLINE
    }
    answers = await ask_all(online, lambda name: _watch(client, name, online[name], topics), at_once=at_once)
    unknown = {name: f"the second reading failed: {error.sentence}" for name, error in answers.failed.items()}
    failures = [Failure(None, f"second reading of group {name}", error) for name, error in answers.failed.items()]
    for name, (_, scan) in answers.ok.items():
        known = {_identity(each) for each in online[name].details.failures}
        missing = [each for each in scan.failures if _identity(each) not in known]
        if missing:
            unknown[name] = f"the second reading lacks {missing[0].what}: {missing[0].error.sentence}"
            failures += missing
    motions = {name: _motions(online[name].look, last, scan) for name, (last, scan) in answers.ok.items()}
    running = {name: last.reading.running.ok for name, (last, _) in answers.ok.items()}
    return SecondReadings(motions, running, unknown, tuple(failures))


async def _watch(client: Client, group: str, first: FirstReading, topics: Sequence[str]) -> tuple[GroupScan, StuckScan]:
    began_s = client.clock.monotonic_s()
    reading = await read_group(client, group, topics)
    last = make_group_scan(client, reading, conclude(group, reading), began_s)
    return last, await conclude_scans(client, group, [first.look], last, with_pops=False)


def _identity(failure: Failure) -> tuple[str | None, str, type[RmqctlError]]:
    return failure.broker_name, failure.what, type(failure.error)


def _motions(first: GroupScan, last: GroupScan, scan: StuckScan) -> tuple[QueueMotion, ...]:
    passed_ms = round((last.began_s - first.began_s) * 1000)
    judged = {
        (each.progress.mq, None if each.holder is None else each.holder.client_id): each.verdict for each in scan.queues
    }
    exhausted = {client_id for client_id, member in scan.members.items() if member.is_exhausted}
    return tuple(
        QueueMotion(mq, client_id, watched, passed_ms, judged.get((mq, client_id)), client_id in exhausted)
        for (mq, client_id), watched in sorted(scan.watched.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    )
