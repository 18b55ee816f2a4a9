"""Reads groups a second time and derives the change of each queue from both readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.group_details import GroupDetails
from rmqctl.admin.offsets.conclusion import conclude
from rmqctl.admin.offsets.group import read_group
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState, RunningInfo
from rmqctl.net.clock import pause
from rmqctl.observe.group_looks import GroupScan, make_group_scan
from rmqctl.observe.stuck_scan import StuckScan, conclude_scans
from rmqctl.text.words import counted

from .facts import QueueMotion

# Queues that may be idle for too long are read again at this interval.
_AGAIN_S = 5.0


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
    client: Client, readings: Sequence[FirstReading], topics: Sequence[str],
    open_queues: Callable[[str, Sequence[QueueMotion]], int], *, longest_s: float, at_once: int,
) -> SecondReadings:  # fmt: skip
    """Read each group with members again. Groups without members are skipped: nothing can move there.

    `open_queues` returns, for a group and its motions, how many queues only a longer watch can judge. Such a group is
    read until no such queue is left, for `longest_s` at most.
    """
    online = {
        each.details.progress.group: each for each in readings if each.details.progress.state is GroupState.ONLINE
    }
    answers = await ask_all(online, lambda name: _watch(client, name, online[name], topics), at_once=at_once)
    read, failed = dict(answers.ok), dict(answers.failed)
    motions = {name: _motions(online[name].look, *each) for name, each in read.items()}
    until_s = max((each.look.ended_s for each in online.values()), default=0.0) + longest_s
    while unsure := {name: count for name in read if (count := open_queues(name, motions[name]))}:
        left_s = min(_AGAIN_S, until_s - client.clock.monotonic_s())
        if left_s <= 0:
            break
        client.deadline.extend(left_s)
        await pause(client.clock, left_s)
        answers = await ask_all(unsure, lambda name: _watch(client, name, online[name], topics), at_once=at_once)
        read |= answers.ok
        failed |= answers.failed
        motions |= {name: _motions(online[name].look, *each) for name, each in answers.ok.items()}
    unknown = {
        name: f"{counted(count, 'queue')} with unread messages did not move so far; use --for 70s to watch for longer"
        for name, count in unsure.items()
    }
    unknown |= {name: f"the second reading failed: {error.sentence}" for name, error in failed.items()}
    failures = [Failure(None, f"second reading of group {name}", error) for name, error in failed.items()]
    for name, (_, scan) in read.items():
        known = {_identity(each) for each in online[name].details.failures}
        missing = [each for each in scan.failures if _identity(each) not in known]
        if missing:
            unknown[name] = f"the second reading lacks {missing[0].what}: {missing[0].error.sentence}"
            failures += missing
    running = {name: last.reading.running.ok for name, (last, _) in read.items()}
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
