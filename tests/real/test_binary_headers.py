"""Servers told to write binary headers do so, also to those who write JSON ones."""

from __future__ import annotations

import socket

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.frame import encode_frame

from .harness.cluster import Cluster

_JSON, _BINARY = 0, 1


def test_the_server_decides_how_its_headers_are_written(binary_cluster: Cluster) -> None:
    """5.x writes binary headers throughout, 4.9 only where an answer takes another way: failures, messages."""
    broker = binary_cluster.brokers["broker-a"].address
    usual = _BINARY if binary_cluster.version == "5.4.0" else _JSON

    assert _encoding_of_answer(binary_cluster.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO) == usual
    assert _encoding_of_answer(broker, RequestCode.GET_BROKER_RUNTIME_INFO) == usual
    assert _encoding_of_answer(broker, RequestCode.QUERY_CONSUMER_OFFSET) == _BINARY  # without fields: an exception


def _encoding_of_answer(address: str, code: RequestCode) -> int:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(encode_frame(Command(code)))
        with connection.makefile("rb") as answer:
            return answer.read(8)[4]
