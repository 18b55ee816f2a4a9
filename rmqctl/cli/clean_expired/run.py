"""rmqctl clean-expired: find a group's stuck messages and free their queues."""

# No "from __future__ import annotations" here: typer would evaluate the annotations as texts, at 1 ms each. Modules
# that ask the cluster are imported when the command runs, so that --help does not load them.
from copy import copy
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from rmqctl.cli.arguments import Group, Queues, TopicPatterns, duration_option_ms, parse_queues
from rmqctl.cli.change.options import Consent
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqctl.changes.clean_expired.plan import CleanRequest
    from rmqctl.client.core import Client
    from rmqctl.observe.stuck_scan import StuckScan

HELP = """\b
Examples:
  rmqctl clean-expired my-group
  rmqctl clean-expired my-group --topic orders --queue broker-a:0-3
  rmqctl clean-expired my-group --older-than 15m --for 15m     # only messages in consumption for 15 minutes
  rmqctl clean-expired my-group -o json | jq '.items[] | select(.isStuck)'
  rmqctl clean-expired my-group --older-than 15m --dry-run     # what cleaning would do
  rmqctl clean-expired my-group --older-than 15m --yes         # send back and acknowledge
  rmqctl clean-expired my-group --older-than 15m --to-dlq --yes
  rmqctl clean-expired my-group --older-than 15m --yes --watch --every 30s -o jsonl
  rmqctl clean-expired my-pop-group --older-than 30s           # messages popped and not acknowledged for 30 s

The group is watched for 10 s. A queue is stuck when its client has had the same message in flight for longer than
--older-than. If 10 s are not enough to decide, it is watched for up to a minute. Without --yes, nothing is changed.

With --older-than and --yes, each stuck message is sent back to its broker. Once its copy is found there, the queue is
moved past it, in the way that offset reset chooses. A message without a copy is not acknowledged. The listener of a
stuck message keeps its thread. In a group without members, --queue selects the queues whose first unread message is
sent back. `offset undo` moves the queues back, but messages that were sent back are still redelivered.

In a group that pops (5.x), each message that is popped but not acknowledged has its own row. Brokers redeliver it when
its invisible time ends (Java clients: 60 s), so --older-than must be shorter. Cleaning sends it back and acknowledges
it once its copy is found. No offset moves, and `offset undo` cannot revert it.

With --watch, a round starts every 30 s (--every), until Ctrl-C or for --rounds N. Each round writes one line; a failed
round does not end the command.

\b
WHY:
  IN_CONSUMPTION    the message is in the listener
  BLOCKED_IN_ORDER  consumed in order: the queue waits for the message
  LOCAL_RETRY       the listener fails, and no broker stores the message for a
                    retry
  IN_HAND           the client has the message in flight and reports no
                    details
  SLOW              not stuck: the queue moves slowly, or its message is
                    younger than --older-than
  PAUSED            the client holds the queue but consumes no messages
  NOT_PULLED        the client holds the queue but has stopped pulling
  NOT_POLLED        the application has not polled what its lite pull consumer
                    has prefetched
  PULLS_REFUSED     the broker refuses all pulls (consumeEnable=false)
  FILTERED          the next message does not pass the client's filter
  MEMBER_SILENT     a member that did not answer holds it, or may hold it
  NOT_ASSIGNED      no member holds the queue;  NO_MEMBERS: the group has none
  POPPED            the message is popped but not acknowledged
  POP               members pop: the queue has unread messages, or its broker
                    does not show popped ones
  MEMBERS_UNKNOWN, NOT_REPORTED   rmqctl cannot see which messages are in
                                  flight

\b
Columns:
  FOR        least time that the client has had the message in flight
  DUP-RISK   most messages that are processed but not committed: a crash would
             redeliver them

Exit codes: 0 nothing is stuck, 10 something is stuck (also with --dry-run), 8 a queue could not be decided or read.
After cleaning: as for offset reset, 0 when everything is confirmed and every queue was decided."""

_WINDOW, _EVERY = "10s", "30s"
_PATIENCE_S = 60.0


def command(
    ctx: typer.Context,
    group: Group,
    topic: TopicPatterns = None,
    queue: Queues = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Minimum time in consumption of a stuck message. Default: 1m, or 3 times the client's average.",
        ),
    ] = None,
    window: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Watch for exactly this long. Default: 10s to 1m.")
    ] = None,
    delay_level: Annotated[
        int | None, typer.Option("--delay-level", metavar="N", help="Delay level of the retry. Default: 3 (10 s).")
    ] = None,
    to_dlq: Annotated[bool, typer.Option("--to-dlq", help="Turn the messages into dead letters.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat in rounds, with one line each.")] = False,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="Time between rounds. Default: 30s.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", metavar="N", min=1, help="Stop after N rounds.", show_default=False)
    ] = None,
    *,
    consent: Annotated[Consent, without("assume_offline", "strict", "partial", "expect_queues")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.clean_expired.plan import require_cleanable
    from rmqctl.cli.output.progress import ScanProgress
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.observe.stuck_scan import scan_group

    from .stuck_listing import COLUMNS, exit_code, to_listing

    invocation = Invocation(ctx)
    is_cleaning = consent.yes or consent.confirm is not None or consent.is_plan_only
    if is_cleaning:
        _check_cleaning(invocation, group, older_than, consent)
    else:
        choose_columns(COLUMNS, invocation.display)
    level = _level(delay_level, to_dlq=to_dlq)
    older_than_ms = None if older_than is None else duration_option_ms("--older-than", older_than)
    window_s = duration_option_ms("--for", window or _WINDOW) / 1000
    choices = parse_queues(queue)
    name, topics = invocation.full_name(group), [invocation.full_name(each) for each in topic or ()]

    def look() -> "StuckScan":
        with ScanProgress("watching, s", is_wanted=not watch) as progress:

            async def scan(client: "Client") -> "StuckScan":
                if is_cleaning:
                    await require_cleanable(client, name, topics)
                return await scan_group(
                    client, name, topics, choices, older_than_ms=older_than_ms, window_s=window_s,
                    patience_s=_PATIENCE_S if window is None else None,
                    on_wait=lambda passed_s, until_s: progress.show(round(passed_s), round(until_s)),
                )  # fmt: skip

            return invocation.ask(scan, open_ended=True, waiting="Watching the group")

    if watch:
        every_s = duration_option_ms("--every", every or _EVERY) / 1000
        if consent.is_plan_only:
            raise UsageError(
                "--watch cannot be used with --dry-run or --plan.", hint="Use --yes to clean, or --watch alone."
            )
        # In a group without members, successive rounds would send back all messages of the queues.
        request = _request(older_than_ms or 0, level, has_queues=False, reason=consent.reason)
        return _watch(invocation, name, look, request if is_cleaning else None, every_s, rounds, consent)
    if every is not None or rounds is not None:
        raise UsageError("--every and --rounds require --watch.")
    found = look()
    if is_cleaning and older_than_ms is not None:
        request = _request(older_than_ms, level, has_queues=bool(choices), reason=consent.reason)
        return _clean(invocation, found, consent, request)
    listing = to_listing(found, older_than_ms)
    return exit_code(found, render(listing, invocation.display))


def _request(older_than_ms: int, level: int, *, has_queues: bool, reason: str | None) -> "CleanRequest":
    from rmqctl.changes.clean_expired.plan import CleanRequest
    from rmqctl.text.durations import short_duration

    asked = f"--older-than {short_duration(older_than_ms)}{' --to-dlq' if level < 0 else ''}"
    return CleanRequest(older_than_ms, level, has_queues=has_queues, asked=asked, reason=reason)


def _watch(
    invocation: Invocation, group: str, look: "Callable[[], StuckScan]", request: "CleanRequest | None", every_s: float,
    rounds: int | None, consent: Consent,
) -> int:  # fmt: skip
    """Run rounds. Returns the exit code."""
    from rmqctl.changes.clean_expired.plan import plan_cleaning
    from rmqctl.changes.documents.encode import plan_document
    from rmqctl.changes.journal.journal import Journal
    from rmqctl.cli.change.execution import perform, with_author
    from rmqctl.model.plan import Route

    from .watch import CleanWatch, Round

    journal = Journal()
    quiet = copy(invocation)
    quiet.display = replace(invocation.display, with_notes=False)

    def play() -> Round:
        found = look()
        if request is None or not found.queues:
            return Round(found)
        planned = invocation.ask(lambda client: plan_cleaning(client, found, request, journal), open_ended=True)
        found = replace(found, failures=tuple(dict.fromkeys((*found.failures, *planned.failures))))
        if all(item.route is Route.UNSEEN for item in planned.plan.items):
            return Round(found)
        plan = with_author(invocation, planned.plan)
        applied = perform(quiet, plan, plan_document(plan), consent, lambda _: None)
        return Round(found, applied)

    with journal:
        return CleanWatch(group, invocation.display, play).run(every_s, rounds)


def _clean(invocation: Invocation, found: "StuckScan", consent: Consent, request: "CleanRequest") -> int:
    """Plan, show and apply. Returns the exit code."""
    from rmqctl.changes.clean_expired.plan import plan_cleaning
    from rmqctl.changes.journal.journal import Journal
    from rmqctl.cli.change.execution import confirm_and_apply
    from rmqctl.cli.output.render import render

    from .stuck_listing import STUCK_EXIT_CODE, exit_code, to_listing

    older_than_ms = request.older_than_ms
    with Journal() as journal:
        planned = invocation.ask(lambda client: plan_cleaning(client, found, request, journal), open_ended=True)
    failures = {(each.broker_name, each.what): each for each in (*found.failures, *planned.failures)}
    planned = replace(planned, failures=tuple(failures.values()))
    if not planned.plan.items:
        # The listing shows why nothing can be cleaned, or which reads failed.
        listing = replace(to_listing(found, older_than_ms), failures=planned.failures)
        code = render(listing, replace(invocation.display, columns=(), sort_keys=()))
        return code or exit_code(found, code)
    # Each queue is cleaned on its own: one that could not be read does not block the others.
    code = confirm_and_apply(invocation, planned, replace(consent, partial=True))
    if code == 0 and any(each.verdict.is_stuck is None for each in found.queues):
        code = 8
    return STUCK_EXIT_CODE if consent.is_plan_only and code == 0 else code


def _check_cleaning(invocation: Invocation, group: str, older_than: str | None, consent: Consent) -> None:
    """Raise UsageError or RefusedError for invalid options before the cluster is asked."""
    from rmqctl.cli.change.execution import check_consent
    from rmqctl.cli.change.options import group_name
    from rmqctl.model.plan import Subject

    if older_than is None:
        raise UsageError(
            "Cleaning requires --older-than, the minimum time in consumption.",
            hint=f"Use rmqctl clean-expired {group} to see the time of each message.",
        )
    check_consent(invocation, Subject(group_name(invocation, group)), consent)


def _level(delay_level: int | None, *, to_dlq: bool) -> int:
    from rmqctl.changes.clean_expired.plan import DEAD_LETTER_LEVEL, DEFAULT_LEVEL, require_level

    if to_dlq and delay_level is not None:
        raise UsageError("--to-dlq and --delay-level cannot be used together: a dead letter has no delay.")
    if delay_level is not None:
        require_level(delay_level)
    return DEAD_LETTER_LEVEL if to_dlq else DEFAULT_LEVEL if delay_level is None else delay_level
