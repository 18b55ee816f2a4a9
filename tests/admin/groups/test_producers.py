from __future__ import annotations

import pytest

from rmqctl.admin.groups.producers import TopicProducers, fetch_topic_producers
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import passing, refused, run


def _cluster() -> Cluster:
    """Return two brokers of a topic and one without it; p sent to the topic, q only to others at broker-a."""
    a, b, c = (BrokerState(f"broker-{name}") for name in "abc")
    a.topics = b.topics = {"T": [Queue()]}
    a.producers = {"p": {"c1": 10, "c2": 20}, "q": {"c1": 10}, "CLIENT_INNER_PRODUCER": {"c1": 10, "other": 10}}
    b.producers = {"p": {"c1": 30}}
    c.producers = {"elsewhere": {"c9": 1}}
    return Cluster(a, b, c)


def _fetch(cluster: Cluster, group: str | None = None, *, with_system: bool = False) -> TopicProducers:
    async def fetch() -> TopicProducers:
        async with cluster.client() as client:
            return await fetch_topic_producers(client, "T", group, with_system=with_system)

    return run(passing(cluster.clock, fetch()))


def _seen(found: TopicProducers) -> dict[str, tuple[list[str], int | None]]:
    return {f"{view.group} {view.client_id}": (list(view.connections), view.heard_at_ms) for view in found.producers}


def test_connections_of_a_topics_brokers_are_merged_by_client() -> None:
    found = _fetch(_cluster())
    a, b = "broker-a", "broker-b"
    assert _seen(found) == {"p c1": ([a, b], 30), "p c2": ([a], 20), "q c1": ([a], 10)}
    assert [view.unseen_at for view in found.producers] == [(), (b,), (b,)]
    assert (found.broker_names, found.unseen_reason, found.hidden_system_count) == ((a, b), None, 1)
    assert len(_fetch(_cluster(), with_system=True).producers) == 5
    assert set(_seen(_fetch(_cluster(), "q"))) == {"q c1"}
    assert len(_fetch(_cluster(), "CLIENT_INNER_PRODUCER").producers) == 2


def test_a_broker_that_does_not_answer_is_named_and_may_see_more() -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    found = _fetch(cluster)
    assert {view.untold_at for view in found.producers} == {("broker-b",)}
    assert found.unseen_reason == "BROKER_UNREACHABLE"
    assert {failure.broker_name for failure in found.failures} == {"broker-b"}


def test_a_slave_is_not_asked_because_producers_send_it_no_heartbeat() -> None:
    cluster = _cluster()
    cluster.slaves.add("broker-b")
    assert _fetch(cluster).unseen_reason == "BROKER_UNREACHABLE"
    assert Q.GET_ALL_PRODUCER_INFO not in {request.code for request in cluster.servers["broker-b"].asked}


@pytest.mark.parametrize(("group", "clients"), [("p", ["c1", "c2"]), ("none", []), (None, ["c1"])])
def test_brokers_before_4_9_4_know_the_connections_of_one_group(group: str | None, clients: list[str]) -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.GET_ALL_PRODUCER_INFO] = refused(R.REQUEST_CODE_NOT_SUPPORTED)
    found = _fetch(cluster, group)
    assert [view.client_id for view in found.producers] == clients
    hints = [failure.error.hint for failure in found.failures]
    assert hints == ([] if group else ["Name the producer group with --group."])
