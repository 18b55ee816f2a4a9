from __future__ import annotations

import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

import rmqctl.cli
from rmqctl.cli.lazy import load_command
from rmqctl.cli.registry import ALIASES, COMMANDS, FORMER_OPTIONS, GROUPS

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


_ALIASES = {**ALIASES, **{f"{words.split()[0]} ls": words for words in COMMANDS if words.endswith(" list")}}


@pytest.mark.parametrize(("alias", "words"), _ALIASES.items())
def test_an_alias_is_the_command_and_names_it(alias: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, meant = (call(capsys, *each.split(), "-h").out for each in (alias, words))
    assert f"The same as rmqctl {words}." in " ".join(found.split())
    assert found.partition("Options:")[2] == meant.partition("Options:")[2]
    assert found.partition("Examples:")[2] == meant.partition("Examples:")[2]


@pytest.mark.parametrize(
    ("module", "former", "name"),
    [(module, former, name) for module, each in FORMER_OPTIONS.items() for former, name in each.items()],
)
def test_the_former_name_of_an_option_still_works_and_is_not_shown(module: str, former: str, name: str) -> None:
    words = next(words for words, entry in COMMANDS.items() if entry[0] == module)
    command = load_command(words, *COMMANDS[words])
    (param,) = [param for param in command.params if name in param.opts]
    for given in ([former, "v"], [f"{former}=v"], [name, "v"]):
        ctx = command.make_context(words, ["G", *given])
        assert ctx.params[param.name] == "v"
    assert f"{former} " not in ctx.get_help()


@pytest.mark.parametrize("words", COMMANDS)
def test_options_say_what_they_take(words: str) -> None:
    """A repeatable option says so, in one word, and the value of a point in time is TIME, any other DURATION."""
    for param in load_command(words, *COMMANDS[words]).params:
        if param.param_type_name == "option":
            text = param.help or ""
            assert ("Repeatable." in text) == param.multiple, param.opts
            assert not re.search(r"[Mm]ay be repeated|repeatable", text)
            is_point = bool({"--since", "--until", "--to-time"} & {*param.opts}) or "earliest" in text
            assert (param.metavar == "TIME") <= is_point, param.opts


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
    assert not re.search(r"^  (-., )?--(namesrv|context|output|where|no-color)", result.out, re.MULTILINE)


@pytest.mark.parametrize("words", ["", *GROUPS, *COMMANDS])
def test_a_help_page_is_at_most_80_wide_with_its_examples_whole(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = call(capsys, *words.split(), "-h").out
    assert [line for line in out.splitlines() if len(line) > 80] == []
    if words in COMMANDS:
        written = import_module(COMMANDS[words][0]).HELP.partition("Examples:\n")[2].partition("\n\n")[0]
        shown = out.partition("Examples:\n")[2].partition("\n\n")[0]
        assert _pasted(shown) == _pasted(written)


def _pasted(examples: str) -> list[list[str]]:
    """Return the words that a shell reads in each example, without comments."""
    lines = examples.replace("\\\n", " ").splitlines()
    return [read for line in lines if (read := shlex.split(line, comments=True))]


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
    for word in ("--version", "-V", "version"):
        result = call(capsys, word)
        assert (result.code, result.out, result.err) == (0, f"rmqctl {rmqctl.__version__}\n", "")
