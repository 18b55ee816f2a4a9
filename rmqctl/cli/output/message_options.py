"""Options that the commands about messages share."""

# No "from __future__ import annotations" here: the fields of BodyOptions would be texts to evaluate.
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from rmqctl.cli.arguments import split_pair
from rmqctl.errors import UsageError
from rmqctl.text.names import one_of
from rmqctl.text.option_errors import option_errors

from .body import DEFAULT_MAX_BYTES, MODES, BodyStyle

if TYPE_CHECKING:
    from rmqctl.admin.messages.filter import MessageFilter

Plugin = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="FILE", help="Plugin with codecs. Repeatable. Env: RMQCTL_PLUGINS."),
]


class BodyOptions(Struct, frozen=True, kw_only=True):
    """How to show bodies."""

    body: Annotated[str, typer.Option("--body", metavar="KIND", help=f"Body format: {', '.join(MODES)}.")] = "auto"
    codec: Annotated[
        str | None,
        typer.Option(
            "--codec", metavar="NAME", help="Decode bodies as gbk or another text encoding, base64, msgpack ..."
        ),
    ] = None
    plugin: Plugin = None
    max_body: Annotated[
        int, typer.Option("--max-body", metavar="BYTES", help="Show at most this much of each body; 0 shows all.")
    ] = DEFAULT_MAX_BYTES

    def style(self) -> BodyStyle:
        """Return the style of these options. Loads plugins for a codec. Raises UsageError, the plugins' errors."""
        if self.body not in MODES:
            raise UsageError(f"Invalid body format {self.body!r}.", hint=one_of(MODES))
        if self.max_body < 0:
            raise UsageError("--max-body cannot be negative.", hint="Use 0 to show whole bodies.")
        if self.codec is None:
            if self.plugin:
                raise UsageError("--plugin requires --codec.", hint="Name a codec of the plugin with --codec.")
            return BodyStyle(self.body, max_bytes=self.max_body)
        if self.body in ("hex", "none"):
            raise UsageError(
                f"--codec and --body {self.body} cannot be used together: a codec returns text or a value."
            )
        from rmqctl.plugin.loader import body_codec

        return BodyStyle(self.body, self.codec, body_codec(self.codec, self.plugin or []), self.max_body)


class MessageConditions(Struct, frozen=True, kw_only=True):
    """The conditions that a message has to meet, all of them."""

    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Stored at or after this time.")] = None
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Stored at or before this time.")] = None
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="With this business or unique key.")] = None
    tag: Annotated[str | None, typer.Option("--tag", metavar="'A||B'", help="With one of these tags.")] = None
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="With this property. Repeatable.")
    ] = None
    contains: Annotated[str | None, typer.Option("--contains", metavar="TEXT", help="With this text in the body.")] = (
        None
    )

    def filter(self) -> "MessageFilter":
        """Return these conditions. Raises UsageError."""
        from rmqctl.admin.messages.filter import MessageFilter

        since_ms, until_ms = parse_span(self.since, self.until)
        text = not_empty("--contains", self.contains)
        return MessageFilter(
            since_ms=since_ms,
            until_ms=until_ms,
            key=not_empty("--key", self.key),
            tags=parse_tag_option(self.tag),
            contains=None if text is None else text.encode(errors="surrogateescape"),
            properties=parse_properties(self.properties or []),
        )


def parse_when(option: str, text: str) -> int | str:
    """Return a point in time in ms, or `earliest` or `latest`. Raises UsageError."""
    import time

    from rmqctl.text.times import parse_time

    with option_errors(option):
        return parse_time(text, time.time_ns() // 1_000_000)


def parse_tag_option(text: str | None) -> frozenset[str]:
    """Return the tags of --tag, an empty set for all. Raises UsageError."""
    from rmqctl.rules.message_filters.tags import parse_tags

    with option_errors("--tag"):
        return frozenset() if text is None else parse_tags(text)


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
    return tuple(split_pair("--property", text) for text in given)


def not_empty(option: str, text: str | None) -> str | None:
    """Return the value of an option. Raises UsageError if it is empty."""
    if text is not None and not text.strip():
        raise UsageError(f"{option} is empty.")
    return text
