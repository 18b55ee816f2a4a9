"""Which dead letters are wanted: the options that the commands share, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct, field

from rmqctl.cli.output.message_options import not_empty, parse_properties, parse_span, parse_tag_option
from rmqctl.model.failure import Failure
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_reading import Letter
    from rmqctl.admin.messages.filter import MessageFilter
    from rmqctl.cli.invocation import Invocation
    from rmqctl.cli.output.body import BodyStyle
    from rmqctl.client.core import Client

    from .body_match import BodyMatch

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False)]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Stored at or after this time.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Stored at or before this time.")]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Originally sent to this topic. Repeatable.")
]
Ids = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="With this message id, new or original. Repeatable.")
]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="With this business or unique key.")]
Tag = Annotated[str | None, typer.Option("--tag", metavar="'A||B'", help="With one of these tags.")]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="With this property. Repeatable.")
]
Contains = Annotated[str | None, typer.Option("--contains", metavar="TEXT", help="With this text in the body.")]
Match = Annotated[
    str | None, typer.Option("--body-match", metavar="EXPR", help="With a JSON body that matches this JMESPath.")
]


class Wanted(Struct, frozen=True):
    """The requested dead letters of a group: conditions on the message, and one on its body."""

    group: str
    filter: MessageFilter
    match: BodyMatch | None = None

    @property
    def is_narrowed(self) -> bool:
        """Whether there is any condition."""
        from rmqctl.admin.messages.filter import MessageFilter

        return self.match is not None or self.filter != MessageFilter()


class Outcome(Struct):
    """The result of a reading. `is_cut`: more dead letters matched than the limit allows."""

    failures: list[Failure] = field(default_factory=list)
    read_count: int = 0
    is_cut: bool = False


def wanted_letters(
    invocation: Invocation, group: str, style: BodyStyle, *, since: str | None, until: str | None,
    topics: list[str] | None, ids: list[str] | None, key: str | None, tag: str | None, properties: list[str] | None,
    contains: str | None, body_match: str | None,
) -> Wanted:  # fmt: skip
    """Return the conditions of the options. Raises UsageError."""
    from rmqctl.admin.messages.filter import MessageFilter

    since_ms, until_ms = parse_span(since, until)
    match = None
    if (expression := not_empty("--body-match", body_match)) is not None:
        from .body_match import BodyMatch

        match = BodyMatch(expression, style)
    text = not_empty("--contains", contains)
    wanted = MessageFilter(
        since_ms=since_ms,
        until_ms=until_ms,
        key=not_empty("--key", key),
        tags=parse_tag_option(tag),
        contains=None if text is None else text.encode(errors="surrogateescape"),
        properties=parse_properties(properties or []),
        ids=frozenset(ids or ()),
        origin_topics=frozenset(invocation.full_name(topic) for topic in topics or ()),
    )
    return Wanted(invocation.full_name(group), wanted, match)


async def read_letters(
    client: Client, wanted: Wanted, take: Callable[[list[Letter]], None], *, limit: int | None = None,
    with_progress: bool = False,
) -> Outcome:  # fmt: skip
    """Read, passing matching dead letters to `take` as they are found, the oldest first.

    Raises what find_letters() raises.
    """
    from rmqctl.admin.groups.letter_reading import LetterReading, find_letters
    from rmqctl.cli.output.progress import ScanProgress

    outcome = Outcome()
    letters = await find_letters(client, wanted.group, since_ms=wanted.filter.since_ms, until_ms=wanted.filter.until_ms)
    left = limit
    with ScanProgress(f"Reading {letters.topic}", is_wanted=with_progress) as progress:
        reading = LetterReading(client, letters, wanted.filter, on_progress=progress.show)
        async with aclosing(reading.run()) as batches:
            async for found in batches:
                if wanted.match is not None:
                    found = [letter for letter in found if wanted.match.accepts(letter)]
                if left is not None and len(found) > left:
                    outcome.is_cut = True
                    found = found[:left]
                if found:
                    take(found)
                if outcome.is_cut:
                    break
                left = None if left is None else left - len(found)
    outcome.failures = reading.failures
    outcome.read_count = reading.read_count
    return outcome


def unfit_notes(wanted: Wanted) -> list[str]:
    """Return a sentence about the bodies that --body-match could not be evaluated on."""
    if wanted.match is None or not wanted.match.unfit_count:
        return []
    messages = counted(wanted.match.unfit_count, "message")
    return [f"--body-match could not be evaluated on {messages}: not JSON, or not of the expected type."]
