"""What `topic list`, `topic route`, `topic status`, `topic producers` and `broker show` make of a cluster's answers."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from rmqctl.admin.brokers.details import fetch_broker_details
from rmqctl.admin.groups.producers import fetch_topic_producers
from rmqctl.admin.topics.list import fetch_topic_list
from rmqctl.admin.topics.route import fetch_route_report
from rmqctl.admin.topics.status import fetch_topic_status
from rmqctl.cli.broker import show as broker_show
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from rmqctl.cli.topic import list as topic_list
from rmqctl.cli.topic import producers as topic_producers
from rmqctl.cli.topic import route as topic_route
from rmqctl.cli.topic import status as topic_status
from rmqctl.model.names import PROXY_GROUP
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import CONSUMED_MS, BrokerState, Cluster, Group, Queue, running
from tests.cli.scripted_server import Serve, served
from tests.schemas import check_document
from tests.scripted_peer import V4_9_7, V5_4_0, ok, passing, refused, run

from .calls import call, closed_address

_T = TypeVar("_T")
Captured = pytest.CaptureFixture[str]


def _cluster(version: int = V5_4_0) -> Cluster:
    """Return a cluster with everything that makes a null somewhere."""
    a, b = BrokerState("broker-a", version), BrokerState("broker-b", version)
    for broker in (a, b):
        broker.topics |= {"orders": [Queue(10, 4), Queue()], "%DLQ%g": [Queue()], "quiet": [Queue()]}
        broker.settings = {"messageDelayLevel": "1s 5s", "innerClientAuthenticationCredentials": "s3cret"}
        broker.runtime = {"scheduleMessageOffset_2": "1,4", "sendThreadPoolQueueSize": "3"}
    a.topic_configs["orders"] = {"writeQueueNums": 3, "perm": 6}
    b.topic_configs["orders"] = {"perm": 4}
    a.groups["g"] = Group({}, ("orders",))
    a.producers = {"p": {"c1": CONSUMED_MS}}
    return Cluster(a, b)


def _await(cluster: Cluster, coroutine: Coroutine[Any, Any, _T]) -> _T:
    return run(passing(cluster.clock, coroutine))


def _list(cluster: Cluster) -> Listing:
    async def fetch() -> Listing:
        async with cluster.client() as client:
            return topic_list.to_listing(await fetch_topic_list(client, with_stats=True), with_stats=True)

    return _await(cluster, fetch())


def _route(cluster: Cluster) -> Listing:
    async def fetch() -> Listing:
        async with cluster.network.client("ns:1", "ns:2") as client:
            return topic_route.to_listing(await fetch_route_report(client, "orders"))

    cluster.network.servers.setdefault("ns:2", cluster.name_server)
    return _await(cluster, fetch())


def _status(cluster: Cluster, topic: str = "orders") -> Listing:
    async def fetch() -> Listing:
        async with cluster.client() as client:
            return topic_status.to_listing(await fetch_topic_status(client, topic))

    return _await(cluster, fetch())


def _producers(cluster: Cluster, group: str | None = None) -> Listing:
    async def fetch() -> Listing:
        async with cluster.client() as client:
            return topic_producers.to_listing(await fetch_topic_producers(client, "orders", group))

    return _await(cluster, fetch())


def _broker(cluster: Cluster) -> Listing:
    async def fetch() -> Listing:
        async with cluster.client() as client:
            return broker_show.to_listing(await fetch_broker_details(client, "broker-a"))

    if "slave:1" not in cluster.network.servers:
        cluster.network.add("slave:1", cluster.brokers["broker-b"].table())
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"a:1",1:"slave:1"},"brokerName":"broker-a","cluster":"C"}}}'
    )
    return _await(cluster, fetch())


_ALL = {
    "topic list": _list,
    "topic route": _route,
    "topic status": _status,
    "topic producers": _producers,
    "broker show": _broker,
}


def _break(cluster: Cluster) -> None:
    """Take away a part of what each of the commands asks."""
    cluster.stop("broker-b")
    cluster.network.refusing |= {"ns:2", "slave:1"}


def _json(listing: Listing, capsys: Captured) -> dict[str, Any]:
    render(listing, Display(format="json"))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    check_document(document)
    return document


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "reasons" in value:
            yield value
        for part in value.values():
            yield from _objects(part)
    elif isinstance(value, list):
        for part in value:
            yield from _objects(part)


@pytest.mark.parametrize("command", _ALL)
@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
@pytest.mark.parametrize("is_partial", [False, True], ids=["whole", "partial"])
def test_every_null_in_json_has_its_reason(command: str, version: int, is_partial: bool, capsys: Captured) -> None:
    cluster = _cluster(version)
    if is_partial:
        _break(cluster)
    document = _json(_ALL[command](cluster), capsys)
    found = list(_objects(document))
    assert len(found) >= len(document["items"]) > 0
    for item in found:
        for key, value in item.items():
            if value is None and not key.endswith("Iso") and key != "error":
                assert key in item["reasons"], (command, key, item)
        assert set(item["reasons"]) <= set(item), (command, item)


@pytest.mark.parametrize("command", _ALL)
def test_a_part_that_fails_is_exit_code_8_and_listed(command: str, capsys: Captured) -> None:
    assert render(_ALL[command](_cluster()), Display(format="json")) == 0
    cluster = _cluster()
    _break(cluster)
    listing = _ALL[command](cluster)
    assert render(listing, Display(format="json")) == 8
    capsys.readouterr()
    assert {error["name"] for error in _json(listing, capsys)["errors"]} == {"UNREACHABLE"}


@pytest.mark.parametrize("command", _ALL)
def test_every_column_is_a_key_of_json_and_every_row_fits_every_format(command: str, capsys: Captured) -> None:
    listing = _ALL[command](_cluster())
    for column in listing.columns:
        assert all(column.key in item for item in listing.items), column.key
    assert len({column.key for column in listing.columns}) == len({column.heading for column in listing.columns})
    for form in ("table", "wide", "plain", "csv", "tsv", "name", "jsonl", "yaml"):
        render(listing, Display(format=form))
        lines = capsys.readouterr().out.splitlines()
        if form in ("name", "jsonl"):
            assert len(lines) == len(listing.items)
        if form in ("csv", "tsv") or (form != "yaml" and form not in ("name", "jsonl") and listing.sections is None):
            assert len(lines) == len(listing.items) + 1


def _lines(listing: Listing, capsys: Captured, **display: Any) -> tuple[list[list[str]], str]:
    render(listing, Display(**{"format": "plain", "with_headers": False, **display}))
    captured = capsys.readouterr()
    return [line.split() for line in captured.out.splitlines()], captured.err


def test_topics_that_differ_are_shown_as_differences(capsys: Captured) -> None:
    lines, notes = _lines(_list(_cluster()), capsys)
    assert lines[0][:4] == ["orders", "NORMAL", "-", "4r/5w"]
    assert lines[0][4] == "differs"
    assert lines[0][-1] == "QUEUES_DIFFER,PERMISSIONS_DIFFER,UNREAD_QUEUES"
    assert lines[1][:5] == ["quiet", "NORMAL", "-", "2", "read-write"]
    assert "1 retry, dead-letter or system topic is not shown" in notes
    assert "QUEUES_DIFFER (1): brokers have different numbers of queues." in notes
    item = _json(_list(_cluster()), capsys)["items"][0]
    assert (item["perm"], item["reasons"]["perm"]) == (None, "BROKERS_DIFFER")
    assert [(each["brokerName"], each["writeQueueNums"], each["perm"]) for each in item["brokers"]] == [
        ("broker-a", 3, 6),
        ("broker-b", 2, 4),
    ]
    assert (item["messageCount"], item["topicPutTps"]) == (12, 0.0)


def test_a_sum_without_a_broker_is_a_lower_bound(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    lines, notes = _lines(_list(cluster), capsys)
    assert [line[3] for line in lines] == [">=2r/3w", ">=1"]
    assert "rmqctl: not read: broker-b: topics" in notes
    item = _json(_list(cluster), capsys)["items"][0]
    assert (item["readQueueNums"], item["messageCount"]) == (None, None)


def test_name_servers_that_differ_have_their_own_rows(capsys: Captured) -> None:
    cluster = _cluster()
    other = {Q.GET_ROUTEINFO_BY_TOPIC: refused(R.TOPIC_NOT_EXIST), Q.GET_KV_CONFIG: refused(R.QUERY_NOT_FOUND)}
    cluster.network.add("ns:2", other)
    lines, notes = _lines(_route(cluster), capsys)
    assert lines[0][1:] == ["broker-a", "2", "3", "read-write", "a:1", "-", "ns:1", "UNREAD_QUEUES,NAME_SERVERS_DIFFER"]
    assert lines[1][4:] == ["read-only", "b:1", "-", "ns:1", "NOT_WRITABLE,NAME_SERVERS_DIFFER"]
    assert "Name servers differ about topic orders" in notes
    assert "Name server ns:2 has no route for orders." in notes
    document = _json(_route(cluster), capsys)
    assert (document["nameServersAgree"], document["nameServersWithoutRoute"]) == (False, ["ns:2"])


def test_name_servers_that_agree_need_no_column(capsys: Captured) -> None:
    lines, notes = _lines(_route(_cluster()), capsys)
    assert lines[0] == ["C", "broker-a", "2", "3", "read-write", "a:1", "-", "UNREAD_QUEUES"]
    assert "Topic orders: 4 queues to read, 5 to write." in notes
    wide, _ = _lines(_route(_cluster()), capsys, format="wide")
    assert wide[0][8] == "ns:1,ns:2"


def test_a_static_topic_and_an_order_configuration_are_said(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.kv_configs["ORDER_TOPIC_CONFIG", "orders"] = "broker-a:4"
    text = (
        '{"brokerDatas":[{"brokerAddrs":{"0":"a:1"},"brokerName":"broker-a","cluster":"C"}],"queueDatas":['
        '{"brokerName":"broker-a","perm":6,"readQueueNums":1,"writeQueueNums":1}],"topicQueueMappingByBroker":'
        '{"broker-a":{"currIdMap":{"5":0,"1":1},"epoch":1,"totalQueues":6}}}'
    )
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = ok(text.encode())
    lines, notes = _lines(_route(cluster), capsys, format="wide")
    assert lines[0][7] == "1,5"
    assert "It is a static topic of 6 logical queues" in notes
    assert "Order configuration at ns:1: broker-a:4; clients do not receive it." in notes


def test_queues_consumers_and_differences_of_a_topic(capsys: Captured) -> None:
    lines, notes = _lines(_status(_cluster()), capsys)
    assert lines[0] == [
        "broker-a", "0", "4", "10", "6", "2026-11-21T04:15:00.000Z", "2026-11-21T05:15:22.995Z", "read-write",
    ]  # fmt: skip
    assert [line[-1] for line in lines] == ["read-write", "read-write", "read-only", "read-only"]
    assert "Topic orders: 4 queues on 2 brokers, 12 messages, 0 msg/s in." in notes
    assert "Consumed by g (on broker-a)." in notes
    assert "  broker-a: 2r/3w read-write; in the route: 2r/3w read-write." in notes
    assert "PERMISSIONS_DIFFER: brokers have different permissions." in notes
    summary = _json(_status(_cluster()), capsys)["summary"]
    assert (summary["messageCount"], summary["groups"]) == (12, [{"group": "g", "brokerNames": ["broker-a"]}])


def test_a_topics_sums_are_unknown_while_a_broker_is_silent(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    lines, notes = _lines(_status(cluster), capsys)
    assert lines[-1] == ["broker-b", "1", "-", "-", "-", "-", "-", "-"]
    assert "at least 6 messages." in notes
    summary = _json(_status(cluster), capsys)["summary"]
    assert (summary["messageCount"], summary["messageCountAtLeast"], summary["topicPutTps"]) == (None, 6, None)
    assert summary["lastUpdateTimestamp"] is None
    assert summary["reasons"] == dict.fromkeys(("messageCount", "topicPutTps", "lastUpdateTimestamp"), "UNREACHABLE")


def test_of_a_thousand_groups_ten_are_named_and_json_has_all(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.brokers["broker-a"].offsets |= {f"many-{number:04}": {"orders": {0: 1}} for number in range(1_000)}
    notes = _lines(_status(cluster), capsys)[1]
    assert "many-0008 (on broker-a) and 991 more." in notes
    assert "many-0009" not in notes
    assert len(_json(_status(cluster), capsys)["summary"]["groups"]) == 1_001


def test_who_consumes_a_topic_is_not_known_while_a_broker_is_silent(capsys: Captured) -> None:
    cluster = _cluster()
    assert "and perhaps others" not in _lines(_status(cluster), capsys)[1]
    cluster.stop("broker-b")
    assert "Consumed by g, and perhaps others: broker-b did not report." in _lines(_status(cluster), capsys)[1]
    cluster.brokers["broker-a"].groups.clear()
    assert "No group is known to consume it: broker-b did not report." in _lines(_status(cluster), capsys)[1]


@pytest.mark.parametrize("topic", ["%RETRY%left", "%RETRY%left_orders", "%RETRY%left+orders"])
def test_a_retry_topic_that_no_member_reads_is_its_groups(topic: str, capsys: Captured) -> None:
    cluster = _cluster()
    a, b = cluster.brokers.values()
    a.topics[topic] = b.topics[topic] = [Queue(20)]
    assert "No group consumes it." in _lines(_status(cluster, topic), capsys)[1]
    a.configured.add("left")
    notes = _lines(_status(cluster, topic), capsys)[1]
    assert "failed messages of group left; no member subscribes to it" in notes
    assert "No group consumes it." not in notes
    cluster.stop("broker-b")
    assert "is unknown: broker-b did not report." in _lines(_status(cluster, topic), capsys)[1]
    a.offsets["left"] = {topic: {0: 1}}
    assert "Consumed by left" in _lines(_status(cluster, topic), capsys)[1]


def test_producers_are_shown_with_what_brokers_do_not_know(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.brokers["broker-b"].producers = {"CLIENT_INNER_PRODUCER": {"c2": 1}}
    (line,), notes = _lines(_producers(cluster), capsys)
    assert line == ["p", "c1", "192.0.2.3", "JAVA", "5.4.0", "1/2", "2026-11-21T05:15:22.995Z"]
    assert "some may use only other topics than orders." in notes
    assert "Producers cannot send to orders on broker-b: no write permission." in notes
    assert "1 client is only in RocketMQ's own producer groups, and not shown (--system)." in notes
    cluster.stop("broker-b")
    (line,), _ = _lines(_producers(cluster), capsys)
    assert line[5] == "1/2?"


def test_no_producer_is_claimed_only_where_every_broker_answered(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.brokers["broker-a"].producers = {}
    assert _producers(cluster).empty == "No broker of orders sees a producer."
    assert _producers(cluster, "p").empty == "No broker of orders sees a producer of group p."
    cluster.brokers["broker-a"].groups[PROXY_GROUP] = Group({"proxy": running()})
    assert "brokers do not see producers that connect through them." in _lines(_producers(cluster), capsys)[1]
    assert _json(_producers(cluster), capsys)["unseenReason"] == "BEHIND_PROXY"
    cluster.stop("broker-b")
    assert _producers(cluster).empty == "No broker of orders reports a producer, but not every broker answered."
    assert _json(_producers(cluster), capsys)["unseenReason"] == "BROKER_UNREACHABLE"


def test_a_broker_is_shown_in_full(capsys: Captured) -> None:
    render(_broker(_cluster()), Display(format="plain"))
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["broker-a:", "master", "0", "at", "a:1"]
    for line in (
        ["version", "5.4.0"],
        ["in,", "msg/s", "4.5", "(10s),", "2.0", "(1m),", "1.0", "(10m)"],
        ["in", "today,", "yesterday", "40,", "-"],
        ["thread", "pools", "waiting", "send", "3"],
        ["send", "3", "-", "-"],
        ["disk", "used,", "commit", "log", "50%,", "consume", "queues", "-"],
        ["2", "5s", "1", "4", "3"],
        ["fileReservedTime", "72"],
        ["messageDelayLevel", "1s", "5s"],
        ["broker-a:", "slave", "1", "at", "slave:1"],
        ["brokerName", "broker-a", "broker-b"],
    ):
        assert line in lines, line
    assert "Configuration" not in out
    assert "s3cret" not in out


def test_a_replica_that_is_down_has_its_error(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.network.refusing.add("slave:1")
    render(_broker(cluster), Display(format="plain"))
    assert ["error", "UNREACHABLE"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_hostile_names_are_harmless_in_every_format(capsys: Captured) -> None:
    hostile = "\x1b[31mT\u202e\ud800"
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.topics[hostile] = [Queue(1)]
        broker.settings = {"\x1b[2J": "\u202e\x9b", "messageDelayLevel": "\x1b[31m"}
    for make in _ALL.values():
        for form in ("table", "wide", "plain", "csv", "tsv", "name", "json", "jsonl", "yaml"):
            render(make(cluster), Display(format=form))
            captured = capsys.readouterr()
            assert not set(captured.out + captured.err) & set("\x1b\x9b\u202e\ud800")


# Whole runs


@pytest.fixture
def whole(serve: Serve) -> Cluster:
    return serve(_cluster())


def test_patterns_pick_topics(whole: Cluster, capsys: Captured) -> None:
    assert call(capsys, "topic", "list", "-o", "name").out.split() == ["orders", "quiet"]
    assert call(capsys, "topic", "list", "%DLQ%*", "q?iet", "-o", "name").out.split() == ["%DLQ%g", "quiet"]
    assert call(capsys, "topic", "list", "--system", "-o", "name").out.split() == ["%DLQ%g", "orders", "quiet"]
    missing = call(capsys, "topic", "list", "oders")
    assert (missing.code, "Did you mean orders?" in missing.err) == (5, True)
    assert call(capsys, "topic", "list", "x*").code == 5


def test_statistics_have_columns_only_when_they_are_asked_for(whole: Cluster, capsys: Captured) -> None:
    assert "MESSAGES" not in call(capsys, "topic", "list").out
    assert "MESSAGES" in call(capsys, "topic", "list", "--with-stats").out
    assert call(capsys, "topic", "list", "--columns", "messageCount").code == 2
    found = call(capsys, "topic", "list", "--with-stats", "--where", "messageCount>0", "-o", "name")
    assert found.out.split() == ["orders"]


@pytest.mark.parametrize(
    "argv", [("topic", "route", "nope"), ("topic", "status", "nope"), ("broker", "show", "nope")], ids=" ".join
)
def test_a_name_that_does_not_exist_is_exit_code_5(argv: tuple[str, ...], whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, *argv, "-o", "json")
    assert (result.code, result.out, result.error["name"]) == (5, "", "NOT_FOUND")


@pytest.mark.parametrize("argv", [("topic", "route"), ("topic", "status"), ("broker", "show")], ids=" ".join)
def test_a_name_is_needed(argv: tuple[str, ...], capsys: Captured) -> None:
    assert call(capsys, *argv).code == 2


def test_an_unknown_column_is_refused_before_the_cluster_is_asked(capsys: Captured) -> None:
    for argv in (("topic", "list"), ("topic", "route", "T"), ("topic", "status", "T"), ("broker", "show", "b")):
        assert call(capsys, "-n", closed_address(), *argv, "--columns", "nope").code == 2


def test_the_whole_configuration_and_the_runtime_table_on_request(whole: Cluster, capsys: Captured) -> None:
    config = call(capsys, "broker", "show", "broker-a", "--config")
    assert "Configuration\n" in config.out
    assert "Runtime table" not in config.out
    assert "innerClientAuthenticationCredentials  (redacted)" in config.out
    runtime = json.loads(call(capsys, "broker", "show", "broker-a", "--runtime", "-o", "json").out)["items"][0]
    assert runtime["runtime"]["putTps"] == "4.5 2.0 1.0"
    assert "config" not in runtime


def test_keys_are_picked_from_both_tables_whatever_their_case(whole: Cluster, capsys: Captured) -> None:
    item = json.loads(call(capsys, "broker", "show", "broker-a", "--key", "*PUT*", "-o", "json").out)["items"][0]
    assert item["config"] == {}
    assert set(item["runtime"]) == {"putTps", "msgPutTotalTodayMorning", "msgPutTotalTodayNow"}
    missing = call(capsys, "broker", "show", "broker-a", "--key", "fileReserved")
    assert (missing.code, "Did you mean fileReservedTime?" in missing.err) == (5, True)
    for secret in ("-o json", "-o yaml", "-o wide", "-o csv"):
        shown = call(capsys, "broker", "show", "broker-a", "--config", "--runtime", *secret.split())
        assert "s3cret" not in shown.out + shown.err


def test_a_replica_that_did_not_answer_has_no_configuration_rather_than_an_empty_one(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.network.refusing.add("slave:1")
    _broker(cluster)

    async def fetch() -> Listing:
        async with cluster.client() as client:
            details = await fetch_broker_details(client, "broker-a")
            return broker_show.to_listing(details, with_config=True, with_runtime=True)

    master, slave = _json(_await(cluster, fetch()), capsys)["items"]
    assert master["config"]["fileReservedTime"] == "72"
    assert (slave["config"], slave["runtime"]) == (None, None)
    assert (slave["reasons"]["config"], slave["reasons"]["runtime"]) == ("UNREACHABLE", "UNREACHABLE")


def test_pools_that_are_not_reported_are_not_called_idle(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.brokers["broker-a"].runtime = {}
    render(_broker(cluster), Display(format="plain"))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["thread", "pools", "waiting", "-"] in lines
    assert ["waiting", "in", "delay", "levels", "none", "reported"] in lines


@pytest.mark.parametrize("words", [(), ("--system",)], ids=["users", "system"])
def test_a_namespace_narrows_the_list_of_topics(words: tuple[str, ...], capsys: Captured) -> None:
    names = ("NS%orders", "%RETRY%NS%g", "orders", "%RETRY%g", "NS2%orders")
    cluster = Cluster(BrokerState("broker-a", topics={name: [Queue(1)] for name in names}))
    with served(cluster) as address:
        result = call(capsys, "topic", "list", "-n", address, "--namespace", "NS", "-o", "name", *words)
        other = call(capsys, "topic", "list", "-n", address, "--namespace", "none", "-o", "json")
    assert (result.code, result.out.split()) == (0, ["%RETRY%NS%g", "NS%orders"] if words else ["NS%orders"])
    assert (other.code, json.loads(other.out)["items"]) == (0, [])
