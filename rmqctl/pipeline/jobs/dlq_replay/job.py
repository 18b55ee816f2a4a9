"""The job `dlq-replay`: sends the dead letters of a group again, each once, by the tasks of Spark.

This process reads and plans, and has the ledger of `rmqctl dlq replay`: either can finish what the other began. Each
window is in the ledger before tasks send it, with the queue of each message and the end of this queue. When all is
sent, the copies on the targets are counted.
"""

from __future__ import annotations

from asyncio import CancelledError
from functools import partial
from typing import TYPE_CHECKING

from rmqctl.admin.groups.letter_reading import find_letters
from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.changes.dlq.lanes import BrokerLanes
from rmqctl.changes.dlq.outcome import ReplayOutcome
from rmqctl.changes.dlq.plan import ReplayPlan, with_failures
from rmqctl.changes.dlq.reconciliation import check_copies
from rmqctl.changes.dlq.topic_source import TopicLetters
from rmqctl.changes.dlq.work import ReplayWork, chosen_target
from rmqctl.changes.interrupts import Interrupts
from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.model.names import require_no_system_group
from rmqctl.net.file_lock import require_file_locks
from rmqctl.pipeline.asking import ask_cluster
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, PlannedChange, ReportField, ValueKind, always
from rmqctl.pipeline.source.task_access import task_access
from rmqctl.rules.message_filters.tags import parse_tags
from rmqctl.state.process import current_who
from rmqctl.text.option_errors import option_errors
from rmqctl.text.wildcards import is_pattern
from rmqctl.text.words import counted

from .spark_lanes import SparkLanes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqctl.changes.dlq.ledger import Ledger
    from rmqctl.changes.dlq.run import Replay

# The dead letters of one window, which Spark sends as one job.
_WINDOW_COUNT = 20_000


def _group(options: JobOptions) -> str:
    if len(options.groups) != 1 or is_pattern(options.groups[0]):
        raise UsageError(
            "The job dlq-replay needs the name of one group.", hint="Run it for each group: --group GROUP."
        )
    (group,) = options.groups
    require_no_system_group(group)
    return group


def _wanted(options: JobOptions) -> MessageFilter:
    since_ms = None if options.since is None else options.time_ms("since", 0)
    until_ms = None if options.until is None else options.time_ms("until", options.now_ms)
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise UsageError("--since is after --until.")
    with option_errors("--tag"):
        tags = frozenset[str]() if options.tags is None else parse_tags(options.tags)
    return MessageFilter(since_ms=since_ms, until_ms=until_ms, tags=tags, origin_topics=frozenset(options.topics))


def _check(options: JobOptions) -> None:
    require_file_locks("Replaying dead letters")
    _work(options)
    if options.most is not None and options.most < 1:
        raise UsageError("--max must be 1 or more.")


def _work(options: JobOptions) -> ReplayWork:
    group = _group(options)
    target = chosen_target(group, to_origin=options.to_origin, to_topic=options.to_topic)
    return ReplayWork(group, target, options.ledger, options.most, TopicLetters(group, _wanted(options)).source)


def _change(options: JobOptions) -> PlannedChange:
    work = _work(options)
    where = "their original topics" if work.target.topic is None else f"topic {work.target.topic}"
    sentences = (
        f"dlq-replay sends the dead letters of group {work.group} to {where}. They cannot be taken back.",
        f"For the plan: rmqctl dlq replay {work.group} --dry-run, with the same options.",
    )
    return PlannedChange(work.group, sentences)


async def _look(client: Client, options: JobOptions) -> None:
    work = _work(options)
    await work.check_target(client)
    await find_letters(client, work.group)


def _run(spark: SparkSession, options: JobOptions) -> JobResult:
    _require_tasks_of_this_process(spark)
    ask = options.ask or partial(ask_cluster, options.cluster(), open_ended=True)
    outcome = ReplayOutcome()
    # Spark's own handler would end its tasks in the middle of a window.
    with Interrupts() as interrupts:
        try:
            result: JobResult = ask(partial(_replay, interrupts, outcome, spark=spark, options=options))
        except (KeyboardInterrupt, CancelledError):
            stored = f"{counted(outcome.stored_count, 'dead letter')} sent"
            raise KeyboardInterrupt(f"Interrupted: {stored}. Run the same job again to resume.") from None
    return result


def _require_tasks_of_this_process(spark: SparkSession) -> None:
    """Raise UsageError if tasks could send twice, or after this process has ended, or if the ledger is elsewhere."""
    if not hasattr(spark, "_jsparkSession"):
        raise UsageError(
            "dlq-replay does not run with Spark Connect: the server would continue when this process has ended."
        )
    conf = spark.sparkContext.getConf()
    if conf.get("spark.speculation", "false").lower() == "true":
        raise UsageError("dlq-replay does not run with spark.speculation: two attempts would send the same messages.")
    if conf.get("spark.submit.deployMode", "client") == "cluster":
        raise UsageError(
            "dlq-replay does not run with --deploy-mode cluster: the ledger of what was sent is on this machine.",
            hint="Use --deploy-mode client.",
        )


async def _replay(
    interrupts: Interrupts, outcome: ReplayOutcome, client: Client, *, spark: SparkSession, options: JobOptions
) -> JobResult:
    interrupts.watch()
    work = _work(options)
    plan = await work.plan(client, lambda _, __: None)
    if plan.most_count:
        if plan.obstacle is not None:
            raise plan.obstacle
        await _send(client, spark, options, work, plan, outcome)
    return _result(work, plan, outcome)


async def _send(
    client: Client, spark: SparkSession, options: JobOptions, work: ReplayWork, plan: ReplayPlan, outcome: ReplayOutcome
) -> None:
    access = task_access(options.cluster())

    def sender(ledger: Ledger, producer_group: str) -> SparkLanes:
        return SparkLanes(spark, access, ledger.id, producer_group, BrokerLanes(client, producer_group), outcome)

    async def reconcile(replay: Replay, ledger: Ledger) -> None:
        outcome.failures += await check_copies(client, ledger.id, replay.copies)

    with outcome.noting_end(plan.most_count):
        await work.run(
            client, plan, outcome, options.who or current_who(None), options.reason, reconcile, sender,
            window_count=_WINDOW_COUNT,
        )  # fmt: skip


def _result(work: ReplayWork, plan: ReplayPlan, outcome: ReplayOutcome) -> JobResult:
    rows = outcome.items()
    failures = with_failures(outcome.failures, plan.unresolved if plan.most_count else plan.failures)
    notes = [f"Sent {counted(outcome.stored_count, 'dead letter')} of group {work.group}."]
    return JobResult(
        rows=rows,
        row_count=len(rows),
        facts={
            "group": work.group,
            "target": work.target.kind,
            "plannedCount": plan.count,
            "notSent": {str(left): count for left, count in plan.not_sent.items()},
            "leftCount": plan.left_count,
            "summary": outcome.summary(),
        },
        notes=(*notes, *plan.notes(work.most), *outcome.notes()),
        failures=tuple(failures),
        is_unconfirmed=outcome.is_unconfirmed,
    )


_FIELDS = (
    ReportField("targetTopic", "TO"),
    ReportField("count", "SENT", ValueKind.NUMBER),
    ReportField("earlierCount", "SENT-EARLIER", ValueKind.NUMBER, is_wide=True),
)

JOB = Job(
    name="dlq-replay",
    takes=frozenset({
        "groups", "topics", "since", "until", "tags", "to_origin", "to_topic", "ledger", "most", "reason",
    }),
    needs=frozenset({"groups"}),
    fields=_FIELDS,
    asks_cluster=always,
    check=_check,
    change=_change,
    look=_look,
    run=_run,
)  # fmt: skip
