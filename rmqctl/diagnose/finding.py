"""Checks and their findings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import UsageError
from rmqctl.text.names import one_of

if TYPE_CHECKING:
    from .facts import GroupFacts  # takes 25 ms, which a check of a lag does not need


class Severity(StrEnum):
    """How bad a finding is.

    ERROR: messages are lost, consumed twice or not consumed now. WARNING: they will be if something else happens.
    INFO: worth knowing.
    """

    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"

    def reaches(self, limit: Severity) -> bool:
        """Return whether this is as bad as `limit`, or worse."""
        return SEVERITIES.index(self) <= SEVERITIES.index(limit)


SEVERITIES = tuple(Severity)  # the worst first


def parse_severity(option: str, text: str) -> Severity:
    """Return the severity that an option names, in any case. Raises UsageError for another word."""
    try:
        return Severity(text.strip().upper())
    except ValueError:
        hint = one_of(str(each).lower() for each in SEVERITIES)
        raise UsageError(f"Unknown severity {text!r} for {option}.", hint=hint) from None


class Need(StrEnum):
    """The data that a check needs. Without all of it, a check can find a fault but cannot rule it out.

    BROKERS: an answer of every broker. MEMBERS: a report of every member. RATES: the arrival rate of messages. MOTION:
    a second reading of the group. MEMBERSHIP: joins and leaves. CLOCKS: the offset of each clock. BACKLOG: details of
    the waiting messages. HELD: what brokers keep from consumers.
    """

    BROKERS = "BROKERS"
    MEMBERS = "MEMBERS"
    RATES = "RATES"
    MOTION = "MOTION"
    MEMBERSHIP = "MEMBERSHIP"
    CLOCKS = "CLOCKS"
    BACKLOG = "BACKLOG"
    HELD = "HELD"


TIMED_NEEDS = frozenset({Need.RATES, Need.MOTION, Need.MEMBERSHIP})  # needs that take time to measure


class Evidence(Struct, frozen=True):
    """One fact behind a finding: what was read, who reported it, and when.

    `at_ms` is the reporter's own time (for a subscription: its version), None for the time of the reading.
    """

    name: str
    value: Any
    reported_by: str
    at_ms: int | None = None


class Symptom(Struct, frozen=True):
    """The result of a check: a sentence, the evidence, the next command to type.

    `key` identifies a symptom among those of its check, to compare two looks: a topic, a member, a broker.
    `severity` is the check's own unless given.
    """

    sentence: str
    evidence: tuple[Evidence, ...] = ()
    next_command: str | None = None
    topic: str | None = None
    key: str = ""
    severity: Severity | None = None


class Finding(Struct, frozen=True):
    """A symptom with its check's code and its group. `is_confirmed`: False if it was seen once and may pass."""

    code: str
    severity: Severity
    group: str
    symptom: Symptom
    is_confirmed: bool = True

    @property
    def sentence(self) -> str:
        """The sentence of the symptom."""
        return self.symptom.sentence

    @property
    def identity(self) -> tuple[str, str]:
        """What identifies it among a group's findings, in another look too."""
        return self.code, self.symptom.key

    @property
    def fact(self) -> tuple[str, ...]:
        """What makes it one fact with findings of other groups."""
        return fact_key(self.code, self.severity, self.sentence, self.symptom.next_command, self.group)


def fact_key(code: str, severity: str, sentence: str, next_command: str | None, group: str) -> tuple[str, ...]:
    """Return what is the same in all groups for a fact about a broker; other next commands name their group."""
    return code, severity, sentence, next_command or group


def by_fact(findings: Iterable[Finding]) -> dict[tuple[str, ...], list[Finding]]:
    """Return the findings of all groups by fact: a fact about a broker has one for each group that it concerns."""
    facts: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        facts.setdefault(finding.fact, []).append(finding)
    return facts


class Check(Struct, frozen=True):
    """One check. Calling it with a group's facts returns its findings.

    `title` names the fault in a few words; `meaning` is its effect on the group, `advice` the remedy. `needs` are the
    data to rule the fault out. `may_pass`: a rebalance causes the same for a moment, so two looks must show it.
    """

    code: str
    severity: Severity
    title: str
    meaning: str
    advice: str
    find: Callable[[GroupFacts], Iterable[Symptom]]
    needs: frozenset[Need] = frozenset({Need.BROKERS, Need.MEMBERS})
    may_pass: bool = False

    def __call__(self, facts: GroupFacts) -> list[Finding]:
        """Return the findings."""
        return [
            Finding(
                self.code,
                symptom.severity or self.severity,
                facts.group,
                replace(symptom, key=symptom.key or symptom.topic or ""),
                is_confirmed=not self.may_pass,
            )
            for symptom in self.find(facts)
        ]


def command(*words: str) -> str:
    """Return a command line of rmqctl, quoted for a shell."""
    return shlex.join(("rmqctl", *words))


def check(
    code: str, severity: Severity, title: str, *, meaning: str, advice: str,
    needs: Iterable[Need] = (Need.BROKERS, Need.MEMBERS), may_pass: bool = False,
) -> Callable[[Callable[[GroupFacts], Iterable[Symptom]]], Check]:  # fmt: skip
    """Return a decorator that makes a check of a function from a group's facts to symptoms."""

    def make(find: Callable[[GroupFacts], Iterable[Symptom]]) -> Check:
        return Check(code, severity, title, meaning, advice, find, frozenset(needs), may_pass)

    return make
