"""Java's transactions and request-reply, at real brokers and at the sandbox that plays them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from .harness.cluster import Cluster, Reachable
from .harness.jars import RELEASES
from .harness.queue_tables import wait_until
from .harness.rmqctl import Rmqctl
from .harness.sandbox import SandboxProcess
from .harness.workbench import WorkbenchError

# 5.x writes down after a while what has ended, and may check that until then.
SETTINGS = {
    "transactionCheckInterval": "1000", "transactionTimeOut": "2000", "transactionCheckMax": "3",
    "transactionOpBatchInterval": "100",
}  # fmt: skip


@pytest.fixture(
    scope="module", params=[(version, kind) for version in RELEASES for kind in ("real", "sandbox")], ids="-".join
)
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reachable]:
    """Run two brokers that check half messages every second, and give them up after three checks."""
    version, kind = request.param
    settings = {name: value for name, value in SETTINGS.items() if version[0] != "4" or "OpBatch" not in name}
    folder = tmp_path_factory.mktemp(f"transactions-{version}-{kind}") / "home"
    running: Cluster | SandboxProcess
    if kind == "real":
        running = Cluster(version, folder, broker_count=2, settings=settings)
    else:
        running = SandboxProcess(version, folder, broker_count=2, settings=settings)
    try:
        yield running.wait() if isinstance(running, Cluster) else running
    finally:
        running.stop()


def test_what_is_committed_comes_once_and_what_is_rolled_back_never(brokers: Reachable) -> None:
    java = brokers.java
    brokers.create_topic("Orders")
    java.consume("orders", "OrdersGroup", "Orders", collect=1)
    for local, check in (
        ("commit", "unknown"),
        ("rollback", "unknown"),
        ("unknown", "commit"),
        ("unknown", "rollback"),
    ):
        prefix = f"{local}-{check}-"
        java.transact(f"orders-{prefix}", f"Producers-{prefix}", "Orders", 10, local=local, check=check, prefix=prefix)

    expected = Counter(f"{prefix}{number}" for prefix in ("commit-unknown-", "unknown-commit-") for number in range(10))
    java.wait_consumed("orders", 20)
    # A message after all that were rolled back shows that none of them comes.
    for local in ("unknown-commit-", "unknown-rollback-"):
        wait_until(lambda local=local: len(java.checked(f"orders-{local}")) >= 10, "all to be checked")  # type: ignore[misc]
    assert Counter(java.bodies("orders")) == expected
    assert java.checked("orders-commit-unknown-") == java.checked("orders-rollback-unknown-") == []
    java.stop("orders")


def test_what_stays_open_is_checked_as_often_as_the_broker_wants_and_then_given_up(brokers: Reachable) -> None:
    java = brokers.java
    brokers.create_topic("Open")
    java.transact("open", "OpenProducers", "Open", 2, local="unknown", check="unknown", prefix="open")

    given_up: set[str] = set()

    def are_given_up() -> bool:
        with suppress(WorkbenchError):  # the topic is made for the first of them
            given_up.update(java.pull_all("GivenUpReader", "TRANS_CHECK_MAX_TIME_TOPIC"))
        return given_up >= {"open0", "open1"}

    wait_until(are_given_up, "both to be given up")
    assert sorted(java.checked("open")) == [(f"open{number}", times) for number in (0, 1) for times in (1, 2, 3)]
    assert java.pull_all("OpenReader", "Open") == []


def test_a_request_gets_its_reply(brokers: Reachable) -> None:
    java = brokers.java
    brokers.create_topic("Questions")
    java.reply("answers", "AnswersGroup", "Questions")

    assert java.request("asks", "Questions", 20) == [f"re:q{number}" for number in range(20)]
    java.stop("answers")


def test_rmqctl_shows_what_became_of_each_transaction(brokers: Reachable) -> None:
    java, rmqctl = brokers.java, Rmqctl(brokers.namesrv)
    brokers.create_topic("Seen")
    sent = {
        local: java.transact("seen", "SeenProducers", "Seen", 1, local=local, key=local)[0][0]
        for local in ("commit", "rollback", "unknown")
    }

    def seen(local: str) -> dict[str, Any]:
        (item,) = rmqctl.items("message", "get", sent[local], "--topic", "Seen")
        return item

    assert seen("unknown")["transaction"]["state"] == "PREPARED"
    assert seen("unknown")["transaction"]["producerGroup"] == "SeenProducers"
    half_offset = seen("commit")["preparedTransactionOffset"]
    wait_until(lambda: seen("rollback")["transaction"]["state"] == "ENDED", "the check after the rollback")
    assert (seen("commit")["topic"], "transaction" in seen("commit")) == ("Seen", False)
    wait_until(lambda: seen("unknown")["transaction"]["checkCount"] >= 1, "a check")
    wait_until(lambda: seen("unknown")["transaction"]["state"] == "GIVEN_UP", "it to be given up")
    assert seen("unknown")["transaction"]["checkCount"] == 3

    # What a producer knows of its message is the place of the half message.
    at = seen("commit")["offsetMsgId"][:16]
    (half,) = rmqctl.items("message", "get", f"{at}{half_offset:016X}")
    assert (half["topic"], half["transaction"]["state"]) == ("RMQ_SYS_TRANS_HALF_TOPIC", "COMMITTED")
    found = rmqctl.items("doctor", "--where", "check=transactions")
    assert "WARN" in {row["status"] for row in found}
    assert sum(row["measured"]["givenUpCount"] for row in found) >= 1


def test_rmqctl_reports_half_messages_that_pile_up(brokers: Reachable) -> None:
    java, rmqctl = brokers.java, Rmqctl(brokers.namesrv)
    brokers.create_topic("Piled")
    java.consume("piled", "PiledGroup", "Piled")
    java.transact("piles", "PiledProducers", "Piled", 60, local="unknown")

    def found() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = rmqctl.items("diagnose", "PiledGroup", "--for", "0s", "--only", "TRX001")
        return items

    wait_until(lambda: bool(found()), "the finding")
    assert {(item["topic"], item["severity"]) for item in found()} <= {("Piled", "WARNING")}
    java.stop("piled")
