"""Receipts that a command line names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rmqctl.changes.documents.decode import parse_receipt
from rmqctl.changes.journal.journal import Journal
from rmqctl.cli.files import read_input
from rmqctl.errors import NotFoundError, RefusedError
from rmqctl.model.receipt import ChangeState, Receipt
from rmqctl.text.times import iso_time


def describe(receipt: Receipt) -> Iterator[str]:
    """Say who changed what, when, from where, why, and whether the change was completed."""
    who = receipt.who
    by = "" if who is None else f" by {who.user} on {who.host}"
    context = "" if who is None or who.context is None else f", context {who.context}"
    yield f"{receipt.operation} {receipt.asked}".rstrip() + f": {iso_time(receipt.started_at_ms)}{by}{context}."
    if receipt.reason is not None:
        yield f"Reason: {receipt.reason}"
    if receipt.state is not ChangeState.DONE:
        yield _STATES[receipt.state]


_STATES = {
    ChangeState.RUNNING: "RUNNING: it is being applied now.",
    ChangeState.INTERRUPTED: "INTERRUPTED: its process ended before it was complete.",
    ChangeState.ELSEWHERE: "ELSEWHERE: it was started on another machine, and may still be running there.",
}


def find_receipt(named: str) -> Receipt:
    """Return a receipt by its id or a unique prefix of it, its plan's id, or its file; `-` is stdin.

    Raises NotFoundError if it does not exist, UsageError for a file that is not a receipt, RefusedError for one that
    differs from the journal.
    """
    with Journal() as journal:
        found = journal.receipt(named) if named != "-" else None
        if found is not None:
            return found
        if named == "-" or _is_file(named):
            receipt = parse_receipt(read_input("RECEIPT", named), named)
            _require_same(receipt, journal.receipt(receipt.id), named)
            return receipt
    sentence = f"The journal of this machine has no change {named[:100]}, and there is no such file."
    raise NotFoundError("Receipt", named).reworded(sentence, hint="List changes with rmqctl offset history.")


def _require_same(receipt: Receipt, noted: Receipt | None, where: str) -> None:
    """Raise RefusedError if the journal noted another content: the file was edited, or is another change's.

    The receipt of another machine is not in the journal.
    """
    if noted is not None and noted.id == receipt.id and noted.facts() != receipt.facts():
        raise RefusedError(
            f"{where} differs from the journal of this machine: change {receipt.id} did something else.",
            hint=f"Undo what the journal noted: rmqctl offset undo {receipt.id}",
        )


def _is_file(named: str) -> bool:
    try:
        return Path(named).exists()
    except (OSError, ValueError):  # for example a name that is too long
        return False
