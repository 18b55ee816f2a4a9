"""What Spark's errors say: one of ours that a task or a reader raised, or Spark's own."""

from __future__ import annotations

import re

from rmqctl import errors
from rmqctl.errors import RmqctlError

from .source.hints import in_flags

_OURS = re.compile(r"^(?:\w+\.)*rmqctl\.errors\.(\w+): (.+)$", re.MULTILINE)
# Lines that can follow the error's line: of tracebacks of Python and the JVM, and of Spark's explanations.
_NO_HINT = re.compile(r"\s|Traceback|During handling|The above|File |at |JVM|Driver stacktrace|SQLSTATE|$")


def explain(error: Exception) -> RmqctlError:
    """Return the error in a text of Spark: one of ours that a task or a reader raised, or Spark's own.

    Spark keeps only an error's text: the line with its class and sentence, followed by the hint (see hints.py).
    """
    text = str(error)
    found = list(_OURS.finditer(text))
    if not found:
        return _sparks_own(text)
    name, sentence = found[-1].groups()
    kind = getattr(errors, name, RmqctlError)
    if not (isinstance(kind, type) and issubclass(kind, RmqctlError)):
        kind = RmqctlError
    after = text[found[-1].end() :].lstrip("\n").split("\n", 1)[0]
    made = kind.__new__(kind, sentence)
    made.sentence = in_flags(sentence)
    made.hint = None if _NO_HINT.match(after) else in_flags(after.strip())
    return made


_PACKAGE = re.compile(r"^(?:\w+\.)+(?=\w+: )")
_LOST_TASK = re.compile(r"Lost task .*?\): (?:\w+\.)+(\w+: .+)")
_NO_MODULE = (
    "Install rmqctl's libraries in the Python of the executors (pip install '.[spark]'),"
    " or name another Python with --conf spark.pyspark.python=FILE."
)
_KNOWN = (
    (
        "PATH_NOT_FOUND", "Spark cannot read {path}.",
        "Make sure that Spark reaches the folder of the tables by the same path as this machine.",
    ),
    ("PATH_ALREADY_EXISTS", "Path {path} already exists.", "Add --overwrite to replace it."),
    ("TABLE_OR_VIEW_ALREADY_EXISTS", "The table already exists.", "Add --overwrite to replace it."),
    ("OutOfMemoryError", "Spark ran out of memory.", "Give it more, for example --conf spark.driver.memory=4g."),
    (
        "Cannot run program", "Spark could not start the Python of its tasks.",
        "Make sure that every machine has the Python of spark.pyspark.python or PYSPARK_PYTHON, also this one.",
    ),
    ("No space left on device", "A disk is full.", "Use another one with --conf spark.local.dir=DIR."),
)  # fmt: skip


def _sparks_own(text: str) -> RmqctlError:
    for mark, sentence, hint in _KNOWN:
        if mark in text:
            path = re.search(r"[Pp]ath (\S+) already exists|[Pp]ath does not exist: (\S+?)\.?\s", f"{text} ")
            return RmqctlError(
                sentence.format(path=(path.group(1) or path.group(2)) if path else "").replace("  ", " "), hint=hint
            )
    if (raised := _python_error(text)) is not None:
        is_missing = raised.startswith("ModuleNotFoundError")
        return RmqctlError(
            f"Spark failed: a Python worker ended with {raised[:300]}", hint=_NO_MODULE if is_missing else None
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        # The JVM's error is below py4j's own line.
        lines = [_PACKAGE.sub("", lines[1].removeprefix(": "))] if len(lines) > 1 else lines
    first = lines[0] if lines else "no reason given"
    if (failed := _LOST_TASK.search(first)) is not None:
        first = failed.group(1)
    return RmqctlError(f"Spark failed: {first[:300]}")


def _python_error(text: str) -> str | None:
    """Return the line that ends the last traceback of a text, or None without a traceback."""
    before, mark, after = text.rpartition("Traceback (most recent call last):")
    if not mark:
        return None
    indent = before.rpartition("\n")[2]
    depth = len(indent) if indent.isspace() else 0
    lines = (line for line in after.splitlines() if line.strip())
    return next((line.strip() for line in lines if len(line) - len(line.lstrip()) <= depth), None)
