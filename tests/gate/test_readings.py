"""Groups that are read for `rmqctl check`."""

from __future__ import annotations

from rmqctl.gate.limits import GateStatus, GroupLimits, LimitResult, Threshold
from rmqctl.gate.readings import CheckTarget, read_groups
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import passing, run


def _results(cluster: Cluster, limits: GroupLimits) -> list[LimitResult]:
    async def main() -> list[LimitResult]:
        async with cluster.client() as client:
            reports, _ = await passing(cluster.clock, read_groups(client, [CheckTarget("G", (), limits)], []))
            return [result for report in reports for result in report.results]

    return run(main())


def _broker() -> BrokerState:
    """Return a broker with a group that has three messages to read in its only queue."""
    broker = BrokerState("broker-a", topics={"T": [Queue(7)]}, offsets={"G": {"T": {0: 4}}}, configured={"G"})
    broker.topics["%DLQ%G"] = [Queue(2)]
    return broker


def test_messages_that_no_consumer_can_read_are_named_beside_the_lag() -> None:
    broker = _broker()
    broker.offsets["G"]["T"] |= {4: 2, 5: 9}
    broker.cut_queues = {("T", 4): Queue(9), ("T", 5): Queue(9)}
    (lag,) = _results(Cluster(broker), GroupLimits(lag=Threshold(None, 5)))
    assert (lag.status, lag.value.value) == (GateStatus.OK, 3)
    assert "7 messages in 1 queue that no consumer can read" in lag.sentence


def test_nothing_is_ok_that_only_a_slave_has_told() -> None:
    limits = GroupLimits(lag=Threshold(None, 5), dead_letters=Threshold(None, 5), members=Threshold(None, 1))
    cluster = Cluster(_broker())
    cluster.slaves = {"broker-a"}
    del cluster.brokers["broker-a"].topics["%DLQ%G"]
    assert [result.status for result in _results(cluster, limits)] == [GateStatus.UNKNOWN] * 3
