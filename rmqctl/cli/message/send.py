"""rmqctl message send: send messages to a topic."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from rmqctl.cli.arguments import milliseconds_option
from rmqctl.cli.change.consent import check_display, confirm_by_name
from rmqctl.cli.files import read_input
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import render
from rmqctl.cli.output.text import note_to_stderr
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.send_result import OutgoingMessage, SendResult, SendStatus
from rmqctl.protocol.properties import KEYS, split_keys
from rmqctl.text.option_errors import option_errors
from rmqctl.text.words import agreeing, counted

if TYPE_CHECKING:
    from rmqctl.admin.messages.send import SendReport
    from rmqctl.client.core import Client
    from rmqctl.model.queue import MessageQueue

HELP = """\b
Examples:
  rmqctl message send orders '{"id":17}' --key o-17 --tag created
  rmqctl message send orders --file order.json --property region=EU
  rmqctl message send orders --file orders.txt --lines     # one message per line
  zcat orders.gz | rmqctl message send orders - --lines -o jsonl
  rmqctl message send orders later --delay-level 3         # in 10 s
  rmqctl message send orders later --delay 90m             # brokers 5.0 or later
  rmqctl message send orders x --queue broker-a:0 --count 10
  rmqctl message send orders x --dry-run

Sent messages cannot be taken back: there is no plan and no undo, and consumers receive them immediately. A readonly
context refuses the command; a protected context requires --confirm TOPIC. The topic must exist, and must not be a
system, retry or dead-letter topic.

\b
Status:
  SEND_OK              stored as the broker is configured to
  FLUSH_DISK_TIMEOUT   stored, not yet on disk               (exit code 9)
  FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE
                       stored, not known to be on a slave    (exit code 9)

Messages are distributed round-robin over the writable queues. --lines skips empty lines and sends up to 1,000 lines
(4 MiB) per request, in order, to one queue. If a broker fails, the next one is tried, at most twice. The command stops
at the first message that no broker accepts (exit code 8 if others are stored). A message whose answer is lost may be
stored twice, with the same id. Each message has a timeout of --timeout / 3."""

_MAX_COUNT = 100_000
_LEVEL_COUNT = 18
# Equal messages need no order.
_AT_ONCE = 32


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    body: Annotated[
        str | None, typer.Argument(metavar="[BODY]", help="The body as text; - for stdin.", show_default=False)
    ] = None,
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="File with the body; - for stdin.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Send each line as a message.")] = False,
    key: Annotated[list[str] | None, typer.Option("--key", metavar="KEY", help="A business key. Repeatable.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="The tag.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property. Repeatable.")
    ] = None,
    delay_level: Annotated[
        int | None,
        typer.Option(
            "--delay-level", metavar="N", help="Deliver after the delay of this level, 1 to 18.", show_default=False
        ),
    ] = None,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="DURATION", help="Deliver after this time: 90s, 2h. From 5.0 on.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="BROKER:ID", help="Send to this queue only.")] = None,
    count: Annotated[
        int, typer.Option("--count", metavar="N", help="Send the message N times, each with its own id.")
    ] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="TOPIC", help="The topic's name, as consent in a protected context."),
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.messages.send import SendReport, fetch_targets, send_all
    from rmqctl.admin.topics.queues import parse_queue_choice
    from rmqctl.cli.output.progress import ScanProgress
    from rmqctl.client.duplicates import require_distinct
    from rmqctl.model.names import require_target_topic
    from rmqctl.rules.topics import own_topics

    invocation = Invocation(ctx)
    check_display(invocation, is_plan_only=dry_run, plan_columns=_COLUMNS, receipt_columns=_COLUMNS, done="sent")
    full_topic = invocation.full_name(topic)
    require_target_topic(full_topic)
    with option_errors("--queue"):
        choice = None if queue is None else parse_queue_choice(queue)
    made = _properties(key or [], tag, properties or [], delay_level, delay)
    messages = [
        OutgoingMessage(each, made) for each in _bodies(body, file, with_lines=lines, count=_checked(count, lines))
    ]
    if not dry_run and invocation.is_protected:
        confirm_by_name(full_topic, given=confirm, may_ask=invocation.may_ask)
    sent, is_delayed = SendReport(), delay is not None or delay_level is not None
    in_batches = lines and not is_delayed

    async def run(client: "Client") -> "tuple[MessageQueue, ...]":
        require_target_topic(full_topic, own=own_topics(await client.cluster()))
        targets = await fetch_targets(client, full_topic, choice)
        if not dry_run:
            await require_distinct(client, {mq.broker_name for mq in targets})
            with ScanProgress(f"Sending to {full_topic}", is_wanted=invocation.display.with_notes) as progress:
                await send_all(
                    client, full_topic, messages, sent, mq=None if choice is None else targets[0],
                    in_batches=in_batches, at_once=1 if lines else _AT_ONCE,
                    on_progress=lambda done: progress.show(done, len(messages)),
                )  # fmt: skip
        return targets

    try:
        targets = invocation.ask(run, open_ended=True)
    except KeyboardInterrupt:
        of = f"{len(sent.stored)} of {counted(len(messages), 'message')} {agreeing(len(sent.stored), 'is')}"
        note_to_stderr(f"Interrupted: at least {of} stored.")
        raise
    if dry_run:
        return render(to_listing(_planned(full_topic, messages, targets), [], is_dry=True), invocation.display)
    return _show(invocation, sent, is_delayed=is_delayed)


def _checked(count: int, with_lines: bool) -> int:
    if not 1 <= count <= _MAX_COUNT:
        raise UsageError(f"--count must be 1 to {_MAX_COUNT}.")
    if with_lines and count != 1:
        raise UsageError("--lines and --count cannot be used together.")
    return count


def _bodies(text: str | None, path: str | None, *, with_lines: bool, count: int) -> list[bytes]:
    """Return the body of each message. Raises UsageError."""
    if (text is None) == (path is None):
        raise UsageError("Give the body in one way: as BODY or with --file.", hint="Use - for stdin with either.")
    if path is not None or text == "-":
        body = read_input("--file" if path is not None else "BODY", path or "-")
    else:
        # The bytes from the shell, in any encoding.
        body = (text or "").encode(errors="surrogateescape")
    bodies = [line for line in body.split(b"\n") if line] if with_lines else [body] * count
    if not bodies or not bodies[0]:
        raise UsageError("Nothing was sent: a message needs a body.")
    return bodies


def _properties(
    keys: Sequence[str], tag: str | None, given: Sequence[str], delay_level: int | None, delay: str | None
) -> dict[str, str]:
    """Return the properties of each message. Raises UsageError."""
    from rmqctl.protocol.sends import message_properties

    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--property expects NAME=VALUE, not {text!r}.")
        pairs[name] = value
    if delay_level is not None and delay is not None:
        raise UsageError("--delay-level and --delay cannot be used together.")
    if delay_level is not None and not 1 <= delay_level <= _LEVEL_COUNT:
        raise UsageError(f"--delay-level must be 1 to {_LEVEL_COUNT}.", hint="1s 5s 10s 30s 1m ... 10m 20m 30m 1h 2h")
    delay_ms = None if delay is None else milliseconds_option("--delay", delay)
    try:
        return message_properties(keys=keys, tag=tag, properties=pairs, delay_level=delay_level or 0, delay_ms=delay_ms)
    except ValueError as error:
        raise UsageError(f"Nothing was sent: {error}.", hint=_hint(pairs)) from None


def _hint(pairs: dict[str, str]) -> str | None:
    options = {"KEYS": "--key", "TAGS": "--tag", "DELAY": "--delay-level", "TIMER_DELAY_MS": "--delay"}
    return next((f"Use {option} instead." for name, option in options.items() if name in pairs), None)


def _show(invocation: Invocation, sent: "SendReport", *, is_delayed: bool) -> int:
    """Show what is stored. Returns the exit code: 8 if some are not stored, 9 if some may be lost with their broker."""
    items = [_stored_item(message, result, is_delayed=is_delayed) for message, result in sent.stored]
    display = replace(invocation.display, findings=invocation.display.findings.as_warnings())
    code = render(to_listing(items, sent.failures), display)
    is_safe = all(result.status is SendStatus.SEND_OK for _, result in sent.stored)
    return 9 if code == 0 and not is_safe else code


def to_listing(items: Sequence[dict[str, Any]], failures: Sequence[Failure], *, is_dry: bool = False) -> Listing:
    """Make the listing of messages that were sent, or would be."""
    notes = []
    if is_dry:
        notes.append("Nothing was sent.")
    elif any(item["sendStatus"] != SendStatus.SEND_OK for item in items):
        notes.append("Some messages are stored less safely than the broker is configured to: see STATUS and --help.")
    return Listing(
        kind="MessageSent",
        columns=_COLUMNS,
        items=items,
        name=lambda item: str(item["msgId"] or item["topic"]),
        failures=failures,
        extra={"isDryRun": is_dry},
        notes=notes,
    )


def _stored_item(message: OutgoingMessage, result: SendResult, *, is_delayed: bool) -> dict[str, Any]:
    mq = result.mq
    item = _item(
        message, mq.topic, brokerName=mq.broker_name, queueId=mq.queue_id, queueOffset=result.queue_offset,
        msgId=result.unique_key, offsetMsgId=result.offset_id, sendStatus=result.status.value,
        recallHandle=result.recall_handle,
    )  # fmt: skip
    if is_delayed:
        # The broker returned the offset of the copy that waits.
        item["queueOffset"] = None
        item["reasons"]["queueOffset"] = "DELAYED"
    for key, reason in (("offsetMsgId", "STORED_AS_ONE"), ("recallHandle", "NOT_TOLD")):
        if item[key] is None:
            item["reasons"][key] = reason
    return item


def _planned(
    topic: str, messages: Sequence[OutgoingMessage], targets: "Sequence[MessageQueue]"
) -> list[dict[str, Any]]:
    """Return what would be sent; the queue is known if there is only one."""
    items = []
    broker_names = {mq.broker_name for mq in targets}
    broker_name = targets[0].broker_name if len(broker_names) == 1 else None
    queue_id = targets[0].queue_id if len(targets) == 1 else None
    for message in messages:
        item = _item(message, topic, brokerName=broker_name, queueId=queue_id)
        for key in _PLACE:
            if item[key] is None:
                item["reasons"][key] = "ROUND_ROBIN" if key in ("brokerName", "queueId") else "DRY_RUN"
        items.append(item)
    return items


_PLACE = ("brokerName", "queueId", "queueOffset", "msgId", "offsetMsgId", "sendStatus", "recallHandle")


def _item(message: OutgoingMessage, topic: str, **known: Any) -> dict[str, Any]:
    tag = message.properties.get("TAGS")
    return {
        "topic": topic,
        **{key: known.get(key) for key in _PLACE},
        "keys": split_keys(message.properties.get(KEYS)),
        "tags": tag,
        "bodySize": len(message.body),
        "reasons": {"tags": "NOT_SET"} if tag is None else {},
    }


def _is_unsafe(item: Item) -> bool:
    return item["sendStatus"] not in (None, SendStatus.SEND_OK)


_COLUMNS = (
    Column("TOPIC", "topic", is_wide=True),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    Column("OFFSET", "queueOffset", is_number=True),
    Column("TAGS", "tags", gives_way=True),
    Column("KEYS", "keys", show=lambda item: " ".join(item["keys"]) or "-", gives_way=True),
    Column("SIZE", "bodySize", is_number=True, gives_way=True),
    Column("MSG-ID", "msgId", is_id=True),
    Column("OFFSET-MSG-ID", "offsetMsgId", is_wide=True),
    Column("RECALL-HANDLE", "recallHandle", is_wide=True),
    Column("STATUS", "sendStatus", is_alarm=_is_unsafe),
)
