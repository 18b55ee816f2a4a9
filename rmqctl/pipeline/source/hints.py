"""Errors that pass through Spark, which keeps only their text: with their hints, in the words of DataFrame options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rmqctl.errors import RmqctlError

# The names of options by those on the command line, which hints and sentences of the client use.
_OPTIONS = {
    "--timeout": "rocketmq.timeout", "--tls": "rocketmq.tls", "--tls-ca": "rocketmq.tls.ca",
    "--tls-cert": "rocketmq.tls.cert", "--tls-key": "rocketmq.tls.key", "--tls-verify": "rocketmq.tls.verify",
    "--credentials": "rocketmq.credentials", "--map-address": "rocketmq.addressMap", "--sql": "sql", "--tag": "tags",
}  # fmt: skip
_FLAGS = {option: flag for flag, option in _OPTIONS.items()}
_OPTION = re.compile(r"\brocketmq(?:\.[A-Za-z]+)+")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def in_options(text: str) -> str | None:
    """Return a text with the names of DataFrame options; None when it needs what only the command line has.

    What follows `rmqctl` is a command to run, and stays.
    """
    before, command, rest = text.partition("rmqctl ")
    first, *others = re.split("(?=, or )", before)
    if not _fits(first):
        return None
    kept = first + "".join(filter(_fits, others))
    if kept != before and not command:
        kept = kept.rstrip(".") + "."
    return _FLAG.sub(lambda match: _OPTIONS[match.group()], kept) + command + rest


def in_flags(text: str) -> str:
    """Return a text of in_options() with the options of the command line, where they cannot be other words."""
    return _OPTION.sub(lambda match: _FLAGS.get(match.group(), match.group()), text)


def _fits(clause: str) -> bool:
    return "context" not in clause and all(flag in _OPTIONS for flag in _FLAG.findall(clause))


@contextmanager
def with_hints() -> Iterator[None]:
    """Add an error's hint below its sentence in tracebacks; also works as a decorator."""
    try:
        yield
    except RmqctlError as error:
        sentence = in_options(error.sentence) or error.sentence
        shown = error.reworded(sentence) if sentence != error.sentence else error
        hint = None if error.hint is None else in_options(error.hint)
        if hint is not None and hint not in getattr(shown, "__notes__", ()):
            shown.add_note(hint)
        if shown is error:
            raise
        raise shown from None
