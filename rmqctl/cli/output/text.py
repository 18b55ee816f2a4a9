"""Text from the cluster, made harmless for a terminal, and times in words."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TextIO

# Control characters (C0, DEL, C1), line separators, and marks that turn the writing direction: a name or body that
# holds them could move the cursor, colour the screen or hide a part of itself.
# Half a surrogate pair can't be written at all.
_UNSAFE_BUT_C0 = "\x7f-\x9f\u061c\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = f"[\x00-\x1f{_UNSAFE_BUT_C0}]"


def printable(text: str) -> str:
    """Return the text with every character that a terminal could obey written as an escape."""
    return text if text.isprintable() else re.sub(_UNSAFE, _escape, text)


def printable_json(text: str) -> str:
    """Return JSON, or YAML in double quotes, with the same characters written as the escapes that both know."""
    return re.sub(f"[{_UNSAFE_BUT_C0}]", lambda match: f"\\u{ord(match.group()):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def may_redraw(*, is_wanted: bool) -> bool:
    """Return whether a line on stderr may be written over: progress that is wanted, at a terminal that can do it."""
    return is_wanted and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


# Ends the line of waiting.Waiting that is on the terminal, if there is one.
_end_waiting: list[Callable[[], None]] = []


def set_waiting(end: Callable[[], None]) -> None:
    """Note how to end the line that shows what is being waited for."""
    _end_waiting.append(end)


def end_waiting() -> None:
    """Make room on the terminal for something else."""
    while _end_waiting:
        _end_waiting.pop()()


def to_stderr(line: str) -> None:
    """Write a line for people, beside the data. When nobody reads it, or its disk is full, the exit code tells."""
    end_waiting()
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        drop_rest(sys.stderr)


def note_to_stderr(note: str) -> None:
    """Write a sentence for people, in whole words where a terminal would cut them."""
    if sys.stderr.isatty():
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns
        note = textwrap.fill(note, width, break_long_words=False, break_on_hyphens=False)
    to_stderr(note)


def drop_rest(stream: TextIO) -> None:
    """Let go of what a pipe without a reader has left: Python flushes once more at exit, which must find no pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
