"""rmqctl doctor: whether the installation, the configuration and the way to the cluster are as they should be."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.config_place import config_path
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.text import note_to_stderr, printable
from rmqctl.errors import NotFoundError, RmqctlError, UnmatchedMapError, UsageError
from rmqctl.model.check_result import CheckResult, Status
from rmqctl.rules.filters import Condition, is_met
from rmqctl.rules.times import iso_time

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
  OK        as it should be
  WARN      works, and may bite
  FAIL      does not work, or is missing; exit code 6 when a server can't be reached, 4 for want of a right, else 1
  UNKNOWN   could not be checked

A broker that was registered within the last 24 hours and is not now is expected: every command that it concerns
names it. --forget-broker ends that for one that is gone for good; RMQCTL_MEMORY, or memory in a context, is another
time than 24h (0: expect none), and brokers=A,B in a context names those that the cluster must have.

Clocks are compared by a question that a broker answers with its own time; the bounds are the question's round trip.
Nothing is changed and no trace is left."""


def command(
    ctx: typer.Context,
    forget_broker: Annotated[
        str | None,
        typer.Option("--forget-broker", metavar="BROKER", help="Stop expecting a broker that is gone for good."),
    ] = None,
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.cli.installation import fetch_installation_findings

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
    """Forget a broker. Raises NotFoundError for one that is not remembered, UsageError for one that a context names."""
    from rmqctl.cli.cluster_memory import forget

    if broker_name in invocation.expected_brokers():
        sentence = f"Context {invocation.context_name} names broker {broker_name}."
        raise UsageError(sentence, hint=f"rmqctl context set {invocation.context_name} brokers=...")

    async def ask(client: "Client") -> tuple[tuple[str, ...], int]:
        return client.name_servers, client.clock.now_ms()

    name_servers, now_ms = invocation.ask(ask)
    if not forget(name_servers, broker_name, now_ms):
        sentence = f"Broker {broker_name} is not remembered: nothing expects it."
        raise NotFoundError("Broker", broker_name).reworded(sentence)
    if invocation.display.with_notes:
        note_to_stderr(printable(f"Broker {broker_name} is forgotten: nothing expects it any more."))


def _cluster_findings(invocation: Invocation) -> list[CheckResult]:
    try:
        invocation.name_servers()
    except UsageError as error:
        return [
            CheckResult("cluster", "cluster", Status.UNKNOWN, "no cluster is named, so none was checked", error.hint)
        ]
    access = invocation.access()
    verify = None if access.tls is None else access.tls.get("verify", "full")
    is_signed = access.credentials() is not None

    async def ask(client: "Client") -> list[CheckResult]:
        from rmqctl.diagnose.cluster import fetch_cluster_findings

        return await fetch_cluster_findings(client, is_signed=is_signed, tls_verify=verify)

    return [*invocation.ask(ask), *_memory_findings(invocation)]


def _memory_findings(invocation: Invocation) -> list[CheckResult]:
    """Tell what is wrong with what is remembered of the cluster, in rows and not in warnings as other commands do."""
    run = invocation.display.findings
    run.warnings = tuple(warning for warning in run.warnings if warning not in invocation.memory_problems)
    if invocation.memory_problems:
        return [
            CheckResult("memory", "cluster", Status.WARN, problem.rstrip(".")) for problem in invocation.memory_problems
        ]
    found = "what is seen of the cluster is remembered" if invocation.memory_ms() else "nothing is expected (memory 0)"
    return [CheckResult("memory", "cluster", Status.OK, found)]


def _exit_code(findings: list[CheckResult]) -> int:
    """Return 0 when nothing failed, else the weightiest of the reasons."""
    failed = [finding.error for finding in findings if finding.status is Status.FAIL]
    if not failed:
        return 0
    codes = [1 if error is None else error.exit_code for error in failed]
    return next((code for code in (4, 6) if code in codes), 1)


def to_listing(findings: list[CheckResult], conditions: Sequence[Condition] = ()) -> Listing:
    """Make the listing of all checks; what fails is named also where `conditions` hide its row."""
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
    Column("OF", "subject"),
    Column("FOUND", "found"),
    Column("HINT", "hint"),
)
