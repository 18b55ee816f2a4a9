"""Single servers: what they are, how fast they answer, what they refuse, what time they have."""

from __future__ import annotations

import json

import pytest

from rmqctl.admin.brokers.probe import fetch_bad_reads, measure_clock, probe_server
from rmqctl.admin.brokers.servers import ClusterServer, fetch_servers
from rmqctl.client.identity import ServerKind
from rmqctl.diagnose.cluster import fetch_cluster_findings
from rmqctl.model.check_result import CheckResult, Status
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import SILENCE, V4_9_7, Late, Reply, ok, passing, refused, run

_UNSIGNED = refused(R.NO_PERMISSION, "username cannot be null.")


def _cluster(*names: str, version: int | None = None) -> Cluster:
    states = [BrokerState(name, topics={"SELF_TEST_TOPIC": [Queue()]}) for name in names or ("broker-a", "broker-b")]
    if version is not None:
        states[-1].version = version
    cluster = Cluster(*states)
    for server in cluster.servers.values():
        server.table[Q.GET_ALL_TOPIC_CONFIG] = ok(b'{"topicConfigTable":{}}')
        server.table[Q.PULL_MESSAGE] = refused(R.PULL_NOT_FOUND)
    return cluster


def _findings(cluster: Cluster, *name_servers: str, is_signed: bool = False) -> list[CheckResult]:
    async def fetch() -> list[CheckResult]:
        async with cluster.network.client(*name_servers or ("ns:1",)) as client:
            return await passing(
                cluster.clock, fetch_cluster_findings(client, is_signed=is_signed, tls_verify=None), step_s=0.05
            )

    return run(fetch())


def _of(findings: list[CheckResult], check: str, subject: str = "") -> CheckResult:
    (found,) = [finding for finding in findings if finding.check == check and subject in finding.subject]
    return found


def test_a_healthy_cluster_has_nothing_but_ok() -> None:
    findings = _findings(_cluster())
    assert {finding.status for finding in findings} == {Status.OK}
    assert {finding.check for finding in findings} == {
        *("name server", "broker", "broker versions", "rights", "TLS", "clock", "delays", "transactions"),
    }
    assert _of(findings, "rights", "broker-a").found == "all 10 reads are allowed, not signed"


def test_a_broker_that_does_not_answer_fails_and_hides_no_other() -> None:
    cluster = _cluster()
    for code in list(cluster.servers["broker-b"].table):
        cluster.servers["broker-b"].table[code] = SILENCE
    cluster.servers["broker-b"].table[Q.GET_BROKER_CLUSTER_INFO] = SILENCE
    # The wait for it makes time pass, and broker-a's clock goes with ours.
    cluster.servers["broker-a"].table[Q.QUERY_CONSUME_TIME_SPAN] = lambda request: _telling(cluster.clock.now_ms())
    findings = _findings(cluster)
    failed = [finding for finding in findings if finding.status is not Status.OK]
    assert [(finding.check, finding.subject) for finding in failed] == [("broker", "broker-b/0 b:1")]
    assert failed[0].error is not None
    assert failed[0].error.exit_code == 6
    assert _of(findings, "clock", "broker-a").status is Status.OK


def test_no_name_server_is_a_failure_and_no_traceback() -> None:
    findings = _findings(_cluster(), "gone:1")
    assert [(finding.check, finding.status) for finding in findings] == [("name server", Status.FAIL)]


def test_a_broker_in_place_of_a_name_server_fails() -> None:
    finding = _of(_findings(_cluster(), "a:1"), "name server")
    assert (finding.status, finding.found) == (Status.FAIL, "a:1 is not a name server (a broker)")


def test_name_servers_that_list_different_brokers_are_told_apart() -> None:
    cluster = _cluster()
    other = Cluster(BrokerState("broker-a"))
    cluster.network.add("ns:2", other.name_server.table)
    finding = _of(_findings(cluster, "ns:1", "ns:2"), "name servers agree")
    assert (finding.status, finding.found) == (Status.FAIL, "ns:2 does not list broker-b/0 at b:1")
    cluster.network.add("ns:2", cluster.name_server.table)
    assert _of(_findings(cluster, "ns:1", "ns:2"), "name servers agree").status is Status.OK


def test_brokers_of_several_versions_are_a_warning() -> None:
    finding = _of(_findings(_cluster("broker-a", "broker-b", version=V4_9_7)), "broker versions")
    assert (finding.status, finding.found) == (Status.WARN, "4.9.7, 5.4.0")


def test_reads_that_are_refused_name_the_right() -> None:
    cluster = _cluster("broker-a")
    denied = refused(
        R.NO_PERMISSION, "User:x has no permission to access Group:TOOLS_CONSUMER from h, no matched policies."
    )
    cluster.servers["broker-a"].table[Q.GET_CONSUME_STATS] = denied
    cluster.servers["broker-a"].table[Q.PULL_MESSAGE] = denied
    finding = _of(_findings(cluster, is_signed=True), "rights")
    assert (finding.status, finding.found) == (Status.WARN, "2 of 10 reads are refused, signed (208, 11)")
    assert finding.hint is not None
    assert "Get on Group:TOOLS_CONSUMER; Sub on Topic:SELF_TEST_TOPIC, Sub on Group:TOOLS_CONSUMER" in finding.hint
    assert "offset show" in finding.hint


def test_a_broker_that_refuses_everything_fails_for_want_of_a_right() -> None:
    cluster = _cluster("broker-a")
    table = cluster.servers["broker-a"].table
    for code in (*table, Q.GET_BROKER_CLUSTER_INFO, Q.GET_ROUTEINFO_BY_TOPIC):
        table[code] = _UNSIGNED
    findings = _findings(cluster)
    assert _of(findings, "broker").status is Status.OK  # it is there, and says who it is not for
    finding = _of(findings, "rights")
    assert (finding.status, finding.found) == (Status.FAIL, "all reads are refused, not signed")
    assert finding.error is not None
    assert finding.error.exit_code == 4
    assert finding.hint is not None
    assert "not signed" in finding.hint


def _telling(remote_ms: int) -> Reply:
    """Answer as a broker does whose clock is so far from ours."""

    def answer(request: Command) -> Command:
        queue = {"brokerName": "broker-a", "queueId": 0, "topic": "SELF_TEST_TOPIC"}
        spans = [{"consumeTimeStamp": -1, "delayTime": remote_ms + 1, "minTimeStamp": -1, "messageQueue": queue}]
        return ok(json.dumps({"consumeTimeSpanSet": spans}).encode())

    return answer


@pytest.mark.parametrize(
    ("skew_ms", "status"), [(0, Status.OK), (900, Status.OK), (5_000, Status.WARN), (-5_000, Status.WARN)]
)
def test_a_brokers_clock_is_held_against_ours(skew_ms: int, status: Status) -> None:
    cluster = _cluster("broker-a")
    cluster.servers["broker-a"].table[Q.QUERY_CONSUME_TIME_SPAN] = lambda request: _telling(
        cluster.clock.now_ms() + skew_ms
    )
    finding = _of(_findings(cluster), "clock")
    assert finding.status is status
    assert finding.measured["skewLowMs"] <= skew_ms <= finding.measured["skewHighMs"]


def test_answers_that_take_long_do_not_tell_of_a_clock() -> None:
    cluster = _cluster("broker-a")
    cluster.servers["broker-a"].table[Q.QUERY_CONSUME_TIME_SPAN] = lambda request: Late(
        3, _telling(cluster.clock.now_ms())
    )
    finding = _of(_findings(cluster, "ns:1"), "clock")
    assert finding.status is Status.UNKNOWN


def test_a_broker_that_does_not_tell_its_time_is_unknown() -> None:
    for reply in (ok(b'{"consumeTimeSpanSet":[]}'), refused(R.TOPIC_NOT_EXIST, "no such topic"), ok(b"nonsense")):
        cluster = _cluster("broker-a")
        cluster.servers["broker-a"].table[Q.QUERY_CONSUME_TIME_SPAN] = reply
        assert _of(_findings(cluster), "clock").status is Status.UNKNOWN


async def test_a_probe_tells_kind_version_and_round_trip() -> None:
    cluster = _cluster("broker-a")
    cluster.servers["broker-a"].table[Q.GET_BROKER_CONFIG] = Late(0.25, ok(b"brokerName=a\n"))
    async with cluster.client() as client:
        broker = await passing(cluster.clock, probe_server(client, "a:1"), step_s=0.05)
        name_server = await passing(cluster.clock, probe_server(client, "ns:1"))
        gone = await passing(cluster.clock, probe_server(client, "gone:1"))
    assert (broker.kind, broker.version, broker.rtt_ms) == (ServerKind.BROKER, "5.4.0", 250.0)
    assert (name_server.kind, name_server.cluster is not None) == (ServerKind.NAME_SERVER, True)
    assert (gone.kind, gone.rtt_ms, gone.error is not None) == (None, None, True)


def test_every_replica_that_any_name_server_lists_is_asked() -> None:
    async def scenario() -> list[ClusterServer]:
        cluster = _cluster()
        cluster.stop("broker-b")
        async with cluster.network.client("gone:1", "ns:1") as client:
            return await passing(cluster.clock, fetch_servers(client))

    servers = run(scenario())
    assert [(server.probe.address, server.broker_name, server.error is None) for server in servers] == [
        ("gone:1", None, False),
        ("ns:1", None, True),
        ("a:1", "broker-a", True),
        ("b:1", "broker-b", False),
    ]


def test_what_is_asked_leaves_no_trace() -> None:
    """Codes that create a group, a subscription or an entry, or delete offsets, are none of these."""

    async def scenario() -> set[int]:
        cluster = _cluster("broker-a")
        async with cluster.client() as client:
            await passing(cluster.clock, fetch_bad_reads(client, "a:1"))
            await passing(cluster.clock, measure_clock(client, "a:1"))
        return set(cluster.servers["broker-a"].codes())

    assert run(scenario()) == {26, 28, 201, 21, 43, 202, 203, 208, 303, 11}
