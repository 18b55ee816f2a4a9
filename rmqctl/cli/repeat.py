"""Repeat a question until Ctrl-C (--watch), for commands that show one listing."""

# No "from __future__ import annotations" here: the fields of Repetition would be texts to evaluate.
import os
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import RmqctlError, UsageError

from .arguments import duration_option_ms
from .invocation import Invocation
from .output.error_lines import write_error
from .output.listing import Listing
from .output.render import render
from .output.row_stream import require_stream
from .output.text import note_to_stderr

_EVERY = "5s"


class Repetition(Struct, frozen=True, kw_only=True):
    """Whether the question is repeated, and how often."""

    watch: Annotated[bool, typer.Option("-w", "--watch", help="Repeat until Ctrl-C.")] = False
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="Pause between rounds. [default: 5s]")
    ] = None

    def show(self, invocation: Invocation, read: Callable[[], Listing]) -> int:
        """Show what `read` returns; with --watch, show it again and again. Return the exit code of the last round.

        A round that fails is reported, and the next one follows. Raises UsageError, and KeyboardInterrupt if the first
        round is interrupted.
        """
        if not self.watch:
            if self.every is not None:
                raise UsageError("--every requires --watch.")
            return render(read(), invocation.display)
        require_stream(invocation.display, with_sort=True)
        every_s = duration_option_ms("--every", self.every or _EVERY) / 1000
        code, round_count = None, 0
        try:
            while True:
                code = _round(invocation, read, round_count)
                round_count += 1
                time.sleep(every_s)
        except KeyboardInterrupt:
            if code is None:
                raise
            return code


def _round(invocation: Invocation, read: Callable[[], Listing], round_count: int) -> int:
    """Show one round and return its exit code."""
    findings, display = invocation.display.findings, invocation.display
    findings.reset()
    try:
        listing = read()
    except UsageError:
        raise
    except RmqctlError as error:
        if display.with_notes:
            note_to_stderr(_time_line(display.with_local_times))
        write_error(error, error.exit_code, as_json=display.format == "jsonl")
        return error.exit_code
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        sys.stdout.write("\x1b[H\x1b[2J")  # cursor to the corner, clear
        sys.stdout.flush()
    elif round_count and display.format in ("table", "wide", "plain", "vertical"):
        sys.stdout.write("\n")
    if display.with_notes:
        note_to_stderr(_time_line(display.with_local_times))
    is_headless = round_count and display.format in ("csv", "tsv")
    code = render(listing, replace(display, with_headers=False) if is_headless else display)
    return code or min(findings.partial_codes, default=0)


def _time_line(with_local_times: bool) -> str:
    from rmqctl.text.times import iso_time

    from .output.local_times import local_text

    now = str(iso_time(time.time_ns() // 1_000_000))
    return f"At {local_text(now) if with_local_times else now}:"
