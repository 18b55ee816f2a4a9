"""Asks for confirmation before a change."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rmqctl.errors import DeclinedError, UsageError

from .output.text import end_waiting, printable, to_stderr


def confirm(plan: Sequence[str], *, is_confirmed: bool, may_ask: bool) -> None:
    """Show the plan, one line each, and return only if it is confirmed.

    `is_confirmed` is --yes. Without it, the user is asked on a terminal if `may_ask` (no --no-input). Raises UsageError
    if the user cannot be asked, DeclinedError for any answer but yes.
    """
    for line in plan:
        to_stderr(printable(line))
    if is_confirmed:
        return
    _require_terminal("--yes", may_ask=may_ask)
    if _ask("Continue? [y/N] ").lower() not in ("y", "yes"):
        raise DeclinedError("Nothing was changed.")


def confirm_by_name(name: str, *, given: str | None, may_ask: bool) -> None:
    """Return only if the name of what is changed is typed, or equals `given` (--confirm). Raises as confirm() does."""
    if given is None:
        _require_terminal(f"--confirm {name}", may_ask=may_ask)
        given = _ask(f"This context is protected. Type {printable(name)} to continue: ")
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
