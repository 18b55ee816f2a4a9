"""rmqctl check: reads the groups, once or until every limit is met."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqctl.cli.config.file import read_context
from rmqctl.cli.output.render import with_failures_of_run
from rmqctl.cli.output.text import note_to_stderr, printable
from rmqctl.errors import RmqctlError, UsageError
from rmqctl.gate.history import History
from rmqctl.gate.readings import CheckTarget, GroupReport, read_groups, unread_groups
from rmqctl.model.failure import Failure
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.wildcards import is_pattern

from .formats import problems
from .results import ClusterReport, GateResult

if TYPE_CHECKING:
    from rmqctl.cli.invocation import Invocation
    from rmqctl.client.core import Client
    from rmqctl.diagnose.finding import Check
    from rmqctl.gate.estate import EstateEntry


# What the other clusters may take until a cluster is read again, in addition to the pause.
_READING_S = 30.0


class _Cluster:
    """The groups of one cluster, and how to ask it."""

    def __init__(
        self, context: str | None, invocation: Invocation, targets: Sequence[CheckTarget], every_s: float
    ) -> None:
        self._context = context
        named = None if context is None else read_context(context)
        self._invocation = invocation if named is None else invocation.of(named)
        name = self._invocation.full_name
        self._targets = [CheckTarget(name(each.group), tuple(map(name, each.topics)), each.limits) for each in targets]
        self._is_many = len(targets) > 1 or any(is_pattern(target.group) for target in targets)
        self._history = History(longest_gap_s=every_s + _READING_S)

    def read(self, checks: Sequence[Check]) -> ClusterReport:
        """Read all groups once. Raises UsageError for settings that cannot be used."""
        findings = self._invocation.display.findings
        findings.failures = ()

        async def ask(client: Client) -> tuple[list[GroupReport], list[Failure]]:
            return await read_groups(client, self._targets, checks)

        began_s = time.monotonic()
        try:
            reports, failures = self._invocation.ask(ask, open_ended=self._is_many, waiting="Checking")
        except UsageError:
            raise
        except RmqctlError as error:
            reports, failures = unread_groups(self._targets, error), []
        failed = with_failures_of_run(failures, findings.failures)
        judged = self._history.judge(reports, began_s, time.monotonic(), is_whole=not failed)
        return ClusterReport(self._context, tuple(judged), failed)


class Rounds:
    """Reads all groups: once, or every `every_s` until they are OK and stable, for at most `wait_s`."""

    def __init__(
        self, invocation: Invocation, entries: Sequence[EstateEntry], *, wait_s: float | None, every_s: float
    ) -> None:
        self._display = invocation.display
        self._wait_s, self._every_s = wait_s, every_s
        stable_s = max((entry.target.limits.stable_for_ms or 0 for entry in entries), default=0) / 1000
        if wait_s is not None and wait_s < stable_s:
            raise UsageError("--wait must not be shorter than --stable-for.")
        by_context: dict[str | None, list[CheckTarget]] = defaultdict(list)
        for entry in entries:
            by_context[entry.context].append(entry.target)
        self._clusters = [_Cluster(context, invocation, targets, every_s) for context, targets in by_context.items()]
        self._checks: Sequence[Check] = ()
        if any(entry.target.limits.severity is not None for entry in entries):
            from rmqctl.plugin.loader import all_checks, load_plugins

            self._checks = all_checks(load_plugins(()))
        self._reported: object = None

    def run(self) -> GateResult:
        """Read until the result is final."""
        began_s = time.monotonic()
        round_count = 0
        while True:
            clusters = [cluster.read(self._checks) for cluster in self._clusters]
            round_count += 1
            waited_s = time.monotonic() - began_s
            result = GateResult(tuple(clusters), time.time_ns() // 1_000_000, round(waited_s * 1000), round_count)
            left_s = self._left_s(result, waited_s)
            if left_s <= 0:
                return result
            self._tell(result, left_s)
            time.sleep(min(self._every_s, left_s))

    def _left_s(self, result: GateResult, waited_s: float) -> float:
        """Return the time that is left for further readings, in s; 0 if the result is final."""
        if result.is_final:
            return 0.0
        if self._wait_s is not None:
            return self._wait_s - waited_s
        # Without --wait, only time may be missing.
        return self._every_s if result.is_only_short else 0.0

    def _tell(self, result: GateResult, left_s: float) -> None:
        """Report on stderr what is waited for, whenever that changes."""
        state = {(row.label, row.result.kind, row.result.status) for row in result.rows}
        if not self._display.with_notes or state == self._reported:
            return
        self._reported = state
        for _, words in problems(result)[:_MOST_LINES]:
            note_to_stderr(printable(f"{str(iso_time(result.at_ms))[11:19]}Z {words}"))
        if self._wait_s is not None:
            note_to_stderr(f"Waiting for up to {short_duration(round(left_s * 1000))}.")


_MOST_LINES = 5
