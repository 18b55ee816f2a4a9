"""Report phrases that the house style rejects, in text that people read: `python -m tests.voice PATH...`.

It reads strings and docstrings of Python files, descriptions in JSON schemas, texts of TOML files, and Markdown outside
code blocks.
codespell checks single words by words.txt; this checks phrases by phrases.txt. Exit code 1 with findings.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SUFFIXES = (".py", ".json", ".md", ".toml")


def read_phrases(text: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the patterns of phrases.txt, each with what to write instead."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = (line.rsplit(" -> ", 1) for line in lines)
    return [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in pairs]


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line number and text of each line that people read."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _python_prose(ast.parse(text))
    elif path.suffix == ".json":
        yield from ((0, each) for each in _descriptions(json.loads(text)))
    elif path.suffix == ".toml":
        yield from ((0, each) for each in _texts(tomllib.loads(text)))
    else:
        yield from _markdown_prose(text)


def _python_prose(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            # The whole sentence, with one word for each value.
            words = (str(each.value) if isinstance(each, ast.Constant) else "X" for each in node.values)
            yield node.lineno, "".join(words)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from enumerate(node.value.splitlines(), node.lineno)


def _descriptions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (text for key in ("title", "description") if isinstance(text := value.get(key), str))
        for each in value.values():
            yield from _descriptions(each)
    elif isinstance(value, list):
        for each in value:
            yield from _descriptions(each)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _markdown_prose(text: str) -> Iterator[tuple[int, str]]:
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, re.sub(r"`[^`]*`", "`x`", line)


def findings_in(paths: list[Path], phrases: list[tuple[re.Pattern[str], str]]) -> Iterator[str]:
    """Yield a line for each phrase found: file, line, phrase, what to write instead."""
    for path in sorted(each for place in paths for each in ([place] if place.is_file() else place.rglob("*"))):
        if path.suffix not in _SUFFIXES or "/shipped/" in str(path):
            continue
        hits = (
            (number, match.group(), instead)
            for number, line in prose_of(path)
            for pattern, instead in phrases
            for match in pattern.finditer(line)
        )
        # Once each: a part of an f-string is a string, too.
        yield from (f"{path}:{number}: {phrase!r}: write {instead}" for number, phrase, instead in dict.fromkeys(hits))


if __name__ == "__main__":
    found = list(
        findings_in(
            [Path(each) for each in sys.argv[1:]],
            read_phrases(Path(__file__).with_name("phrases.txt").read_text(encoding="utf-8")),
        )
    )
    print(*found, sep="\n")
    sys.exit(bool(found))
