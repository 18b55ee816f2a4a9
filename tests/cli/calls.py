"""Ways to run the command line in tests."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from rmqctl.cli.app import run


class Result(NamedTuple):
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> dict[str, Any]:
        """The one JSON document on stderr."""
        document: dict[str, Any] = json.loads(self.err)
        return document


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> Result:
    """Run in this process."""
    capsys.readouterr()
    code = run(argv)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return Result(code, captured.out, captured.err)


def spawn(*argv: str, code: str = "", **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own: the program, or a piece of Python."""
    command = [sys.executable, "-c", code, *argv] if code else [sys.executable, "-m", "rmqctl", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, **settings)


def closed_address() -> str:
    """Return an address of loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"
