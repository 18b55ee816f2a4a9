"""Reports about offsets that are not stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rmqctl.errors import UnreachableError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.text.words import listed

from .problems import Problems


def report_stored(problems: Problems, asked: Iterable[MessageQueue], failures: Sequence[Failure]) -> None:
    """Report what could not be stored of these queues, by broker, and which brokers store again."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        is_of_all = isinstance(failure.error, UnreachableError)
        what = by_reason.setdefault((failure.broker_name or "", failure.error.sentence), [])
        what += [] if is_of_all else [failure.what]
    for (broker_name, reason), what in by_reason.items():
        at = f" at {broker_name}" if broker_name else ""
        start = f"Not stored{at}: {listed(what)}" if what else f"No offsets are stored{at}"
        problems(ConsumerWarning.STORE, f"{start}: {reason}", broker_name)
    if problems.has_open:
        stored = {place for mq in asked for place in ("", mq.broker_name)}
        for name in stored - {broker_name for broker_name, _ in by_reason}:
            where = f" at {name}" if name else ""
            problems.works(ConsumerWarning.STORE, name, f"Offsets are stored{where} again")
