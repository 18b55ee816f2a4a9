"""Options that the commands about messages share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.errors import UsageError

from .body import DEFAULT_MAX_BYTES, MODES

if TYPE_CHECKING:
    from rmqctl.admin.topics.queues import QueueChoice

Body = Annotated[str, typer.Option("--body", metavar="KIND", help=f"Body format: {', '.join(MODES)}.")]
Codec = Annotated[
    str | None,
    typer.Option("--codec", metavar="NAME", help="Decode bodies as gbk or another text encoding, base64, msgpack ..."),
]
Plugin = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="FILE", help="Plugin with codecs. Repeatable. Env: RMQCTL_PLUGINS."),
]
MaxBody = Annotated[
    int, typer.Option("--max-body", metavar="BYTES", help="Show at most this much of each body; 0 shows all.")
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="QUEUE", help="Queues: broker-a:0, broker-a:0-3 or broker-a. Repeatable."),
]
MAX_BODY = DEFAULT_MAX_BYTES


def parse_when(option: str, text: str) -> int | str:
    """Return a point in time in ms, or `earliest` or `latest`. Raises UsageError."""
    import time

    from rmqctl.text.times import parse_time

    try:
        return parse_time(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.") from None


def parse_tag_option(text: str | None) -> frozenset[str]:
    """Return the tags of --tag, an empty set for all. Raises UsageError."""
    from rmqctl.rules.message_filters.tags import parse_tags

    try:
        return frozenset() if text is None else parse_tags(text)
    except ValueError as error:
        raise UsageError(f"--tag: {error}.") from None


def parse_queues(given: list[str] | None) -> tuple[QueueChoice, ...]:
    """Return the queues of --queue, an empty tuple for all. Raises UsageError."""
    from rmqctl.admin.topics.queues import parse_queue_choice

    try:
        return tuple(parse_queue_choice(text) for text in given or ())
    except ValueError as error:
        raise UsageError(f"--queue: {error}.") from None


def parse_span(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Return the ends of --since and --until in ms, None for open ones. Raises UsageError."""
    from rmqctl.text.times import Edge

    first = None if since is None else parse_when("--since", since)
    last = None if until is None else parse_when("--until", until)
    if first == Edge.LATEST:
        raise UsageError("--since latest matches no messages.", hint="Follow new messages with rmqctl message tail.")
    if last == Edge.EARLIEST:
        raise UsageError("--until earliest matches no messages.")
    since_ms = first if isinstance(first, int) else None
    until_ms = last if isinstance(last, int) else None
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise UsageError("--since is after --until.")
    return since_ms, until_ms


def parse_properties(given: list[str]) -> tuple[tuple[str, str], ...]:
    """Return the names and values of --property. Raises UsageError."""
    pairs = []
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--property expects NAME=VALUE, not {text!r}.")
        pairs.append((name, value))
    return tuple(pairs)


def not_empty(option: str, text: str | None) -> str | None:
    """Return the value of an option. Raises UsageError if it is empty."""
    if text is not None and not text.strip():
        raise UsageError(f"{option} is empty.")
    return text
