"""rmqctl diagnose: what is wrong with groups, who reports it, and the next command."""

# No "from __future__ import annotations" here: typer would evaluate the annotations as texts, at 1 ms each. Modules
# that ask the cluster are imported when the command runs, so that --help does not load them.
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from rmqctl.cli.arguments import AnyGroups, TopicsOfGroups, seconds_option
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.text.names import hint_for
from rmqctl.text.words import agreeing, counted, listed

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.diagnose.diagnosis import Diagnosis, DiagnosisRound
    from rmqctl.diagnose.finding import Check, Severity

HELP = """\b
Examples:
  rmqctl diagnose my-group
  rmqctl diagnose my-group --topic orders --severity warning
  rmqctl diagnose 'payments-*' --fail-on error
  rmqctl diagnose --all --only SUB,ALO002
  rmqctl diagnose my-group --proxy 10.0.0.7:8080     # also members that only the proxy sees (remoting port)
  rmqctl diagnose my-group --only CLK --probe        # each clock to 5 ms, within 120 s
  rmqctl diagnose my-group -o wide                   # also the evidence: what was read, who reported it, when
  rmqctl diagnose my-group -o json | jq '.items[] | {code, sentence, nextCommand}'
  rmqctl diagnose my-group --html my-group.html      # also an HTML page: one file without external resources
  rmqctl explain SUB001

\b
Severities:
  ERROR     messages are lost, consumed twice or not consumed now
  WARNING   they will be if something else happens
  INFO      worth knowing

Compares the reports of all brokers, members and queues. Nothing is changed, and no trace is left. A check without all
the data that it needs is listed below the table: it cannot rule out its fault (exit code 8).

Groups with members are read a second time after --for. The difference shows stuck messages, members that consume
nothing, and growing lag.

Clocks of brokers and members are compared with this machine's and with each other. A name server does not report its
time and depends on no other clock.

A rebalance causes some findings for a moment. If there is one of these, the group is read again after --settle, and
they are reported only if both readings show them. --settle 0s (or Ctrl-C) reports the first reading."""

_DEFAULT_SAMPLE = "2s"
# Clients ask for routes every 30 s, rebalance every 20 s, and send heartbeats every 30 s.
_DEFAULT_SETTLE = "55s"
_MOST_NOTES = 10


def command(
    ctx: typer.Context,
    groups: AnyGroups = None,
    every: Annotated[bool, typer.Option("--all", help="All groups except RocketMQ's own.")] = False,
    topic: TopicsOfGroups = None,
    severity: Annotated[
        str | None, typer.Option("--severity", metavar="SEVERITY", help="Lowest severity to show. [default: info]")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CODE,...", help="Only checks with these codes or code prefixes. Repeatable."),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", metavar="SEVERITY", help="Exit with 1 if a finding has this severity or worse."),
    ] = None,
    sample: Annotated[
        str,
        typer.Option(
            "--for", metavar="DURATION", help="Time between two readings that show changes; 0s to read only once."
        ),
    ] = _DEFAULT_SAMPLE,
    settle: Annotated[
        str,
        typer.Option(
            "--settle", metavar="DURATION", help="How long a rebalance may take; 0s to skip the confirmation."
        ),
    ] = _DEFAULT_SETTLE,
    probe: Annotated[
        bool, typer.Option("--probe", help="Ask members for up to 120 s until each clock is known to 5 ms.")
    ] = False,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy",
            metavar="ADDR",
            help="Remoting address of a 5.x proxy to ask for members. Repeatable. [default: the context's proxies]",
        ),
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write an HTML page; replaces FILE.")
    ] = None,
    plugin: Annotated[
        list[str] | None, typer.Option("--plugin", metavar="FILE", help="Plugin with checks. Repeatable.")
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.text import note_to_stderr
    from rmqctl.diagnose.diagnosis import DiagnosisRound, compare_rounds, diagnose_groups
    from rmqctl.diagnose.finding import TIMED_NEEDS, parse_severity
    from rmqctl.plugin.loader import all_checks, load_plugins

    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    if html is not None:
        from rmqctl.page.file import require_file

        require_file("--html", html)
    least = None if severity is None else parse_severity("--severity", severity)
    failing = None if fail_on is None else parse_severity("--fail-on", fail_on)
    sample_s, settle_s = seconds_option("--for", sample), seconds_option("--settle", settle)
    names = _names(invocation, groups or [], every=every)
    topics = [invocation.full_name(name) for name in topic or ()]
    proxies = invocation.proxies(proxy or ())
    checks = _pick(all_checks(load_plugins(plugin or ())), only, with_time=sample_s > 0)
    if not any(check.needs & TIMED_NEEDS for check in checks):
        sample_s = 0
    is_many = every or len(names) > 1 or any("*" in name or "?" in name for name in names)
    if probe and invocation.display.with_notes:
        note_to_stderr("Asking members for up to 120 s. Nothing is written.")

    async def look(client: "Client", groups: Sequence[str]) -> "DiagnosisRound":
        return await diagnose_groups(client, groups, topics, checks, sample_s=sample_s, is_probe=probe, proxies=proxies)

    try:
        waiting = f"Watching {'groups' if is_many else 'the group'}" if sample_s else "Asking the cluster"
        found = invocation.ask(lambda client: look(client, names), open_ended=is_many, waiting=waiting)
    except NotFoundError as error:
        if not every or error.kind != "Group":
            raise
        found = DiagnosisRound((), ())  # a cluster without groups is not an error
    unsure = [diagnosis.facts.group for diagnosis in found.diagnoses if diagnosis.may_pass]
    if unsure and settle_s and _wait(invocation, found, unsure, settle_s):
        again = invocation.ask(lambda client: look(client, unsure), open_ended=is_many)
        found = compare_rounds(found, again)
    listing = to_listing(found, checks, least=least, is_many=is_many, with_clocks=probe)
    code = render(listing, invocation.display)
    if html is not None:
        from .page import write_page

        write_page(html, invocation, found, checks, least=least, only=only, topics=topics)
    return code or _exit_code(found, failing)


def _names(invocation: Invocation, groups: Sequence[str], *, every: bool) -> list[str]:
    if every == bool(groups):
        raise UsageError(
            "Groups cannot be combined with --all." if every else "No group is given.",
            hint="Use rmqctl diagnose GROUP..., or rmqctl diagnose --all.",
        )
    return [invocation.full_name(group) for group in groups or ["*"]]


def _pick(checks: "Sequence[Check]", only: Sequence[str] | None, *, with_time: bool) -> "list[Check]":
    """Return the checks with these codes or prefixes, or all; without time, only those that read a group once."""
    from rmqctl.diagnose.finding import TIMED_NEEDS

    possible = [check for check in checks if with_time or not check.needs & TIMED_NEEDS]
    if only is None:
        return possible
    wanted = [word.strip().upper() for text in only for word in text.split(",") if word.strip()]
    if not wanted:
        raise UsageError("--only does not name a check.")
    for word in wanted:
        if not any(check.code.startswith(word) for check in checks):
            hint = hint_for(
                word,
                [check.code for check in checks],
                otherwise="Use rmqctl explain SUB to list the checks that begin with SUB.",
            )
            raise UsageError(f"Unknown check {word!r} for --only.", hint=hint)
    chosen = [check for check in possible if check.code.startswith(tuple(wanted))]
    if not chosen:
        raise UsageError("The checks of --only read the group twice.", hint="Set --for to a time above 0s.")
    return chosen


def _wait(invocation: Invocation, found: "DiagnosisRound", groups: Sequence[str], settle_s: float) -> bool:
    """Wait for a rebalance to end. Returns whether to read again, False after Ctrl-C."""
    import time

    from rmqctl.cli.output.text import note_to_stderr, printable

    codes = sorted(
        {finding.code for diagnosis in found.diagnoses for finding in diagnosis.findings if not finding.is_confirmed}
    )
    if invocation.display.with_notes:
        note_to_stderr(
            printable(
                f"{listed(codes)} of {listed(groups)} may be caused by a rebalance: reading again in {settle_s:g} s. "
                "Ctrl-C shows the findings so far."
            )
        )
    try:
        time.sleep(settle_s)
    except KeyboardInterrupt:
        return False
    return True


def _exit_code(found: "DiagnosisRound", failing: "Severity | None") -> int:
    from rmqctl.diagnose.diagnosis import at_least

    if failing is None:
        return 0
    return int(any(map(at_least(failing), (each for one in found.diagnoses for each in one.findings))))


def to_listing(
    found: "DiagnosisRound", checks: "Sequence[Check]", *, least: "Severity | None" = None, is_many: bool = False,
    with_clocks: bool = False,
) -> Listing:  # fmt: skip
    """Make the listing of all findings of a severity or worse; `is_many` adds the group column.

    `with_clocks` adds a note on the clocks of every group, else only of groups with a finding about clocks.
    """
    from rmqctl.diagnose.diagnosis import at_least
    from rmqctl.diagnose.finding import SEVERITIES, by_fact

    from .finding_items import finding_item, merge_items
    from .group_items import group_item, unread_item

    is_shown = at_least(least or SEVERITIES[-1])
    rows = [
        ({"group": one.facts.group, **finding_item(finding, one.facts.at_ms)}, finding)
        for one in found.diagnoses
        for finding in one.findings
        if is_shown(finding)
    ]
    rows.sort(key=lambda row: SEVERITIES.index(row[1].severity))
    items = [item for item, _ in rows]
    counts = {
        str(severity): sum(finding.severity is severity for one in found.diagnoses for finding in one.findings)
        for severity in SEVERITIES
    }
    facts = by_fact(finding for one in found.diagnoses for finding in one.findings)
    told = {str(severity): sum(each[0].severity is severity for each in facts.values()) for severity in SEVERITIES}
    columns = (
        COLUMNS
        if is_many
        else tuple(replace(column, is_wide=True) if column.key == "group" else column for column in COLUMNS)
    )
    return Listing(
        kind="Diagnosis",
        columns=columns,
        items=items,
        name=lambda item: f"{item['group']} {item['code']}" if is_many else str(item["code"]),
        failures=found.failures,
        extra={
            "groups": [
                *(group_item(one, checks) for one in found.diagnoses),
                *(unread_item(group, error, checks) for group, error in found.unread.items()),
            ],
            "summary": counts,
            "checkCount": len(checks),
        },
        notes=[
            *_by_sentence(_clock_notes(found, with_all=with_clocks)),
            *_notes(found, checks, told, hidden_count=sum(not is_shown(each[0]) for each in facts.values())),
        ],
        merged=merge_items,
        empty=_nothing(found, checks, least),
    )


def _clock_notes(found: "DiagnosisRound", *, with_all: bool) -> Iterator[tuple[str, str]]:
    """Yield groups, each with a sentence on its clocks."""
    from rmqctl.diagnose.clocks import clock_words

    for one in found.diagnoses:
        every = one.facts.clocks.every()
        if every and (with_all or any(finding.code.startswith("CLK") for finding in one.findings)):
            clocks = listed((f"{name} {clock_words(bounds)}" for (_, name), bounds in every.items()), shown=6)
            yield one.facts.group, f"clocks relative to this machine's: {clocks}."


def _open_questions(one: "Diagnosis", checks: "Sequence[Check]") -> Iterator[str]:
    """Yield the uncertain results of one group: seen once, seen in one of two readings, or inconclusive."""
    if one.may_pass:
        codes = sorted({finding.code for finding in one.findings if not finding.is_confirmed})
        yield f"{listed(codes)} {agreeing(len(codes), 'was')} seen only once and may be caused by a rebalance."
    for need, reason in one.unknown.items():
        codes = one.open_codes(checks, need)
        if codes:
            yield f"{counted(len(codes), 'check', 'is')} inconclusive: {reason} ({listed(codes)})."
    if one.passed_codes:
        were = agreeing(len(one.passed_codes), "was")
        yield f"{listed(one.passed_codes)} {were} seen in only one of two readings, as in a rebalance."


def _notes(
    found: "DiagnosisRound", checks: "Sequence[Check]", counts: dict[str, int], *, hidden_count: int
) -> list[str]:
    notes = _by_sentence(
        (one.facts.group, sentence) for one in found.diagnoses for sentence in _open_questions(one, checks)
    )
    if found.unread:
        count = len(found.unread)
        notes.append(f"{counted(count, 'group', 'was')} not read: {listed(found.unread)}.")
    total = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    if total:
        more = f"; {hidden_count} not shown (--severity)" if hidden_count else ""
        notes.append(
            f"{total} in {counted(len(found.diagnoses), 'group')}, by {counted(len(checks), 'check')}{more}. "
            "Run rmqctl explain CODE for its effect and the remedy."
        )
    return notes


def _by_sentence(said: Iterable[tuple[str, str]]) -> list[str]:
    """Return a note for each sentence with the groups that it is about; after the first ones, only their number."""
    groups: dict[str, list[str]] = {}
    for group, sentence in said:
        groups.setdefault(sentence, []).append(group)
    notes = [f"{listed(names)}: {sentence}" for sentence, names in groups.items()]
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [f"{len(notes) - _MOST_NOTES} more such notes: see groups in -o json."]
    return notes


def _nothing(found: "DiagnosisRound", checks: "Sequence[Check]", least: "Severity | None") -> str:
    if not found.diagnoses:
        return "No consumer groups."
    groups = found.diagnoses[0].facts.group if len(found.diagnoses) == 1 else f"{len(found.diagnoses)} groups"
    what = "Nothing found" if least is None else f"Nothing of severity {str(least).lower()} or worse found"
    open_codes = {code for one in found.diagnoses for need in one.unknown for code in one.open_codes(checks, need)}
    done = f"{len(checks) - len(open_codes)} of " if open_codes else ""
    return f"{what} in {groups} by {done}{counted(len(checks), 'check')}."


def _show_evidence(item: Item) -> str:
    return "; ".join(
        f"{fact['name']}={fact['value']} ({fact['reportedBy']}, {fact['timestampIso']})" for fact in item["evidence"]
    )


def _show_next(item: Item) -> str:
    return str(item["nextCommand"] or "-")


COLUMNS = (
    Column("SEVERITY", "severity", is_alarm=lambda item: item["severity"] != "INFO"),
    Column("CODE", "code"),
    Column("GROUP", "group"),
    Column("FOUND", "sentence", is_sentence=True),
    Column("NEXT", "nextCommand", show=_show_next, is_sentence=True),
    Column("EVIDENCE", "evidence", show=_show_evidence, is_sentence=True, is_wide=True),
)
