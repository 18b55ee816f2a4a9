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
    _require_somebody("--yes")
    if _ask("Go on? [y/N] ").lower() not in ("y", "yes"):
        raise DeclinedError("Nothing was changed.")


def confirm_by_name(name: str, *, given: str | None) -> None:
    """Go on only when the name of what is changed is typed, or `given` (--confirm) is it. Raises as confirm() does."""
    if given is None:
        _require_somebody(f"--confirm {name}")
        given = _ask(f"This context is protected. Type {printable(name)} to go on: ")
    if given != name:
        raise DeclinedError(f"Nothing was changed: {printable(given)!r} is not {printable(name)}.")


def _require_somebody(option: str) -> None:
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"Nothing was changed: this needs {option} where nobody can be asked.")


def _ask(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
