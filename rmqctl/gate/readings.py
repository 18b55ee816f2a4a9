"""Read groups, and judge them by their limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from rmqctl.admin.groups.names import fetch_matching_groups
from rmqctl.admin.offsets.conclusion import conclude
from rmqctl.admin.offsets.group import read_group
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.admin.results import Answers, ask_all, merge_failures
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.readable_queues import unreadable_words
from rmqctl.rules.totals import Total, total
from rmqctl.text.wildcards import is_pattern

from .limits import (
    GateStatus,
    GroupLimits,
    LimitKind,
    LimitResult,
    judge_dead_letters,
    judge_lag,
    judge_members,
    judge_time_lag,
    worst_status,
)

if TYPE_CHECKING:
    # Imported when a limit needs them.
    from rmqctl.admin.groups.letter_list import GroupLetters, LetterList
    from rmqctl.diagnose.diagnosis import Diagnosis
    from rmqctl.diagnose.finding import Check, Finding

# More would only compete for the brokers' admin threads.
_GROUPS_AT_ONCE = 8
# The time between two readings that show changes, as in rmqctl diagnose.
_SAMPLE_S = 2.0

# A group, and the topics that are checked.
_Place = tuple[str, tuple[str, ...]]


class CheckTarget(Struct, frozen=True):
    """Groups to check: a name or a pattern, the topics (empty: all), and the limits."""

    group: str
    topics: tuple[str, ...]
    limits: GroupLimits

    @property
    def is_selecting(self) -> bool:
        """Whether only the groups that consume the topics are checked."""
        return bool(self.topics) and is_pattern(self.group)


class GroupAssignment(Struct, frozen=True):
    """The members of a group, and those that hold each queue."""

    client_ids: frozenset[str]
    holders: Mapping[MessageQueue, tuple[str, ...]]


class GroupReport(Struct, frozen=True):
    """The state of one group in one reading, and the limits that are already judged.

    `findings`: None if the group was not diagnosed; `open_count`: how many checks were inconclusive. `assignment`: None
    if it was not read. `error`: why the group could not be read at all. `broken`: why it was not stable all the time.
    """

    group: str
    target: CheckTarget
    results: tuple[LimitResult, ...] = ()
    assignment: GroupAssignment | None = None
    findings: tuple[Finding, ...] | None = None
    open_count: int = 0
    error: RmqctlError | None = None
    broken: str = ""

    @property
    def status(self) -> GateStatus:
        """The worst status of its limits."""
        return worst_status(result.status for result in self.results)


async def read_groups(
    client: Client, targets: Sequence[CheckTarget], checks: Sequence[Check]
) -> tuple[list[GroupReport], list[Failure]]:
    """Read all groups of one cluster. Returns a report for each, and the parts that could not be read.

    A pattern leaves out groups that another target names, or an earlier pattern matched, with the same topics.
    """
    wanted, reports, failures = await _expand(client, targets)
    progress = await ask_all(
        [place for place, target in wanted.items() if target.limits.needs_progress or target.is_selecting],
        lambda place: _read_progress(client, place, wanted[place]),
        at_once=_GROUPS_AT_ONCE,
    )
    wanted = _without_unrelated(wanted, progress, reports)
    letters = await _read_letters(client, wanted)
    looks = await _diagnose(client, wanted, checks, failures)
    for place, target in wanted.items():
        errors = (part.failed.get(place) for part in (progress, letters, looks))
        if (error := next(filter(None, errors), None)) is not None:
            reports.append(_unread(place[0], target, error))
        else:
            found = progress.ok.get(place), letters.ok.get(place), looks.ok.get(place)
            reports.append(_report(place[0], target, *found, checks))
    failures += merge_failures({place[0]: read.failures for place, read in progress.ok.items()})
    failures += merge_failures({place[0]: read.failures for place, read in letters.ok.items()})
    return reports, failures


def unread_groups(targets: Sequence[CheckTarget], error: RmqctlError) -> list[GroupReport]:
    """Return the reports of groups whose cluster could not be asked."""
    return [_unread(target.group, target, error) for target in targets]


def _unread(group: str, target: CheckTarget, error: RmqctlError) -> GroupReport:
    words = error.sentence.removesuffix(".")
    result = LimitResult(LimitKind.READING, GateStatus.UNKNOWN, words, Total(None, 0, error.name), hint=error.hint)
    return GroupReport(group, target, (result,), error=error)


async def _expand(
    client: Client, targets: Sequence[CheckTarget]
) -> tuple[dict[_Place, CheckTarget], list[GroupReport], list[Failure]]:
    """Return the groups to read, a report of each pattern without a match, and the brokers that were not asked."""
    wanted = {(target.group, target.topics): target for target in targets if not is_pattern(target.group)}
    reports: list[GroupReport] = []
    failures: dict[str | None, Failure] = {}
    for target in targets:
        if not is_pattern(target.group):
            continue
        try:
            names, failed = await fetch_matching_groups(client, [target.group])
        except RmqctlError as error:
            reports.append(_unread(target.group, target, error))
            continue
        failures |= {failure.broker_name: failure for failure in failed}
        for name in names:
            wanted.setdefault((name, target.topics), target)
    return wanted, reports, list(failures.values())


async def _read_progress(client: Client, place: _Place, target: CheckTarget) -> GroupProgress:
    group, topics = place
    return conclude(group, await read_group(client, group, topics, only_consumed=target.is_selecting))


def _without_unrelated(
    wanted: Mapping[_Place, CheckTarget], progress: Answers[_Place, GroupProgress], reports: list[GroupReport]
) -> dict[_Place, CheckTarget]:
    """Leave out groups that a pattern matched and that do not consume the topics; add a report if none is left."""

    def is_unrelated(place: _Place, target: CheckTarget) -> bool:
        error = progress.failed.get(place)
        return target.is_selecting and isinstance(error, NotFoundError) and error.kind == "Topic"

    related = {place: target for place, target in wanted.items() if not is_unrelated(place, target)}
    left = {(target.group, target.topics) for target in related.values()}
    # One place for each pattern without a group: they all have the same error.
    without = {(target.group, target.topics): place for place, target in wanted.items()}
    for key, place in without.items():
        if key not in left:
            reports.append(_unread(key[0], wanted[place], progress.failed[place]))
    return related


async def _read_letters(client: Client, wanted: Mapping[_Place, CheckTarget]) -> Answers[_Place, LetterList]:
    places = [place for place, target in wanted.items() if target.limits.dead_letters is not None]
    if not places:
        return Answers({}, {})
    from rmqctl.admin.groups.letter_list import fetch_letter_list

    now_ms = client.clock.now_ms()
    return await ask_all(
        places,
        lambda place: fetch_letter_list(client, [place[0]], since_ms=now_ms - wanted[place].limits.window_ms),
        at_once=_GROUPS_AT_ONCE,
    )


async def _diagnose(
    client: Client, wanted: Mapping[_Place, CheckTarget], checks: Sequence[Check], failures: list[Failure]
) -> Answers[_Place, Diagnosis]:
    """Diagnose all groups that have the same topics together, so that they share the time of the sample."""
    by_topics: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for (group, topics), target in wanted.items():
        if target.limits.severity is not None:
            by_topics[topics].append(group)
    if not by_topics:
        return Answers({}, {})
    from rmqctl.diagnose.diagnosis import diagnose_groups

    ok: dict[_Place, Diagnosis] = {}
    failed: dict[_Place, RmqctlError] = {}
    for topics, groups in by_topics.items():
        try:
            look = await diagnose_groups(client, groups, topics, checks, sample_s=_SAMPLE_S, is_final=True)
        except RmqctlError as error:
            failed |= {(group, topics): error for group in groups}
            continue
        ok |= {(one.facts.group, topics): one for one in look.diagnoses}
        failed |= {(group, topics): error for group, error in look.unread.items()}
        # Each of these groups has a result of its own.
        failures += [failure for failure in look.failures if not failure.is_of_group]
    return Answers(ok, failed)


def _report(
    group: str,
    target: CheckTarget,
    progress: GroupProgress | None,
    letters: LetterList | None,
    diagnosis: Diagnosis | None,
    checks: Sequence[Check],
) -> GroupReport:
    limits = target.limits
    results: list[LimitResult] = []
    assignment = None
    if progress is not None:
        assignment = GroupAssignment(progress.client_ids, {row.mq: row.client_ids for row in progress.rows})
        if limits.lag is not None:
            results.append(judge_lag(group, _lag(progress), limits.lag, unreadable_words(progress.unreadable)))
        if limits.time_lag_ms is not None:
            results.append(judge_time_lag(group, _time_lag_ms(progress), limits.time_lag_ms))
        if limits.members is not None:
            results.append(judge_members(group, _members(progress), limits.members))
    if letters is not None and limits.dead_letters is not None:
        results.append(judge_dead_letters(group, _new_letters(letters.groups), limits.window_ms, limits.dead_letters))
    if diagnosis is None:
        return GroupReport(group, target, tuple(results), assignment)
    open_codes = {code for need in diagnosis.unknown for code in diagnosis.open_codes(checks, need)}
    return GroupReport(group, target, tuple(results), assignment, diagnosis.findings, len(open_codes))


def _lag(progress: GroupProgress) -> Total:
    parts = ((row.lag, str(row.reasons.get("lag"))) for row in progress.rows)
    return total(parts, hidden=progress.hidden_anywhere, nothing=Unknown.NEVER_COMMITTED)


def _time_lag_ms(progress: GroupProgress) -> Total:
    """Return the largest time lag of a queue; the known part is the largest known one."""
    parts = total(
        ((row.time_lag_ms, str(row.reasons.get("timeLagMs"))) for row in progress.rows),
        hidden=progress.hidden_anywhere,
        nothing=Unknown.NEVER_COMMITTED,
    )
    largest_ms = max((row.time_lag_ms for row in progress.rows if row.time_lag_ms is not None), default=0)
    return Total(largest_ms if parts.reason is None else None, largest_ms, parts.reason)


def _members(progress: GroupProgress) -> Total:
    """Return the number of members; a lower bound if a broker did not answer."""
    seen_count = len(progress.client_ids)
    reason = progress.unseen_reason
    if reason is None and any(failure.broker_name is not None for failure in progress.failures):
        reason = Unknown.BROKER_UNREACHABLE
    return Total(None if reason is not None else seen_count, seen_count, reason)


def _new_letters(groups: Sequence[GroupLetters]) -> Total:
    return total(
        (held.new_count, held.error.name if held.error else Unknown.NOT_REPORTED)
        for group in groups
        for held in group.held
    )
