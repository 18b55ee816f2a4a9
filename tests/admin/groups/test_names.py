from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.groups.list import fetch_group_list
from rmqctl.admin.groups.names import fetch_matching_groups, require_group
from rmqctl.admin.offsets.group import fetch_group_progress, fetch_matching_progress
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, NotFoundError, RmqctlError, UnreachableError
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import V4_9_7, V5_4_0, passing, refused, run

_T = TypeVar("_T")


def _brokers(version: int = V5_4_0) -> tuple[BrokerState, BrokerState]:
    """Return two brokers: payments at both, paid only at broker-b, left-over with an offset and no configuration."""
    a, b = (BrokerState(f"broker-{name}", version) for name in "ab")
    for broker in (a, b):
        broker.topics["T"] = [Queue(100)]
        broker.configured |= {"payments", "TOOLS_CONSUMER"}
        broker.offsets["payments"] = {"T": {0: 40}}
    b.configured.add("paid")
    a.offsets["left-over"] = {"T": {0: 1}}
    return a, b


def _asking(cluster: Cluster, question: Callable[[Client], Awaitable[_T]]) -> _T:
    async def scenario() -> _T:
        async with cluster.client() as client:

            async def ask() -> _T:
                return await question(client)

            return await passing(cluster.clock, ask())

    return run(scenario())


def _matching(cluster: Cluster, *patterns: str) -> tuple[str, ...]:
    return _asking(cluster, lambda client: fetch_matching_groups(client, patterns))[0]


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["pa*"], ("paid", "payments")),
        (["pai?"], ("paid",)),
        (["*"], ("left-over", "paid", "payments")),
        (["left*"], ("left-over",)),
        (["pai*", "pay*"], ("paid", "payments")),
        (["pa*", "paid"], ("paid", "payments")),
        (["pa*", "elsewhere"], ("elsewhere", "paid", "payments")),
    ],
)
def test_patterns_pick_from_what_all_brokers_know(version: int, patterns: list[str], names: tuple[str, ...]) -> None:
    assert _matching(Cluster(*_brokers(version)), *patterns) == names


def test_names_are_taken_as_they_are_and_nobody_is_asked() -> None:
    cluster = Cluster(*_brokers())
    assert _matching(cluster, "b", "a", "b") == ("b", "a")
    assert cluster.network.attempts == []


@pytest.mark.parametrize("pattern", ["x*", "PA*", "TOOLS*", "*_CONSUMER"])
def test_a_pattern_that_picks_none_is_not_found_and_rocketmqs_own_groups_are_never_picked(pattern: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        _matching(Cluster(*_brokers()), pattern)
    assert caught.value.sentence == f"No group matches {pattern}."


def test_a_pattern_that_is_nearly_right_gets_names_alike() -> None:
    with pytest.raises(NotFoundError) as caught:
        _matching(Cluster(*_brokers()), "payment?x")
    assert caught.value.suggestions == ("payments",)


def test_a_second_pattern_that_picks_none_is_not_found_though_the_first_does() -> None:
    with pytest.raises(NotFoundError, match=r"No group matches zzz\*"):
        _matching(Cluster(*_brokers()), "pa*", "zzz*")


def test_with_a_broker_down_the_others_groups_are_picked() -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    names, failures = _asking(cluster, lambda client: fetch_matching_groups(client, ["pa*"]))
    assert names == ("payments",)
    assert [(failure.broker_name, failure.what) for failure in failures] == [("broker-b", "names of groups")]


_LOOKS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "names": lambda client: fetch_matching_groups(client, ["paid*"]),
    "list": lambda client: fetch_group_list(client, ["paid*"]),
    "list, a name": lambda client: fetch_group_list(client, ["paid"]),
    "topics": lambda client: fetch_group_progress(client, "payments", ["U*"]),
}


@pytest.mark.parametrize("look", _LOOKS)
def test_what_a_silent_broker_may_have_is_not_called_missing(look: str) -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError) as caught:
        _asking(cluster, _LOOKS[look])
    assert caught.value.exit_code == 6
    assert "but broker-b could not be read" in caught.value.sentence


def test_nobody_answering_is_unreachable() -> None:
    cluster = Cluster(*_brokers())
    for name in cluster.brokers:
        cluster.stop(name)
    with pytest.raises(UnreachableError):
        _matching(cluster, "pa*")


def test_a_broker_that_refuses_one_of_the_tables_is_left_out_and_named() -> None:
    cluster = Cluster(*_brokers())
    cluster.servers["broker-b"].table[Q.GET_ALL_CONSUMER_OFFSET] = refused(R.SYSTEM_ERROR, "broken")
    found, failures = _asking(cluster, lambda client: fetch_matching_progress(client, ["pa*"]))
    assert [progress.group for progress in found] == ["payments"]
    assert [(failure.broker_name, failure.what) for failure in failures] == [("broker-b", "names of groups")]
    cluster.servers["broker-a"].table[Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = refused(R.SYSTEM_ERROR, "broken")
    with pytest.raises(BrokerError, match="broken"):
        _matching(cluster, "pa*")


def test_every_group_that_a_pattern_picks_has_its_progress() -> None:
    found, failures = _asking(Cluster(*_brokers()), lambda client: fetch_matching_progress(client, ["*"]))
    assert [progress.group for progress in found] == ["left-over", "paid", "payments"]
    assert [sum(row.lag or 0 for row in progress.rows) for progress in found] == [99, 0, 120]
    assert failures == []


def test_a_group_that_does_not_exist_beside_one_that_does_is_a_failure() -> None:
    found, failures = _asking(
        Cluster(*_brokers()), lambda client: fetch_matching_progress(client, ["payments", "payment"])
    )
    assert [progress.group for progress in found] == ["payments"]
    (failure,) = failures
    assert (failure.broker_name, failure.what, failure.error.name) == (None, "group payment", "NOT_FOUND")
    assert failure.error.hint == "Did you mean payments?"


def test_groups_that_a_pattern_picks_and_that_lack_the_topics_are_left_out() -> None:
    a, b = _brokers()
    a.topics["U"] = b.topics["U"] = [Queue(10)]
    a.offsets["payments"]["U"] = {0: 1}
    cluster = Cluster(a, b)
    found, failures = _asking(cluster, lambda client: fetch_matching_progress(client, ["*"], ["U*"]))
    assert ([progress.group for progress in found], failures) == (["payments"], [])
    found, failures = _asking(cluster, lambda client: fetch_matching_progress(client, ["pay*", "left-over"], ["U*"]))
    assert [failure.what for failure in failures] == ["group left-over"]
    with pytest.raises(NotFoundError, match=r"No topic matches zzz\*"):
        _asking(cluster, lambda client: fetch_matching_progress(client, ["*"], ["zzz*"]))


def test_only_groups_that_do_not_exist_are_not_found() -> None:
    with pytest.raises(NotFoundError, match="Group x does not exist"):
        _asking(Cluster(*_brokers()), lambda client: fetch_matching_progress(client, ["x", "y"]))


# One group


def _require(cluster: Cluster, group: str, failed: dict[str, RmqctlError] | None = None) -> None:
    async def question(client: Client) -> None:
        brokers = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
        await require_group(client, group, brokers, failed or {})

    _asking(cluster, question)


def test_a_group_that_any_broker_has_configured_exists() -> None:
    _require(Cluster(*_brokers()), "paid")
    _require(Cluster(*_brokers()), "paid", {"broker-c": UnreachableError("c:1", "connection refused")})


def test_a_group_that_none_has_is_not_found_with_names_alike() -> None:
    with pytest.raises(NotFoundError) as caught:
        _require(Cluster(*_brokers()), "payment")
    assert caught.value.suggestions == ("payments",)


def test_a_group_that_none_has_is_unknown_while_a_broker_is_silent() -> None:
    sentence = "Group payment was not found, but broker-c could not be read. c:1: connection refused."
    with pytest.raises(UnreachableError) as caught:
        _require(Cluster(*_brokers()), "payment", {"broker-c": UnreachableError("c:1", "connection refused")})
    assert caught.value.sentence == sentence
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError, match="broker-b could not be read"):
        _require(cluster, "payment")


def test_the_request_that_would_create_the_group_is_never_sent() -> None:
    cluster = Cluster(*_brokers())
    with pytest.raises(NotFoundError):
        _require(cluster, "payment")
    asked = {code for server in cluster.servers.values() for code in server.codes()}
    assert asked == {Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Q.GET_ALL_CONSUMER_OFFSET}


def test_a_named_topic_leaves_out_groups_that_a_pattern_picks_and_that_do_not_consume_it() -> None:
    cluster = Cluster(*_brokers())
    (topic,) = {mq for group in ("payments",) for mq in cluster.brokers["broker-a"].offsets[group]}
    found, failures = _asking(cluster, lambda client: fetch_matching_progress(client, ["*"], [topic]))
    consuming = [
        group
        for group in ("left-over", "paid", "payments")
        if any(topic in broker.offsets.get(group, {}) for broker in cluster.brokers.values())
    ]
    assert [progress.group for progress in found] == consuming
    assert failures == []


def test_offsets_of_a_deleted_group_are_a_trace_of_it() -> None:
    _require(Cluster(*_brokers()), "left-over")
