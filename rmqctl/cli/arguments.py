"""Arguments and options that many commands have, and how their values are read."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.errors import UsageError
from rmqctl.text.option_errors import option_errors

if TYPE_CHECKING:
    from rmqctl.admin.topics.queues import QueueChoice

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False)]
Groups = Annotated[
    list[str],
    typer.Argument(metavar="GROUP...", help="Consumer groups; * and ? are wildcards.", show_default=False),
]
AnyGroups = Annotated[
    list[str] | None,
    typer.Argument(metavar="[GROUP]...", help="Consumer groups; * and ? are wildcards.", show_default=False),
]
Topics = Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic. Repeatable.")]
TopicPatterns = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; * and ? are wildcards. Repeatable."),
]
TopicsOfGroups = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only these topics of the groups. Repeatable.")
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="QUEUE", help="Queues: broker-a:0, broker-a:0-3 or broker-a. Repeatable."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


def duration_option_ms(option: str, text: str) -> int:
    """Return the duration of an option in ms. Raises UsageError for an invalid duration, and for 0."""
    duration_ms = milliseconds_option(option, text)
    if duration_ms == 0:
        raise UsageError(f"{option} must be above 0.")
    return duration_ms


def seconds_option(option: str, text: str) -> float:
    """Return the duration of an option in s, which may be 0. Raises UsageError for an invalid duration."""
    return milliseconds_option(option, text) / 1000


def milliseconds_option(option: str, text: str) -> int:
    """Return the duration of an option in ms, which may be 0. Raises UsageError for an invalid duration."""
    from rmqctl.text.durations import parse_duration_ms

    with option_errors(option):
        return parse_duration_ms(text)


def split_pair(option: str, text: str, *, hint: str | None = None) -> tuple[str, str]:
    """Return the name and the value of an option's NAME=VALUE; only the value may be empty. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{option} expects NAME=VALUE, not {text!r}.", hint=hint)
    return name, value


def parse_queues(given: list[str] | None) -> "tuple[QueueChoice, ...]":
    """Return the queues of --queue, an empty tuple for all. Raises UsageError."""
    from rmqctl.admin.topics.queues import parse_queue_choice

    with option_errors("--queue"):
        return tuple(parse_queue_choice(text) for text in given or ())
