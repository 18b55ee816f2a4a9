"""Makes text from the cluster harmless for a terminal, and writes lines to stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TextIO

# Control characters (C0, DEL, C1), line separators, and marks that turn the writing direction: a name or body that
# holds them could move the cursor, colour the screen or hide a part of itself.
# Half a surrogate pair cannot be written at all.
_UNSAFE_BUT_C0 = "\x7f-\x9f\u061c\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = f"[\x00-\x1f{_UNSAFE_BUT_C0}]"


def printable(text: str) -> str:
    """Return the text with every character that could control a terminal written as an escape."""
    return text if text.isprintable() else re.sub(_UNSAFE, _escape, text)


def printable_json(text: str) -> str:
    """Return JSON, or YAML in double quotes, with the same characters written as escapes that both formats support."""
    return re.sub(f"[{_UNSAFE_BUT_C0}]", lambda match: f"\\u{ord(match.group()):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def may_redraw(*, is_wanted: bool) -> bool:
    """Return whether a line on stderr may be redrawn: progress is wanted, and the terminal supports it."""
    return is_wanted and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


# Ends the line of waiting.Waiting that is on the terminal, if there is one.
_end_waiting: list[Callable[[], None]] = []


def set_waiting(end: Callable[[], None]) -> None:
    """Note how to end the line that shows what is being waited for."""
    _end_waiting.append(end)


def end_waiting() -> None:
    """Clear the line of waiting before other text is written."""
    while _end_waiting:
        _end_waiting.pop()()


def to_stderr(line: str) -> None:
    """Write a line to stderr. A write error (no reader, disk full) is ignored: the exit code remains."""
    end_waiting()
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        drop_rest(sys.stderr)


def note_to_stderr(note: str) -> None:
    """Write a sentence to stderr, wrapped between words on a terminal."""
    if sys.stderr.isatty():
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns
        note = textwrap.fill(note, width, break_long_words=False, break_on_hyphens=False)
    to_stderr(note)


def drop_rest(stream: TextIO) -> None:
    """Discard the rest of a pipe without a reader, because Python flushes the stream once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
