"""Reads the dead letters that are wanted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct, field

from rmqctl.model.failure import Failure
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_reading import Letter
    from rmqctl.client.core import Client

    from .conditions import LetterQuery


class LetterResult(Struct):
    """The result of a reading. `is_cut`: more dead letters matched than the limit allows."""

    failures: list[Failure] = field(default_factory=list)
    read_count: int = 0
    is_cut: bool = False


async def read_letters(
    client: Client, wanted: LetterQuery, take: Callable[[list[Letter]], None], *, limit: int | None = None,
    with_progress: bool = False,
) -> LetterResult:  # fmt: skip
    """Read, passing matching dead letters to `take` as they are found, the oldest first.

    Raises what find_letters() raises.
    """
    from rmqctl.admin.groups.letter_reading import LetterReading, find_letters
    from rmqctl.cli.output.progress import ScanProgress

    outcome = LetterResult()
    letters = await find_letters(client, wanted.group, since_ms=wanted.filter.since_ms, until_ms=wanted.filter.until_ms)
    left = limit
    with ScanProgress(f"Reading {letters.topic}", is_wanted=with_progress) as progress:
        reading = LetterReading(client, letters, wanted.filter, on_progress=progress.show)
        async with aclosing(reading.run()) as batches:
            async for found in batches:
                if wanted.match is not None:
                    found = [letter for letter in found if wanted.match.accepts(letter)]
                if left is not None and len(found) > left:
                    outcome.is_cut = True
                    found = found[:left]
                if found:
                    take(found)
                if outcome.is_cut:
                    break
                left = None if left is None else left - len(found)
    outcome.failures = reading.failures
    outcome.read_count = reading.read_count
    return outcome


def unfit_notes(wanted: LetterQuery) -> list[str]:
    """Return a sentence about the bodies that --body-match could not be evaluated on."""
    if wanted.match is None or not wanted.match.unfit_count:
        return []
    messages = counted(wanted.match.unfit_count, "message")
    return [f"--body-match could not be evaluated on {messages}: not JSON, or not of the expected type."]
