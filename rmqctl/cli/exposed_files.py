"""Warns of files with secrets that other users can access."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from rmqctl.client.secrets import exposed_mode

from .output.text import printable, to_stderr


def warn_of_exposed(paths: Iterable[str | None], reported: set[str]) -> None:
    """Warn of each file that its group or others can access, unless it is in `reported`, and add it there."""
    for path in paths:
        mode = None if path is None or path in reported else exposed_mode(path)
        if path is not None and mode is not None:
            reported.add(path)
            to_stderr(f"rmqctl: warning: {printable(path)} is accessible to other users ({mode:04o}).")
            to_stderr(f"        chmod 600 {printable(quote(path))}")
