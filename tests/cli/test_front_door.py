"""Errors that no command foresaw: each is one sentence that names what it is, and no traceback unless asked for."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest

from rmqctl.cli.output.stdout import OutputError
from rmqctl.cli.unexpected_errors import explained
from rmqctl.errors import BugError, RmqctlError, UnreachableError, UsageError
from tests.schemas import check_document

from .calls import closed_address, spawn

# A module that can't be imported stands for any mistake of ours.
_BROKEN = """
import sys
from rmqctl.cli.app import run
sys.modules["rmqctl.cli.explain.run"] = None
sys.exit(run(sys.argv[1:]))
"""


def _shell(command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    words = f"{command}".replace("rmqctl", f"{sys.executable} -m rmqctl")
    return subprocess.run(
        ["sh", "-c", words], capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **settings}
    )


def test_a_mistake_of_ours_is_one_sentence_with_a_hint() -> None:
    done = spawn("explain", "206", code=_BROKEN)
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("rmqctl: rmqctl has a bug: ModuleNotFoundError: ")
    assert "--debug" in second


def test_a_mistake_of_ours_is_a_document_where_json_was_asked_for() -> None:
    done = spawn("explain", "206", "-o", "json", code=_BROKEN)
    document = json.loads(done.stderr)
    check_document(document)
    assert (document["name"], document["exitCode"], done.returncode) == ("BUG", 1, 1)


def test_debug_shows_where_any_error_came_from() -> None:
    done = spawn("explain", "206", "--debug", code=_BROKEN)
    assert "Traceback" in done.stderr
    assert "rmqctl: rmqctl has a bug: " in done.stderr
    for words, code in (("no-such-command --debug", 2), (f"-n {closed_address()} group list --debug", 6)):
        done = _shell(f"rmqctl {words}")
        assert done.returncode == code
        assert "Traceback" in done.stderr


def test_a_limit_of_open_files_is_named() -> None:
    done = _shell(f"ulimit -n 5; rmqctl -n {closed_address()} group list")
    assert done.returncode == 1
    assert done.stderr == (
        "rmqctl: Cannot open a connection: too many open files (limit 5).\n        Raise it with ulimit -n.\n"
    )


def test_a_connection_for_which_no_file_is_left_is_not_the_servers_fault() -> None:
    # Room for the event loop, and for nothing else.
    done = _shell(f"ulimit -n 6; rmqctl -n {closed_address()} group list")
    assert "cannot open a connection: too many open files (limit 6)." in done.stderr
    assert "ulimit -n" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without a home")
def test_a_user_without_a_home_is_told_so() -> None:
    code = "import os, sys; from rmqctl.cli.app import run; os.setresuid(54321, 0, 0); sys.exit(run(sys.argv[1:]))"
    done = spawn("offset", "history", code=code, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 2
    assert done.stderr.startswith("rmqctl: The home directory is unknown.\n        Set HOME, or ")


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (OutputError(errno.ENOSPC, "No space left"), RmqctlError, "The output cannot be written: no space left."),
        (OSError(errno.EMFILE, "x", "/a/b"), RmqctlError, "Cannot open /a/b: too many open files (limit "),
        (OSError(errno.ENFILE, "x"), RmqctlError, "Cannot open a connection: too many open files on this machine."),
        (OSError(errno.EACCES, "Denied", "/a/b"), RmqctlError, "Cannot use /a/b: denied."),
        (OSError(errno.EPERM, "Denied"), RmqctlError, "The operating system refused a request: denied."),
        (MemoryError(), RmqctlError, "Out of memory."),
        (RuntimeError("Could not determine home directory."), UsageError, "The home directory is unknown."),
        (ExceptionGroup("g", [UnreachableError("a:1", "gone")]), UnreachableError, "a:1: gone."),
        (ZeroDivisionError("by\n zero"), BugError, "rmqctl has a bug: ZeroDivisionError: by zero."),
        (ValueError(), BugError, "rmqctl has a bug: ValueError."),
    ],
    ids=repr,
)
def test_what_is_said(error: BaseException, kind: type[RmqctlError], sentence: str) -> None:
    found = explained(error)
    assert type(found) is kind
    assert found.sentence.startswith(sentence)
