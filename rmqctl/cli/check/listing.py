"""The result of rmqctl check as a listing, written to standard output or to a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import compose, render
from rmqctl.cli.output.text import drop_rest
from rmqctl.gate.limits import GateStatus
from rmqctl.model.failure import Failure
from rmqctl.text.times import time_fields

from .display import COLUMNS
from .formats import FORMATS
from .results import CheckRow, GateResult


def write_result(result: GateResult, display: Display, outfile: str | None) -> int:
    """Write the result and return the exit code; with a file, standard output gets the text (nothing with -q)."""
    listing = to_listing(result)
    # The failures of the run are part of the result.
    display.findings.failures = ()
    if outfile is not None:
        from rmqctl.page.file import replace_file

        replace_file(outfile, compose(listing, display))
        display = replace(display, format="text", columns=(), conditions=(), sort_keys=())
        if not display.with_notes:
            listing = replace(listing, own_formats={"text": str})  # no text, but warnings
    try:
        render(listing, display)
    except BrokenPipeError:
        # A reader that has seen enough does not make the result OK.
        drop_rest(sys.stdout)
    return result.status.exit_code


def to_listing(result: GateResult) -> Listing:
    """Return all results, a row for each limit of each group."""
    rows = result.rows
    return Listing(
        kind="CheckList",
        columns=COLUMNS,
        items=[_item(row) for row in rows],
        name=lambda item: f"{item['group'] or 'cluster'} {item['limit']} {item['status']}",
        failures=[*_failures(result)],
        extra={
            "status": result.status.value,
            "exitCode": result.status.exit_code,
            "summary": {each.value: sum(row.result.status is each for row in rows) for each in GateStatus},
            **time_fields("readTimestamp", result.at_ms),
            "waitedMs": result.waited_ms,
            "readingCount": result.reading_count,
        },
        own_formats={name: partial(make, result) for name, make in FORMATS.items()},
    )


def _failures(result: GateResult) -> Iterator[Failure]:
    for cluster in result.clusters:
        for group in cluster.groups:
            if group.error is not None:
                yield Failure.of_group(group.group, group.error)
        yield from cluster.failures


def _item(row: CheckRow) -> dict[str, Any]:
    found, is_measured = row.result, row.unit is not None
    return {
        "context": row.context,
        "group": row.group,
        "topics": list(row.topics),
        "limit": found.kind.value,
        "status": found.status.value,
        "value": found.value.value,
        "valueAtLeast": found.value.at_least if is_measured else None,
        "unit": row.unit,
        "warning": found.warning,
        "critical": found.critical,
        "sentence": found.sentence,
        "hint": found.hint,
        "nextCommand": found.next_command,
        "reasons": {} if found.value.reason is None else {"value": found.value.reason},
    }
