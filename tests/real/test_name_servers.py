"""`topic route` with several real name servers, one of which knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness.cluster import Cluster
from .harness.jars import rocketmq_jars
from .harness.process import QUICK_START, JavaProcess, free_port
from .harness.rmqctl import Rmqctl


@pytest.fixture
def stranger(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Run a name server that no broker registers with."""
    port = free_port()
    config = tmp_path / "namesrv.conf"
    config.write_text(f"listenPort={port}\n")
    (tmp_path / "conf").mkdir()
    for logback in (cluster.folder / "conf").glob("logback_*.xml"):
        (tmp_path / "conf" / logback.name).write_text(logback.read_text())
    java = JavaProcess(
        "stranger", tmp_path, f"{rocketmq_jars(cluster.version)}/*", "org.apache.rocketmq.namesrv.NamesrvStartup",
        "-c", str(config), jvm=("-Xmx256m", *QUICK_START),
    )  # fmt: skip
    try:
        java.wait_for_port(port)
        yield f"127.0.0.1:{port}"
    finally:
        java.kill()


def test_name_servers_that_differ_are_told_apart(cluster: Cluster, rmqctl: Rmqctl, stranger: str) -> None:
    cluster.create_topic("Known", queue_count=2)
    both = f"{cluster.namesrv};{stranger}"

    result = rmqctl("topic", "route", "Known", "-o", "json", namesrv=both)
    shown = rmqctl("topic", "route", "Known", namesrv=both)
    neither = rmqctl("topic", "route", "Unknown", namesrv=both)
    assert result.exit_code == 0
    assert [(item["brokerName"], item["nameServers"], item["findings"]) for item in result.document["items"]] == [
        (name, [cluster.namesrv], ["NAME_SERVERS_DIFFER"]) for name in ("broker-a", "broker-b")
    ]
    assert result.document["nameServersAgree"] is False
    assert f"Name server {stranger} has no route of Known." in shown.stderr
    assert neither.exit_code == 5
