from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import rmqctl.cli
from rmqctl.cli.registry import COMMANDS, GROUPS

from .calls import call


def test_the_root_help_lists_every_group_and_every_command_that_stands_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = call(capsys, "--help")
    assert result.code == 0
    lines = {line.split()[0]: line for line in result.out.splitlines() if line.startswith("  ") and line.strip()}
    for group, summary in GROUPS.items():
        assert summary in lines[group]
    for words, (_, summary) in COMMANDS.items():
        if " " not in words:
            assert summary.split()[0] in lines[words]


@pytest.mark.parametrize("group", GROUPS)
def test_a_groups_help_lists_its_commands(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, group, "--help")
    assert result.code == 0
    commands = [words.split()[1] for words in COMMANDS if words.startswith(f"{group} ")]
    assert commands
    for command in commands:
        assert f"  {command} " in result.out


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_has_a_function_and_help_with_examples(words: str) -> None:
    module_name, summary = COMMANDS[words]
    module = import_module(module_name)
    assert inspect.isfunction(module.command)
    assert "Examples:" in module.HELP
    assert f"rmqctl {words}" in module.HELP
    assert summary.endswith(".")
    assert words.split(maxsplit=1)[0] in GROUPS or " " not in words


_GLOBAL = ("--namesrv", "--context", "--output", "--timeout", "--columns", "--quiet", "--no-color", "--no-input")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_commands_help_shows_its_summary_its_examples_and_its_own_options(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = call(capsys, *words.split(), "-h")
    assert result.code == 0
    assert result.out.startswith(f"Usage: rmqctl {words}")
    assert COMMANDS[words][1].split(",")[0] in " ".join(result.out.split())
    assert "Examples:" in result.out
    assert "rmqctl --help:" in result.out
    # Examples can be longer, because they are pasted.
    blocks = [block for block in result.out.split("\n\n") if "Examples:" not in block]
    assert [line for block in blocks for line in block.splitlines() if len(line) > 80] == []
    assert not re.search(r"^  (-., )?--(namesrv|context|output|where|no-color)", result.out, re.MULTILINE)


def test_the_roots_help_shows_the_options_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    out = call(capsys, "--help").out
    for name in _GLOBAL:
        assert name in out
    assert call(capsys, "help").out == call(capsys, "-h").out == out
    assert call(capsys, "help", "offset", "undo").out == call(capsys, "offset", "undo", "--help").out


@pytest.mark.parametrize("words", COMMANDS)
def test_long_lists_of_options_are_under_headings(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No list of options is longer than a screen of 24 lines can show with its heading."""
    lists = call(capsys, *words.split(), "-h").out.partition("Arguments:")[2].split("\n\n")
    assert max((sum(line.startswith("  -") for line in part.splitlines()) for part in lists), default=0) <= 12


def test_every_command_module_is_in_the_registry() -> None:
    folder = Path(rmqctl.cli.__file__).parent
    files = [path for path in folder.rglob("*.py") if "\ndef command(" in path.read_text()]
    modules = {".".join(("rmqctl.cli", *path.relative_to(folder).with_suffix("").parts)) for path in files}
    assert modules == {module for module, _ in COMMANDS.values()}


@pytest.mark.parametrize("argv", [[], ["offset"], ["group"], ["cluster"]], ids=" ".join)
def test_no_command_word_shows_the_help_and_is_no_mistake(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, *argv)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Usage: rmqctl")


def test_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--version", "-V"):
        result = call(capsys, word)
        assert (result.code, result.out, result.err) == (0, f"rmqctl {rmqctl.__version__}\n", "")
