"""rmqctl pipeline, as far as it goes without Spark: what is refused before anything starts."""

from __future__ import annotations

import json
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from rmqctl.cli.pipeline.shown_results import cut_of
from rmqctl.pipeline.jobs import JOBS, load_jobs
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult, WrittenTable
from rmqctl.pipeline.run import JobRun
from tests.cli.calls import call, closed_address, spawn
from tests.cli.change.seeded_sandbox import seeded

Captured = pytest.CaptureFixture[str]
_NOWHERE = ("-n", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (["red", "--topic", "T"], "Unknown job 'red'.", "Did you mean read?"),
        (["sort", "--topic", "T"], "Unknown job 'sort'.", f"Use one of: {', '.join(JOBS)}."),
        (["read", "read", "--topic", "T"], "The job read is named twice.", None),
        (["read"], "The job read needs --topic.", None),
        (
            ["read", "--topic", "T", "--html", "x"],
            "--html is not supported by read.", "rmqctl pipeline run --help",
        ),
        (
            ["read", "--topic", "T", "--since", "soon"],
            "--since: invalid time 'soon': use 2026-11-21T10:00Z",
            "earliest, latest, group or JSON.",
        ),
        (["read", "--topic", "T", "--since", "group"], "--since is group, but --group", None),
        (["read", "--topic", "T", "--to", "a", "--to-table", "b"], "--to and --to-table cannot be combined.", None),
        (["read", "--topic", "T", "--overwrite"], "--overwrite requires --to", None),
        (["read", "--topic", "T", "--limit", "0"], "--limit must be 1 or more.", None),
        (
            ["read", "--topic", "T", "--master", "local", "--remote", "sc://h:1"],
            "--master and --remote cannot be used together.", None,
        ),
        (
            ["read", "--topic", "T", "--conf", "memory=4g"],
            "--conf expects spark.KEY=VALUE, not 'memory=4g'.", "Write, for example, spark.executor.memory=4g.",
        ),
        (["read", "--topic", "T", "--columns", "nope"], "Unknown column 'nope'.", None),
        (
            ["read", "lag", "--topic", "T", "--tables", "d", "-o", "csv"],
            "-o csv requires a single job.", "Use -o json, or run one job at a time.",
        ),
        (
            ["read", "lag", "--topic", "T", "--tables", "d", "--sort", "topic"],
            "--columns, --sort and --where require a single job.", None,
        ),
        (["dlq-replay", "--yes"], "The job dlq-replay needs --group.", None),
        (["dlq-replay", "--group", "G*", "--yes"], "The job dlq-replay needs the name of one", "Run it for each"),
        (["dlq-replay", "--group", "G", "--to-topic", "RMQ_SYS_TRACE_TOPIC"], "Sending to RMQ_SYS_TRACE_TOPIC", None),
        (["dlq-replay", "--group", "G", "--to-origin", "--to-topic", "T"], "--to-origin and --to-topic cannot", None),
        (["dlq-replay", "--group", "G", "--yes", "--remote", "sc://h:1"], "dlq-replay does not run with", None),
        (["read", "--topic", "T", "--yes"], "--yes is only for jobs that change something.", None),
    ],
)  # fmt: skip
def test_wrong_words_are_refused(capsys: Captured, words: list[str], sentence: str, hint: str | None) -> None:
    done = call(capsys, *_NOWHERE, "pipeline", "run", *words)
    assert (done.code, done.out) == (2, "")
    said = done.err.splitlines()
    assert said[0].startswith(f"rmqctl: {sentence}")
    if hint is not None:
        assert len(said) == 2
        assert hint in said[1]


@pytest.mark.parametrize(
    ("flag", "consent", "code"),
    [
        ("", (), 2), ("protected", ("--yes",), 2), ("protected", ("--confirm", "g"), 3), ("readonly", ("--yes",), 1),
        ("protected", ("--confirm", "G"), 0), ("", ("--yes",), 0),
    ],
)  # fmt: skip
def test_a_job_that_sends_needs_consent(
    capsys: Captured, config_file: Path, monkeypatch: pytest.MonkeyPatch, flag: str, consent: tuple[str, ...], code: int
) -> None:
    (job,) = load_jobs(["dlq-replay"])
    run: list[JobOptions] = []
    monkeypatch.setattr("rmqctl.pipeline.session.require_spark", lambda _: None)
    monkeypatch.setattr("rmqctl.pipeline.run.check_cluster", lambda *_: None)
    monkeypatch.setattr(
        "rmqctl.pipeline.run.run_jobs",
        lambda _, options, *__, **___: run.append(options) or iter([JobRun(job, 1, JobResult())]),
    )
    with seeded(brokers=1) as sandbox:
        config_file.write_text(f'[contexts.prod]\nnamesrv = "{sandbox.addr}"\n{flag and f"{flag} = true"}\n')
        result = call(capsys, "--context", "prod", "pipeline", "run", "dlq-replay", "--group", "G", *consent)
    assert (result.code, len(run)) == (code, code == 0), result
    assert all(each.who is not None and each.who.context == "prod" for each in run)


def test_without_pyspark_it_says_what_to_install_before_anybody_is_asked(capsys: Captured) -> None:
    pytest.importorskip("rmqctl.pipeline.jobs.read.job")
    if "pyspark" in sys.modules:
        pytest.fail("these tests run where PySpark is not installed")
    done = call(capsys, "-n", closed_address(), "pipeline", "run", "read", "--topic", "T")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("rmqctl: PySpark is not installed.\n")
    assert "pip install '.[spark]'" in done.err


@pytest.mark.parametrize("name", JOBS)
def test_each_job_is_whole(name: str) -> None:
    (job,) = load_jobs([name])
    assert job.name == name
    assert job.needs <= job.takes <= set(JobOptions.__struct_fields__)
    assert len({field.key for field in job.fields}) == len(job.fields) > 0


def test_each_option_is_some_job_s() -> None:
    taken = {option for job in load_jobs(JOBS) for option in job.takes}
    assert set(JobOptions.__struct_fields__) - taken <= {"now_ms", "access", "ask", "name_servers", "who", "limit"}
    flags = import_module("rmqctl.cli.pipeline.run")._FLAGS
    assert set(flags) == taken - {"limit"}


def test_jobs_are_known_without_spark() -> None:
    code = "import sys, rmqctl.pipeline.jobs as jobs; jobs.load_jobs(jobs.JOBS); print('pyspark' in sys.modules)"
    done = spawn(code=code)
    assert (done.returncode, done.stdout) == (0, "False\n")


def test_the_package_is_the_same_each_time_and_runs(capsys: Captured, tmp_path: Path) -> None:
    assert call(capsys, "pipeline", "package", str(tmp_path / "one")).code == 0
    assert call(capsys, "pipeline", "package", str(tmp_path / "two"), "-o", "json").code == 0
    archive = tmp_path / "one" / "rmqctl.zip"
    assert archive.read_bytes() == (tmp_path / "two" / "rmqctl.zip").read_bytes()
    with zipfile.ZipFile(archive) as file:
        names = file.namelist()
    assert "rmqctl/__main__.py" in names
    assert all(name.startswith("rmqctl/") and "__pycache__" not in name for name in names)
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); import rmqctl; print(rmqctl.__file__)"
    assert str(archive) in spawn(code=code, cwd=tmp_path).stdout


def test_a_package_that_can_t_be_written(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = call(capsys, "pipeline", "package", str(tmp_path / "file"))
    assert (done.code, done.out) == (1, "")
    assert done.err == f"rmqctl: Cannot write {tmp_path / 'file'}: File exists.\n"


@pytest.mark.parametrize(
    ("outcome", "warnings"),
    [
        (JobResult(rows=[{}] * 20, is_cut=True), ["Only 20 rows of read are shown (--limit). There are more."]),
        (JobResult(rows=[{}] * 20, row_count=50), ["Only 20 of 50 rows of read are shown (--limit)."]),
        (JobResult(rows=[{}] * 20, row_count=20), []),
        (JobResult(rows=[{}] * 20), []),
        # A table has all of them.
        (JobResult(rows=[{}] * 20, row_count=50, written=(WrittenTable("t", 50),)), []),
    ],
)
def test_rows_beyond_the_limit_are_never_left_out_silently(outcome: JobResult, warnings: list[str]) -> None:
    (job,) = load_jobs(["read"])
    assert cut_of(JobRun(job, 1, outcome)) == warnings


@pytest.mark.parametrize("words", [(), ("-o", "json")])
def test_what_would_mislead_is_said_with_q_too(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (job,) = load_jobs(["lag"])
    outcome = JobResult(notes=("It is fine.",), warnings=("It is old.",))
    monkeypatch.setattr("rmqctl.pipeline.session.find_spec", lambda name: name)
    monkeypatch.setattr("rmqctl.pipeline.run.run_jobs", lambda *_, **__: iter([JobRun(job, 1, outcome)]))
    done = call(capsys, "-q", "pipeline", "run", "lag", "--tables", "t", *words)
    assert (done.code, done.err) == (0, "rmqctl: It is old.\n")
    if words:
        assert json.loads(done.out)["jobs"][0]["notes"] == ["It is fine.", "It is old."]


def test_a_broker_that_spark_does_not_see_is_named_and_its_result_is_partial(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = load_jobs(["read"])
    monkeypatch.setattr("rmqctl.pipeline.session.require_spark", lambda _: None)
    monkeypatch.setattr("rmqctl.pipeline.run.run_jobs", lambda *_, **__: iter([JobRun(job, 1, JobResult())]))
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, "pipeline", "run", "read", "--topic", "T").code == 0
        sandbox.stop_broker("broker-b")
        for words in ((), ("-o", "json")):
            result = call(capsys, "pipeline", "run", "read", "--topic", "T", *words)
            assert (result.code, "broker-b" in result.out + result.err) == (8, True), result
