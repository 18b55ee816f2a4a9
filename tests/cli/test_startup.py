"""What may not be imported when: each of these costs tens of milliseconds, and every call of a script would pay."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rmqctl.cli.registry import COMMANDS

from .calls import closed_address, spawn

_REPORT = """
import sys
from rmqctl.cli.app import run
code = run(sys.argv[1:])
sys.stdout.flush()
print("MODULES", *sorted(sys.modules))
sys.exit(code)
"""

_HEAVY = {"asyncio", "ssl", "rich", "tabulate", "platformdirs", "httpx", "yaml", "lz4", "zstandard", "tomllib", "csv",
          "aiohappyeyeballs", "jinja2", "textual"}  # fmt: skip
_LAYERS = {"rmqctl.admin", "rmqctl.client", "rmqctl.net", "rmqctl.protocol", "rmqctl.rules", "rmqctl.model"}


def _loaded(*argv: str) -> tuple[int, set[str], str]:
    done = spawn(*argv, code=_REPORT)
    output, _, modules = done.stdout.rpartition("MODULES ")
    return done.returncode, set(modules.split()), output


@pytest.mark.parametrize("argv", [["--help"], ["--version"], [], ["offset"], ["group", "--help"]], ids=" ".join)
def test_help_and_version_load_no_command_and_nothing_heavy(argv: list[str]) -> None:
    code, modules, _ = _loaded(*argv)
    assert code == 0
    assert modules & (_HEAVY | _LAYERS) == set()
    assert modules & {module for module, _ in COMMANDS.values()} == set()


def test_a_usage_error_in_the_command_word_loads_no_command() -> None:
    code, modules, _ = _loaded("no-such-command")
    assert code == 2
    assert modules & (_HEAVY | _LAYERS) == set()


@pytest.mark.parametrize("argv", [["offset", "show", "g"], ["diagnose", "g"]], ids=" ".join)
def test_a_command_that_fails_to_connect_loads_no_table_and_no_configuration(argv: list[str]) -> None:
    code, modules, _ = _loaded("-n", closed_address(), *argv)
    assert code == 6
    assert modules & (_HEAVY - {"asyncio", "ssl", "csv"}) == set()
    assert "rmqctl.cli.group.list" not in modules


def test_a_table_off_a_terminal_needs_no_rich() -> None:
    code, modules, output = _loaded("explain", "206", "-o", "wide")
    assert code == 0
    assert "CONSUMER_NOT_ONLINE" in output
    assert "rich" not in modules


def test_the_import_of_the_front_door_is_quick_in_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import rmqctl.cli.app"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    ours = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "rmqctl" in line]
    assert set(ours) <= {
        "rmqctl",
        "rmqctl.errors",
        *(f"rmqctl.cli{name}" for name in ("", ".app", ".globals", ".lazy", ".registry", ".output", ".output.text")),
    }
