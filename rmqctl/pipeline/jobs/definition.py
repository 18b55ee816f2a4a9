"""What a job is: its options, its work in a session, and its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from rmqctl.admin.messages.trace import TRACE_TOPIC
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.receipt import Who
from rmqctl.text.option_errors import option_errors
from rmqctl.text.times import Edge, parse_time

from .cluster_label import label_of


class JobOptions(Struct, frozen=True, kw_only=True):
    """The options of a run, for all its jobs; None and () when not given. Job.takes lists those of one job.

    `tables` is the folder of tables: a path or URI that this machine and Spark reach. `since` and `until` are as the
    user wrote them. `access` is set only when a job asks a cluster; `ask` runs a question with a client that knows what
    this machine remembers of the cluster. `name_servers` are those that name the cluster without a `cluster_label`.
    File paths (`html`, `recordings`) are on this machine. `who` runs the job, None for this process without a context.
    """

    now_ms: int
    access: Access | None = None
    ask: Callable[[Callable[[Client], Awaitable[Any]]], Any] | None = None
    name_servers: str | None = None
    tables: str | None = None
    cluster_label: str | None = None
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    tags: str | None = None
    sql: str | None = None
    to: str | None = None
    to_table: str | None = None
    overwrite: bool = False
    run_id: str | None = None
    recordings: tuple[str, ...] = ()
    window: str | None = None
    html: str | None = None
    max_lags: tuple[str, ...] = ()
    max_time_lags: tuple[str, ...] = ()
    objective: float | None = None
    strategies: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    trace_topic: str | None = None
    to_topic: str | None = None
    to_origin: bool = False
    ledger: str = ""
    most: int | None = None
    reason: str | None = None
    who: Who | None = None
    limit: int | None = None

    def time_ms(self, name: str, default_ms: int) -> int:
        """Return `since` or `until` as epoch ms, or the default when it is not given. Raises UsageError."""
        text: str | None = getattr(self, name)
        if text is None:
            return default_ms
        with option_errors(f"--{name}"):
            at = parse_time(text, self.now_ms)
        if isinstance(at, Edge):
            return 0 if at is Edge.EARLIEST else self.now_ms
        return at

    def cluster(self) -> Access:
        """Return the access to the cluster. Raises UsageError when no name servers are given."""
        if self.access is None:
            raise UsageError("The job needs a cluster.", hint="Add -n HOST:PORT with its name servers.")
        return self.access

    def label(self) -> str:
        """Return the label of the cluster whose rows are written. Raises UsageError when nothing names it."""
        asked = None if self.access is None else self.access.name_servers
        return label_of(self.cluster_label, self.name_servers or asked)

    def traces(self) -> str:
        """Return the topic that clients write their traces to."""
        return self.trace_topic or TRACE_TOPIC


class ValueKind(StrEnum):
    """How a value of a report is displayed."""

    TEXT = "text"
    NUMBER = "number"
    SHARE = "share"  # from 0 to 1
    TIME = "time"  # epoch ms
    MINUTE = "minute"  # epoch ms of a whole minute
    DURATION = "duration"  # ms


class ReportField(Struct, frozen=True):
    """A column of a report: its key in JSON, its heading in tables. `is_wide`: shown with -o wide only.

    `gives_way`: hidden on a terminal that is too narrow. `is_sentence`: shown below its row there.
    """

    key: str
    heading: str
    kind: ValueKind = ValueKind.TEXT
    is_wide: bool = False
    gives_way: bool = False
    is_sentence: bool = False


class WrittenTable(Struct, frozen=True):
    """A table or file that a job wrote; `row_count` is set only when the rows were counted."""

    path: str
    row_count: int | None = None


class JobResult(Struct, frozen=True):
    """The result of a job.

    `rows` are plain values by the keys of Job.fields, possibly only the first ones. `row_count` counts all rows;
    `is_cut` says that there are more rows when they were not counted. `shows` are wide columns without which these rows
    could be mistaken for each other. `facts` are single values, by their keys in JSON. `warnings` are sentences without
    which the rows would mislead: they are shown with -q, too.
    `failures` are the parts of the cluster that could not be read, or what could not be done; the result has the rest.
    `is_unconfirmed`: something was sent whose result is unknown, or that is stored less safely than configured.
    """

    rows: Sequence[Mapping[str, Any]] = ()
    row_count: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    written: tuple[WrittenTable, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    is_cut: bool = False
    shows: frozenset[str] = frozenset()
    is_unconfirmed: bool = False


class PlannedChange(Struct, frozen=True):
    """What a job would change, for the consent to it: a name to confirm it by, and sentences that say it."""

    name: str
    sentences: tuple[str, ...]


def never(options: JobOptions) -> bool:  # noqa: ARG001
    """Return False: the job needs no cluster."""
    return False


def always(options: JobOptions) -> bool:  # noqa: ARG001
    """Return True: the job needs a cluster, whatever its options."""
    return True


class Job(Struct, frozen=True, kw_only=True):
    """A job of `pipeline run`.

    `takes` are the fields of JobOptions that the job accepts, `needs` those that it requires. `check` validates the
    options alone and raises UsageError. `change` is set for a job that needs consent. `look` asks the cluster before
    Spark starts, so that mistakes are reported early. When `asks_cluster` returns true, `JobOptions.access` is set.
    `run` does the work in a session; it gets None if no session runs and the job does not need one (`needs_spark`).
    """

    name: str
    takes: frozenset[str]
    run: Callable[[Any, JobOptions], JobResult]
    needs_spark: bool = True
    fields: tuple[ReportField, ...] = ()
    needs: frozenset[str] = frozenset()
    asks_cluster: Callable[[JobOptions], bool] = never
    check: Callable[[JobOptions], None] | None = None
    change: Callable[[JobOptions], PlannedChange] | None = None
    look: Callable[[Client, JobOptions], Awaitable[None]] | None = None
