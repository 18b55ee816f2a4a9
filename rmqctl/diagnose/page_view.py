"""The content of a diagnosis page, as values that its template renders. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rmqctl.diagnose.clocks import clock_words
from rmqctl.diagnose.rules.page_queues import QueueAssignment, Room, TopicLag, make_assignment, make_lag
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted, listed

from .finding import SEVERITIES, Check, Finding, Need, Severity, by_fact

if TYPE_CHECKING:
    from .diagnosis import Diagnosis, DiagnosisRound

# Most groups with a section; with few groups, those without findings have one too.
_MOST_SECTIONS, _FEW_GROUPS = 50, 10
_MOST_NAMES = 3
_MOST_CELLS, _MOST_FAILURES, _MOST_LETTERS = 30_000, 100, 300


class EvidenceRow(Struct, frozen=True):
    """One fact as text."""

    name: str
    value: str
    reported_by: str
    at: str


class FindingPart(Struct, frozen=True):
    """One finding; `more_count` facts of its evidence are left out. `groups` are those that share it."""

    finding: Finding
    evidence: tuple[EvidenceRow, ...]
    more_count: int
    groups: tuple[str, ...] = ()


class CodePart(Struct, frozen=True):
    """The findings of one code and severity, with their check. `more_count` findings are left out."""

    check: Check
    severity: Severity
    findings: tuple[FindingPart, ...]
    more_count: int


class UnknownPart(Struct, frozen=True):
    """Missing data, the checks that are inconclusive without it, and the groups concerned."""

    need: str
    reason: str
    codes: tuple[str, ...]
    groups: tuple[str, ...]


class ClockRow(Struct, frozen=True):
    """One clock relative to this machine's."""

    kind: str
    name: str
    words: str


class GroupPart(Struct, frozen=True):
    """One group's section. `is_whole`: nothing failed. `is_clear`: also without findings and unknown values.

    `shared_codes` are the findings that are shown once for several groups.
    """

    group: str
    state: GroupState
    at: str
    counts: Mapping[str, int]
    is_clear: bool
    is_whole: bool
    hidden_count: int
    codes: tuple[CodePart, ...]
    shared_codes: tuple[str, ...]
    unknown: tuple[UnknownPart, ...]
    unconfirmed_codes: tuple[str, ...]
    passed_codes: tuple[str, ...]
    assignment: QueueAssignment
    lag: tuple[TopicLag, ...]
    lag_more: str
    dead_letter_count: int | None
    is_popping: bool
    clocks: tuple[ClockRow, ...]
    clocks_more: str
    unmeasured_clocks: Mapping[str, str]


class OverviewRow(Struct, frozen=True):
    """One group with findings. `section` is the number of its section, None without one."""

    group: str
    counts: Mapping[str, int]
    worst: Finding
    is_partial: bool
    section: int | None


class PageView(Struct, frozen=True):
    """A whole page. `scope` are sentences on the extent of the diagnosis; `rest` on groups without a section.

    `shared` are facts about brokers that are findings of several groups.
    """

    title: str
    version: str
    scope: tuple[str, ...]
    counts: Mapping[str, int]
    verdict: str
    is_clear: bool
    shared: tuple[CodePart, ...]
    overview: tuple[OverviewRow, ...]
    rest: tuple[str, ...]
    sections: tuple[GroupPart, ...]
    unknown: tuple[UnknownPart, ...]
    failures: tuple[Failure, ...]
    more_failure_count: int
    warnings: tuple[str, ...]


def make_view(
    found: DiagnosisRound, checks: Sequence[Check], *, is_shown: Callable[[Finding], bool], scope: Sequence[str],
    version: str, failures: Sequence[Failure], warnings: Sequence[str] = (),
) -> PageView:  # fmt: skip
    """Make the view of a look: groups and findings the worst first.

    `is_shown` selects the findings to show; others are only counted. `failures` are those of the whole run.
    """
    shown = {one.facts.group: [each for each in one.findings if is_shown(each)] for one in found.diagnoses}
    shared = {
        fact: alike
        for fact, alike in by_fact(each for some in shown.values() for each in some).items()
        if len(alike) > 1
    }
    own = {group: [each for each in some if each.fact not in shared] for group, some in shown.items()}
    ordered = sorted(found.diagnoses, key=lambda one: _badness(one, own[one.facts.group]))
    with_findings = [one for one in ordered if own[one.facts.group]]
    chosen = (ordered if len(ordered) <= _FEW_GROUPS else with_findings)[:_MOST_SECTIONS]
    maker = _Sections(checks, len(chosen), is_whole=not failures)
    sections = tuple(maker.make(one, shown[one.facts.group], own[one.facts.group]) for one in chosen)
    places = {part.group: number for number, part in enumerate(sections, 1)}
    every = [alike[0] for alike in by_fact(each for one in found.diagnoses for each in one.findings).values()]
    hidden_count = sum(not is_shown(each) for each in every)
    groups = [one.facts.group for one in found.diagnoses]
    names = listed(groups) if len(groups) <= _MOST_NAMES else counted(len(groups), "group")
    others = [one for one in ordered if one.facts.group not in places]
    return PageView(
        title=f"Diagnosis of {names}" if names else "Diagnosis",
        version=version,
        scope=(*_extent(found, checks), *scope),
        counts=_counts(every),
        verdict=_verdict(found, hidden_count, is_whole=not failures),
        is_clear=bool(sections) and all(part.is_clear for part in sections) and not others,
        shared=_Sections(checks, 1, is_whole=not failures).shared(shared.values(), found),
        overview=tuple(
            OverviewRow(
                one.facts.group,
                _counts(one.findings),
                own[one.facts.group][0],
                bool(one.unknown),
                places.get(one.facts.group),
            )
            for one in with_findings
        )
        if len(found.diagnoses) > 1
        else (),
        rest=tuple(_rest(others, shown, own)),
        sections=sections,
        unknown=_unknown(others, checks),
        failures=tuple(failures[:_MOST_FAILURES]),
        more_failure_count=max(0, len(failures) - _MOST_FAILURES),
        warnings=tuple(warnings),
    )


def _badness(one: Diagnosis, shown: Sequence[Finding]) -> tuple[Any, ...]:
    counts = _counts(shown)
    return *(-counts[each] for each in SEVERITIES), not one.unknown, one.facts.group


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    counts = Counter(finding.severity for finding in findings)
    return {each: counts[each] for each in SEVERITIES}


def _extent(found: DiagnosisRound, checks: Sequence[Check]) -> list[str]:
    times = [one.facts.at_ms for one in found.diagnoses]
    if not times:
        return ["No consumer groups."]
    first, last = _time(min(times)), _time(max(times))
    when = first if first == last else f"{first} to {last}"
    said = [f"{counted(len(times), 'group')}, {counted(len(checks), 'check')}; read {when}."]
    if found.unread:
        said.append(f"{counted(len(found.unread), 'group', 'was')} not read: {listed(found.unread)}.")
    if sampled_s := max(one.facts.sampled_s for one in found.diagnoses):
        said.append(f"Watched for {sampled_s:g} s.")
    if again := sum(one.looks > 1 for one in found.diagnoses):
        said.append(
            f"{counted(again, 'group')} read again later: "
            "findings that a rebalance can cause had to appear in both readings."
        )
    return said


def _verdict(found: DiagnosisRound, hidden_count: int, *, is_whole: bool) -> str:
    """Return sentences on everything that the counts leave out."""
    parts = [f"{hidden_count} not shown (--severity)."] * bool(hidden_count)
    if any(one.unknown for one in found.diagnoses):
        parts.append("Some values are unknown. A check that needs them rules nothing out.")
    parts += ["Something failed: see Not read."] * (not is_whole)
    return " ".join(parts)


def _rest(
    others: Sequence[Diagnosis], shown: Mapping[str, Sequence[Finding]], own: Mapping[str, Sequence[Finding]]
) -> list[str]:
    quiet = [one for one in others if not shown[one.facts.group]]
    sharing_count = sum(bool(shown[one.facts.group]) and not own[one.facts.group] for one in others)
    clean = [one for one in quiet if not one.findings]
    partial = [one for one in clean if one.unknown]
    said = [
        (
            len(others) - len(quiet) - sharing_count,
            "with findings but without a section here: see rmqctl diagnose GROUP",
        ),
        (sharing_count, "with only findings that several groups share"),
        (len(clean), f"without findings, {len(partial)} of them with unknown values"),
        (len(quiet) - len(clean), "with findings of lower severity only (--severity)"),
    ]
    passed = [
        f"{listed(one.passed_codes)} of {one.facts.group}: seen in only one of two readings, as in a rebalance."
        for one in others
        if one.passed_codes
    ]
    return [f"{counted(count, 'group')} {what}." for count, what in said if count] + passed


def _unknown(many: Sequence[Diagnosis], checks: Sequence[Check]) -> tuple[UnknownPart, ...]:
    """Return the missing data of groups, merged by reason."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for one in many:
        for need, reason in one.unknown.items():
            alike.setdefault((str(need), reason, tuple(one.open_codes(checks, need))), []).append(one.facts.group)
    return tuple(UnknownPart(*key, tuple(groups)) for key, groups in alike.items())


class _Sections:
    """Makes sections. Each one has less room when there are more of them."""

    def __init__(self, checks: Sequence[Check], count: int, *, is_whole: bool) -> None:
        count = max(1, count)
        self._checks, self._is_whole = checks, is_whole
        self._room = Room(_MOST_CELLS // count, max(4, 50 // count), 10 if count == 1 else 5)
        self._finding_count, self._evidence_count = max(5, 200 // count), max(5, 40 // count)
        self._clock_count = max(10, 100 // count)

    def shared(self, facts: Iterable[Sequence[Finding]], found: DiagnosisRound) -> tuple[CodePart, ...]:
        """Return facts about brokers once, the worst first, each with its groups."""
        read_at_ms = {one.facts.group: one.facts.at_ms for one in found.diagnoses}
        groups = {alike[0].fact: tuple(each.group for each in alike) for alike in facts}
        findings = sorted((alike[0] for alike in facts), key=lambda each: SEVERITIES.index(each.severity))
        return self._codes(findings, max(read_at_ms.values(), default=0), groups)

    def make(self, one: Diagnosis, shown: Sequence[Finding], own: Sequence[Finding]) -> GroupPart:
        """Return one group's section with the findings to show; `own` are those that no other group shares."""
        facts = one.facts
        lag, lag_more = make_lag(facts, self._room)
        clocks = facts.clocks.every()
        # Brokers first, then the clocks that are off the furthest.
        order = sorted(clocks, key=lambda key: (key[0], -abs(clocks[key].off_ms()), key[1]))
        left = len(order) - self._clock_count
        return GroupPart(
            group=facts.group,
            state=facts.state,
            at=_time(facts.at_ms),
            counts=_counts(one.findings),
            is_clear=self._is_whole and not (one.findings or one.unknown or one.passed_codes),
            is_whole=self._is_whole,
            hidden_count=len(one.findings) - len(shown),
            codes=self._codes(own, facts.at_ms),
            shared_codes=tuple(dict.fromkeys(each.code for each in shown if each not in own)),
            unknown=_unknown([one], self._checks),
            unconfirmed_codes=tuple(sorted({each.code for each in one.findings if not each.is_confirmed})),
            passed_codes=one.passed_codes,
            assignment=make_assignment(facts, one.unknown.get(Need.MEMBERS), self._room),
            lag=tuple(lag),
            lag_more=lag_more,
            dead_letter_count=facts.dead_letter_count,
            is_popping=bool(facts.popping),
            clocks=tuple(
                ClockRow(kind.lower(), name, clock_words(clocks[kind, name]))
                for kind, name in order[: self._clock_count]
            ),
            clocks_more=f"{counted(left, 'more clock')} not shown." if left > 0 else "",
            unmeasured_clocks={
                name: "no time in its answer" if error is None else error.sentence
                for name, error in facts.clocks.unmeasured.items()
            },
        )

    def _codes(
        self, findings: Sequence[Finding], at_ms: int, groups: Mapping[tuple[str, ...], tuple[str, ...]] = {}
    ) -> tuple[CodePart, ...]:
        """Return findings by severity and code, in the order of findings."""
        by_code: dict[tuple[Severity, str], list[Finding]] = {}
        for finding in findings:
            by_code.setdefault((finding.severity, finding.code), []).append(finding)
        checks = {check.code: check for check in self._checks}
        most = max(1, self._finding_count // max(1, len(by_code)))
        return tuple(
            CodePart(
                checks[code],
                severity,
                tuple(self._finding(each, at_ms, groups.get(each.fact, ())) for each in alike[:most]),
                max(0, len(alike) - most),
            )
            for (severity, code), alike in by_code.items()
        )

    def _finding(self, finding: Finding, at_ms: int, groups: tuple[str, ...]) -> FindingPart:
        evidence = finding.symptom.evidence
        rows = tuple(
            EvidenceRow(
                fact.name, _value(fact.value), fact.reported_by, _time(at_ms if fact.at_ms is None else fact.at_ms)
            )
            for fact in evidence[: self._evidence_count]
        )
        return FindingPart(finding, rows, len(evidence) - len(rows), groups)


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    more = len(text) - _MOST_LETTERS
    return text if more <= 0 else f"{text[:_MOST_LETTERS]}… ({more} more characters)"


def _time(at_ms: int) -> str:
    iso = iso_time(at_ms)
    return "unknown" if iso is None else f"{iso[:10]} {iso[11:19]} UTC"
