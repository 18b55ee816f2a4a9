"""The job `lag`: judges groups by their snapshots (health, trends, stuck queues, skew, owners); also as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqctl.page.file import require_file
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind
from rmqctl.pipeline.session import require_modules

from .span import given_window_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _check(options: JobOptions) -> None:
    given_window_ms(options)
    for name in ("since", "until"):
        options.time_ms(name, 0)
    modules = {"numpy": "NumPy"}
    if options.html is not None:
        require_file("--html", options.html)
        modules["matplotlib"] = "Matplotlib"
    require_modules(modules, extra="tables")


def _run(_spark: SparkSession | None, options: JobOptions) -> JobResult:
    from .run import run

    return run(options)


JOB = Job(
    name="lag",
    takes=frozenset({"tables", "cluster_label", "groups", "topics", "since", "until", "window", "html"}),
    needs=frozenset({"tables"}),
    check=_check,
    run=_run,
    needs_spark=False,
    fields=(
        ReportField("group", "GROUP"),
        ReportField("clusterLabel", "CLUSTER LABEL", is_wide=True),
        ReportField("cluster", "CLUSTER", is_wide=True),
        ReportField("health", "HEALTH"),
        ReportField("queueCount", "QUEUES", ValueKind.NUMBER, gives_way=True),
        ReportField("lag", "LAG", ValueKind.NUMBER),
        ReportField("lagAtStart", "LAG BEFORE", ValueKind.NUMBER, is_wide=True),
        ReportField("lost", "LOST", ValueKind.NUMBER, is_wide=True),
        ReportField("slopeMsgsPerS", "LAG/S", ValueKind.NUMBER),
        ReportField("produceMsgsPerS", "IN/S", ValueKind.NUMBER, is_wide=True),
        ReportField("consumeMsgsPerS", "OUT/S", ValueKind.NUMBER, is_wide=True),
        ReportField("etaMs", "CAUGHT UP IN", ValueKind.DURATION, gives_way=True),
        ReportField("stuckCount", "STUCK", ValueKind.NUMBER),
        ReportField("lagSkew", "SKEW", ValueKind.NUMBER, is_wide=True),
        ReportField("memberLagSkew", "MEMBER SKEW", ValueKind.NUMBER, is_wide=True),
        ReportField("clientCount", "CLIENTS", ValueKind.NUMBER, is_wide=True),
        ReportField("ownerChangeCount", "OWNER CHANGES", ValueKind.NUMBER, gives_way=True),
        ReportField("worstQueue", "WORST QUEUE"),
        ReportField("leftTopics", "LEFT TOPICS", is_wide=True),
        ReportField("goneTopics", "GONE TOPICS", is_wide=True),
        ReportField("reason", "WHY", is_sentence=True),
    ),
)
