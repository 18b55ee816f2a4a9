"""Ways to run the command line in tests."""

from __future__ import annotations

import atexit
import json
import socket
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from rmqctl.cli.app import run
from tests.schemas import check_document, is_whole_document


class Result(NamedTuple):
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> dict[str, Any]:
        """The one JSON document on stderr."""
        document: dict[str, Any] = json.loads(self.err)
        check_document(document)
        return document


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> Result:
    """Run in this process. A document that it prints must be as its schema says."""
    capsys.readouterr()
    code = run(argv)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    if captured.out and is_whole_document(argv) and argv[0] != "schema":
        check_document(json.loads(captured.out))
    return Result(code, captured.out, captured.err)


def spawn(*argv: str, code: str = "", **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own: the program, or a piece of Python."""
    command = [sys.executable, "-c", code, *argv] if code else [sys.executable, "-m", "rmqctl", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **settings)


def closed_address() -> str:
    """Return an address of loopback where nobody listens. It stays taken, so that no server of another test gets it."""
    probe = socket.socket()
    atexit.register(probe.close)
    probe.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{probe.getsockname()[1]}"
