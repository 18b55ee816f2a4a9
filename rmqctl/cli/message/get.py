"""rmqctl message get: show single messages in full."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.body import BodyStyle
from rmqctl.cli.output.listing import Item, Listing, Section
from rmqctl.cli.output.message_item import (
    FOUND_COLUMNS,
    found_columns,
    message_item,
    message_name,
    message_sections,
    unread_messages,
)
from rmqctl.cli.output.message_options import BodyOptions
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.text.option_errors import option_errors
from rmqctl.text.words import counted

from .passage_item import CONSUMED_BY, passage_notes, passage_section, with_passages

if TYPE_CHECKING:
    from rmqctl.admin.messages.lookup import LookupReport
    from rmqctl.admin.offsets.passages import PassageReport
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl message get 7F0000010000A4B100000000000002F1       # by the broker's id
  rmqctl message get 7F00000100A418... --topic orders       # by its unique key
  rmqctl message get --topic orders --key o-17              # by a business key
  rmqctl message get --topic orders --queue broker-a:0 --offset 4711 --count 3
  rmqctl message get --topic orders --key o-17 -o json | jq '.items[].tags'
  rmqctl message get --topic orders --key o-17 --body hex
  rmqctl message get --topic orders --key o-17 --consumed-by     # which groups have passed it
  rmqctl message get --topic orders --key o-17 \\
      --plugin gzip_json --codec gzip-json

\b
Bodies:
  auto   JSON with one member per line, other text unchanged, the rest in hex
  text   as text; control characters are escaped
  json   as a value within -o json
  hex    as a hex dump
  none   left out

Both kinds of id look alike. If an id contains the address of a broker of this cluster, that broker is asked for it.
Otherwise it is searched as a unique key, in the topic of --topic. A retried message keeps its unique key: use --topic
%RETRY%GROUP or %DLQ%GROUP to find its other copies. Nothing is consumed or committed.

--consumed-by compares the message's offset with the committed offset of each group that has members or an offset for
its topic, at its broker: PASSED, FILTERED, NOT_YET, or unknown with a reason. PASSED is not proof that a listener
processed it: a reset may have skipped it, or it is in the group's %RETRY% or %DLQ% topic, which is not examined.
FILTERED means that the current filter does not match it.

If the topic has no such message, one that waits to be stored in it is shown: delayed by a level or a timer or, with
%RETRY%GROUP, between two retries, and half messages of transactions. The fields `waits` and `transaction` show until
when, and what became of it. The exit code is 8 when a message cannot be read completely."""


_MAX_COUNT = 1_000


def command(
    ctx: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Message ids.", show_default=False)] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The topic to search.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="A business key.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="BROKER:ID", help="The queue of --offset.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", metavar="N", help="Offset of the first message.")] = None,
    count: Annotated[int, typer.Option("--count", metavar="N", help="Number of messages from --offset on.")] = 1,
    consumed_by: Annotated[bool, typer.Option("--consumed-by", help="Show which groups have passed it.")] = False,
    *,
    bodies: BodyOptions,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.messages.lookup import decode_id, find_by_ids, find_by_offset
    from rmqctl.admin.topics.queues import parse_queue_choice

    _require_one_way(ids or [], topic, key, queue, offset)
    invocation = Invocation(ctx)
    choose_columns((*FOUND_COLUMNS, CONSUMED_BY) if consumed_by else FOUND_COLUMNS, invocation.display)
    style = bodies.style()
    full_topic = None if topic is None else invocation.full_name(topic)
    find: Callable[[Client], Awaitable[LookupReport]]
    if key is not None:
        find = partial(_find_by_key, topic=full_topic or "", key=key)
    elif offset is not None:
        if offset < 0 or not 1 <= count <= _MAX_COUNT:
            raise UsageError(
                f"--offset must be 0 or more, and --count 1 to {_MAX_COUNT}.",
                hint="Use rmqctl message find to read more messages.",
            )
        with option_errors("--queue"):
            choice = parse_queue_choice(queue or "")
        find = partial(find_by_offset, topic=full_topic or "", queue=choice, first_offset=offset, count=count)
    else:
        for text in ids or ():
            decode_id(text)
        find = partial(find_by_ids, ids=list(ids or ()), topic=full_topic)
    lookup, passages = invocation.ask(lambda client: _look_up(client, find, with_passages=consumed_by))
    items = [message_item(found, style) for found in lookup.found]
    return render(
        to_listing(items, lookup.failures, style, is_cut=lookup.is_cut, passages=passages), invocation.display
    )


async def _look_up(
    client: "Client", find: "Callable[[Client], Awaitable[LookupReport]]", *, with_passages: bool
) -> "tuple[LookupReport, PassageReport | None]":
    lookup = await find(client)
    if not with_passages:
        return lookup, None
    from rmqctl.admin.offsets.passages import fetch_passages

    return lookup, await fetch_passages(client, lookup.found)


def _require_one_way(
    ids: Sequence[str], topic: str | None, key: str | None, queue: str | None, offset: int | None
) -> None:
    """Make sure that the options name messages in exactly one way. Raises UsageError."""
    hint = "See rmqctl message get --help."
    ways = [bool(ids), key is not None, offset is not None]
    if sum(ways) != 1:
        raise UsageError("Name messages in one way: by IDs, by --key, or by --queue and --offset.", hint=hint)
    if not ids and topic is None:
        raise UsageError("--key and --offset need --topic.", hint=hint)
    if (queue is None) != (offset is None):
        raise UsageError("--queue and --offset must be used together.", hint=hint)


async def _find_by_key(client: "Client", *, topic: str, key: str) -> "LookupReport":
    from rmqctl.admin.messages.filter import MessageFilter
    from rmqctl.admin.messages.lookup import LookupReport, not_indexed
    from rmqctl.admin.messages.wait_lookup import find_indexed_or_waiting
    from rmqctl.admin.topics.queues import fetch_route
    from rmqctl.client.partial_answers import slave_failures

    route = await fetch_route(client, topic)
    indexed = await find_indexed_or_waiting(client, route, MessageFilter(key=key), limit=_MAX_COUNT)
    lookup = LookupReport()
    lookup.is_cut = indexed.is_cut
    lookup.found, lookup.failures = list(indexed.found), [*indexed.failures, *slave_failures(client)]
    if not lookup.found:
        hint = f"Keys are compared exactly.{indexed.waiting_hint}"
        error = NotFoundError(f"A message of {topic} with the key", key, hint=hint)
        raise await not_indexed(client, error, topic, indexed.failures)
    return lookup


def to_listing(
    items: Sequence[dict[str, Any]],
    failures: Sequence[Failure],
    style: BodyStyle,
    *,
    is_cut: bool = False,
    passages: "PassageReport | None" = None,
) -> Listing:
    """Make the listing of messages in full; `passages` are those of the items, None if they were not requested."""
    columns, notes = found_columns(items), []
    if passages is not None:
        items = [with_passages(item, each) for item, each in zip(items, passages.messages, strict=True)]
        failures, columns = [*failures, *passages.failures], [*columns, CONSUMED_BY]
        notes = passage_notes(items, passages)

    def sections(item: Item, _: bool) -> list[Section]:
        return [*message_sections(item, style), *([passage_section(item)] if passages is not None else [])]

    return Listing(
        kind="MessageList",
        columns=columns,
        items=items,
        name=message_name,
        failures=[*failures, *unread_messages(items)],
        notes=notes,
        warnings=[
            f"Only {counted(len(items), 'message', 'is')} shown, newest first. Use rmqctl message find for older ones."
        ]
        if is_cut
        else [],
        sections=sections,
    )
