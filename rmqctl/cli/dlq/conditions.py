"""Which dead letters are wanted: the options that the commands share."""

# No "from __future__ import annotations" here: the fields of LetterConditions would be texts to evaluate.
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from rmqctl.cli.output.message_options import not_empty, parse_properties, parse_span, parse_tag_option

if TYPE_CHECKING:
    from rmqctl.admin.messages.filter import MessageFilter
    from rmqctl.cli.invocation import Invocation
    from rmqctl.cli.output.body import BodyStyle

    from .body_match import BodyMatch


class Wanted(Struct, frozen=True):
    """The requested dead letters of a group: conditions on the message, and one on its body."""

    group: str
    filter: "MessageFilter"
    match: "BodyMatch | None" = None

    @property
    def is_narrowed(self) -> bool:
        """Whether there is any condition."""
        from rmqctl.admin.messages.filter import MessageFilter

        return self.match is not None or self.filter != MessageFilter()


class LetterConditions(Struct, frozen=True, kw_only=True):
    """The conditions that a dead letter has to meet, all of them."""

    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Stored at or after this time.")] = None
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Stored at or before this time.")] = None
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Originally sent to this topic. Repeatable.")
    ] = None
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="With this message id, new or original. Repeatable."),
    ] = None
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="With this business or unique key.")] = None
    tag: Annotated[str | None, typer.Option("--tag", metavar="'A||B'", help="With one of these tags.")] = None
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="With this property. Repeatable.")
    ] = None
    contains: Annotated[str | None, typer.Option("--contains", metavar="TEXT", help="With this text in the body.")] = (
        None
    )
    body_match: Annotated[
        str | None, typer.Option("--body-match", metavar="EXPR", help="With a JSON body that matches this JMESPath.")
    ] = None

    def wanted(self, invocation: "Invocation", group: str, style: "BodyStyle") -> Wanted:
        """Return the dead letters of a group that these options select. Raises UsageError."""
        from rmqctl.admin.messages.filter import MessageFilter

        since_ms, until_ms = parse_span(self.since, self.until)
        match = None
        if (expression := not_empty("--body-match", self.body_match)) is not None:
            from .body_match import BodyMatch

            match = BodyMatch(expression, style)
        text = not_empty("--contains", self.contains)
        wanted = MessageFilter(
            since_ms=since_ms,
            until_ms=until_ms,
            key=not_empty("--key", self.key),
            tags=parse_tag_option(self.tag),
            contains=None if text is None else text.encode(errors="surrogateescape"),
            properties=parse_properties(self.properties or []),
            ids=frozenset(self.ids or ()),
            origin_topics=frozenset(invocation.full_name(topic) for topic in self.topics or ()),
        )
        return Wanted(invocation.full_name(group), wanted, match)
