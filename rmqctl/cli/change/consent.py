"""What is checked before every change: that it can be shown, that it is allowed, and that it is wanted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rmqctl.cli.globals import TABLE_FORMATS
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.text import drop_rest, end_waiting, note_to_stderr, printable, to_stderr
from rmqctl.errors import DeclinedError, RmqctlError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqctl.cli.invocation import Invocation
    from rmqctl.cli.output.display import Display
    from rmqctl.cli.output.listing import Column, Listing

    from .options import Consent


def check_display(
    invocation: Invocation, *, is_plan_only: bool, plan_columns: Sequence[Column], receipt_columns: Sequence[Column],
    done: str = "changed",
) -> None:  # fmt: skip
    """Raise UsageError for columns and conditions that would only fail after the change; `done` is the verb for it.

    Raises RefusedError in a readonly context. Commands call this before they contact the cluster.
    """
    display = invocation.display
    if is_plan_only:
        choose_columns(plan_columns, display)
        return
    try:
        choose_columns(receipt_columns, display)
    except UsageError as error:
        unknown = set(display.columns).difference(column.key for column in receipt_columns)
        if not unknown.issubset(column.key for column in plan_columns):
            raise
        raise error.reworded(error.sentence, hint="That is a column of the plan: use it with --dry-run.") from None
    invocation.require_writable()
    if display.conditions:
        raise UsageError(f"--where would also hide what is {done}.", hint="Use it with --dry-run.")
    choose_columns(receipt_columns, replace(display, columns=tuple(key.removeprefix("-") for key in display.sort_keys)))


def require_consent(
    invocation: Invocation, plan: Listing, name: str, consent: Consent, *, must_name: bool = False
) -> None:
    """Show a plan, and return only with consent: --yes, --confirm NAME in a protected context, or an answer.

    `must_name`: the name is needed in every context.

    Raises UsageError when there is no terminal to ask on, DeclinedError when the answer is no.
    """
    display = invocation.display
    must_name = must_name or invocation.is_protected
    is_given = consent.confirm is not None if must_name else consent.yes
    if display.format in TABLE_FORMATS or not is_given:
        # Scripts get only one document: the plan or the receipt.
        _show(plan, replace(display, columns=(), sort_keys=()))
        if display.format in TABLE_FORMATS and not is_given and not display.with_notes:
            for line in plan.headings:  # -q silences notes, not the subject of the question
                note_to_stderr(printable(line))
    if not is_given and display.format not in TABLE_FORMATS:
        option = f"--confirm {name}" if must_name else "--yes"
        raise UsageError(f"Nothing was changed: with -o {display.format} this needs {option}.")
    if must_name:
        confirm_by_name(name, given=consent.confirm, may_ask=invocation.may_ask, is_protected=invocation.is_protected)
    else:
        confirm((), is_confirmed=consent.yes, may_ask=invocation.may_ask)


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


def confirm_by_name(name: str, *, given: str | None, may_ask: bool, is_protected: bool = True) -> None:
    """Return only if the name of what is changed is typed, or equals `given` (--confirm). Raises as confirm() does."""
    if given is None:
        _require_terminal(f"--confirm {name}", may_ask=may_ask)
        why = "This context is protected. " if is_protected else ""
        given = _ask(f"{why}Type {printable(name)} to continue: ")
    if given != name:
        raise DeclinedError(f"Nothing was changed: {printable(given)!r} is not {printable(name)}.")


def _show(plan: Listing, display: Display) -> None:
    """Show a plan before it is applied. Raises RmqctlError when that fails: consent needs a plan that was shown."""
    try:
        render(plan, display)
        sys.stdout.flush()
    except OSError:
        drop_rest(sys.stdout)
        raise RmqctlError("Nothing was changed: the plan cannot be shown, because the output is closed.") from None


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
