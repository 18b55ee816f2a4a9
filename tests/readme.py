"""README's worked examples: found, run, compared, and written anew. Used by the tests and by `make readme`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

README = Path(__file__).parent.parent / "README.md"

_BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)


class Example(NamedTuple):
    """One command of a console block, and the text that follows it."""

    command: str
    output: str


def examples(text: str | None = None) -> list[Example]:
    """Return every `$ rmqctl ...` of README's console blocks, with the output written below it."""
    found = []
    for block in _BLOCK.findall(README.read_text() if text is None else text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Example(command, output.rstrip("\n")))
    return found


def needs_cluster(example: Example) -> bool:
    """Tell whether an example asks a cluster: all but explain, the version, help, and what-if of a described group."""
    return not re.search(r"rmqctl explain|rmqctl schema|--help|--version|--brokers|--spec", example.command)


def rewrite(run: Callable[[str], str]) -> None:
    """Write README anew with what run(command) returns below each command."""

    def block(match: re.Match[str]) -> str:
        parts = [(example.command, run(example.command)) for example in examples(f"```console\n{match.group()}```")]
        return "\n".join(f"$ {command}\n{output}\n" for command, output in parts)

    README.write_text(_BLOCK.sub(block, README.read_text()))


_VOLATILE = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
    (r"\S+@\d+#\d+", "<client>"),
    (r"127\.0\.0\.1:\d+", "<address>"),
    (r"\b[0-9A-F]{32}\b|\b[0-9A-F]{56}\b", "<id>"),
    (r"(?<!\S)-?(\d+ms|\d+s|\d+m\d\ds|\d+h\d\dm|\d+d\d+h)(?!\S)", "<age>"),
    (r"(?<!\S)\d+\.\d(?!\S)", "<rate>"),
    (r"[\d.]+ msg/s", "<rate> msg/s"),
    (r"(?<!\S)\d+%", "<ratio>"),
    (r"[ \t]+", " "),
)


def normalised(text: str) -> str:
    """Return the text without what differs from run to run: times, ages, rates, ports, client ids, column widths."""
    for pattern, stands_for in _VOLATILE:
        text = re.sub(pattern, stands_for, text)
    # A member's own rates change every ten seconds.
    text = re.sub(
        r"^<client>.*$", lambda line: re.sub(r"\b\d+(\.\d+)?\b", "<n>", line.group()), text, flags=re.MULTILINE
    )
    return "\n".join(line.strip() for line in text.splitlines()).strip()
