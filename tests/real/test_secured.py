"""What secured servers do to Java's own tools: the footing of the tests of rmqctl against them."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.real.harness.secured_cluster import (
    ADMIN,
    CONSUMER,
    GROUP,
    OTHER_TOPIC,
    READER,
    STRANGER,
    TOPIC,
    SecuredCluster,
)

from .harness.workbench import WorkbenchError


@pytest.fixture(autouse=True)
def _admin_again(secured: SecuredCluster) -> Iterator[None]:
    yield
    secured.java.sign_as(*ADMIN)


def test_the_administrator_sees_the_broker(secured: SecuredCluster) -> None:
    assert secured.brokers["broker-a"].address in secured.java.mqadmin("clusterList")


def test_a_consumer_needs_its_rights(secured: SecuredCluster) -> None:
    secured.java.produce(TOPIC, 8)
    secured.java.sign_as(*CONSUMER)
    secured.java.consume("allowed", GROUP, TOPIC)
    secured.java.wait_consumed("allowed", 8)
    secured.java.stop("allowed")

    with pytest.raises(WorkbenchError, match=OTHER_TOPIC):
        secured.java.produce(OTHER_TOPIC, 1)


@pytest.mark.parametrize("account", [STRANGER, (ADMIN.access_key, "wrong"), ("", "")])
def test_others_do_not_send(secured: SecuredCluster, account: tuple[str, str]) -> None:
    secured.java.sign_as(*account)
    with pytest.raises(WorkbenchError, match=r"still failed|No route info|no permission"):
        secured.java.produce(TOPIC, 1)


@pytest.mark.since_5
def test_who_may_read_but_not_consume(secured: SecuredCluster) -> None:
    secured.java.sign_as(*READER)
    assert "broker-a" in secured.java.mqadmin("topicStatus", "-t", TOPIC)
    secured.java.sign_as(*CONSUMER)
    assert "broker-a" not in secured.java.mqadmin("topicStatus", "-t", TOPIC)


def test_a_plain_connection_is_closed_without_a_word(secured: SecuredCluster) -> None:
    for address in (secured.namesrv, secured.brokers["broker-a"].address):
        with _connected(address) as plain:
            # 5.x waits for 12 bytes, which could be the head of a load balancer's PROXY line.
            plain.sendall(b"\x00\x00\x00\x10\x00\x00\x00\x0c{}{}")
            assert plain.recv(1) == b""


def test_a_certificate_is_asked_for_by_4_9_only(secured: SecuredCluster) -> None:
    certificates = secured.certificates
    context = ssl.create_default_context(cafile=certificates.ca)
    if secured.version == "4.9.7":
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
            # In TLS 1.3 the handshake is over before the server looks for a certificate.
            _first_byte(secured.namesrv, context)
        context.load_cert_chain(certificates.client, certificates.client_key)
    with pytest.raises(TimeoutError):  # taken: the server waits for the rest of the frame
        _first_byte(secured.namesrv, context)


def _connected(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=5)


def _first_byte(address: str, context: ssl.SSLContext) -> bytes:
    with context.wrap_socket(_connected(address), server_hostname="127.0.0.1") as secure:
        secure.settimeout(1)
        secure.sendall(b"\x00")
        return secure.recv(1)
