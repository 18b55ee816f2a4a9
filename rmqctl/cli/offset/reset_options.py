"""The options of `offset reset` for its target."""

# No "from __future__ import annotations" here: the fields of ResetOptions would be texts to evaluate.
from typing import Annotated

import typer
from msgspec import Struct


class ResetOptions(Struct, frozen=True, kw_only=True):
    """The topics, and the targets of which one is given."""

    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Reset this topic. Repeatable.")
    ] = None
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Reset all topics of the group.")] = False
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="To the first message stored at or after this time; -30m and now refer to the brokers' clocks.",
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="DURATION",
            help="Go back this long from the brokers' time, for example 2h or PT2H.",
        ),
    ] = None
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest message of each queue.")] = False
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of each queue.")] = False
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", help="To this offset.")] = None
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Forward by N messages, or back with a negative N.")
    ] = None
    to_current: Annotated[bool, typer.Option("--to-current", help="To the current stored offset.")] = False
    to_group: Annotated[
        str | None, typer.Option("--to-group", metavar="GROUP", help="To the offsets of another group.")
    ] = None
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from-file", metavar="FILE", help="To the offsets of a file: JSON, Kafka's CSV, rpk's text; - for stdin."
        ),
    ] = None
