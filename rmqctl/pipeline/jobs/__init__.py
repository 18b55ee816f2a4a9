"""The jobs of `pipeline run`, a file each. Their names stand here, so that nobody needs to import them to know them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rmqctl.errors import UsageError
from rmqctl.rules.names import closest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqctl.pipeline.job import Job

# In the order in which one makes sense after the other.
JOBS = {
    "read": "A stretch of topics into Parquet or a table, or shown.",
    "snapshot": "The offsets of all groups, now or as recorded, into the table offset_snapshots.",
    "lag": "How groups do, judged by their snapshots: verdicts, trends, stuck queues, skew, owners.",
    "dlq-report": "Dead letters by group, origin, tag, reason and time.",
    "audit": "Produced, stored and consumed in windows of 10 minutes: duplicates, losses, latency.",
    "fleet-whatif": "Every group of the last snapshot with other strategies and sizes.",
}


def load_jobs(names: Iterable[str]) -> list[Job]:
    """Return jobs by their names, in this order. Raises UsageError for one that there is not, and one given twice."""
    jobs: list[Job] = []
    for name in names:
        if name not in JOBS:
            like = closest(name, JOBS)
            raise UsageError(
                f"There is no job {name!r}.",
                hint=f"Did you mean {like[0]}?" if like else f"Known are {', '.join(JOBS)}.",
            )
        if any(job.name == name for job in jobs):
            raise UsageError(f"The job {name} is named twice.")
        jobs.append(import_module(f"{__name__}.{name.replace('-', '_')}").JOB)
    return jobs
