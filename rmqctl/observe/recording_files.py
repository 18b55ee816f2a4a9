"""The files of recordings: opened, also compressed ones, and read one after another."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.rules.file_claims import require_fit
from rmqctl.text.wildcards import matching

from .recording import RecordedSample, read_recording


def read_recordings(names: Iterable[str], groups: Sequence[str]) -> Iterator[RecordedSample]:
    """Yield the samples of the selected groups in these files, in their order; without `groups` those of all groups.

    `groups` may have wildcards. Raises NotFoundError for a missing file, and UsageError for an invalid line or for
    groups that no recording has.
    """
    recorded_groups: set[str] = set()
    for name in names:
        try:
            with gzip.open(name) if name.endswith(".gz") else Path(name).open("rb") as lines:
                for recorded in read_recording(lines, name):
                    recorded_groups.add(recorded.sample.group)
                    if not groups or matching(groups, [recorded.sample.group]):
                        yield recorded
        except FileNotFoundError:
            raise NotFoundError("File", name) from None
        except (OSError, EOFError) as error:
            reason = getattr(error, "strerror", None) or "it is not a complete gzip file"
            raise UsageError(f"Cannot read {name}: {reason}.") from None
    lacking = [wanted for wanted in groups if not matching([wanted], recorded_groups)]
    hint = "Use the name of a group in the recording, or omit it."
    require_fit("The recording", "group", recorded_groups, lacking, hint=hint)
