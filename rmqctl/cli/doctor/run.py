"""rmqctl doctor: check the installation, the configuration and the connection to the cluster."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.config.place import config_path
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.text import note_to_stderr, printable
from rmqctl.errors import NotFoundError, RmqctlError, UnmatchedMapError, UsageError
from rmqctl.model.check_result import CheckResult, Status
from rmqctl.text.filters import Condition, is_met
from rmqctl.text.times import iso_time

if TYPE_CHECKING:
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl doctor
  rmqctl doctor -n 10.0.0.5:9876
  rmqctl doctor --context prod --where status!=OK
  rmqctl doctor -o json | jq '.items[] | select(.check == "clock")'
  rmqctl doctor --forget-broker broker-b

\b
States:
  OK        no problem found
  WARN      works, but may cause problems
  FAIL      does not work, or is missing
  UNKNOWN   could not be checked

If a check fails, the exit code is 4 for a missing permission, 6 for a server that cannot be reached, else 1. If a
check could not be made, it is 8.

Brokers that were registered within the last 24 hours are expected: commands report one that is no longer registered.
--forget-broker stops that for a broker that was removed permanently. RMQCTL_MEMORY, or memory in a context, replaces
the 24h (0 expects none); brokers=A,B in a context lists the brokers that the cluster must have.

Checks of each broker also show delayed messages that are overdue, and half messages of transactions that stay open.

To compare clocks, each broker is asked for its own time; the result is accurate to the round trip of the request.
doctor changes nothing on the cluster and leaves no trace there."""


def command(
    ctx: typer.Context,
    forget_broker: Annotated[
        str | None,
        typer.Option("--forget-broker", metavar="BROKER", help="Stop expecting a broker that was removed permanently."),
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from .installation import fetch_installation_findings

    if forget_broker is not None:
        _forget(Invocation(ctx), forget_broker)
    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(_COLUMNS, invocation.display)
    display = invocation.display
    findings = fetch_installation_findings(config_path())
    try:
        invocation = Invocation(ctx)
        display = invocation.display
        findings += _cluster_findings(invocation)
    except UnmatchedMapError:
        raise
    except RmqctlError as error:
        sentence = error.sentence.rstrip(".")
        findings.append(CheckResult("connection", "cluster", Status.FAIL, sentence, error.hint, error=error))
    partial = render(to_listing(findings, display.conditions), display)
    return _exit_code(findings) or partial


def _forget(invocation: Invocation, broker_name: str) -> None:
    """Forget a broker. Raises NotFoundError if it is not remembered, UsageError if the context lists it."""
    from rmqctl.changes.journal.cluster_memory import forget

    if broker_name in invocation.expected_brokers():
        sentence = f"Context {invocation.context_name} lists broker {broker_name}."
        raise UsageError(sentence, hint=f"rmqctl context set {invocation.context_name} brokers=...")

    async def ask(client: "Client") -> tuple[tuple[str, ...], int]:
        return client.name_servers, client.clock.now_ms()

    name_servers, now_ms = invocation.ask(ask)
    if not forget(name_servers, broker_name, now_ms):
        sentence = f"Broker {broker_name} is not remembered, so it is not expected."
        raise NotFoundError("Broker", broker_name).reworded(sentence)
    if invocation.display.with_notes:
        note_to_stderr(printable(f"Broker {broker_name} is forgotten and no longer expected."))


def _cluster_findings(invocation: Invocation) -> list[CheckResult]:
    try:
        invocation.name_servers()
    except UsageError as error:
        return [
            CheckResult(
                "cluster", "cluster", Status.WARN, "no name server is given, so no cluster was checked", error.hint
            )
        ]
    access = invocation.access()
    verify = None if access.tls is None else access.tls.get("verify", "full")
    is_signed = access.credentials() is not None

    async def ask(client: "Client") -> list[CheckResult]:
        from rmqctl.diagnose.cluster import fetch_cluster_findings

        return await fetch_cluster_findings(client, is_signed=is_signed, tls_verify=verify)

    return [*invocation.ask(ask), *_memory_findings(invocation)]


def _memory_findings(invocation: Invocation) -> list[CheckResult]:
    """Return the problems of the cluster memory as rows; other commands report them as warnings."""
    run = invocation.display.findings
    run.warnings = tuple(warning for warning in run.warnings if warning not in invocation.memory_problems)
    if invocation.memory_problems:
        return [
            CheckResult("memory", "cluster", Status.WARN, problem.rstrip(".")) for problem in invocation.memory_problems
        ]
    found = "brokers that were seen are remembered" if invocation.memory_ms() else "no brokers are expected (memory 0)"
    return [CheckResult("memory", "cluster", Status.OK, found)]


def _exit_code(findings: list[CheckResult]) -> int:
    """Return 0 if nothing failed, else the most important exit code: 4, 6, 1; 8 if a check could not be made."""
    failed = [finding.error for finding in findings if finding.status is Status.FAIL]
    if not failed:
        return 8 if any(finding.status is Status.UNKNOWN for finding in findings) else 0
    codes = [1 if error is None else error.exit_code for error in failed]
    return next((code for code in (4, 6) if code in codes), 1)


def to_listing(findings: list[CheckResult], conditions: Sequence[Condition] = ()) -> Listing:
    """Return the listing of all checks; failed checks that `conditions` hide become warnings."""
    counts = {status: sum(finding.status is status for finding in findings) for status in Status}
    items = [_item(finding) for finding in findings]
    hidden = [item for item in items if not all(is_met(condition, item) for condition in conditions)]
    return Listing(
        kind="Doctor",
        columns=_COLUMNS,
        items=items,
        warnings=[
            f"FAIL: {item['check']}: {item['subject']}: {item['found']}." for item in hidden if item["status"] == "FAIL"
        ],
        name=lambda item: f"{item['check']}: {item['subject']}: {item['status']}",
        extra={"summary": {str(status): count for status, count in counts.items()}},
        notes=[", ".join(f"{count} {status}" for status, count in counts.items() if count) + "."],
    )


def _item(finding: CheckResult) -> dict[str, Any]:
    measured = dict(finding.measured)
    if "certificateExpiresAt" in measured:
        measured["certificateExpiresAtIso"] = iso_time(measured["certificateExpiresAt"])
    return {
        "check": finding.check,
        "subject": finding.subject,
        "status": str(finding.status),
        "found": finding.found,
        "hint": finding.hint,
        "measured": measured,
        "error": None if finding.error is None else finding.error.name,
    }


_COLUMNS = (
    Column("STATUS", "status", is_alarm=lambda item: item["status"] != "OK"),
    Column("CHECK", "check"),
    Column("SUBJECT", "subject"),
    Column("FOUND", "found"),
    Column("HINT", "hint"),
)
