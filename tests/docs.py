"""README.md and docs/: their examples, found in the text and written back into it.

A console block holds `$ rmqctl ...` lines with their output below. A comment `<!-- scene: NAME -->` says that the
examples after it run on the real cluster that tests/real/scenes/NAME.py sets up, `<!-- step: NAME -->` what happens
between two of them. Examples before the first scene, or after `<!-- scene: none -->`, need no cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"

_PART = re.compile(r"<!-- (?P<kind>scene|step): (?P<name>[\w-]+) -->|(?<=```console\n)(?P<block>.*?)(?=```)", re.DOTALL)
_EXAMPLE = re.compile(r"^\$ (?P<command>[^\n]*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)


class Part(NamedTuple):
    """One scene, step or example of a page; `start` and `end` are its place in the text.

    `text` is a name, or an example's command; `scene` is where it happens, "" where no cluster is needed.
    """

    kind: str
    text: str
    output: str
    scene: str
    start: int
    end: int


def pages() -> list[Path]:
    """Return README and all pages of the manual."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def page_id(page: Path) -> str:
    """Return a page's path within the project."""
    return str(page.relative_to(ROOT))


def parts(text: str) -> Iterator[Part]:
    """Yield the scenes, steps and examples of a page in order."""
    scene = ""
    for match in _PART.finditer(text):
        if name := match["name"]:
            if match["kind"] == "scene":
                scene = "" if name == "none" else name
            yield Part(match["kind"], name, "", scene, *match.span())
            continue
        for example in _EXAMPLE.finditer(match["block"]):
            start = match.start("block")
            output = example["output"].strip("\n")
            yield Part("example", example["command"], output, scene, start + example.start(), start + example.end())


def examples(page: Path) -> list[Part]:
    """Return a page's examples that need no cluster."""
    return [part for part in parts(page.read_text()) if part.kind == "example" and not part.scene]


def rewritten(text: str, outcomes: Sequence[tuple[Part, str, str]]) -> str:
    """Return the text with each example replaced by the command and the output given for it."""
    for part, command, output in sorted(outcomes, key=lambda outcome: -outcome[0].start):
        gap = "\n" if text[part.start : part.end].endswith("\n\n") else ""
        shown = f"$ {command}\n" + (f"{output}\n" if output else "") + gap
        text = text[: part.start] + shown + text[part.end :]
    return text


RECEIPT = r"\b\d{8}T\d{6}-[0-9a-f]{6}\b"
MESSAGE_ID = r"\b(?:[0-9A-F]{32}|[0-9A-F]{56})\b"
TIME = r"\d{4}-\d\d-\d\dT[\d:.]+Z"
_VOLATILE = (
    (RECEIPT, "<receipt>"),
    (TIME, "<time>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?|\b\d\d:\d\d:\d\d\b", "<time>"),
    (r"\S+@\d+#\d+", "<client>"),
    (r"127\.0\.0\.1:\d+", "<address>"),
    (rf"{MESSAGE_ID}|\b[0-9a-f]{{12,64}}\b", "<id>"),
    (r"\bby \S+ on \S+", "by <user> on <host>"),
    (r"(?<![^\s(])[-+]?(\d+ms|\d+(\.\d+)?s|\d+m\d\ds|\d+h\d\dm|\d+d\d+h)(?![^\s,.;:)])", "<age>"),
    (r"(?<!\S)\d+\.\d(?!\S)", "<rate>"),
    (r"[\d.]+ msg/s", "<rate> msg/s"),
    (r"(?<!\S)\d+%", "<ratio>"),
    (r"[ \t]+", " "),
)


def normalised(text: str) -> str:
    """Return the text without what differs from run to run: times, ages, rates, ports, ids, column widths."""
    for pattern, replacement in _VOLATILE:
        text = re.sub(pattern, replacement, text)
    # A member's own rates change every ten seconds, with as many digits as they come to.
    text = re.sub(
        r"^<client>.*$", lambda line: re.sub(r"<rate>|\b\d+(\.\d+)?\b", "<n>", line.group()), text, flags=re.MULTILINE
    )
    return "\n".join(line.strip() for line in text.splitlines()).strip()
