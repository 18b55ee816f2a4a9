"""A list cannot hide what is sick in it: each state of a cluster is visible in every command that judges all of it.

doctor asks for everything that the lists ask for, so it is never healthy where a list is partial.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.versions import V5_0_0
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.cli.scripted_server import Serve, served
from tests.scripted_peer import V4_9_7, V5_4_0, ok, refused

from .calls import call, closed_address

Captured = pytest.CaptureFixture[str]

LISTS = ("cluster list", "group list", "topic list")
JUDGES = ("doctor", *LISTS)


def two_brokers(version: int) -> Cluster:
    brokers = [BrokerState(name, version) for name in ("broker-a", "broker-b")]
    for broker in brokers:
        broker.topics = {"T": [Queue(10)], "SELF_TEST_TOPIC": [Queue()]}
        broker.configured = {"G"}
        broker.offsets = {"G": {"T": {0: 4}}}
        broker.tells_time = True
    return Cluster(*brokers)


def run_words(capsys: Captured, words: str, *argv: str) -> tuple[int, str]:
    result = call(capsys, *words.split(), *argv)
    return result.code, result.out + result.err


def _dead(cluster: Cluster) -> None:
    cluster.addresses["broker-b"] = closed_address()


def _listed(cluster: Cluster, **addresses: str) -> None:
    """Let the name server list brokers with these replicas, as JSON has them."""
    rows = ",".join(
        f'"{name.replace("_", "-")}":{{"brokerAddrs":{{{each}}},"brokerName":"{name.replace("_", "-")}","cluster":"C"}}'
        for name, each in addresses.items()
    )
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(f'{{"brokerAddrTable":{{{rows}}}}}'.encode())


def _a(cluster: Cluster) -> str:
    return f'0:"{cluster.addresses["broker-a"]}"'


def forget_b(cluster: Cluster) -> None:
    """Let the name server forget broker-b, and all of its queues."""
    _listed(cluster, broker_a=_a(cluster))
    del cluster.brokers["broker-b"]


def _routed_only(cluster: Cluster) -> None:
    """Let a route go on naming the queues of broker-b, while the cluster does not list it."""
    data = {"perm": 6, "readQueueNums": 1, "topicSysFlag": 0, "writeQueueNums": 1}
    route = {
        "brokerDatas": [
            {"brokerAddrs": {"0": cluster.addresses["broker-a"]}, "brokerName": "broker-a", "cluster": "C"}
        ],
        "queueDatas": [{"brokerName": name, **data} for name in ("broker-a", "broker-b")],
    }
    forget_b(cluster)
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = ok(json.dumps(route).encode())


def _without_master(cluster: Cluster) -> None:
    _listed(cluster, broker_a=_a(cluster), broker_b=f'1:"{cluster.addresses["broker-b"]}"')


def _without_address(cluster: Cluster) -> None:
    _listed(cluster, broker_a=_a(cluster), broker_b="")


def _remembered(cluster: Cluster, capsys: Captured) -> None:
    assert run_words(capsys, "cluster list")[0] == 0
    forget_b(cluster)


def _named_by_context(cluster: Cluster, capsys: Captured) -> None:
    forget_b(cluster)
    settings = (f"namesrv={os.environ['NAMESRV_ADDR']}", "brokers=broker-a,broker-b")
    assert run_words(capsys, "context set here", *settings)[0] == 0
    os.environ["RMQCTL_CONTEXT"] = "here"


def _plain(change: Callable[[Cluster], None]) -> Callable[[Cluster, Captured], None]:
    return lambda cluster, _: change(cluster)


# What is wrong with broker-b, when the servers are up. A registered broker that is dead has its address before that.
STATES: dict[str, Callable[[Cluster, Captured], None]] = {
    "dead, and still registered": lambda *_: None,
    "dead, forgotten by the name server, remembered": _remembered,
    "named by a route only": _plain(_routed_only),
    "its slave is alive, its master is gone": _plain(_without_master),
    "registered without an address": _plain(_without_address),
    "gone, and named by a context": lambda cluster, capsys: _named_by_context(cluster, capsys),
}
# Those in which nothing tells what queues it has.
HIDING = ("dead, forgotten by the name server, remembered", "gone, and named by a context")


def _judges(state: str) -> tuple[str, ...]:
    """Return the commands that have to name it: topic list asks for few routes, topic by topic."""
    return JUDGES if state != "named by a route only" else JUDGES[:-1]


@contextmanager
def standing(state: str, version: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    cluster = two_brokers(version)
    if state == "dead, and still registered":
        _dead(cluster)
    with served(cluster) as address:
        monkeypatch.setenv("NAMESRV_ADDR", address)
        # Of a state that sets it nothing is left for the next test.
        monkeypatch.setenv("RMQCTL_CONTEXT", "")
        STATES[state](cluster, capsys)
        yield cluster


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7], ids=["5.4.0", "4.9.7"])
@pytest.mark.parametrize("state", STATES)
def test_every_command_names_the_broker_and_none_exits_0(
    state: str, version: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing(state, version, capsys, monkeypatch):
        for words in _judges(state):
            code, said = run_words(capsys, words, "-q")
            assert (code, "broker-b" in said) == (6 if words == "doctor" else 8, True), (words, said)
        failed = [item for item in json.loads(call(capsys, "doctor", "-o", "json").out)["items"] if item["error"]]
        assert {(item["subject"].partition("/")[0], item["status"]) for item in failed} == {("broker-b", "FAIL")}
        rows = json.loads(call(capsys, "cluster", "list", "-o", "json").out)["items"]
        assert any(item["brokerName"] == "broker-b" and item["error"] for item in rows)
        (group,) = json.loads(call(capsys, "group", "list", "-o", "json").out)["items"]
        if "slave" not in state:
            # The slave has told the rest.
            assert (group["lag"], group["lagAtLeast"], group["state"]) == (None, 6, "UNKNOWN")
            assert {each["part"] for each in group["unchecked"]} == {"BROKERS", "MEMBERS"}


@pytest.mark.parametrize(
    "words",
    ["offset show G", "group describe G", "diagnose G --for 0s", "topic status T", "topic route T", "offset export G"],
)
def test_a_broker_that_only_a_route_names_is_named_by_all_that_ask_for_the_route(
    words: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing("named by a route only", V5_4_0, capsys, monkeypatch):
        result = call(capsys, *words.split(), "-q", "-o", "json")
    assert result.code == 8
    errors = [(error["brokerName"], error["name"]) for error in json.loads(result.out)["errors"]]
    assert ("broker-b", "NOT_REGISTERED") in errors


FILTERS = {
    "doctor": ("--where", "check=program"),
    "cluster list": ("--where", "brokerName=broker-a"),
    "group list": ("--where", "lag=0"),
    "topic list": ("--where", "topic=no"),
}


@pytest.mark.parametrize("state", STATES)
def test_a_filter_that_hides_the_row_hides_neither_the_broker_nor_the_exit_code(
    state: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing(state, V5_4_0, capsys, monkeypatch):
        for words in _judges(state):
            for form in ("plain", "csv", "name"):
                result = call(capsys, *words.split(), "-q", "-o", form, *FILTERS[words])
                assert (result.code, "broker-b" in result.out) == (6 if words == "doctor" else 8, False)
                assert "broker-b" in result.err, (words, form)


def test_a_whole_cluster_is_whole_everywhere(capsys: Captured) -> None:
    with served(two_brokers(V5_4_0)) as address:
        for words in JUDGES:
            assert run_words(capsys, words, "-n", address)[0] == 0, words


def test_a_cluster_without_any_broker_is_a_failure_everywhere(capsys: Captured) -> None:
    with served(Cluster()) as address:
        for words in JUDGES:
            code, said = run_words(capsys, words, "-n", address)
            assert (code, "registered" in said) == (6, True), words


def test_a_broker_that_only_members_name_makes_every_group_unknown_and_is_then_known_to_all(
    capsys: Captured, serve: Serve
) -> None:
    cluster = two_brokers(V5_4_0)
    cluster.brokers["broker-a"].groups = {"H": Group({"c1": running({("T", "broker-x", 0): held()})})}
    cluster.brokers["broker-a"].configured |= {"H"}
    serve(cluster)
    # Brokers alone were seen then: that tells of no queue, and members are looked at all the same.
    assert run_words(capsys, "cluster list")[0] == 0
    result = call(capsys, "group", "list", "-o", "json")
    states = {item["group"]: (item["state"], item["lag"]) for item in json.loads(result.out)["items"]}
    assert (result.code, states["G"]) == (8, ("UNKNOWN", None))
    for words in ("cluster list", "doctor", "group list"):
        code, said = run_words(capsys, words)
        assert (code, "broker-x" in said) == (6 if words == "doctor" else 8, True), words


# Name servers


@contextmanager
def _two_name_servers(capsys: Captured) -> Iterator[tuple[str, Cluster]]:
    """Serve a cluster with a second name server that lists broker-a only."""
    whole, half = two_brokers(V5_4_0), two_brokers(V5_4_0)
    with ExitStack() as stack:
        first = stack.enter_context(served(whole))
        half.addresses |= whole.addresses
        second = stack.enter_context(served(half))
        del half.brokers["broker-b"]
        yield f"{first};{second}", half


def test_a_name_server_with_an_older_view_is_named_everywhere(capsys: Captured) -> None:
    with _two_name_servers(capsys) as (addresses, _):
        behind = addresses.partition(";")[2]
        for words in JUDGES:
            code, said = run_words(capsys, words, "-n", addresses)
            assert (code, behind in said, "does not list broker-b" in said) == (
                1 if words == "doctor" else 8, True, True,
            ), (words, said)  # fmt: skip


def test_a_dead_name_server_is_named_everywhere(capsys: Captured) -> None:
    """Lists are whole without it, and say so with their exit code; doctor judges the server."""
    with served(two_brokers(V5_4_0)) as address:
        dead = closed_address()
        for words in JUDGES:
            code, said = run_words(capsys, words, "-n", f"{address};{dead}", "-q")
            assert (code, dead in said) == (6 if words == "doctor" else 0, True), (words, said)


def test_a_dead_slave_is_named_everywhere(capsys: Captured) -> None:
    """group list is whole by the master; the row of the slave itself is not."""
    cluster = two_brokers(V5_4_0)
    with served(cluster) as address:
        dead = closed_address()
        _listed(cluster, broker_a=f'{_a(cluster)},1:"{dead}"', broker_b=f'0:"{cluster.addresses["broker-b"]}"')
        for words, expected in (("doctor", 6), ("cluster list", 8), ("group list", 0)):
            code, said = run_words(capsys, words, "-n", address, "-q")
            assert (code, dead in said) == (expected, True), (words, said)


# Brokers that do not tell a part


TABLES = {
    Q.GET_BROKER_RUNTIME_INFO: "cluster list",
    Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "group list",
    Q.GET_ALL_CONSUMER_OFFSET: "group list",
    Q.GET_ALL_TOPIC_CONFIG: "topic list",
}
ANSWERS: dict[str, tuple[Any, int, int]] = {
    # The answer, and the exit codes of doctor and of the list.
    "an error": (refused(R.SYSTEM_ERROR, "broken"), 1, 8),
    "a refusal": (refused(R.NO_PERMISSION, "User:x has no permission"), 4, 4),
    "no table": (ok(b"[]"), 1, 8),
}


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7], ids=["5.4.0", "4.9.7"])
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("code", TABLES, ids=str)
def test_doctor_fails_for_a_table_without_which_a_list_is_partial(
    code: int, answer: str, version: int, capsys: Captured
) -> None:
    assert version >= V5_0_0 or version == V4_9_7
    cluster = two_brokers(version)
    reply, doctor_code, list_code = ANSWERS[answer]
    cluster.servers["broker-b"].table[code] = reply
    with served(cluster) as address:
        listed = call(capsys, *TABLES[code].split(), "-n", address, "-q")
        judged = call(capsys, "doctor", "-n", address, "-o", "json")
    assert (listed.code, "broker-b" in listed.err) == (list_code, True), listed.err
    failed = [item["subject"].partition("/")[0] for item in json.loads(judged.out)["items"] if item["status"] == "FAIL"]
    assert (judged.code, failed) == (doctor_code, ["broker-b"])


# Findings and filters


def test_findings_are_those_of_the_rows_that_are_shown(capsys: Captured) -> None:
    cluster = two_brokers(V5_4_0)
    for broker in cluster.brokers.values():
        broker.configured |= {"beyond", "fine"}
        broker.offsets |= {"beyond": {"T": {0: 99}}, "fine": {"T": {0: 10}}}
    with served(cluster) as address:
        every = call(capsys, "group", "list", "-n", address)
        none = call(capsys, "group", "list", "-n", address, "--where", "lag=5")
        fine = call(capsys, "group", "list", "-n", address, "--where", "group=fine")
        sick = call(capsys, "group", "list", "-n", address, "--where", "group=beyond")
    assert "! OFF002 (beyond)" in every.err
    assert none.err.splitlines()[0] == "No rows match."
    assert "! " not in none.err + fine.err
    assert "2 more rows do not match (--where)." in fine.err
    assert "! OFF002 (beyond)" in sick.err
