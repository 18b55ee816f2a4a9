"""Runs rmqctl as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from tests.schemas import check_document, is_whole_document

# A deadline that brokers meet on a busy machine, where their answers are late now and then.
PATIENT = "60s"


@dataclass(frozen=True)
class Result:
    """What one run left behind."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    args: tuple[str, ...] = ()

    @property
    def document(self) -> Any:
        """The JSON on stdout, which must be as its schema says unless columns were chosen."""
        document = json.loads(self.stdout)
        if is_whole_document(self.args):
            check_document(document)
        return document


class Rmqctl:
    """rmqctl with NAMESRV_ADDR set, unless a test names other servers."""

    def __init__(self, namesrv: str, *, state: str = "", timeout: str = "") -> None:
        """`state` is the folder of the journal and of what is remembered of clusters; by default nothing is.

        `timeout` is the deadline of commands that name none; by default it is rmqctl's own.
        """
        self.namesrv, self.state, self.timeout = namesrv, state, timeout

    def __call__(self, *args: str, namesrv: str | None = None, limit_s: float = 180) -> Result:
        """Run a command and return what it printed."""
        env = {name: value for name, value in os.environ.items() if name not in ("NAMESRV_ADDR", "NO_COLOR")}
        deadline = ("--timeout", self.timeout) if self.timeout and "--timeout" not in args else ()
        memory = {"RMQCTL_STATE": self.state} if self.state else {"RMQCTL_MEMORY": "0"}
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "rmqctl", *args, *deadline],
            env={**env, "NAMESRV_ADDR": namesrv or self.namesrv, "RMQCTL_CACHE": os.devnull, **memory},
            capture_output=True, text=True, timeout=limit_s, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - started
        assert "--debug" in args or "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr, seconds, args)

    def items(self, *args: str) -> list[dict[str, Any]]:
        """Run a command that must succeed, and return the items of its JSON."""
        result = self(*args, "-o", "json")
        assert result.exit_code == 0, result.stderr
        items: list[dict[str, Any]] = result.document["items"]
        return items

    def change(self, *args: str) -> dict[str, Any]:
        """Run a change that must be confirmed everywhere; return its receipt."""
        result = self(*args, "--yes", "-o", "json")
        assert result.exit_code == 0, result.stderr or result.stdout
        receipt: dict[str, Any] = result.document
        assert {item["result"] for item in receipt["items"]} == {"CONFIRMED"}
        return receipt
