"""rmqctl dlq show: show the dead letters of a group."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.arguments import Group
from rmqctl.cli.change.options import ConfigConsent, Consent
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without
from rmqctl.cli.output.body import BodyStyle
from rmqctl.cli.output.listing import Item, Listing, Section
from rmqctl.cli.output.message_item import message_name, message_sections, unread_messages
from rmqctl.cli.output.message_options import BodyOptions
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.row_stream import RowStream
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.text.words import counted

from .conditions import LetterConditions, LetterQuery
from .letter_item import COLUMNS, letter_item
from .reading import LetterResult, read_letters, unfit_notes

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_reading import Letter

HELP = """\b
Examples:
  rmqctl dlq show my-group                      # the oldest 100
  rmqctl dlq show my-group --since 1h --topic orders
  rmqctl dlq show my-group --id 7F000001000C...  # one message in full
  rmqctl dlq show my-group --body-match "customer.region == 'EU'"
  rmqctl dlq show my-group --body-match 'amount > `100`' -o json | jq '.items[].body'
  rmqctl dlq show my-group --limit 0 -o jsonl
  rmqctl dlq show my-group --fix-permission     # make a write-only topic readable

A dead letter must meet all conditions. Times are the store times of the dead letters. --body-match evaluates a JMESPath
expression on JSON bodies, or on the values that --codec decodes. Write texts in single quotes and numbers in
backquotes.

\b
Columns:
  TOPIC       topic that the message was originally sent to
  RECONSUMED  deliveries after the first
  GIVEN-UP    MAX_RECONSUME_TIMES  the client's limit was reached
              AFTER_RETRIES        given up after retries, usually at the
              limit
                                   (the message does not record it)
              FIRST_FAILURE        given up by the listener, or the limit is 0
              SENT_THERE           a client sent it to the dead-letter topic

Messages that cannot be read, or expire meanwhile, are reported with their queue and offset; the exit code is then 8.

Brokers before 4.9.2 create write-only dead-letter topics. --fix-permission adds the read permission on each broker that
lacks it. The change is planned, confirmed, verified and journaled; offset undo reverts it."""


def command(
    ctx: typer.Context,
    group: Group,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Show at most N; 0 for all, with -o jsonl.")] = 100,
    fix_permission: Annotated[
        bool, typer.Option("--fix-permission", help="Make a write-only dead-letter topic readable; show no messages.")
    ] = False,
    *,
    bodies: BodyOptions,
    conditions: LetterConditions,
    consent: Annotated[ConfigConsent, without("partial")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx)
    if fix_permission:
        from .permission import fix_permission as fix

        return fix(invocation, group, consent)
    if consent != Consent():
        raise UsageError("--yes, --dry-run, --plan, --reason and --confirm need --fix-permission.")
    choose_columns(COLUMNS, invocation.display)
    is_stream = invocation.display.format == "jsonl"
    if limit < 0 or (limit == 0 and not is_stream):
        raise UsageError("--limit must be 1 or more.", hint="Use -o jsonl with --limit 0 to show all.")
    style = bodies.style()
    wanted = conditions.wanted(invocation, group, style)
    stream = RowStream("DeadLetterList", COLUMNS, message_name, invocation.display) if is_stream else None
    items: list[dict[str, Any]] = []
    unread: list[Failure] = []

    def take(found: "list[Letter]") -> None:
        made = [letter_item(letter, style) for letter in found]
        if stream is None:
            items.extend(made)
        else:
            stream.write(made)
            unread.extend(unread_messages(made))

    outcome = invocation.ask(
        lambda client: read_letters(
            client, wanted, take, limit=limit or None, with_progress=invocation.display.with_notes
        ),
        open_ended=True,
    )
    outcome.failures = [*outcome.failures, *unread]
    return render(to_listing(wanted, items, outcome, style, limit, is_whole=bool(conditions.ids)), invocation.display)


def to_listing(
    wanted: LetterQuery,
    items: list[dict[str, Any]],
    outcome: LetterResult,
    style: BodyStyle,
    limit: int,
    *,
    is_whole: bool,
) -> Listing:
    """Make the listing of the dead letters; with `is_whole` people see each in full."""

    def sections(item: Item, _: bool) -> list[Section]:
        origin = [(key, item[key] or "-") for key in ("originTopic", "originMessageId", "givenUp")]
        first, *others = message_sections(item, style)
        return [Section(title=first.title, facts=[*origin, *first.facts]), *others]

    warnings = unfit_notes(wanted)
    if outcome.is_cut:
        warnings.append(f"Only {counted(limit, 'dead letter', 'is')} shown; more match. Show more with --limit.")
    return Listing(
        kind="DeadLetterList",
        columns=COLUMNS,
        items=items,
        name=message_name,
        failures=[*outcome.failures, *unread_messages(items)],
        extra={"group": wanted.group, "isComplete": not outcome.is_cut, "readCount": outcome.read_count},
        warnings=warnings,
        empty=f"Group {wanted.group} has no dead letters{' that meet the conditions' if wanted.is_narrowed else ''}.",
        sections=sections if is_whole else None,
    )
