"""README.md and docs/ as far as no cluster is needed: examples, command lines, code."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer._click.exceptions import ClickException

from rmqctl.cli.app import root, run
from rmqctl.cli.lazy import LazyGroup
from rmqctl.cli.registry import ALIASES, COMMANDS, GROUPS
from rmqctl.errors import UsageError
from tests.docs import DOCS, README, Part, examples, normalised, page_id, pages

PAGES = pages()
OFFLINE = [example for page in PAGES for example in examples(page)]
_BLOCK = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(rmqctl [^`]+)`")
_READERS: dict[str, Callable[[str], object]] = {"python": ast.parse, "json": json.loads, "toml": tomllib.loads}
_OPERATORS = frozenset("();<>|&")
_HELP = frozenset({"-h", "--help", "--version"})


def _blocks(page: Path, *languages: str) -> Iterator[str]:
    for indent, language, text in _BLOCK.findall(page.read_text()):
        if language in languages:
            yield re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)


def _command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words behind each `rmqctl` of a shell's lines; those of a console block begin with `$ `."""
    for line in text.replace("\\\n", " ").splitlines():
        if not re.search(r"(^|[\s(])rmqctl ", line) or line.startswith("rmqctl: "):
            continue
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] | None = None
        for word in lexer:
            if word.endswith("rmqctl") and words is None:
                words = []
            elif _OPERATORS.issuperset(word):
                if words is not None:
                    yield words
                words = None
            elif words is not None:
                words.append(word)
        if words is not None:
            yield words


def _parse(words: list[str]) -> None:
    """Read a command line as far as its words and options; what they ask for does not happen."""
    command: Any = root()
    parent: Any = None
    while words and not _HELP.intersection(words):
        context = typer.Context(command, info_name="rmqctl", parent=parent)
        _, rest, _ = command.make_parser(context).parse_args(list(words))
        if not isinstance(command, LazyGroup):
            return
        _, command, words = command.resolve_command(context, rest)
        parent = context


def test_readme_fits_its_promise() -> None:
    assert len(README.read_text().splitlines()) <= 200


@pytest.mark.parametrize("example", OFFLINE, ids=lambda example: example.text)
def test_an_example_prints_what_the_page_says(
    example: Part, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(DOCS / "recordings")
    # As in a terminal.
    monkeypatch.setattr(sys, "stderr", sys.stdout)
    run(shlex.split(example.text)[1:])
    assert normalised(capsys.readouterr().out) == normalised(example.output)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_command_line_can_be_typed(page: Path) -> None:
    text = "".join(_blocks(page, "sh", "bash"))
    consoles = "".join(re.findall(r"^\$ .*\n", "".join(_blocks(page, "console")), re.MULTILINE))
    for words in _command_lines(text + consoles):
        _parse(words)


def test_a_wrong_command_line_is_seen() -> None:
    for line, wrong in (("rmqctl offset shw g | jq .", "shw"), ("$ rmqctl offset show g --lagg 3 > x", "--lagg")):
        (words,) = _command_lines(line)
        with pytest.raises((ClickException, UsageError), match=wrong):
            _parse(words)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_examples_in_help_can_be_typed(words: str) -> None:
    text = import_module(COMMANDS[words][0]).HELP.partition("Examples:\n")[2].partition("\n\n")[0]
    assert text.startswith("  ")
    for line in _command_lines(text):
        _parse(line)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_named_in_sentences_exist_with_their_options(page: Path) -> None:
    for text in _INLINE.findall(page.read_text()):
        first, _, rest = text.removeprefix("rmqctl ").partition(" ")
        second = re.match(r"[\w-]*", rest)
        words = f"{first} {second.group() if second else ''}".strip() if first in GROUPS else first
        if words in GROUPS or first.startswith("-") or first.isupper() or first == "help":
            continue
        assert words in COMMANDS or words in ALIASES, f"{page_id(page)}: {text}"
        for option in re.findall(r"(?<!\S)\[?(--[a-z-]+)", text):
            _parse([*words.split(), option, "value"])


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_code_can_be_read(page: Path) -> None:
    for language, read in _READERS.items():
        for text in _blocks(page, language):
            read(text)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_files_that_are_linked_exist(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
