"""What a file of offsets lacks, since it was not read when the file was made: JSON has errors, CSV has comments."""

from __future__ import annotations

_COMMENT = "# not read: "
# Failures that are about stored offsets, or hide queues; others (ages, retention) leave a file whole.
_OF_OFFSETS = ("offsets", "stored offsets", "route of", "names of topics")


def not_read_words(broker_name: str | None, what: str, sentence: str) -> str | None:
    """Return what a failure of reading a group leaves out of a file, in words; None where the file is whole."""
    if not what.startswith(_OF_OFFSETS):
        return None
    return f"{what}{f' at {broker_name}' if broker_name else ''} ({sentence.rstrip('.')})"


def not_read_comment(words: str) -> str:
    """Return the line of CSV that says so."""
    return f"{_COMMENT}{words}"


def take_comments(text: str) -> tuple[tuple[str, ...], str]:
    """Return what the comments of CSV say was not read, and the text with an empty line instead of each."""
    if _COMMENT not in text:
        return (), text
    lines = text.split("\n")
    found = [line for line in lines if line.startswith(_COMMENT)]
    rest = "\n".join("" if line.startswith(_COMMENT) else line for line in lines)
    return tuple(line.removeprefix(_COMMENT).strip() for line in found), rest
