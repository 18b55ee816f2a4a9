"""Whether a file fits the command: the group, kind and so on that it names, compared with the command line."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rmqctl.errors import UsageError
from rmqctl.text.words import listed

# Which command reads each document that rmqctl writes.
_READERS = {
    "OffsetExport": "offset import",
    "OffsetList": "offset import",
    "Plan": "apply",
    "Receipt": "offset undo",
    "Sample": "pipeline run snapshot --recording",
}


def require_fit(where: str, what: str, claimed: Collection[str], wanted: Collection[str], *, hint: str) -> None:
    """Raise UsageError when the command wants names that the file does not claim; a file that claims none fits all."""
    strange = {*wanted} - {*claimed}
    if claimed and strange:
        raise UsageError(f"{where} is for {what} {listed(sorted(claimed))}, not {listed(sorted(strange))}.", hint=hint)


def require_kind(where: str, found: object, wanted: Sequence[str], *, hint: str) -> None:
    """Raise UsageError for a document of another kind; the hint names the command that reads it."""
    if found in wanted:
        return
    kind = found if isinstance(found, str) else ""
    reader = _READERS.get(kind)
    raise UsageError(
        f"{where} has kind {kind[:40]!r}, not {' or '.join(wanted)}.",
        hint=hint if reader is None else f"Use rmqctl {reader} to read it.",
    )
