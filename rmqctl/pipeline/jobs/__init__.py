"""The jobs of `pipeline run`, each in a folder with what only that job uses.

Their names are listed here, so that listing them imports no job.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rmqctl.errors import UsageError
from rmqctl.text.names import hint_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .definition import Job

# In the order in which they are usually run.
JOBS = {
    "read": "Read a range of messages, and write them to Parquet or a table, or show them.",
    "snapshot": "Write the offsets of all groups, current or recorded, to the table offset_snapshots.",
    "lag": "Judge groups by their snapshots: health, trends, stuck queues, skew, owners.",
    "slo": "Show how long groups were within limits in each week, and what is left of their error budgets.",
    "dlq-report": "Count dead letters by group, origin, tag, reason and time.",
    "dlq-replay": "Send the dead letters of a group again, each once; resumes what rmqctl dlq replay began.",
    "audit": "Compare produced, stored and consumed messages in windows of 10 minutes: duplicates, losses, latency.",
    "fleet-whatif": "Try other strategies and sizes on every group of the last snapshot.",
}


def load_jobs(names: Iterable[str]) -> list[Job]:
    """Return jobs by name, in the given order. Raises UsageError for an unknown name, and for a repeated one."""
    jobs: list[Job] = []
    for name in names:
        if name not in JOBS:
            raise UsageError(
                f"Unknown job {name!r}.",
                hint=hint_for(name, JOBS),
            )
        if any(job.name == name for job in jobs):
            raise UsageError(f"The job {name} is named twice.")
        jobs.append(import_module(f"{__name__}.{name.replace('-', '_')}.job").JOB)
    return jobs
