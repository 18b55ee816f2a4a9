"""Settings that are changed at run time, at real brokers and at the sandbox that plays them; faults that Java meets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.sandbox.sender import send_fields

from .harness.cluster import Cluster, Reachable
from .harness.jars import RELEASES
from .harness.sandbox import SandboxProcess


@pytest.fixture(params=[(version, kind) for version in RELEASES for kind in ("real", "sandbox")], ids="-".join)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reachable]:
    """Run one broker, whose settings the test may change."""
    version, kind = request.param
    running = (Cluster if kind == "real" else SandboxProcess)(version, tmp_path / "home", broker_count=1)
    try:
        yield running.wait() if isinstance(running, Cluster) else running
    finally:
        running.stop()


def test_topics_are_no_longer_created_once_that_is_switched_off(broker: Reachable) -> None:
    address = broker.addresses["broker-a"]
    with closing(broker.asker("broker-a")) as ask:

        def send(topic: str) -> int | None:
            answer = ask("broker", RequestCode.SEND_MESSAGE_V2, b"m", **send_fields(topic))
            return None if answer is None else answer.code

        def set_to(value: str) -> None:
            broker.java.mqadmin("updateBrokerConfig", "-b", address, "-k", "autoCreateTopicEnable", "-v", value)

        assert send("Before") == ResponseCode.SUCCESS
        set_to("false")
        assert (send("After"), send("Before")) == (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUCCESS)
        # The first refusal has taken what topics inherit: it stays so.
        set_to("true")
        assert send("After") == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("version", RELEASES)
def test_java_gets_the_status_of_a_message_that_is_stored(version: str, tmp_path: Path) -> None:
    clients = Reachable(version, tmp_path / "home")
    with ThreadedSandbox(plays=version) as sandbox, ExitStack() as leaving:
        leaving.callback(clients.close_java)
        clients.namesrv, clients.addresses = sandbox.addr, dict(sandbox.brokers)
        clients.create_topic("T", queue_count=1)
        statuses = ("FLUSH_DISK_TIMEOUT", "SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT")
        for status in statuses:
            sandbox.faults.answer(RequestCode.SEND_MESSAGE_V2, ResponseCode[status])
            assert clients.java.produce("T", 1, prefix=status).split("\t")[2] == status
        assert clients.java.pull_all("G", "T") == [f"{status}0" for status in statuses]
