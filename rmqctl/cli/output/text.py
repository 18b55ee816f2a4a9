"""Text from the cluster, made harmless for a terminal, and times in words."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from typing import TextIO

# Control characters (C0, DEL, C1), line separators, and marks that turn the writing direction: a name or body that
# holds them could move the cursor, colour the screen or hide a part of itself.
# Half a surrogate pair can't be written at all.
_UNSAFE_BUT_C0 = "\x7f-\x9f\u061c\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = f"[\x00-\x1f{_UNSAFE_BUT_C0}]"
_MAX_MS = 253_402_300_799_999  # the last ms of the year 9999


def printable(text: str) -> str:
    """Return the text with every character that a terminal could obey written as an escape."""
    return text if text.isprintable() else re.sub(_UNSAFE, _escape, text)


def printable_json(text: str) -> str:
    """Return JSON, or YAML in double quotes, with the same characters written as the escapes that both know."""
    return re.sub(f"[{_UNSAFE_BUT_C0}]", lambda match: f"\\u{ord(match.group()):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def to_stderr(line: str) -> None:
    """Write a line for people, beside the data. When nobody reads it, or its disk is full, the exit code tells."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        drop_rest(sys.stderr)


def drop_rest(stream: TextIO) -> None:
    """Let go of what a pipe without a reader has left: Python flushes once more at exit, which must find no pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def iso_time(at_ms: int | None) -> str | None:
    """Return UTC ISO 8601 with ms, None for none and for what is no time of this era."""
    if at_ms is None or not 0 <= at_ms <= _MAX_MS:
        return None
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"
