"""What could not be read when a file of offsets was made: JSON lists it as errors, CSV as comments."""

from __future__ import annotations

_COMMENT = "# not read: "
# Failures that are about stored offsets, or hide queues; with others (ages, retention) a file is complete.
_OF_OFFSETS = ("offsets", "stored offsets", "route of", "names of topics")


def not_read_words(broker_name: str | None, what: str, sentence: str) -> str | None:
    """Return, in words, what a failure of reading a group leaves out of a file; None if the file is complete."""
    if not what.startswith(_OF_OFFSETS):
        return None
    return f"{what}{f' at {broker_name}' if broker_name else ''} ({sentence.rstrip('.')})"


def not_read_comment(words: str) -> str:
    """Return the CSV comment for words of not_read_words()."""
    return f"{_COMMENT}{words}"


def take_comments(text: str) -> tuple[tuple[str, ...], str]:
    """Return what was not read, by the comments of CSV, and the text with an empty line instead of each comment."""
    if _COMMENT not in text:
        return (), text
    lines = text.split("\n")
    found = [line for line in lines if line.startswith(_COMMENT)]
    rest = "\n".join("" if line.startswith(_COMMENT) else line for line in lines)
    return tuple(line.removeprefix(_COMMENT).strip() for line in found), rest
