"""Every situation in which diagnosis is tried, what was planted there, and what it finds: SITUATIONS.md.

`python -m tests.diagnose.situations` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rmqctl.diagnose.diagnosis import Diagnosis, at_least, compare_rounds, diagnose
from rmqctl.diagnose.finding import Finding, Severity
from rmqctl.diagnose.table import CHECKS

from . import test_checks, test_progress
from .groups import look, member, members, sick

PAGE = Path(__file__).parent / "SITUATIONS.md"
_REAL = Path(__file__).parent.parent / "real"
_HEAD = """# Situations

Groups with a planted fault, groups without a fault, and the findings of `rmqctl diagnose` in each. They use scripted
brokers and members. A ✓ means that a test also causes a fault with this code on real brokers with real clients
(`tests/real/test_diagnose*.py`). A test generates this page and compares it.
"""


# What a tool can detect of a group from outside, and the checks that do.
STATES = (
    ("members subscribe differently", "SUB001 SUB002 SUB003 SUB004"),
    ("a fast clock pins a subscription", "SUB006 CLK003"),
    ("a clock is off", "CLK001 CLK002 CLK004"),
    ("a broker's topics change from one heartbeat to the next", "SUB002 SUB008 SUB009"),
    ("two clients with one id", "MEM001"),
    ("brokers list different members", "MEM002"),
    ("a broker without any member", "MEM002 SUB008"),
    ("a queue without an owner, a queue with two", "ALO003 ALO004"),
    ("a queue that one member pops and another pulls", "ALO004"),
    ("more members than queues", "MEM008"),
    ("members use different allocation strategies", "ALO001 ALO002"),
    ("a message that its listener does not finish", "PRG001"),
    ("the first and the last message in flight are too far apart", "PRG005"),
    ("a lock that is lost, or kept after a revoke", "ORD001 ORD002"),
    ("a message that fails forever, in order", "RTY005"),
    ("a member that no longer pulls", "PRG002"),
    ("a filter that brokers do not evaluate", "PUL005"),
    ("most messages fail", "RTY004"),
    ("dead letters", "DLQ001 DLQ002"),
    ("dead letters that cannot be read", "DLQ003"),
    ("no queue for retries", "RTY001 RTY002 RTY003"),
    ("failed messages that no member reads", "RTY006 ALO003 OFF005"),
    ("a group that may not consume", "PUL001 PUL002 PUL003 PUL004"),
    ("brokers configured differently", "CFG001 CFG002 CFG003"),
    ("messages deleted unread, or about to be", "OFF001 OFF007"),
    ("an offset beyond the end", "OFF002"),
    ("stored offsets of queues and topics that no member consumes", "OFF003 OFF012"),
    ("queues that no member can read", "OFF004"),
    ("a reset that waits for a pull", "PRG003"),
    ("consume types, models or starting points are mixed", "MEM003 MEM004 MEM006 MEM007"),
    ("client versions are mixed", "MEM005 VER001"),
    ("popped messages in flight", "OFF006"),
    ("popped messages are not redelivered", "POP001"),
    ("delayed messages and retries are late", "DLY001"),
    ("transactions that no producer ends", "TRX001"),
    ("members read from a slave", "OFF013"),
    ("threads that are all busy", "PRG006"),
    ("flow control, while lag grows", "PRG004 PRG005"),
    ("a filter leaves out the waiting messages", "OFF014"),
    ("name servers that disagree", "`rmqctl doctor`"),
    ("a broadcasting group, read as a clustering one", "OFF010 OFF011"),
    ("C++ members, and resets that are sent to members", "CFG004"),
    ("a message in flight for almost the consume timeout", "PRG007"),
    ("heartbeats that register no member", "CFG002 MEM002"),
)


class Situation(NamedTuple):
    """What is special about a group, the codes that must be found (none of a healthy one), and what is found."""

    what: str
    planted: frozenset[str]
    found: tuple[Finding, ...]

    @property
    def codes(self) -> list[str]:
        """The codes that are found, of a healthy group those of WARNING and worse."""
        is_bad = at_least(Severity.WARNING)
        return sorted({finding.code for finding in self.found if self.planted or is_bad(finding)})

    @property
    def graded(self) -> list[str]:
        """The codes with their severities."""
        return sorted({f"{finding.code} {finding.severity}" for finding in self.found if finding.code in self.codes})


def situations() -> Iterator[Situation]:
    """Make each situation, and diagnose it."""
    for what, change, codes in test_checks.SICK:
        yield Situation(what, frozenset(codes), look(sick(change)).diagnoses[0].findings)
    for what, facts, expected in test_progress.SICK:
        yield Situation(what, frozenset(code for code, _ in expected), diagnose(facts, test_progress.PROGRESS).findings)
    for what, change in test_checks.HEALTHY:
        yield Situation(what, frozenset(), look(sick(change)).diagnoses[0].findings)
    yield Situation("a rolling deployment", frozenset(), _deployment().findings)
    for what, facts in test_progress.HEALTHY:
        yield Situation(what, frozenset(), diagnose(facts, test_progress.PROGRESS).findings)


def _deployment() -> Diagnosis:
    """Look while c2 is gone and c3 has just come, and once more when the queues are shared."""
    first = look(sick(members(c1=member("a0", "a1"), c3=member())))
    then = look(sick(members(c1=member("a0", "a1"), c3=member("b0", "b1"))))
    assert {finding.code for finding in first.diagnoses[0].findings} >= {"ALO003"}
    return compare_rounds(first, then).diagnoses[0]


def page() -> str:
    """Return the page in Markdown."""
    real = _real_codes()
    every = list(situations())
    faults = [each for each in every if each.planted]
    healthy = [each for each in every if not each.planted]
    lines = [_HEAD, f"## {len(faults)} with a fault", "", "| situation | planted | found |", "|---|---|---|"]
    lines += [
        f"| {each.what} | {', '.join(_marked(code, real) for code in sorted(each.planted))} | "
        f"{', '.join(each.graded)} |"
        for each in faults
    ]
    lines += ["", f"## {len(healthy)} without", "", "| situation | found, WARNING or worse |", "|---|---|"]
    lines += [f"| {each.what} | {', '.join(each.codes) or 'nothing'} |" for each in healthy]
    lines += ["", f"## {len(STATES)} states and their checks", "", "| state | code |", "|---|---|"]
    lines += [f"| {state} | {', '.join(found.split()) if '`' not in found else found} |" for state, found in STATES]
    return "\n".join([*lines, ""])


def _marked(code: str, real: frozenset[str]) -> str:
    return f"{code} ✓" if code in real else code


def _real_codes() -> frozenset[str]:
    """Return the codes that tests on real brokers name."""
    texts = [path.read_text(encoding="utf-8") for path in _REAL.glob("test_diagnose*.py")]
    known = {check.code for check in CHECKS}
    return frozenset(code for text in texts for code in re.findall(r'"([A-Z]{3}\d{3})"', text) if code in known)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
