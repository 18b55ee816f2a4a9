"""Diagnoses groups: reads them, runs every check, and compares two looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.group_details import GroupDetails, fetch_group_details
from rmqctl.admin.groups.members import fetch_proxied
from rmqctl.admin.groups.names import fetch_matching_groups
from rmqctl.admin.messages.held_back import fetch_held_back
from rmqctl.admin.results import ask_all, merge_failures, of_matching, unread_groups
from rmqctl.client.core import Client
from rmqctl.errors import NotAuthorisedError, PluginError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.observe.membership_watch import watch_membership
from rmqctl.rules.group_state import unheard, why_unseen
from rmqctl.text.wildcards import matching
from rmqctl.text.words import listed
from rmqctl.whatif.live_snapshot import measure_rates

from .backlog_reading import read_backlog
from .clock_reading import measure_clocks
from .facts import GroupFacts, QueueMotion
from .finding import SEVERITIES, Check, Finding, Need, Severity
from .group_facts import facts_of, with_rates
from .rules.motions import idle_motions, is_unsure
from .second_reading import FirstReading, SecondReadings, first_reading, read_again

# More would only queue up for the brokers' admin threads.
_GROUPS_AT_ONCE = 8
# How long a group is watched while queues may be idle: until most of them are decided, or until all of them are.
_LONGEST_S, _FINAL_S = 32.0, 56.0


class Diagnosis(Struct, frozen=True):
    """One group's findings, the worst first.

    `unknown` gives by need the reason why its checks cannot rule anything out; `failures` are failed checks of plugins.
    `passed_codes` are checks that found something in only one of two looks.
    """

    facts: GroupFacts
    findings: tuple[Finding, ...]
    unknown: Mapping[Need, str]
    failures: tuple[Failure, ...] = ()
    passed_codes: tuple[str, ...] = ()
    looks: int = 1

    @property
    def may_pass(self) -> bool:
        """Whether any finding may only be the effect of a rebalance."""
        return any(not finding.is_confirmed for finding in self.findings)

    def open_codes(self, checks: Sequence[Check], need: Need) -> list[str]:
        """Return the codes of checks that found nothing but might have if the need were met."""
        found = {finding.code for finding in self.findings}
        return [check.code for check in checks if need in check.needs and check.code not in found]


class DiagnosisRound(Struct, frozen=True):
    """The diagnoses of all selected groups, and the failed reads. `unread` are groups that could not be read at all."""

    diagnoses: tuple[Diagnosis, ...]
    failures: tuple[Failure, ...]
    unread: Mapping[str, RmqctlError] = {}


async def diagnose_groups(
    client: Client, groups: Sequence[str], topics: Sequence[str], checks: Sequence[Check], *, sample_s: float = 0,
    is_probe: bool = False, is_final: bool = False, proxies: Sequence[str] = (),
) -> DiagnosisRound:  # fmt: skip
    """Diagnose the groups that names and patterns select.

    `sample_s`: seconds to count arriving messages before groups with members are read again; 0 skips both.
    `is_probe`: ask members until each clock is known to 5 ms, for 120 s at most. `is_final`: watch queues that no
    member reports for almost a minute, until it is sure whether a member consumes them. `proxies` are addresses to ask
    for members that no broker sees.

    Raises NotFoundError for a group, pattern or topic that does not exist, and the brokers' error when none answers.
    """
    read = await _read(client, groups, topics)
    firsts, every, failures = read.firsts, read.every, list(read.failures)
    wanted = {need for check in checks for need in check.needs}
    meanwhile = await _watch(client, firsts, every, wanted, sample_s)
    every, proxy_failures = await _ask_proxies(client, meanwhile.every, proxies)
    second = SecondReadings()
    if sample_s > 0 and Need.MOTION in wanted:
        by_group = {facts.group: facts for facts in every}

        def open_queues(name: str, motions: Sequence[QueueMotion]) -> int:
            idle = idle_motions(by_group[name], motions)
            return sum(
                each.verdict is not None and (each.verdict.is_overdue is None or (is_final and is_unsure(each)))
                for each in idle
            )

        longest_s = _FINAL_S if is_final else _LONGEST_S
        second = await read_again(client, firsts, topics, open_queues, longest_s=longest_s, at_once=_GROUPS_AT_ONCE)
        every = [replace(facts, motions=second.motions.get(facts.group, facts.motions)) for facts in every]
    if Need.CLOCKS in wanted:
        readings = [first.details.reading for first in firsts]
        every = await measure_clocks(client, every, readings, second.running, is_probe=is_probe)
    unmeasured = {
        name: error for facts in every for name, error in facts.clocks.unmeasured.items() if error is not None
    }
    failures += [Failure(name, "clock", error) for name, error in unmeasured.items()]
    failures += [*meanwhile.failures, *second.failures, *proxy_failures]
    diagnoses = [
        _only_about(topics, diagnose(facts, checks, _unknown(first.details, facts, second, meanwhile)))
        for first, facts in zip(firsts, every, strict=True)
    ]
    failures += [failure for diagnosis in diagnoses for failure in diagnosis.failures]
    return DiagnosisRound(tuple(diagnoses), tuple(failures), read.unread)


class _Readings(Struct, frozen=True):
    """Groups that were read, as first readings and as facts."""

    firsts: list[FirstReading]
    every: list[GroupFacts]
    failures: list[Failure]
    unread: Mapping[str, RmqctlError]


async def _read(client: Client, groups: Sequence[str], topics: Sequence[str]) -> _Readings:
    """Read each group in full for the first time."""
    names, failures = await fetch_matching_groups(client, groups)

    async def fetch(name: str) -> tuple[FirstReading, GroupFacts]:
        began_s = client.clock.monotonic_s()
        details = await fetch_group_details(client, name, topics)
        return first_reading(client, details, began_s), facts_of(details)

    answers = await ask_all(names, fetch, at_once=_GROUPS_AT_ONCE)
    read = of_matching(groups, answers, failures)
    failures += merge_failures({first.details.progress.group: first.details.failures for first, _ in read})
    return _Readings(
        [first for first, _ in read], [facts for _, facts in read], failures, unread_groups(groups, answers)
    )


class _Meanwhile(Struct, frozen=True):
    """Facts with the data read while messages were counted. `backlog_unknown` is by group, `held_unknown` by broker."""

    every: list[GroupFacts]
    failures: list[Failure]
    has_rates: bool
    backlog_unknown: Mapping[str, str]
    held_unknown: Mapping[str, RmqctlError]


async def _watch(
    client: Client, firsts: Sequence[FirstReading], every: Sequence[GroupFacts], wanted: Collection[Need],
    sample_s: float,
) -> _Meanwhile:  # fmt: skip
    """Count arriving messages, watch joins and leaves, and read the details of the backlog."""
    brokers = {name: view.broker for first in firsts for name, view in first.details.reading.views.items()}
    queues = sorted({mq for facts in every if facts.snapshot is not None for mq in facts.snapshot.queues})
    watched = [facts.group for facts in every if facts.is_online and Need.MEMBERSHIP in wanted]
    waiting = {facts.group: facts for facts in every if Need.BACKLOG in wanted}
    asked = brokers if Need.HELD in wanted else {}
    (rates, rate_failures), memberships, looks, held = await asyncio.gather(
        measure_rates(client, queues, brokers, sample_s),
        watch_membership(client, watched, brokers.values(), sample_s),
        ask_all(waiting, lambda name: read_backlog(client, waiting[name], brokers), at_once=_GROUPS_AT_ONCE),
        ask_all(asked, lambda name: fetch_held_back(client, asked[name])),
    )
    every = [looks.ok[facts.group].facts if facts.group in looks.ok else facts for facts in every]
    every = [facts if rates is None else with_rates(facts, rates, sample_s) for facts in every]
    # Accounts without the right to read these topics do not need it for anything else.
    held_failures = [
        Failure(name, "messages that it keeps from consumers", error)
        for name, error in held.failed.items()
        if not isinstance(error, NotAuthorisedError)
    ]
    return _Meanwhile(
        [
            replace(
                facts,
                memberships=tuple(memberships.get(facts.group, ())),
                held_back={name: held.ok[name] for name in first.details.reading.views if name in held.ok},
            )
            for first, facts in zip(firsts, every, strict=True)
        ],
        [*rate_failures, *merge_failures({group: look.failures for group, look in looks.ok.items()}), *held_failures],
        not rate_failures,
        {group: look.unknown for group, look in looks.ok.items() if look.unknown is not None},
        held.failed,
    )


async def _ask_proxies(
    client: Client, every: Sequence[GroupFacts], proxies: Sequence[str]
) -> tuple[list[GroupFacts], list[Failure]]:
    """Return the facts with the answers of proxies, and the proxies that did not answer."""
    places = [(address, facts.group) for address in proxies for facts in every]
    answers = await ask_all(places, lambda place: fetch_proxied(client, *place), at_once=_GROUPS_AT_ONCE)
    asked = [
        replace(
            facts,
            proxied={
                address: answers.ok[address, facts.group] for address in proxies if (address, facts.group) in answers.ok
            },
            silent_proxies=tuple(address for address in proxies if (address, facts.group) in answers.failed),
        )
        for facts in every
    ]
    silent = {address: error for (address, _), error in answers.failed.items()}
    return asked, [Failure(None, f"members at the proxy {address}", error) for address, error in silent.items()]


def diagnose(facts: GroupFacts, checks: Sequence[Check], unknown: Mapping[Need, str] | None = None) -> Diagnosis:
    """Run every check on one group."""
    found: list[Finding] = []
    failures: list[Failure] = []
    for check in checks:
        try:
            found += check(facts)
        except PluginError as error:
            failures.append(Failure(None, f"check {check.code} of {facts.group}", error))
    return Diagnosis(facts, tuple(sorted(found, key=_weight)), unknown or {}, tuple(failures))


def _only_about(topics: Sequence[str], diagnosis: Diagnosis) -> Diagnosis:
    """Return a diagnosis without findings about other topics; members report all that they subscribe to."""
    if not topics:
        return diagnosis
    about = set(matching(topics, {each.symptom.topic for each in diagnosis.findings if each.symptom.topic is not None}))
    kept = [each for each in diagnosis.findings if each.symptom.topic is None or each.symptom.topic in about]
    return replace(diagnosis, findings=tuple(kept))


def _weight(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _unknown(
    details: GroupDetails, facts: GroupFacts, second: SecondReadings, meanwhile: _Meanwhile
) -> dict[Need, str]:
    """Return the reasons for missing data of a group, by need."""
    reading, progress = details.reading, details.progress
    unknown: dict[Need, str] = {}
    gone = {mq.broker_name: None for mq in reading.orphans()}
    silent = {**gone, **reading.failed_brokers}
    partly = [
        (each.broker_name, each.error)
        for each in details.failures
        if each.broker_name is not None and each.broker_name not in silent
    ]
    if reasons := [*unheard(silent.items()), *unheard(partly, "did not answer every request")]:
        unknown[Need.BROKERS] = ", ".join(reasons)
    if reading.running.failed:
        unknown[Need.MEMBERS] = ", ".join(unheard(reading.running.failed.items()))
    elif facts.silent_proxies:
        unknown[Need.MEMBERS] = f"{', '.join(facts.silent_proxies)} did not answer: members may be connected there"
    elif any(facts.proxied.values()):
        unknown[Need.MEMBERS] = "members behind a proxy do not report their state"
    elif progress.state is GroupState.UNKNOWN and not facts.proxied:
        unknown[Need.MEMBERS] = _UNSEEN.get(progress.unseen_reason, "not every broker answered")
    if not meanwhile.has_rates:
        unknown[Need.RATES] = "not every broker returned its offsets twice"
    if facts.group in second.unknown:
        unknown[Need.MOTION] = second.unknown[facts.group]
    if facts.group in meanwhile.backlog_unknown:
        unknown[Need.BACKLOG] = meanwhile.backlog_unknown[facts.group]
    if unheld := {name: each for name, each in meanwhile.held_unknown.items() if name in reading.views}:
        unknown[Need.HELD] = ", ".join(unheard(unheld.items(), "did not answer every request"))
    vague = facts.clocks.vague()
    if facts.clocks.unmeasured:
        unknown[Need.CLOCKS] = ", ".join(unheard(facts.clocks.unmeasured.items(), "did not report the time"))
    elif vague:
        unknown[Need.CLOCKS] = f"the clock of {listed(vague)} is not known well enough: use --probe to measure it"
    return unknown


_UNSEEN: Mapping[Unknown | None, str] = {
    Unknown.BEHIND_PROXY: "members may be behind a proxy, where brokers do not see them",
    Unknown.NOT_AUTHORISED: f"not every member can be seen ({why_unseen(Unknown.NOT_AUTHORISED)})",
}


def compare_rounds(first: DiagnosisRound, second: DiagnosisRound) -> DiagnosisRound:
    """Return the first look, with the second diagnosis of each group that was read again.

    Findings that may pass are kept if both looks show them; everything else is taken from the second look.
    """
    again = {diagnosis.facts.group: diagnosis for diagnosis in second.diagnoses}
    merged = [
        _confirmed(diagnosis, again[diagnosis.facts.group]) if diagnosis.facts.group in again else diagnosis
        for diagnosis in first.diagnoses
    ]
    failures = {(each.broker_name, each.what): each for each in (*first.failures, *second.failures)}
    return DiagnosisRound(tuple(merged), tuple(failures.values()), first.unread)


def _confirmed(first: Diagnosis, second: Diagnosis) -> Diagnosis:
    before = {finding.identity for finding in first.findings}
    kept = [finding for finding in second.findings if finding.is_confirmed or finding.identity in before]
    codes = {finding.code for finding in kept}
    passed = [
        finding.code
        for finding in (*first.findings, *second.findings)
        if not finding.is_confirmed and finding.code not in codes
    ]
    return Diagnosis(
        second.facts,
        tuple(replace(finding, is_confirmed=True) for finding in kept),
        {**first.unknown, **second.unknown},
        second.failures,
        tuple(dict.fromkeys(passed)),
        looks=2,
    )


def sentences(facts: GroupFacts, checks: Sequence[Check], *prefixes: str) -> list[str]:
    """Return code and sentence of each finding of the checks with these code prefixes, worst first."""
    chosen = [check for check in checks if check.code.startswith(prefixes)]
    return [f"{finding.code} {finding.sentence}" for finding in diagnose(facts, chosen).findings]


def at_least(severity: Severity) -> Callable[[Finding], bool]:
    """Return a predicate for findings of this severity or worse."""
    return lambda finding: finding.severity.reaches(severity)
