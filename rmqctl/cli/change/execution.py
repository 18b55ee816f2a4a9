"""Shows a plan, asks, applies it and shows the receipt: the end of every command that changes offsets."""

from __future__ import annotations

import json
import os
import sys
import time
from asyncio import CancelledError
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rmqctl.changes.apply import apply_plan
from rmqctl.changes.documents.encode import plan_document
from rmqctl.changes.interrupts import Interrupts
from rmqctl.changes.journal.group_lock import cool_down_ms, group_lock, lock_places
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.rules.skips import require_no_skip
from rmqctl.cli.files import new_file, write_file
from rmqctl.cli.output.render import render
from rmqctl.cli.output.text import drop_rest, note_to_stderr, printable
from rmqctl.client.duplicates import refuse_duplicates
from rmqctl.errors import NotAuthorisedError, RefusedError, RmqctlError, UsageError
from rmqctl.model.names import require_no_system_group
from rmqctl.model.plan import OWN_TOPIC, Author, Subject
from rmqctl.model.receipt import ReceiptReport, Result, Who
from rmqctl.net.file_lock import require_file_locks
from rmqctl.state.folder import host_name
from rmqctl.state.process import current_who, user_name

from .consent import check_display, require_consent
from .listings import PLAN_COLUMNS, RECEIPT_COLUMNS, is_changing, plan_listing, receipt_listing
from .sentences import count_results, headings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.cli.invocation import Invocation
    from rmqctl.cli.output.display import Display
    from rmqctl.cli.output.listing import Column, Listing
    from rmqctl.client.core import Client
    from rmqctl.model.failure import Failure
    from rmqctl.model.plan import Plan

    from .options import Consent


def check_consent(
    invocation: Invocation, subject: Subject, consent: Consent, *, is_config_change: bool = False
) -> None:
    """Raise UsageError for RocketMQ's own groups, and for options that would only fail after the change.

    Raises RefusedError in a readonly context. Commands call this before they contact the cluster.
    """
    require_no_system_group(subject.group)
    plan_columns: Sequence[Column] = PLAN_COLUMNS
    receipt_columns: Sequence[Column] = RECEIPT_COLUMNS
    if is_config_change:
        from .config_listings import CONFIG_PLAN_COLUMNS, CONFIG_RECEIPT_COLUMNS

        plan_columns, receipt_columns = CONFIG_PLAN_COLUMNS, CONFIG_RECEIPT_COLUMNS
    if consent.plan_path == "-":
        raise UsageError("--plan cannot write to stdout.", hint="Use --dry-run -o json to write the plan to stdout.")
    if consent.plan_path is not None:
        new_file("--plan", consent.plan_path)
    if not consent.is_plan_only:
        require_file_locks(f"Changing a {subject.kind}")
    check_display(
        invocation, is_plan_only=consent.is_plan_only, plan_columns=plan_columns, receipt_columns=receipt_columns
    )


def confirm_and_apply(
    invocation: Invocation, planned: PlanReport, consent: Consent, *, today: Plan | None = None
) -> int:
    """Show a plan, ask, and apply it with consent. Returns the exit code. `today` is a saved plan with new numbers.

    Raises UsageError when there is no terminal to ask on, DeclinedError when the answer is no, and what apply_plan
    raises.
    """
    plan, failures, display = planned.plan, planned.failures, invocation.display
    if today is None:
        plan = with_author(invocation, plan)
    document = plan_document(plan)
    said = headings(today or plan, time.time_ns() // 1_000_000, is_saved=today is not None)
    listing = plan_listing(today or plan, failures, headings=list(said))
    if consent.is_plan_only or not is_changing(plan):
        if consent.plan_path is not None:
            text = json.dumps({**document, "errors": listing.errors()}, indent=2) + "\n"
            write_file(new_file("--plan", consent.plan_path), text)
        if not consent.is_plan_only:
            # The chosen columns are those of a receipt, and there will be no receipt.
            display = replace(display, columns=(), sort_keys=())
        code = render(listing, display)
        if code == 0 and (planned.unseen is not None or plan.has_unknown):
            code = 8  # queues that no longer exist are named in the plan itself
        if consent.plan_path is not None and display.with_notes:
            note_to_stderr(f"Plan saved; nothing was changed. To apply it: rmqctl apply {printable(consent.plan_path)}")
        return code
    refuse_duplicates(display.findings.failures, plan.brokers)
    if planned.unseen is not None and not consent.partial:
        raise RefusedError(
            f"{plan.subject.title} could only be read in part. Missing: {planned.unseen}.",
            hint="Use --dry-run to show what can be changed, and --partial to change it.",
        )
    require_no_skip(today or plan)
    is_own = any(each.code == OWN_TOPIC for each in plan.consequences)
    require_consent(invocation, listing, plan.subject.name, consent, must_name=is_own)
    return _apply(invocation, plan, document, failures, consent)


def with_author(invocation: Invocation, plan: Plan) -> Plan:
    """Return a plan that names who made it."""
    return replace(plan, author=Author(user_name(), host_name(), invocation.context_name))


def _apply(
    invocation: Invocation, plan: Plan, document: dict[str, Any], failures: Sequence[Failure], consent: Consent
) -> int:
    """Apply a plan after consent, and show the receipt. Returns the exit code."""
    display = invocation.display
    applied = perform(
        invocation,
        plan,
        document,
        consent,
        lambda applied: _show_last(
            applied.receipt.id, receipt_listing(applied.receipt, (*failures, *applied.failures)), display
        ),
    )
    code = _exit_code(applied.exit_code, (*failures, *display.findings.failures))
    return 8 if code == 0 and plan.has_unknown else code


def perform(
    invocation: Invocation,
    plan: Plan,
    document: dict[str, Any],
    consent: Consent,
    show: Callable[[ReceiptReport], object],
) -> ReceiptReport:
    """Apply a plan after consent, and pass the result to `show`; Ctrl-C before that reports what was done."""
    display = invocation.display
    text = json.dumps(document)
    who = this_process(invocation)

    def report(sentence: str) -> None:
        if display.with_notes:
            note_to_stderr(printable(sentence))

    with Interrupts() as interrupts, Journal() as journal:

        async def run(client: Client) -> ReceiptReport:
            interrupts.watch()
            places = await lock_places(client, plan)
            with group_lock(plan.subject, plan.operation, places):
                await _cool_down(client, plan, journal, report)
                return await apply_plan(
                    client,
                    plan,
                    text,
                    document["sha256"],
                    journal,
                    who,
                    strict=consent.strict,
                    wait_s=consent.wait_s,
                    report=report,
                )

        try:
            applied = invocation.ask(run, open_ended=True)
            show(applied)
        except (KeyboardInterrupt, CancelledError):
            _say_interrupted(plan, journal)
            raise KeyboardInterrupt from None
    return applied


def _say_interrupted(plan: Plan, journal: Journal) -> None:
    """Report how much of an interrupted change was made, from its journal."""
    note_to_stderr(printable(f"Interrupted. To see what was done: rmqctl offset history {plan.subject.name}"))
    try:
        # The same plan may have been applied before, by another process.
        newest = journal.history(name=plan.subject.name, limit=1)
        change = next((each for each in newest if (each.plan_id, each.who.pid) == (plan.id, os.getpid())), None)
    except RmqctlError as error:
        note_to_stderr(printable(error.sentence))
        return
    if change is None:
        note_to_stderr("Nothing was written.")
        return
    note_to_stderr(printable(f"{plan.subject.title}: {count_results(Counter(change.counts).elements())}."))
    if change.counts[Result.CONFIRMED] or change.counts[Result.UNKNOWN]:
        note_to_stderr(f"To go back: rmqctl offset undo {change.receipt_id}")


def _exit_code(code: int, failures: Sequence[Failure]) -> int:
    """Return the exit code of a change. A part that could not be read for its plan was not changed either."""
    if any(failure.error.exit_code == NotAuthorisedError.exit_code for failure in failures):
        return NotAuthorisedError.exit_code
    return 8 if failures and code in (0, 9) else code


def _show_last(receipt_id: str, receipt: Listing, display: Display) -> None:
    """Show the receipt of a change; if that fails, the exit code still has to report what was done."""
    try:
        render(receipt, display)
        sys.stdout.flush()
    except OSError:
        drop_rest(sys.stdout)
        note_to_stderr(f"Cannot write the receipt. To show it: rmqctl offset history --id {receipt_id}")


async def _cool_down(client: Client, plan: Plan, journal: Journal, report: Callable[[str], None]) -> None:
    from rmqctl.net.clock import pause

    left_ms = cool_down_ms(journal.last_attempt(plan.brokers, plan.group), client.clock.now_ms())
    if left_ms > 0:
        report(f"Waiting {left_ms / 1000:.0f} s: the group's clients are still busy with the last reset...")
        await pause(client.clock, left_ms / 1000)


def this_process(invocation: Invocation) -> Who:
    """Return the user, host and process that make a change, for the journal."""
    return current_who(invocation.context_name)
