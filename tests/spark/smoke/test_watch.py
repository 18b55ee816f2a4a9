"""What `rmqctl watch` records is judged alike by the job lag, queue by queue."""

from __future__ import annotations

from pathlib import Path

from rmqctl.observe.recording_files import read_recordings
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.lag.facts import window_facts
from rmqctl.pipeline.jobs.lag.groups import facts_of_row, queue_of
from rmqctl.pipeline.jobs.lag.job import JOB
from rmqctl.pipeline.jobs.lag.queue_windows import Windows
from rmqctl.pipeline.jobs.lag.rows import SnapshotRows
from rmqctl.pipeline.jobs.snapshot.job import JOB as SNAPSHOT
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.frames import require_version
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from rmqctl.rules.health import Health, HealthSettings, judge
from rmqctl.watch.health import HealthWindow
from rmqctl.watch.recorder import Recorder
from tests.watch.test_rounds import WINDOW_MS, moving_cluster, watch_rounds


def test_verdicts_of_a_recording_are_those_of_the_watch(tmp_path: Path) -> None:
    path = tmp_path / "groups.jsonl"
    recorder = Recorder(str(path), most_bytes=60_000, keep_count=9)
    cluster, before = moving_cluster()
    rounds = watch_rounds(cluster, 12, before=before, recorder=recorder)
    recorder.close()
    files = sorted(str(each) for each in tmp_path.iterdir())
    assert [Path(name).suffix for name in files] == [".jsonl", ".gz", ".gz"][: len(files)]
    assert len(files) > 1
    SNAPSHOT.run(None, JobOptions(now_ms=0, tables=str(tmp_path), cluster_label="L", recordings=tuple(files)))

    seen = set()
    version = require_version(Table(str(tmp_path), OFFSET_SNAPSHOTS))
    for found in (rounds[3], rounds[7], rounds[-1]):
        end_ms = found.at_ms + 1
        rows = SnapshotRows(version, None).tables(end_ms - WINDOW_MS, end_ms)
        windows = Windows(WINDOW_MS, end_ms % WINDOW_MS, found.at_ms)
        queues = [row for made in window_facts(rows, windows) for row in made.to_pylist()]
        judged = {
            (row["consumer_group"], queue_of(row)): (row["status"], row["cause"], judge(facts_of_row(row)).reason)
            for row in queues
        }
        live = {
            (group.key.group, each.mq): (each.verdict.health, each.verdict.cause, each.verdict.reason)
            for group in found.groups
            for each in group.queues
        }
        assert judged == live
        seen |= {health for health, _, _ in live.values()}
    assert seen == set(Health)

    # The job as a whole, on the last window.
    outcome = JOB.run(None, JobOptions(now_ms=0, tables=str(tmp_path), window="5m", limit=100))
    window = HealthWindow(WINDOW_MS, HealthSettings())
    samples = read_recordings(files, ())
    for recorded in sorted(samples, key=lambda each: each.sample.at_ms):
        window.add(recorded)
    expected = {
        group.key.group: (group.health, group.cause, group.lag().value) for group in window.judge(rounds[-1].at_ms)
    }
    assert {row["group"]: (row["health"], row["cause"], row["lag"]) for row in outcome.rows} == expected
