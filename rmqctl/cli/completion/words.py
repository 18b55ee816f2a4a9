"""Backend of the completion scripts: `rmqctl complete-words WORD...` prints the candidates for the last word.

It runs at every key press: it loads no command, writes nothing to stderr and never fails.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

# Printed alone: asks the shell to complete file names.
FILES = ":files"
# Names that a shell accepts unquoted, or with each character quoted. Others are not offered, because a cluster can
# return any text. RocketMQ allows % | letters digits _ - in names of groups and topics.
_OFFERED = re.compile(r"[A-Za-z0-9_%|.:=+,@/-]+")
_NAMES = {"GROUP": "groups", "TOPIC": "topics", "BROKER": "brokers"}


def main(argv: Sequence[str]) -> int:
    """Print the candidates, one per line."""
    try:
        text = "".join(f"{word}\n" for word in complete(argv))
        sys.stdout.write(text)
        sys.stdout.flush()
    except Exception:  # noqa: BLE001, S110 -- a broken configuration or cache must not disturb the user's typing
        pass
    return 0


@cache
def _table() -> dict[str, Any]:
    """Return the table of all commands that completion_table wrote."""
    table: dict[str, Any] = json.loads(Path(__file__).with_name("table.json").read_bytes())
    return table


class _Line:
    """A command line up to the word that is being written."""

    def __init__(self, words: Sequence[str]) -> None:
        self.path: list[str] = []
        self.given: dict[str, str] = {}
        self.argument_count = 0
        # The option that still needs its value.
        self.pending: str | None = None
        # After --, where words are no longer options.
        self.only_arguments = False
        for word in words:
            self._take(word)

    @property
    def command(self) -> dict[str, Any] | None:
        """The command's entry in the table, None as long as its words are not complete."""
        command: dict[str, Any] | None = _table()["commands"].get(" ".join(self.path))
        return command

    @property
    def options(self) -> dict[str, str | None]:
        """The options at this place with the kind of their value, None for a flag."""
        return {**(self.command or {}).get("options", {}), **_table()["globals"]}

    def _take(self, word: str) -> None:
        if self.pending is not None:
            self.given[self.pending] = word
            self.pending = None
        elif word == "--":
            self.only_arguments = True
        elif word.startswith("-") and word != "-" and not self.only_arguments:
            name, separator, value = word.partition("=")
            if not word.startswith("--") and len(word) > 2:
                name, separator, value = word[:2], "=", word[2:]
            if separator:
                self.given[name] = value
            elif self.options.get(name) is not None:
                self.pending = name
        elif self.command is not None:
            self.argument_count += 1
        else:
            self.path.append(word)


def complete(words: Sequence[str]) -> list[str]:
    """Return the candidates for the last of `words`, which follow `rmqctl`; [":files"] asks for file names."""
    *before, current = words or [""]
    line = _Line(before)
    if line.pending is not None:
        return _values(line.options[line.pending] or "", current, line)
    if current.startswith("-") and not line.only_arguments:
        name, separator, value = current.partition("=")
        if not separator:
            return _beginning(current, line.options)
        found = _values(line.options.get(name) or "", value, line)
        return found if found == [FILES] else [f"{name}={word}" for word in found]
    if line.command is None:
        depth = len(line.path)
        known = [words.split() for words in _table()["commands"]]
        return _beginning(current, dict.fromkeys(words[depth] for words in known if words[:depth] == line.path))
    arguments: list[str] = line.command["arguments"]
    if line.argument_count < len(arguments):
        return _values(arguments[line.argument_count].removesuffix("..."), current, line)
    if arguments and arguments[-1].endswith("..."):
        return _values(arguments[-1].removesuffix("..."), current, line)
    return []


def _values(kind: str, current: str, line: _Line) -> list[str]:
    if kind == "FILE":
        return [FILES]
    if kind in ("COLUMN", "COLUMN,"):
        head, comma, last = current.rpartition(",")
        return [f"{head}{comma}{word}" for word in _beginning(last, (line.command or {}).get("columns", ()))]
    if kind == "FORMAT":
        return _beginning(current, [*(line.command or {}).get("formats", ()), *_table()["values"][kind]])
    if kind in _table()["values"]:
        return _beginning(current, _table()["values"][kind])
    if kind == "CONTEXT":
        return _beginning(current, _configuration().get("contexts", {}))
    if kind == "RECEIPT":
        return _beginning(current, _receipts())
    if kind in _NAMES:
        from rmqctl.cli.names_cache import read_names

        return _beginning(current, read_names(_name_servers(line.given), _NAMES[kind]))
    return []


def _name_servers(given: dict[str, str]) -> str:
    """Return the name servers that the command line selects, by the same rules as Invocation."""
    text = given.get("-n") or given.get("--namesrv")
    environment = os.environ.get("NAMESRV_ADDR", "")
    if text:
        return text
    wanted = given.get("--context") or os.environ.get("RMQCTL_CONTEXT")
    if not wanted and environment:
        return environment
    configuration = _configuration()
    context = configuration.get("contexts", {}).get(wanted or configuration.get("current-context"), {})
    return context.get("namesrv") or environment


def _receipts() -> list[str]:
    """Return the ids of the newest changes in the journal, without the journal's module: importing it takes 30 ms."""
    import sqlite3
    from contextlib import closing

    from rmqctl.state.folder import state_folder

    path = state_folder(create=False) / "journal.db"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
        rows = connection.execute("SELECT receipt_id FROM changes ORDER BY number DESC LIMIT 50")
        return [receipt_id for (receipt_id,) in rows]


def _configuration() -> dict[str, Any]:
    """Return the configuration file unchecked, because checking takes longer than reading a name from it."""
    import tomllib

    from rmqctl.cli.config.place import config_path

    try:
        return tomllib.loads(config_path().read_text())
    except FileNotFoundError:
        return {}


def _beginning(current: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(current) and _OFFERED.fullmatch(word)]
