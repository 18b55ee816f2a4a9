"""`topic route` with several real name servers, one of which knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness.cluster import Cluster
from .harness.name_server import NameServer
from .harness.rmqctl import Rmqctl


@pytest.fixture
def stranger(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Run a name server that no broker registers with."""
    server = NameServer(cluster.version, tmp_path).start()
    try:
        yield server.wait().address
    finally:
        server.kill()


def test_name_servers_that_differ_are_told_apart(cluster: Cluster, rmqctl: Rmqctl, stranger: str) -> None:
    cluster.create_topic("Known", queue_count=2)
    both = f"{cluster.namesrv};{stranger}"

    result = rmqctl("topic", "route", "Known", "-o", "json", namesrv=both)
    shown = rmqctl("topic", "route", "Known", namesrv=both)
    neither = rmqctl("topic", "route", "Unknown", namesrv=both)
    assert (result.exit_code, shown.exit_code) == (8, 8)
    assert [(item["brokerName"], item["nameServers"], item["findings"]) for item in result.document["items"]] == [
        (name, [cluster.namesrv], ["NAME_SERVERS_DIFFER"]) for name in ("broker-a", "broker-b")
    ]
    assert result.document["nameServersAgree"] is False
    assert f"Name server {stranger} has no route for Known." in shown.stderr
    assert neither.exit_code == 5
