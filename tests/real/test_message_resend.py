"""`message resend` against real brokers: which of Java's members consume the message again."""

from __future__ import annotations

import pytest

from .harness.cluster import Cluster
from .harness.queue_tables import wait_until
from .harness.rmqctl import Rmqctl

pytestmark = pytest.mark.usefixtures("own_state")


def _counts(cluster: Cluster, *members: str) -> list[tuple[int, int]]:
    """Return how often each member got the message, and how often as a retry."""
    attempts = [cluster.java.attempts(member) for member in members]
    return [(len(each), sum(one.reconsume_times > 0 for one in each)) for each in attempts]


def test_only_the_named_group_consumes_it_again(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group, other, failing = "ResendOrders", "ResendBilling", "ResendAudit", "ResendFailing"
    cluster.create_topic(topic, queue_count=1)
    for name, options in ((group, {}), (other, {}), (failing, {"fail": "bad", "max": 0})):
        cluster.java.consume(name, name, topic, collect=1, routes=1000, **options)
    identity = cluster.java.produce(topic, 1, prefix="bad", queue="broker-a:0").split("\t")[1]
    cluster.java.wait_consumed(f"{group} {other}", 2)
    words = ("message", "resend", identity, "--group")

    rmqctl.change(*words, group)
    wait_until(lambda: _counts(cluster, group, other) == [(2, 1), (1, 0)], "the copy is consumed")
    again = rmqctl(*words, group, "--yes")
    assert again.exit_code == 1

    direct = rmqctl.change(*words, group, "--direct", "--again")
    assert direct["items"][0]["note"].startswith("CR_SUCCESS")
    assert _counts(cluster, group, other) == [(3, 1), (1, 0)]
    refused = rmqctl(*words, failing, "--direct", "--yes", "-o", "json")
    assert (refused.exit_code, refused.document["items"][0]["result"]) == (1, "UNCHANGED")
    assert refused.document["items"][0]["note"].startswith("CR_LATER")

    plan = rmqctl(*words, other, "--dry-run", "-o", "json").document
    assert "COPY" in {each["code"] for each in plan["consequences"]}
    assert _counts(cluster, other) == [(1, 0)]
    for member in (group, other, failing):
        cluster.java.stop(member)
