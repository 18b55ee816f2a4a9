"""rmqctl message find: find messages of a topic by time, key, tag, SQL, text or property."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct, field

from rmqctl.cli.arguments import Queues, parse_queues
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.body import BodyStyle
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.message_item import FOUND_COLUMNS, found_columns, message_item, message_name, unread_messages
from rmqctl.cli.output.message_options import BodyOptions, MessageConditions, not_empty
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.admin.messages.filter import MessageFilter
    from rmqctl.admin.messages.pull import FoundMessage
    from rmqctl.admin.topics.queues import QueueChoice
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl message find orders --since 1h         # the oldest 100 of an hour
  rmqctl message find orders --key o-1017       # by the brokers' index of keys
  rmqctl message find orders --since 2h --until 90m --contains timeout
  rmqctl message find orders --tag 'created || paid' --queue broker-a:0-3
  rmqctl message find orders --sql "region = 'EU' AND amount > 100"
  rmqctl message find orders --property region=EU -o json | jq '.items[].body'
  rmqctl message find orders --contains o-17 --limit 0 -o jsonl > found.jsonl

\b
Times are store times, by the brokers' clocks, both ends included:
  2026-11-21T10:00Z, 2026-11-21T10:00 (local), 2026-11-21#10:00:00:000,
  epoch s or ms, now, earliest, latest, a duration back from now: 2h, PT1H

A message must meet all conditions. Without --key, all queues are read in parallel from --since to --until, and matches
are sorted by store time. Each queue is read up to the end that it had when the search started.

With --key, the brokers' key index is searched; if more messages match than --limit, the newest are shown. If the topic
has no match, messages that still wait to be stored in it are shown (delayed, between two retries, or half messages).

Brokers compare tags and keys by hash; rmqctl compares them as text as well. --sql is checked by the brokers first,
because they would treat an invalid expression as no filter."""


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="EXPR", help="Matching this SQL92 filter on properties.")
    ] = None,
    queue: Queues = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Show at most N; 0 for all, with -o jsonl.")] = 100,
    *,
    conditions: MessageConditions,
    bodies: BodyOptions,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx)
    choose_columns(FOUND_COLUMNS, invocation.display)
    is_stream = invocation.display.format == "jsonl"
    if limit < 0 or (limit == 0 and not is_stream):
        raise UsageError("--limit must be 1 or more.", hint="Use -o jsonl with --limit 0 to show all.")
    style = bodies.style()
    question = _Question(
        topic=invocation.full_name(topic),
        wanted=conditions.filter(),
        tag_expression=conditions.tag or "*",
        sql=not_empty("--sql", sql),
        choices=parse_queues(queue),
        limit=limit or None,
        with_progress=invocation.display.with_notes,
    )
    if is_stream:
        return _stream(invocation, question, style)
    items: list[dict[str, Any]] = []

    def keep(found: "list[FoundMessage]") -> None:
        items.extend(message_item(each, style) for each in found)

    outcome = invocation.ask(lambda client: search(client, question, keep), open_ended=True)
    return render(to_listing(question, items, outcome), invocation.display)


class _Question(Struct, frozen=True):
    topic: str
    wanted: "MessageFilter"
    tag_expression: str = "*"
    sql: str | None = None
    choices: "tuple[QueueChoice, ...]" = ()
    limit: int | None = 100
    with_progress: bool = False


class _Outcome(Struct):
    failures: list[Failure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_complete: bool = True
    read_count: int | None = None
    are_times_rising: bool | None = None


def _stream(invocation: Invocation, question: "_Question", style: BodyStyle) -> int:
    from rmqctl.cli.output.row_stream import RowStream

    stream = RowStream("MessageList", FOUND_COLUMNS, message_name, invocation.display)

    def write(found: "list[FoundMessage]") -> None:
        made = [message_item(each, style) for each in found]
        stream.write(made)
        unread.extend(unread_messages(made))

    unread: list[Failure] = []
    outcome = invocation.ask(lambda client: search(client, question, write), open_ended=True)
    outcome.failures += unread
    # The rows are already written: only warnings and the exit code are left.
    return render(to_listing(question, [], outcome), invocation.display)


async def search(client: "Client", question: "_Question", take: "Callable[[list[FoundMessage]], None]") -> "_Outcome":
    """Search, passing messages to `take` as they are found."""
    from rmqctl.admin.messages.pull import Expression
    from rmqctl.admin.messages.search import MessageSearch, check_sql
    from rmqctl.admin.messages.spans import fetch_spans
    from rmqctl.admin.results import all_failed
    from rmqctl.admin.topics.queues import chosen_queues, fetch_route
    from rmqctl.cli.output.progress import ScanProgress
    from rmqctl.client.partial_answers import slave_failures
    from rmqctl.rules.store_times import TimeOrder, describe_back, describe_orders

    outcome = _Outcome()
    route = await fetch_route(client, question.topic)
    queues = chosen_queues(route, question.choices)
    expression = Expression(question.tag_expression)
    if question.sql is not None:
        expression = Expression(question.sql, "SQL92")
        outcome.failures += await check_sql(client, route, question.sql)
        unable = {failure.broker_name for failure in outcome.failures}
        queues = [mq for mq in queues if mq.broker_name not in unable]
    if question.wanted.key is not None:
        await _search_index(client, route, queues, question, outcome, take)
        return outcome
    wanted = question.wanted
    spans, failures = await fetch_spans(client, route, queues, since_ms=wanted.since_ms, until_ms=wanted.until_ms)
    outcome.failures += failures
    if not spans:
        raise all_failed(failure.error for failure in outcome.failures)
    with ScanProgress(f"Reading {question.topic}", is_wanted=question.with_progress) as progress:
        finder = MessageSearch(
            client, spans, wanted, expression=expression, limit=question.limit, on_progress=progress.show
        )
        async with aclosing(finder.run()) as batches:
            async for found in batches:
                take(found)
    outcome.failures += [*finder.failures, *slave_failures(client)]
    orders = {span.mq: span.order for span in spans}
    if wanted.since_ms is None and wanted.until_ms is None:
        outcome.warnings += describe_back(finder.unordered, "Messages of one queue keep the order of their offsets.")
    else:
        described: dict[Any, TimeOrder] = {mq: order for mq, order in orders.items() if order is TimeOrder.READ}
        # Disorder that is seen only while the span is read is seen too late to search outside of it.
        described |= {mq: TimeOrder.HALVED for mq in finder.unordered if orders[mq] is TimeOrder.RISING}
        outcome.warnings += describe_orders(described)
    outcome.are_times_rising = not finder.unordered and set(orders.values()) <= {TimeOrder.RISING}
    outcome.is_complete = not finder.is_cut
    outcome.read_count = finder.read_count
    if finder.is_cut:
        shown = counted(question.limit or 0, "message", "is")
        outcome.warnings.append(f"Only {shown} shown (--limit). There may be more.")
    return outcome


async def _search_index(
    client: "Client",
    route: Any,
    queues: list[Any],
    question: "_Question",
    outcome: "_Outcome",
    take: "Callable[[list[FoundMessage]], None]",
) -> None:
    from rmqctl.admin.messages.wait_lookup import find_indexed_or_waiting
    from rmqctl.admin.results import all_failed
    from rmqctl.client.partial_answers import slave_failures

    if question.sql is not None:
        raise UsageError("--key and --sql cannot be used together.", hint="Use --property with --key.")
    indexed = await find_indexed_or_waiting(client, route, question.wanted, limit=question.limit)
    outcome.failures += [*indexed.failures, *slave_failures(client)]
    if indexed.failures and len(indexed.failures) == len(route.brokers):
        raise all_failed(failure.error for failure in indexed.failures)
    # The index also has messages of queues that the topic no longer has: only --queue leaves any out.
    chosen = set(queues) if question.choices else None
    take([found for found in indexed.found if chosen is None or found.meant_for in chosen])
    if indexed.hides_waiting:
        outcome.warnings.append(indexed.waiting_hint.strip())
    outcome.is_complete = not indexed.is_cut
    if indexed.crowded:
        outcome.warnings.append(
            f"The index of {', '.join(indexed.crowded)} returned only a part of the messages of one second. "
            "There may be more."
        )
    elif indexed.is_cut:
        messages = counted(question.limit or 0, "message", "was" if question.choices else "is")
        what = "searched for those of --queue" if question.choices else "shown"
        outcome.warnings.append(f"Only {messages} {what}, newest first (--limit). There may be older ones.")


def to_listing(question: "_Question", items: list[dict[str, Any]], outcome: "_Outcome") -> Listing:
    """Make the listing of the messages that were found."""
    return Listing(
        kind="MessageList",
        columns=found_columns(items),
        items=items,
        name=message_name,
        failures=[*outcome.failures, *unread_messages(items)],
        extra={
            "topic": question.topic,
            "isComplete": outcome.is_complete and not outcome.failures,
            "readCount": outcome.read_count,
            "timesInOrder": outcome.are_times_rising,
        },
        warnings=outcome.warnings,
        empty=f"No message of {question.topic} meets the conditions.",
    )
