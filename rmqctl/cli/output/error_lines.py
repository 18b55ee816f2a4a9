"""Writes an error to stderr: as a sentence and a hint, or as JSON."""

from __future__ import annotations

import json

from rmqctl.errors import RmqctlError

from .text import printable, to_stderr


def write_error(error: RmqctlError, exit_code: int, *, as_json: bool) -> None:
    """Write an error; `exit_code` is that of the command, which can differ from the error's."""
    if as_json:
        document = {
            "apiVersion": "rmqctl/v1",
            "kind": "Error",
            "name": error.name,
            "message": error.sentence,
            "hint": error.hint,
            "exitCode": exit_code,
        }
        to_stderr(json.dumps(document))
    else:
        to_stderr(f"rmqctl: {printable(error.sentence)}")
        if error.hint:
            to_stderr(f"        {printable(error.hint)}")
