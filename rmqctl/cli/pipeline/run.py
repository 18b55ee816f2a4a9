"""rmqctl pipeline run: jobs, several in one session of Spark."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What needs
# Spark is imported when the command runs, so that --help needs none of it.
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.change.options import Confirm, Yes
from rmqctl.cli.dlq.replay_options import LedgerName, ToOrigin, ToTopic
from rmqctl.cli.globals import TABLE_FORMATS
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure

from .shown_results import failures_of, job_item, notes_of, warnings_of
from .shown_values import show_value
from .table_folder import ClusterLabel, known_name_servers

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.pipeline.jobs.definition import Job, ReportField
    from rmqctl.pipeline.run import JobRun

HELP = """\b
Examples:
  rmqctl pipeline run read --topic orders --since 2h --to /data/orders
  rmqctl pipeline run snapshot --tables /data/rocketmq
  rmqctl pipeline run lag --tables /data/rocketmq --html report.html
  rmqctl pipeline run slo --tables /data/rocketmq --max-time-lag 5m --objective 99.9
  rmqctl pipeline run snapshot lag fleet-whatif --tables hdfs:///rocketmq --master yarn
  rmqctl pipeline run audit --topic orders --since 1h --remote sc://spark:15002
  rmqctl pipeline run lag --tables /data/rocketmq -o json | jq '.items[] | select(.health == "STALL")'

\b
Jobs and their options (--limit applies to all):
  read          copy a time range of topics to Parquet or a table, or show it
                --topic --since --until --tag --sql --group --to --to-table
                --overwrite
  snapshot      write the offsets of all groups to the table offset_snapshots
                --tables --cluster-label --group --topic --run-id --recording
                --overwrite
  lag           rate the health of groups from their snapshots
                --tables --cluster-label --group --topic --since --until
                --window --html
  slo           share of time within limits by group and week, error budgets
                --tables --cluster-label --group --since --until --max-lag
                --max-time-lag --objective
  dlq-report    count dead letters by group, origin, tag, reason, time
                --group --since --until --tables --cluster-label --trace-topic
  dlq-replay    send the dead letters of a group again, as dlq replay does
                --group --topic --since --until --tag --to-origin --to-topic
                --ledger --max --reason --yes --confirm
  audit         compare produced, stored and consumed: duplicates, losses,
                latency per 10 minutes --topic --group --since --until
                --tables --cluster-label --trace-topic
  fleet-whatif  simulate other strategies and sizes for every group, from the
                last snapshot --tables --cluster-label --group --topic --since
                --until --strategy --change

Jobs run in the given order. snapshot, lag and slo need neither Java nor Spark (pip install '.[tables]'). For other
jobs, or with --master, --remote or --conf, Spark is started once, by default locally on all cores. It requires Java
17 and PySpark (pip install '.[spark]'). Running a job a second time with the same input changes nothing. Spark's log
is written to a file, whose name is shown if something fails; --debug shows the log itself."""

# The options by the fields of JobOptions that they set.
_FLAGS = {
    "tables": "--tables", "topics": "--topic", "groups": "--group", "since": "--since", "until": "--until",
    "tags": "--tag", "sql": "--sql", "to": "--to", "to_table": "--to-table", "overwrite": "--overwrite",
    "run_id": "--run-id", "recordings": "--recording", "cluster_label": "--cluster-label", "window": "--window",
    "html": "--html", "max_lags": "--max-lag", "max_time_lags": "--max-time-lag", "objective": "--objective",
    "strategies": "--strategy", "changes": "--change",
    "trace_topic": "--trace-topic", "to_topic": "--to-topic", "to_origin": "--to-origin", "ledger": "--ledger",
    "most": "--max", "reason": "--reason",
}  # fmt: skip
# How long a task waits for brokers that do not answer, unless --timeout is given.
_TIMEOUT_S = 30.0
# Formats with one document for all jobs; the others have the rows of one job.
_WHOLE = ("json", "yaml")


def command(
    ctx: typer.Context,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Jobs to run, in order.", show_default=False)],
    tables: Annotated[str | None, typer.Option("--tables", metavar="DIR", help="Folder or URI of the tables.")] = None,
    cluster_label: ClusterLabel = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Topic to read. Repeatable.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="GROUP", help="Group to include. Repeatable.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Start of the time range.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="End of the time range.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAGS", help="Only these tags: 'A || B'.")] = None,
    sql: Annotated[str | None, typer.Option("--sql", metavar="SQL92", help="Filter that the brokers apply.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="DIR", help="Write Parquet to this folder.")] = None,
    to_table: Annotated[
        str | None, typer.Option("--to-table", metavar="NAME", help="Write to this table of Spark's catalog.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing data.")] = False,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Id of the snapshot; a complete one is kept.")
    ] = None,
    recording: Annotated[
        list[str] | None, typer.Option("--recording", metavar="FILE", help="Add recorded samples. Repeatable.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="DURATION", help="Length of the windows to rate. [default: ten snapshots]"),
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write the report as an HTML page.")
    ] = None,
    max_lag: Annotated[
        list[str] | None,
        typer.Option("--max-lag", metavar="[GROUP=]N", help="Most unread messages of a group. Repeatable."),
    ] = None,
    max_time_lag: Annotated[
        list[str] | None,
        typer.Option(
            "--max-time-lag", metavar="[GROUP=]DURATION", help="Highest age of the oldest unread one. Repeatable."
        ),
    ] = None,
    objective: Annotated[
        float | None,
        typer.Option("--objective", metavar="PERCENT", help="Share of time within the limits. [default: 99]"),
    ] = None,
    strategy: Annotated[
        list[str] | None, typer.Option("--strategy", metavar="STRATEGY", help="Strategy to simulate. Repeatable.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--change", metavar="CHANGE", help="Change to simulate, for example '+1 client'. Repeatable."),
    ] = None,
    trace_topic: Annotated[
        str | None, typer.Option("--trace-topic", metavar="TOPIC", help="Topic that clients write traces to.")
    ] = None,
    to_origin: ToOrigin = False,
    to_topic: ToTopic = None,
    ledger: LedgerName = "",
    most: Annotated[
        int | None, typer.Option("--max", metavar="N", help="Send at most N messages.", show_default=False)
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why the change is made, for the ledger.")
    ] = None,
    confirm: Confirm = None,
    yes: Yes = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Show at most N rows per job. [default: 20]")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark master: local[4], spark://..., yarn, k8s://..."),
    ] = None,
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="URL", help="Spark Connect server: sc://HOST:PORT.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Spark setting. Repeatable.")
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    import time

    from rmqctl.cli.output.text import note_to_stderr
    from rmqctl.pipeline.jobs import load_jobs
    from rmqctl.pipeline.jobs.cluster_label import check_label
    from rmqctl.pipeline.jobs.definition import JobOptions
    from rmqctl.pipeline.run import SparkPlace, check_cluster, check_options, check_place, needs_session, run_jobs
    from rmqctl.pipeline.session import require_spark, require_tables

    from .job_consent import require_consent
    from .run_progress import RunProgress

    if cluster_label is not None:
        check_label(cluster_label)
    chosen = load_jobs(jobs)
    place = SparkPlace(master=master, remote=remote, conf=_settings(conf or ()))
    if master is not None and remote is not None:
        raise UsageError("--master and --remote cannot be used together.")
    if limit is not None and limit < 1:
        raise UsageError("--limit must be 1 or more.")
    options = JobOptions(
        now_ms=time.time_ns() // 1_000_000, tables=tables, topics=tuple(topic or ()), groups=tuple(group or ()),
        since=since, until=until, tags=tag, sql=sql, to=to, to_table=to_table, overwrite=overwrite, run_id=run_id,
        recordings=tuple(recording or ()), cluster_label=cluster_label, window=window, html=html,
        max_lags=tuple(max_lag or ()), max_time_lags=tuple(max_time_lag or ()), objective=objective,
        strategies=tuple(strategy or ()), changes=tuple(change or ()), trace_topic=trace_topic, limit=limit,
        to_origin=to_origin, to_topic=to_topic, ledger=ledger, most=most, reason=reason,
    )  # fmt: skip
    asks_cluster = any(job.asks_cluster(options) for job in chosen)
    invocation = Invocation(ctx, needs_cluster=asks_cluster)
    with_spark = needs_session(chosen, place)
    options = _completed(invocation, options, asks_cluster=asks_cluster, has_screen=with_spark)
    _check_display(chosen, invocation.display)
    check_options(chosen, options, _FLAGS)
    check_place(chosen, place)
    require_consent(invocation, chosen, options, confirmed=confirm, is_agreed=yes)
    if with_spark:
        require_spark(remote)
    if tables is not None:
        require_tables()
    if with_spark:
        check_cluster(chosen, options)
    if any(job.needs_spark and job.asks_cluster(options) for job in chosen):
        # Spark's tasks know only what they are given: brokers that they do not see are found here.
        invocation.display.findings.add(invocation.ask(lambda client: _find_missing(client, options.topics)))
    shown = _Shown(chosen, invocation.display)
    display = invocation.display
    has_progress = with_spark and display.with_notes and not invocation.is_debugging
    try:
        with RunProgress(is_wanted=has_progress) as progress:
            for ran in run_jobs(chosen, options, place, is_quiet=not invocation.is_debugging, on_step=progress.show):
                progress.pause()
                shown.add(ran)
    except KeyboardInterrupt as interrupt:
        for said in interrupt.args:
            note_to_stderr(_printable(said))
        raise
    return shown.end()


async def _find_missing(client: "Client", topics: Sequence[str]) -> list[Failure]:
    from rmqctl.client.partial_answers import missing_brokers

    missing = missing_brokers(client, await client.cluster(), topics or None)
    return [Failure(name, "messages and offsets", error) for name, error in missing.items()]


def _completed(invocation: Invocation, options: Any, *, asks_cluster: bool, has_screen: bool) -> Any:
    """Return the options with full names, and with access to the cluster if a job asks it."""
    from functools import partial

    from msgspec.structs import replace

    from rmqctl.cli.change.execution import this_process

    access = replace(invocation.access(), timeout_s=invocation.timeout_s(_TIMEOUT_S)) if asks_cluster else None
    waiting = "" if has_screen else "Querying the cluster"
    return replace(
        options,
        access=access,
        ask=partial(invocation.ask, attempt_access=access, waiting=waiting) if asks_cluster else None,
        name_servers=known_name_servers(invocation),
        who=this_process(invocation),
        to_topic=None if options.to_topic is None else invocation.full_name(options.to_topic),
        topics=tuple(invocation.full_name(name) for name in options.topics),
        groups=tuple(invocation.full_name(name) for name in options.groups),
        max_lags=tuple(_full_limit(invocation, text) for text in options.max_lags),
        max_time_lags=tuple(_full_limit(invocation, text) for text in options.max_time_lags),
    )


def _full_limit(invocation: Invocation, text: str) -> str:
    name, separator, limit = text.rpartition("=")
    return f"{invocation.full_name(name) if name else name}{separator}{limit}"


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.startswith("spark."):
            raise UsageError(
                f"--conf expects spark.KEY=VALUE, not {pair!r}.", hint="Write, for example, spark.executor.memory=4g."
            )
        settings[key] = value
    return settings


def _columns(job: "Job", shows: Collection[str] = ()) -> list[Column]:
    return [_column(field, is_wide=field.is_wide and field.key not in shows) for field in job.fields]


def _column(field: "ReportField", *, is_wide: bool) -> Column:
    kind = str(field.kind)
    return Column(
        field.heading,
        field.key,
        show=lambda item: show_value(kind, item.get(field.key)),
        is_number=kind in ("number", "share"),
        is_wide=is_wide,
        gives_way=field.gives_way,
        is_sentence=field.is_sentence,
    )


def _check_display(jobs: "Sequence[Job]", display: Display) -> None:
    """Raise UsageError for formats and options that require a single job, and for unknown columns."""
    from rmqctl.cli.output.render import choose_columns

    if len(jobs) == 1:
        choose_columns(_columns(jobs[0]), display)
        return
    if display.format not in (*_WHOLE, *TABLE_FORMATS, "jsonl"):
        raise UsageError(f"-o {display.format} requires a single job.", hint="Use -o json, or run one job at a time.")
    if display.columns or display.sort_keys or display.conditions:
        raise UsageError("--columns, --sort and --where require a single job.")


class _Shown:
    """Shows a table after each job, or one document after all of them."""

    def __init__(self, jobs: "Sequence[Job]", display: Display) -> None:
        self._is_one = len(jobs) == 1
        self._display = display
        self._ran: list[JobRun] = []
        self._failures: list[Failure] = []

    def add(self, ran: "JobRun") -> None:
        """Add a job's result. Raises its error if it is the first job."""
        if ran.error is not None and not self._ran:
            raise ran.error
        self._ran.append(ran)
        failures = failures_of(ran)
        self._failures += failures
        if self._display.format in TABLE_FORMATS:
            self._show_table(ran)

    def _show_table(self, ran: "JobRun") -> None:
        import sys

        from rmqctl.cli.output.render import render
        from rmqctl.cli.output.text import to_stderr

        if ran.error is not None:
            to_stderr(f"rmqctl: job {ran.job.name} failed: {_printable(ran.error.sentence)}")
            if ran.error.hint is not None:
                to_stderr(f"        {_printable(ran.error.hint)}")
            return
        if not self._is_one and ran.outcome is not None and ran.outcome.rows:
            sys.stdout.write(f"{'' if self._ran[0] is ran else chr(10)}{ran.job.name}\n")
        render(self._listing([ran], _columns_of(ran)), self._display)

    def end(self) -> int:
        """Write the remaining output, and return the exit code."""
        from rmqctl.cli.output.render import render

        listing = self._listing(self._ran, _columns_of(self._ran[0]) if self._is_one else ())
        code = listing.exit_code if self._display.format in TABLE_FORMATS else render(listing, self._display)
        is_unconfirmed = any(ran.outcome is not None and ran.outcome.is_unconfirmed for ran in self._ran)
        return 9 if code == 0 and is_unconfirmed else code

    def _listing(self, all_ran: "Sequence[JobRun]", columns: Sequence[Column]) -> Listing:
        rows = [{"job": ran.job.name, **row} for ran in all_ran if ran.outcome is not None for row in ran.outcome.rows]
        notes = [note for ran in all_ran for note in notes_of(ran)]
        return Listing(
            kind="PipelineRun",
            columns=columns,
            items=rows,
            name=_name(columns),
            failures=self._failures if all_ran is self._ran else [f for ran in all_ran for f in failures_of(ran)],
            extra={"jobs": [job_item(ran) for ran in all_ran]},
            notes=notes if rows else notes[1:],
            warnings=[sentence for ran in all_ran for sentence in warnings_of(ran)],
            empty="" if not notes else notes[0],
        )


def _columns_of(ran: "JobRun") -> list[Column]:
    return _columns(ran.job, () if ran.outcome is None else ran.outcome.shows)


def _name(columns: Sequence[Column]) -> Any:
    def name(item: Item) -> str:
        return str(item.get(columns[0].key, "")) if columns else str(item["job"])

    return name


def _printable(text: str) -> str:
    from rmqctl.cli.output.text import printable

    return printable(text)
