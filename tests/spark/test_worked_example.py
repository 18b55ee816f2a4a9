"""The example of docs/spark-jobs.md on the sandbox: all jobs in one session, and what they print."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import check_document

from .process import call


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Run a sandbox with the scenario shop; the environment that names it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    names = {"RMQCTL_STATE": str(tmp_path / "state"), "NAMESRV_ADDR": f"127.0.0.1:{port}"}
    up = call("sandbox", "up", "--brokers", "2", "--port", port, "--detach", **names)
    assert up.returncode == 0, up.stderr
    try:
        seeded = call("sandbox", "seed", "shop", "--port", port, **names)
        assert seeded.returncode == 0, seeded.stderr
        yield names
    finally:
        call("sandbox", "down", "--port", port, **names)


@pytest.mark.parametrize("place", [(), ("--remote", "local[2]")], ids=["classic", "connect"])
def test_every_job_in_one_session(shop: dict[str, str], tmp_path: Path, place: tuple[str, ...]) -> None:
    tables, page = str(tmp_path / "tables"), tmp_path / "report.html"
    jobs = ["snapshot", "lag", "dlq-report", "audit", "fleet-whatif"]
    words = ("--tables", tables, "--html", str(page), "--topic", "payments", "-o", "json")
    done = call("pipeline", "run", *jobs, *words, *place, **shop)
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    check_document(document)
    assert [(job["job"], job["isDone"]) for job in document["jobs"]] == [(name, True) for name in jobs]
    rows = document["items"]
    assert set(Counter(row["job"] for row in rows)) == set(jobs)
    (letters,) = [row for row in rows if row["job"] == "dlq-report"]
    # The scenario says so: 12 messages failed and are in %DLQ%accounting.
    assert (letters["group"], letters["originTopic"], letters["count"]) == ("accounting", "payments", 12)
    stored = [row["count"] for row in rows if row["job"] == "audit" and row["tier"] == "stored"]
    assert sum(stored) == 48
    assert "accounting" in page.read_text()
    assert {path.name for path in Path(tables).iterdir()} == {
        "offset_snapshots", "dead_letters", "audit", "alloc_whatif",
    }  # fmt: skip  # lag_trend has hours of all topics only


def test_tables_of_several_jobs_follow_one_another(shop: dict[str, str], tmp_path: Path) -> None:
    tables = str(tmp_path / "tables")
    done = call("pipeline", "run", "snapshot", "lag", "--tables", tables, **shop)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "snapshot"
    assert lines[1].split() == ["GROUP", "STATE", "QUEUES", "LAG", "UNKNOWN"]
    start = lines.index("lag")
    assert lines[start - 1] == ""
    assert {line.split()[0] for line in lines[start + 2 :]} == {
        "accounting", "billing", "mailing", "shipping", "warehouse",
    }  # fmt: skip
    assert "snapshot wrote 40 rows to " in done.stderr
