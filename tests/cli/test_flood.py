"""A broker that floods its connections with frames that nobody asked for."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.cli.scripted_server import served

from .calls import call

Captured = pytest.CaptureFixture[str]


class _Flood(socketserver.BaseRequestHandler):
    """Writes requests and answers to nothing as fast as the other side reads them."""

    def handle(self) -> None:
        peer = Connection()
        frames = b"".join(peer.send_request(Command(9_001, {"a": "b"}))[1] for _ in range(500))
        frames += b"".join(peer.send_response(Command(1, opaque=9_999_999), Command(0)) for _ in range(500))
        try:
            while True:
                self.request.sendall(frames)
        except OSError:
            pass  # the other side had enough


@contextmanager
def _flooding() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Flood) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def flooded(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve a healthy broker beside one that floods; gives the address of the latter."""
    a = BrokerState("broker-a", topics={"T": [Queue(10)]}, configured={"G"}, offsets={"G": {"T": {0: 5}}})
    b = BrokerState("broker-b", topics={"T": [Queue(10)]})
    cluster = Cluster(a, b)
    with _flooding() as address:
        cluster.addresses["broker-b"] = address
        with served(cluster) as name_server:
            monkeypatch.setenv("NAMESRV_ADDR", name_server)
            yield address


@pytest.mark.parametrize(
    "words", [("cluster", "list"), ("topic", "status", "T"), ("group", "list"), ("offset", "show", "G")]
)
def test_a_broker_that_floods_is_named_and_costs_no_time(
    words: tuple[str, ...], flooded: str, capsys: Captured
) -> None:
    result = call(capsys, *words, "--timeout", "60s", "-o", "plain")
    assert result.code == 8
    assert "broker-a" in result.out or words == ("group", "list")
    # Nobody waited for it to stop.
    assert "no answer within" not in result.err.replace("not asked", "")
    if words != ("cluster", "list"):  # its rows have the errors
        assert f"{flooded}: The peer sent 1000 frames that rmqctl did not ask for." in result.err
