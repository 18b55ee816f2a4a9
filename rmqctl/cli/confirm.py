"""Asks before something is changed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rmqctl.errors import DeclinedError, UsageError

from .output.text import end_waiting, printable, to_stderr


def confirm(plan: Sequence[str], *, is_confirmed: bool, may_ask: bool) -> None:
    """Show what would be done, a line each, and go on only when it is wanted.

    `is_confirmed` is --yes. On a terminal it is asked for, unless --no-input denies it (`may_ask`); elsewhere its
    absence is a UsageError. Raises DeclinedError for any answer but yes.
    """
    for line in plan:
        to_stderr(printable(line))
    if is_confirmed:
        return
    _require_terminal("--yes", may_ask=may_ask)
    if _ask("Go on? [y/N] ").lower() not in ("y", "yes"):
        raise DeclinedError("Nothing was changed.")


def confirm_by_name(name: str, *, given: str | None, may_ask: bool) -> None:
    """Go on only when the name of what is changed is typed, or `given` (--confirm) is it. Raises as confirm() does."""
    if given is None:
        _require_terminal(f"--confirm {name}", may_ask=may_ask)
        given = _ask(f"This context is protected. Type {printable(name)} to go on: ")
    if given != name:
        raise DeclinedError(f"Nothing was changed: {printable(given)!r} is not {printable(name)}.")


def _require_terminal(option: str, *, may_ask: bool) -> None:
    if not may_ask:
        raise UsageError(f"Nothing was changed: with --no-input this needs {option}.")
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"Nothing was changed: without a terminal this needs {option}.")


def _ask(question: str) -> str:
    end_waiting()
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
