"""Asks before something is changed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rmqctl.errors import DeclinedError, UsageError

from .output.text import printable, to_stderr


def confirm(plan: Sequence[str], *, is_confirmed: bool) -> None:
    """Show what would be done, a line each, and go on only when it is wanted.

    `is_confirmed` is --yes. On a terminal it is asked for; elsewhere its absence is a UsageError. Raises DeclinedError
    for any answer but yes.
    """
    for line in plan:
        to_stderr(printable(line))
    if is_confirmed:
        return
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("Nothing was changed: this needs --yes where nobody can be asked.")
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise DeclinedError("Nothing was changed.")
