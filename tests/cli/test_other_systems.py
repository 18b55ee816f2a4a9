"""Systems without what POSIX has, as Windows: reading works, and what needs it is refused in a sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.cli.scripted_server import served

from .calls import spawn

# What Windows does not have. The names are taken away before anything of ours is imported.
_WITHOUT = """
import os, signal, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for module, names in (
    (os, ("uname", "geteuid", "getuid", "killpg", "fork")), (signal, ("SIGHUP", "SIGKILL")),
):
    for name in names:
        delattr(module, name)
from rmqctl.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    broker = BrokerState("broker-a", configured={"G"})
    broker.topics["T"] = [Queue(100)]
    broker.offsets["G"] = {"T": {0: 40}}
    with served(Cluster(broker)) as address:
        yield address


def _run(*argv: str) -> tuple[int, str, str]:
    done = spawn(*argv, code=_WITHOUT, env=dict(os.environ))
    assert "Traceback" not in done.stderr
    assert "has a bug" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "argv",
    [
        ("group", "list"),
        ("offset", "show", "G"),
        ("offset", "reset", "G", "--topic", "T", "--to-earliest", "--dry-run"),
        ("offset", "history"),
        ("context", "list"),
        ("explain", "206"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_what_only_reads_works(address: str, argv: tuple[str, ...]) -> None:
    code, _, err = _run("-n", address, *argv)
    assert code in (0, 8), err
    assert "not supported on this system" not in err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("offset", "reset", "G", "--topic", "T", "--to-earliest", "--yes"), "Changing a group is not supported on "),
        (("group", "update", "G", "--retries", "3", "--yes"), "Changing a group is not supported on "),
        (("context", "set", "prod", "namesrv=a:1"), "Changing the configuration file is not supported on "),
        (("sandbox", "up", "--detach"), "Running a sandbox for other commands is not supported on "),
        (("sandbox", "up"), "Running a sandbox for other commands is not supported on "),
        (("sandbox", "status"), "Running a sandbox for other commands is not supported on "),
        (("demo",), "The demonstration is not supported on "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_needs_locks_is_refused_in_a_sentence(address: str, argv: tuple[str, ...], sentence: str) -> None:
    code, out, err = _run("-n", address, *argv) if argv[0] in ("offset", "group") else _run(*argv)
    assert (code, out) == (1, "")
    assert err.startswith(f"rmqctl: {sentence}")
    assert err.endswith("        Use Linux, macOS or WSL.\n")
