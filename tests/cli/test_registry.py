from __future__ import annotations

import inspect
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


@pytest.mark.parametrize("words", COMMANDS)
def test_a_commands_help_shows_its_summary_its_examples_and_the_global_options(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = call(capsys, *words.split(), "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: rmqctl {words}")
    assert COMMANDS[words][1].split(",")[0] in " ".join(result.out.split())
    for text in ("Examples:", "--namesrv", "--context", "--output", "--timeout", "--columns", "--quiet", "--no-color"):
        assert text in result.out


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
    result = call(capsys, "--version")
    assert (result.code, result.out, result.err) == (0, f"rmqctl {rmqctl.__version__}\n", "")
