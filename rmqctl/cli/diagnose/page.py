"""Writes the page of a diagnosis (--html). Its content and layout are in rmqctl.diagnose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqctl import __version__
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.render import with_failures_of_run
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.diagnose.diagnosis import DiagnosisRound, at_least
from rmqctl.diagnose.finding import SEVERITIES, Severity
from rmqctl.diagnose.page_view import make_view
from rmqctl.page.file import replace_file
from rmqctl.page.template import render_template

if TYPE_CHECKING:
    from rmqctl.diagnose.finding import Check
    from rmqctl.model.failure import Failure


def render_page(
    found: DiagnosisRound, checks: Sequence[Check], *, least: Severity | None = None, scope: Sequence[str] = (),
    failures: Sequence[Failure] = (), warnings: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return the page of a look; `failures` are those of the run, in addition to the look's own."""
    view = make_view(
        found,
        checks,
        is_shown=at_least(least or SEVERITIES[-1]),
        scope=scope,
        version=__version__,
        failures=with_failures_of_run(found.failures, failures),
        warnings=warnings,
    )
    return render_template("diagnose/diagnosis.html", view, printable)


def write_page(
    path: str, invocation: Invocation, found: DiagnosisRound, checks: Sequence[Check], *, least: Severity | None,
    only: Sequence[str] | None, topics: Sequence[str],
) -> None:  # fmt: skip
    """Write the page and replace an existing file. Raises RmqctlError."""
    scope = [f"Cluster: {_cluster(invocation)}."]
    scope += [f"Only topics {', '.join(topics)}."] * bool(topics)
    scope += [f"Only checks {', '.join(only or ())}."] * bool(only)
    run = invocation.display.findings
    replace_file(
        path, render_page(found, checks, least=least, scope=scope, failures=run.failures, warnings=run.warnings)
    )
    if invocation.display.with_notes:
        to_stderr(printable(f"Written to {path}."))


def _cluster(invocation: Invocation) -> str:
    """Return the cluster as the user names it, without addresses with a scheme, which may contain a password."""
    name_servers = invocation.name_servers()
    asked = "name servers by URL" if "://" in name_servers else name_servers
    return asked if invocation.context_name is None else f"{invocation.context_name} ({asked})"
