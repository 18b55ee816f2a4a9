"""rmqctl offset peek: show the messages around a group's committed offset."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.arguments import Group, Queues, parse_queues
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.body import BodyStyle
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.message_item import MESSAGE_COLUMNS, message_item, message_name, unread_messages
from rmqctl.cli.output.message_options import BodyOptions
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from rmqctl.admin.offsets.peek import Peek, PeekedQueue

HELP = """\b
Examples:
  rmqctl offset peek my-group --topic orders             # in each queue
  rmqctl offset peek my-group --topic orders --before 0 --after 0
  rmqctl offset peek my-group --topic orders --queue broker-a:0 --after 20
  rmqctl offset peek my-group --topic orders --where position=AT -o jsonl

\b
AT:
  BEFORE  committed by the group
  AT      the next message: a consumer gets it first after a restart
  AFTER   after the next message

Nothing is consumed or committed. Messages that a member is processing now are still AT or AFTER, because they are not
committed yet."""


def command(
    ctx: typer.Context,
    group: Group,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic.", show_default=False)],
    queue: Queues = None,
    before: Annotated[int, typer.Option("--before", metavar="N", help="Messages before the offset.")] = 2,
    after: Annotated[int, typer.Option("--after", metavar="N", help="Messages after the next one.")] = 2,
    *,
    bodies: BodyOptions,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.offsets.peek import peek_group

    if before < 0 or after < 0 or max(before, after) > _MOST_COUNT:
        raise UsageError(
            f"--before and --after must be between 0 and {_MOST_COUNT}.",
            hint="Use rmqctl message get for other ranges.",
        )
    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    style = bodies.style()
    choices = parse_queues(queue)
    group, topic = invocation.full_name(group), invocation.full_name(topic)
    peek = invocation.ask(lambda client: peek_group(client, group, topic, choices, before, after))
    return render(to_listing(group, topic, peek, style), invocation.display)


_MOST_COUNT = 1000


def to_listing(group: str, topic: str, peek: "Peek", style: BodyStyle) -> Listing:
    """Make the listing of all queues' messages."""
    items = [item for queue in peek.queues for item in _items(queue, style)]
    return Listing(
        kind="MessageList",
        columns=_COLUMNS,
        items=items,
        name=message_name,
        failures=[*peek.failures, *unread_messages(items)],
        extra={"group": group, "topic": topic, "queues": [_queue(queue) for queue in peek.queues]},
        notes=[note for queue in peek.queues if (note := _note(queue)) is not None],
        empty=f"There are no messages around the offsets of {group} in {topic}.",
    )


def _items(queue: "PeekedQueue", style: BodyStyle) -> list[dict[str, Any]]:
    # A queue without an offset has no messages here.
    next_offset = max(queue.consumer_offset or 0, queue.span.min_offset)
    items = []
    for found in queue.found:
        position = "BEFORE" if found.queue_offset < next_offset else "AFTER"
        position = "AT" if found.queue_offset == next_offset else position
        items.append({"position": position, **message_item(found, style)})
    return items


def _queue(queue: "PeekedQueue") -> dict[str, Any]:
    offset = queue.consumer_offset
    return {
        "brokerName": queue.span.mq.broker_name,
        "queueId": queue.span.mq.queue_id,
        "minOffset": queue.span.min_offset,
        "maxOffset": queue.span.max_offset,
        "consumerOffset": offset,
        "reasons": {} if offset is not None else {"consumerOffset": "NEVER_COMMITTED"},
    }


def _note(queue: "PeekedQueue") -> str | None:
    """Return what the rows of a queue cannot show."""
    span, offset = queue.span, queue.consumer_offset
    where = f"{span.mq.broker_name}:{span.mq.queue_id}"
    if offset is None:
        return f"{where}: the group has no offset here (NEVER_COMMITTED)."
    if offset < span.min_offset:
        return f"{where}: offset {offset} was deleted; {offset} to {span.min_offset - 1} were deleted unread."
    if offset > span.max_offset:
        return f"{where}: offset {offset} is beyond the end, {span.max_offset}."
    if offset == span.max_offset:
        return f"{where}: no unread messages; the next message gets offset {offset}."
    return None


_POSITION = Column("AT", "position", is_alarm=lambda item: item["position"] == "AT")
_COLUMNS = (*MESSAGE_COLUMNS[1:4], _POSITION, *MESSAGE_COLUMNS[4:5], MESSAGE_COLUMNS[0], *MESSAGE_COLUMNS[5:])
