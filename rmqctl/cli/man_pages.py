"""Manual pages: one for rmqctl, one for each command, from what --help shows. `python -m rmqctl.cli.man_pages DIR`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from rmqctl import __version__

from .app import root
from .help import option_sections
from .lazy import load_command
from .registry import COMMANDS, GROUPS

_EXIT_CODES = (
    ("0", "Success: everything was read or done."),
    ("1", "Failure: an error answer, a peer that is not RocketMQ, or output that cannot be written."),
    ("2", "Usage error, or a change that needs --yes."),
    ("3", "Declined at the prompt."),
    ("4", "Not authorized."),
    ("5", "The named group, topic, context or code does not exist."),
    ("6", "No server could be reached, or none answered in time."),
    ("7", "The plan no longer applies; nothing was changed."),
    ("8", "Partial result: some brokers did not answer, or part of a change was not made."),
    ("9", "Done or sent, but not confirmed."),
    ("10", "clean-expired: messages are stuck."),
    ("130", "Interrupted."),
)


def man_pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    made = {"rmqctl.1": _root_page()}
    for words in COMMANDS:
        made[f"{_page_name(words)}.1"] = _command_page(words)
    return made


def _page_name(words: str) -> str:
    return "-".join(("rmqctl", *words.split()))


def _root_page() -> str:
    command = root()
    lines = [*_head("rmqctl", "inspect and repair Apache RocketMQ consumer groups")]
    lines += [".SH SYNOPSIS", "rmqctl [OPTIONS] COMMAND [ARGS]...", ".SH COMMANDS"]
    for words, (_, summary) in COMMANDS.items():
        lines += [".TP", f"\\fB{_escaped(_page_name(words))}\\fR(1)", _escaped(summary)]
    lines += _options(command, with_globals=True)
    lines += _records("EXIT STATUS", _EXIT_CODES)
    return "\n".join(lines) + "\n"


def _command_page(words: str) -> str:
    module_name, summary = COMMANDS[words]
    command = load_command(words.rsplit(maxsplit=1)[-1], module_name, summary)
    text = (command.help or "").removeprefix(summary).strip("\n")
    paragraphs = text.split("\n\n")
    examples = [part for part in paragraphs if part.startswith("\b\nExamples:")]
    usage = command.collect_usage_pieces(typer.Context(command, info_name=words))
    lines = [*_head(_page_name(words), summary.rstrip("."))]
    lines += [".SH SYNOPSIS", _escaped(f"rmqctl {words} {' '.join(usage)}"), ".SH DESCRIPTION", _escaped(summary)]
    for part in paragraphs:
        if part not in examples:
            lines += _paragraph(part)
    lines += _options(command)
    lines += [".PP", f"Global options are described in {_see('rmqctl')}.", ".SH EXAMPLES"]
    for part in examples:
        lines += _paragraph(part.replace("\b\nExamples:", "\b"))
    lines += [".SH SEE ALSO", ", ".join(_see(name) for name in _related(words))]
    return "\n".join(lines) + "\n"


def _related(words: str) -> Iterator[str]:
    yield "rmqctl"
    group = words.split(maxsplit=1)[0]
    if group in GROUPS:
        for other in COMMANDS:
            if other != words and other.split()[0] == group:
                yield _page_name(other)


def _see(name: str) -> str:
    return f"\\fB{_escaped(name)}\\fR(1)"


def _head(name: str, summary: str) -> Iterator[str]:
    yield f'.TH "{name.upper()}" "1" "" "rmqctl {__version__}" "rmqctl manual"'
    yield ".SH NAME"
    yield f"{_escaped(name)} \\- {_escaped(summary)}"


def _options(command: typer.core.TyperCommand | typer.core.TyperGroup, *, with_globals: bool = False) -> Iterator[str]:
    context = typer.Context(command, info_name=command.name)
    for heading, records in option_sections(command, context, with_globals=with_globals).items():
        yield from _records(heading.upper(), records)


def _records(heading: str, records: tuple[tuple[str, str], ...] | list[tuple[str, str]]) -> Iterator[str]:
    yield f".SH {_escaped(heading)}"
    for name, text in records:
        yield from (".TP", f"\\fB{_escaped(name)}\\fR", _escaped(text))


def _paragraph(text: str) -> Iterator[str]:
    """Write a paragraph; one that begins with a backspace keeps its lines."""
    if text.startswith("\b"):
        yield from (".PP", ".nf", *(_escaped(line) for line in text.removeprefix("\b").strip("\n").splitlines()), ".fi")
    else:
        yield from (".PP", _escaped(" ".join(text.split())))


def _escaped(text: str) -> str:
    """Return text, escaped for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{text}" if text.startswith((".", "\\(aq")) else text


def write(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in man_pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
