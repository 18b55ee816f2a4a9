"""What a check is, and what it finds."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .facts import GroupFacts


class Severity(StrEnum):
    """How bad a finding is.

    ERROR: messages are lost, consumed twice or not consumed now. WARNING: they will be, once something more happens.
    INFO: worth knowing.
    """

    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"


SEVERITIES = tuple(Severity)  # the worst first


class Need(StrEnum):
    """What a check has to know. Without all of it, it can find something but cannot rule anything out.

    BROKERS: the answer of every broker. MEMBERS: the word of every member. RATES: how many messages arrive. MOTION: a
    second reading of the group. MEMBERSHIP: who joins and leaves. CLOCKS: how far each clock is off. BACKLOG: what
    waits, and where.
    """

    BROKERS = "BROKERS"
    MEMBERS = "MEMBERS"
    RATES = "RATES"
    MOTION = "MOTION"
    MEMBERSHIP = "MEMBERSHIP"
    CLOCKS = "CLOCKS"
    BACKLOG = "BACKLOG"


TIMED_NEEDS = frozenset({Need.RATES, Need.MOTION, Need.MEMBERSHIP})  # what takes time to know


class Evidence(Struct, frozen=True):
    """One fact behind a finding: what was read, who reported it, and when by whose clock.

    `at_ms` is the time that the reporter names (of a subscription: its version), None where that of the reading counts.
    """

    name: str
    value: Any
    reported_by: str
    at_ms: int | None = None


class Symptom(Struct, frozen=True):
    """What a check says: a sentence, the evidence, the next command to type.

    `key` tells one symptom of a check from another, so that two looks can be compared: a topic, a member, a broker.
    `severity` is the check's own unless given.
    """

    sentence: str
    evidence: tuple[Evidence, ...] = ()
    next_command: str | None = None
    topic: str | None = None
    key: str = ""
    severity: Severity | None = None


class Finding(Struct, frozen=True):
    """A symptom with its check's code and its group. `is_confirmed`: False for what was seen once and may pass."""

    code: str
    severity: Severity
    group: str
    symptom: Symptom
    is_confirmed: bool = True

    @property
    def sentence(self) -> str:
        """The one sentence that says it."""
        return self.symptom.sentence


class Check(Struct, frozen=True):
    """One check. Calling it with a group's facts returns its findings.

    `title` says in a few words what it finds; `meaning` what that does to the group, `advice` what to do.
    `needs` is what must be known to rule the fault out. `may_pass`: the same is seen for a moment while a group
    rebalances, so that it counts when two looks show it.
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
    """Return a command of rmqctl, to be typed as it is."""
    return shlex.join(("rmqctl", *words))


def check(
    code: str, severity: Severity, title: str, *, meaning: str, advice: str,
    needs: Iterable[Need] = (Need.BROKERS, Need.MEMBERS), may_pass: bool = False,
) -> Callable[[Callable[[GroupFacts], Iterable[Symptom]]], Check]:  # fmt: skip
    """Make a check of a function that takes a group's facts and yields symptoms."""

    def make(find: Callable[[GroupFacts], Iterable[Symptom]]) -> Check:
        return Check(code, severity, title, meaning, advice, find, frozenset(needs), may_pass)

    return make
