"""How a result is shown, and what a run learned about the cluster apart from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from rmqctl.model.failure import Failure
from rmqctl.text.filters import Condition


class RunFindings(Struct):
    """What a run learned about the cluster apart from its result; reported with every result of the run.

    `failures` make each result partial: name servers that report less than others, or missing brokers. `hints` are by
    the address of a broker that could not be reached. `partial_codes` are the exit codes of
    the partial results that were shown; the run does not end with 0 then.
    """

    failures: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()
    hints: Mapping[str, str] = {}
    partial_codes: list[int] = field(default_factory=list)

    def add(self, failures: Iterable[Failure]) -> None:
        """Add failures, each once: a run may send several requests."""
        known = {(each.broker_name, each.what, each.error.sentence): each for each in (*self.failures, *failures)}
        self.failures = tuple(known.values())

    def warn(self, warnings: Iterable[str]) -> None:
        """Add warnings, each once."""
        self.warnings = tuple(dict.fromkeys((*self.warnings, *warnings)))

    def reset(self) -> None:
        """Forget everything, before the question is asked again."""
        self.failures, self.warnings, self.hints, self.partial_codes = (), (), {}, []

    def as_warnings(self) -> RunFindings:
        """Return the findings with failures as warnings, for a result that is complete, such as stored messages."""
        said = [f"{failure.what}: {failure.error.sentence}" for failure in self.failures]
        return RunFindings((), (*self.warnings, *said), self.hints, self.partial_codes)


class Display(Struct, frozen=True):
    """How to show a result. `findings` are added while the cluster is queried."""

    format: str = "table"
    columns: tuple[str, ...] = ()
    with_headers: bool = True
    with_notes: bool = True
    with_color: bool = True
    with_local_times: bool = False
    conditions: tuple[Condition, ...] = ()
    sort_keys: tuple[str, ...] = ()
    findings: RunFindings = field(default_factory=RunFindings)

    @property
    def shows_all(self) -> bool:
        """Whether a table has all of its columns."""
        return self.format in ("wide", "vertical")
