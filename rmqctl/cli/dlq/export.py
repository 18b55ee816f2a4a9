"""rmqctl dlq export: write the dead letters of a group to a file, lossless."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from rmqctl.cli.arguments import Force, Group
from rmqctl.cli.files import WriteBehind, new_file, writing
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.body import BodyStyle
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import UsageError
from rmqctl.text.names import one_of
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted

from .conditions import LetterConditions
from .reading import LetterResult, read_letters, unfit_notes

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_reading import Letter
    from rmqctl.client.core import Client

    from .letter_files import LetterFile

HELP = """\b
Examples:
  rmqctl dlq export my-group --outfile letters.jsonl
  rmqctl dlq export my-group --outfile letters.csv --since 24h
  rmqctl dlq export my-group --outfile letters.parquet            # needs pyarrow
  rmqctl dlq export my-group --outfile - --topic orders | jq .body

\b
Formats, chosen by the suffix of the file or by --format:
  jsonl    one JSON object per line; bodyBase64 has the body as bytes,
           body has it as text if it is UTF-8
  csv      the same columns; properties as JSON
  parquet  the same columns; the body as bytes, properties as a map

Only you can read the file. It appears when it is complete; an interrupted export leaves no file. Dead letters are
sorted by store time. The conditions are those of dlq show. Messages that cannot be read are left out and reported with
their queue and offset; the exit code is then 8."""

_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
FORMATS = tuple(dict.fromkeys(_SUFFIXES.values()))


def command(
    ctx: typer.Context,
    group: Group,
    outfile: Annotated[
        str, typer.Option("--outfile", metavar="FILE", help="File to create; - for stdout.", show_default=False)
    ],
    form: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help=f"File format: {', '.join(FORMATS)}.")
    ] = None,
    force: Force = False,
    *,
    conditions: LetterConditions,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    wanted = conditions.wanted(invocation, group, BodyStyle())
    form = _format(outfile, form)
    path = None if outfile == "-" else new_file("--outfile", outfile, is_forced=force, may_force=True)
    exported: dict[str, Any] = {"count": 0, "earliestTimestamp": None, "lastTimestamp": None}

    async def run(client: "Client") -> LetterResult:
        from .letter_files import letter_row

        with _opened(form, path, is_forced=force) as out:

            def take(found: "list[Letter]") -> None:
                out.write([letter_row(letter) for letter in found])
                exported["count"] += len(found)
                exported["lastTimestamp"] = found[-1].message.stored_at_ms
                if exported["earliestTimestamp"] is None:
                    exported["earliestTimestamp"] = found[0].message.stored_at_ms

            return await read_letters(client, wanted, take, with_progress=invocation.display.with_notes)

    outcome = invocation.ask(run, open_ended=True)
    item = {"group": wanted.group, "file": outfile, "format": form, **exported}
    item["sizeBytes"] = None if path is None else path.stat().st_size
    listing = to_listing(item, outcome, unfit_notes(wanted))
    if path is not None:
        return render(listing, invocation.display)
    return _say(listing, invocation)


def _format(to: str, form: str | None) -> str:
    if form is not None and form not in FORMATS:
        raise UsageError(f"Invalid value for --format: {form!r}.", hint=one_of(FORMATS))
    found = form or ("jsonl" if to == "-" else _SUFFIXES.get(Path(to).suffix.lower()))
    if found is None:
        raise UsageError(
            f"The suffix of {to} is unknown.", hint=f"Name the format with --format: {', '.join(FORMATS)}."
        )
    if found == "parquet" and to == "-":
        raise UsageError("Parquet cannot be written to stdout.", hint="Use --to FILE, or --format jsonl.")
    return found


@contextmanager
def _opened(form: str, path: Path | None, *, is_forced: bool) -> Iterator["LetterFile"]:
    from .letter_files import FILES

    make: Callable[[Any], LetterFile] = FILES[form]
    if path is None:
        out = make(sys.stdout.buffer)
        yield out
        out.end()
        sys.stdout.buffer.flush()
        return
    with ExitStack() as stack:
        place: Any = stack.enter_context(writing(path, is_forced=is_forced, may_force=True))
        if form != "parquet":  # pyarrow wants all that a file can do
            place = stack.enter_context(WriteBehind(place))
        out = make(place)
        yield out
        out.end()


def to_listing(item: dict[str, Any], outcome: LetterResult, warnings: list[str]) -> Listing:
    """Make the listing of an export."""
    reasons = {key: "NO_MESSAGES" for key in ("earliestTimestamp", "lastTimestamp") if item[key] is None}
    if item["sizeBytes"] is None:
        reasons["sizeBytes"] = "WRITTEN_TO_STDOUT"
    item |= {f"{key}Iso": iso_time(item[key]) for key in ("earliestTimestamp", "lastTimestamp")}
    return Listing(
        kind="DeadLetterExport",
        columns=COLUMNS,
        items=[{**item, "reasons": reasons}],
        name=lambda item: str(item["file"]),
        failures=outcome.failures,
        extra={"readCount": outcome.read_count},
        warnings=warnings,
    )


def _say(listing: Listing, invocation: Invocation) -> int:
    """Report on stderr what was exported to stdout. Returns the exit code."""
    from contextlib import redirect_stdout
    from io import StringIO

    from rmqctl.cli.output.text import note_to_stderr

    # As a table it reports failures on stderr; as JSON they would be part of the document, which is discarded.
    with redirect_stdout(StringIO()):
        code = render(listing, replace(invocation.display, format="table", with_notes=False))
    if invocation.display.with_notes:
        note_to_stderr(f"{counted(listing.items[0]['count'], 'dead letter')} written.")
    return code


COLUMNS = (
    Column("FILE", "file"),
    Column("FORMAT", "format"),
    Column("COUNT", "count", is_number=True),
    Column("BYTES", "sizeBytes", is_number=True),
    Column("OLDEST", "earliestTimestamp", is_time=True, gives_way=True),
    Column("NEWEST", "lastTimestamp", is_time=True, gives_way=True),
)
