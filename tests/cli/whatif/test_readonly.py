"""whatif readonly against a scripted cluster: every verdict, every format, what can't be read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.cli.calls import call, closed_address
from tests.cli.output.hostile import raw_in
from tests.cli.scripted_server import served
from tests.scripted_peer import V4_9_7, V5_4_0, Reply, refused

Captured = pytest.CaptureFixture[str]
_WORDS = ("whatif", "readonly", "--broker", "broker-a")
_CONCURRENT = {"PROP_CONSUMEORDERLY": "false", "messageModel": "CLUSTERING", "maxReconsumeTimes": "-1"}
_ORDERLY = {**_CONCURRENT, "PROP_CONSUMEORDERLY": "true"}


def _join(
    cluster: Cluster, group: str, topic: str, *members: Reply, retry_at_b: int | None = None, **more: Any
) -> None:
    """Let a group consume a topic; `retry_at_b` is the permission of its retry topic at broker-b, None for none."""
    for name, perm in (("broker-a", 6), ("broker-b", retry_at_b)):
        broker = cluster.brokers[name]
        if perm is None:
            continue
        broker.configured.add(group)
        broker.topics[f"%RETRY%{group}"] = [Queue()]
        broker.topic_configs[f"%RETRY%{group}"] = {"perm": perm}
        if topic in broker.topics:
            broker.offsets[group] = {topic: {0: 1}}
            if members:
                told = {f"c{number}": member for number, member in enumerate(members)}
                broker.groups[group] = Group(told, (topic, f"%RETRY%{group}"), **more)


def _cluster(version: int = V5_4_0) -> Cluster:
    a, b = BrokerState("broker-a", version), BrokerState("broker-b", version)
    for broker in (a, b):
        broker.topics |= {"both": [Queue(9), Queue(9)], "TBW102": [Queue()], broker.name: [Queue()]}
        broker.settings |= {"brokerPermission": "6", "autoCreateSubscriptionGroup": "true"}
        broker.configured.add("TOOLS_CONSUMER")
    a.topics |= {"only": [Queue(5)], "frozen": [Queue(5)]}
    a.topic_configs["frozen"] = {"perm": 4}
    b.topics["other"] = [Queue(5)]
    cluster = Cluster(a, b)
    concurrent, orderly = running(**_CONCURRENT), running(**{**_ORDERLY, "maxReconsumeTimes": "3"})
    _join(cluster, "finds", "both", concurrent, concurrent, retry_at_b=6)
    _join(cluster, "blocks", "only", concurrent)
    _join(cluster, "frozen-retries", "both", concurrent, retry_at_b=4)
    _join(cluster, "in-order", "only", orderly)
    _join(cluster, "endless", "only", running(**_ORDERLY))
    _join(cluster, "broadcast", "both", refused(R.SYSTEM_ERROR), retry_at_b=6, message_model="BROADCASTING")
    _join(cluster, "pulls", "both", refused(R.SYSTEM_ERROR), retry_at_b=6, consume_type="CONSUME_ACTIVELY")
    _join(cluster, "idle", "both", retry_at_b=6)
    _join(cluster, "mixed", "both", concurrent, orderly, retry_at_b=6)
    pops = running({("%RETRY%pops", "broker-a", 0): held()}, {("only", "broker-a", -1): 0},
                   **_CONCURRENT, clientRebalance="false")  # fmt: skip
    _join(cluster, "pops", "only", pops)
    b.configured.add("elsewhere")
    b.groups["elsewhere"] = Group({"c0": concurrent}, ("other",))
    return cluster


@pytest.fixture(params=[V5_4_0, V4_9_7], ids=["5.4.0", "4.9.7"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return _cluster(request.param)


@pytest.fixture
def address(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the cluster as a test has changed it until it asks."""
    with served(cluster) as name_server:
        monkeypatch.setenv("NAMESRV_ADDR", name_server)
        yield name_server


def _document(capsys: Captured, *more: str, code: int = 0) -> dict[str, Any]:
    result = call(capsys, *_WORDS, *more, "-o", "json")
    assert (result.code, result.err) == (code, "")
    document: dict[str, Any] = json.loads(result.out)
    return document


def _verdicts(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {item["group"]: (item["verdict"], item["why"]) for item in document["items"]}


def _codes(document: dict[str, Any]) -> set[str]:
    return {concern["code"] for concern in document["concerns"]}


@pytest.mark.usefixtures("address")
def test_every_verdict_has_its_reason(capsys: Captured) -> None:
    document = _document(capsys)
    assert _verdicts(document) == {
        "blocks": ("BLOCKS", "NO_WRITABLE_BROKER"),
        "frozen-retries": ("BLOCKS", "NO_WRITABLE_BROKER"),
        "in-order": ("BLOCKS", "NO_WRITABLE_BROKER"),
        "idle": ("UNKNOWN", "NO_MEMBERS"),
        "finds": ("FINDS_ANOTHER", "WRITABLE_BROKER"),
        "mixed": ("FINDS_ANOTHER", "WRITABLE_BROKER"),
        "broadcast": ("NOT_AFFECTED", "BROADCASTING"),
        "endless": ("NOT_AFFECTED", "ORDERLY_ENDLESS"),
        "pops": ("NOT_AFFECTED", "POP"),
        "pulls": ("NOT_AFFECTED", "PULL"),
    }
    assert [item["verdict"] for item in document["items"]] == ["BLOCKS"] * 3 + ["UNKNOWN"] + ["FINDS_ANOTHER"] * 2 + [
        "NOT_AFFECTED"
    ] * 4
    items = {item["group"]: item for item in document["items"]}
    assert items["finds"] | {"topics": []} == {
        "group": "finds", "state": "ONLINE", "memberCount": 2, "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING", "modes": ["CONCURRENT"], "queueCount": 2, "topics": [],
        "verdict": "FINDS_ANOTHER", "why": "WRITABLE_BROKER", "retryBrokers": ["broker-b"], "silentRetryBrokers": [],
        "reasons": {},
    }  # fmt: skip
    assert items["finds"]["topics"] == [{"topic": "both", "queueCount": 2}]
    assert items["mixed"]["modes"] == ["CONCURRENT", "ORDERLY"]
    assert (items["idle"]["state"], items["idle"]["memberCount"]) == ("EMPTY", 0)
    assert items["idle"]["reasons"] == {"consumeType": "NO_MEMBERS", "messageModel": "NO_MEMBERS"}
    # A topic that takes no messages already, and those that RocketMQ makes for itself, are lost to nobody.
    assert document["unwritableTopics"] == ["only"]
    assert (document["isReadOnly"], document["wipedTopics"], document["by"]) == (False, [], "brokerPermission")
    assert _codes(document) == {"GROUPS_BLOCK", "ORDERLY_MIXED", "TOPICS_UNWRITABLE"}


@pytest.mark.usefixtures("address")
def test_what_only_name_servers_take_away_touches_orderly_groups_alone(capsys: Captured) -> None:
    document = _document(capsys, "--by", "wipeWritePerm")
    verdicts = _verdicts(document)
    assert verdicts["blocks"] == verdicts["frozen-retries"] == ("NOT_AFFECTED", "SEND_BACK_ACCEPTED")
    assert verdicts["in-order"] == ("BLOCKS", "NO_WRITABLE_BROKER")
    assert verdicts["mixed"] == ("FINDS_ANOTHER", "WRITABLE_BROKER")
    assert document["unwritableTopics"] == ["only"]
    assert "ORDERLY_MIXED" not in _codes(document)


@pytest.mark.usefixtures("address")
def test_nothing_that_leaves_a_trace_is_asked(cluster: Cluster, capsys: Captured) -> None:
    _document(capsys)
    asked = [request for server in cluster.servers.values() for request in server.asked]
    assert {request.code for request in asked} == {
        Q.GET_ALL_TOPIC_CONFIG, Q.GET_ALL_CONSUMER_OFFSET, Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Q.GET_BROKER_CONFIG,
        Q.GET_CONSUMER_CONNECTION_LIST, Q.GET_CONSUMER_RUNNING_INFO,
    }  # fmt: skip
    # Members are asked where the broker doesn't know how they consume, and each once.
    relayed = Counter(
        request.ext_fields["consumerGroup"] for request in asked if request.code == Q.GET_CONSUMER_RUNNING_INFO
    )
    assert relayed == {"finds": 2, "mixed": 2} | dict.fromkeys(
        ("blocks", "frozen-retries", "in-order", "endless", "pops"), 1
    )


@pytest.mark.usefixtures("address")
def test_groups_are_picked_by_name_and_pattern(capsys: Captured) -> None:
    assert set(_verdicts(_document(capsys, "fin*", "pops"))) == {"finds", "pops"}
    document = _document(capsys, "elsewhere", "finds")
    assert set(_verdicts(document)) == {"finds"}
    sentences = {concern["code"]: concern["text"] for concern in document["concerns"]}
    assert sentences["NOT_CONSUMING"] == "Groups that do not consume from broker-a: elsewhere."
    result = call(capsys, *_WORDS, "find")
    assert (result.code, result.out) == (5, "")
    assert result.err == "rmqctl: Group find does not exist.\n        Did you mean finds?\n"


@pytest.mark.usefixtures("address")
def test_a_broker_that_does_not_exist_has_suggestions(capsys: Captured) -> None:
    result = call(capsys, "whatif", "readonly", "--broker", "broker-aa")
    assert (result.code, result.out) == (5, "")
    assert result.err.startswith("rmqctl: Broker broker-aa does not exist.\n        Did you mean broker-a")


@pytest.mark.usefixtures("address")
def test_an_unknown_way_and_a_missing_broker_are_usage(capsys: Captured) -> None:
    result = call(capsys, *_WORDS, "--by", "force")
    assert (result.code, result.out) == (2, "")
    assert "brokerPermission, wipeWritePerm" in result.err
    assert call(capsys, "whatif", "readonly").code == 2


def test_a_broker_that_is_read_only_and_alone_is_called_so(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    alone = BrokerState("broker-a", settings={"brokerPermission": "4"}, topics={"T": [Queue(1)]})
    with served(Cluster(alone)) as name_server:
        monkeypatch.setenv("NAMESRV_ADDR", name_server)
        document = _document(capsys)
        assert document["isReadOnly"] is True
        assert _codes(document) == {"ALREADY_READ_ONLY", "ONLY_BROKER", "TOPICS_UNWRITABLE"}
        result = call(capsys, *_WORDS)
    assert (result.code, result.out) == (0, "")
    assert "No group consumes topics of broker-a." in result.err
    assert "Broker broker-a is the only broker of cluster C." in result.err


def test_a_permission_that_the_name_server_took_is_told(cluster: Cluster, capsys: Captured) -> None:
    # The route is wiped, the broker's own table is not.
    served_table = cluster.brokers["broker-a"].topic_config
    state = cluster.brokers["broker-a"]
    with served(cluster) as name_server:
        route = cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC]

        def wiped(request: Any) -> Any:
            state.topic_config = lambda topic: served_table(topic) | {"perm": 4}  # type: ignore[method-assign]
            try:
                return route(request)  # type: ignore[operator]
            finally:
                state.topic_config = served_table  # type: ignore[method-assign]

        cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = wiped
        document = _document(capsys, "-n", name_server)
    assert document["wipedTopics"] == ["both", "only"]
    assert (document["isReadOnly"], "ALREADY_WIPED" in _codes(document)) == (False, True)


def test_another_broker_without_permission_is_told(cluster: Cluster, capsys: Captured) -> None:
    cluster.brokers["broker-b"].settings["brokerPermission"] = "4"
    with served(cluster) as name_server:
        assert "OTHERS_READ_ONLY" in _codes(_document(capsys, "-n", name_server))


def test_a_group_that_another_broker_would_refuse_blocks(cluster: Cluster, capsys: Captured) -> None:
    other = cluster.brokers["broker-b"]
    other.configured.discard("finds")
    with served(cluster) as name_server:
        assert _verdicts(_document(capsys, "-n", name_server))["finds"][0] == "FINDS_ANOTHER"
        other.settings["autoCreateSubscriptionGroup"] = "false"
        assert _verdicts(_document(capsys, "-n", name_server))["finds"] == ("BLOCKS", "NO_WRITABLE_BROKER")


def test_another_broker_that_is_down_leaves_open_what_it_would_take(cluster: Cluster, capsys: Captured) -> None:
    cluster.addresses["broker-b"] = closed_address()
    with served(cluster) as name_server:
        document = _document(capsys, "-n", name_server, code=8)
        result = call(capsys, *_WORDS, "-n", name_server)
    items = {item["group"]: item for item in document["items"]}
    finds = items["finds"]
    assert (finds["verdict"], finds["why"]) == ("UNKNOWN", "BROKER_UNREACHABLE")
    assert (finds["retryBrokers"], finds["silentRetryBrokers"]) == (None, ["broker-b"])
    assert finds["reasons"] == {"retryBrokers": "BROKER_UNREACHABLE"}
    # What the name server's route says is enough for these.
    assert items["blocks"]["verdict"] == items["frozen-retries"]["verdict"] == "BLOCKS"
    assert {error["brokerName"] for error in document["errors"]} == {"broker-b"}
    assert result.code == 8
    assert "rmqctl: not read: broker-b: " in result.err


def test_a_broker_that_is_down_itself_can_t_be_told_of(cluster: Cluster, capsys: Captured) -> None:
    cluster.addresses["broker-a"] = closed_address()
    with served(cluster) as name_server:
        result = call(capsys, *_WORDS, "-n", name_server)
    assert (result.code, result.out) == (6, "")
    assert "connection refused" in result.err


def test_a_group_with_members_elsewhere_is_online_and_nobody_fails_here(cluster: Cluster, capsys: Captured) -> None:
    """The state is that of group list, which asks all brokers."""
    cluster.brokers["broker-b"].groups["idle"] = Group({"c0": running(**_CONCURRENT)}, ("other",))
    with served(cluster) as address:
        items = {item["group"]: item for item in _document(capsys, "-n", address)["items"]}
        listed = json.loads(call(capsys, "group", "list", "idle", "-n", address, "-o", "json").out)["items"]
    assert (items["idle"]["state"], items["idle"]["memberCount"]) == ("ONLINE", 1)
    assert (listed[0]["state"], listed[0]["memberCount"]) == ("ONLINE", 1)
    assert (items["idle"]["verdict"], items["idle"]["why"]) == ("UNKNOWN", "NO_MEMBERS")


def test_members_that_do_not_answer_leave_it_open(cluster: Cluster, capsys: Captured) -> None:
    members = cluster.brokers["broker-a"].groups["finds"].members
    members["c1"] = refused(R.CONSUME_MSG_TIMEOUT, "timeout")
    with served(cluster) as name_server:
        document = _document(capsys, "-n", name_server, code=8)
    item = next(item for item in document["items"] if item["group"] == "finds")
    assert (item["verdict"], item["why"], item["modes"]) == ("UNKNOWN", "CLIENT_SILENT", ["CONCURRENT"])
    assert item["reasons"] == {"modes": "CLIENT_SILENT"}
    assert [error["what"] for error in document["errors"]] == ["running info of c1"]


def test_a_broker_that_does_not_tell_its_members_leaves_them_open(cluster: Cluster, capsys: Captured) -> None:
    with served(cluster) as name_server:
        table = cluster.servers["broker-a"].table
        table[Q.GET_CONSUMER_CONNECTION_LIST] = refused(R.SYSTEM_ERROR, "no")
        document = _document(capsys, "-n", name_server, code=8)
    assert {item["verdict"] for item in document["items"]} == {"UNKNOWN"}
    item = document["items"][0]
    assert (item["state"], item["memberCount"]) == ("UNKNOWN", None)
    assert item["reasons"] == dict.fromkeys(("memberCount", "consumeType", "messageModel"), "BROKER_UNREACHABLE")
    whats = [error["what"] for error in document["errors"]]
    assert whats[0].startswith("members of ")
    assert whats[0].endswith("and 9 more")


def test_clients_behind_proxies_are_not_taken_for_nobody(cluster: Cluster, capsys: Captured) -> None:
    proxy = Group({"p": refused(R.SYSTEM_ERROR)}, ("DefaultHeartBeatSyncerTopic",))
    cluster.brokers["broker-b"].groups["CID_DefaultHeartBeatSyncerTopic"] = proxy
    with served(cluster) as name_server:
        verdicts = _verdicts(_document(capsys, "-n", name_server))
    assert verdicts["idle"] == ("UNKNOWN", "BEHIND_PROXY")


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("form", ["table", "wide", "plain", "csv", "tsv", "name", "jsonl", "yaml"])
def test_every_format_has_every_group(form: str, capsys: Captured) -> None:
    result = call(capsys, *_WORDS, "-o", form)
    assert result.code == 0
    for group in ("blocks", "finds", "idle", "pops"):
        assert group in result.out
    is_for_people = form in ("table", "wide", "plain")
    assert ("would block its queue in 3 groups: blocks, frozen-retries, in-order." in result.err) is is_for_people


@pytest.mark.usefixtures("address")
def test_the_table_is_short_and_says_where_retries_go(capsys: Captured) -> None:
    lines = [line.split() for line in call(capsys, *_WORDS).out.splitlines()]
    assert lines[0] == ["GROUP", "STATE", "CONSUMES", "QUEUES", "VERDICT", "WHY", "RETRY-AT"]
    rows = {line[0]: line[1:] for line in lines[1:]}
    assert rows["blocks"] == ["ONLINE", "concurrent", "1", "BLOCKS", "NO_WRITABLE_BROKER", "nowhere"]
    assert rows["mixed"] == ["ONLINE", "concurrent+orderly", "2", "FINDS_ANOTHER", "WRITABLE_BROKER", "broker-b"]
    assert rows["idle"][:3] == ["EMPTY", "-", "2"]


@pytest.mark.usefixtures("address")
def test_rows_are_chosen_by_verdict(capsys: Captured) -> None:
    result = call(capsys, *_WORDS, "--where", "verdict=BLOCKS", "-o", "name")
    assert result.out.split() == ["blocks", "frozen-retries", "in-order"]


def test_hostile_names_do_not_reach_the_terminal(cluster: Cluster, capsys: Captured) -> None:
    evil = "x\x1b[31m\u202ey"
    cluster.brokers["broker-a"].topics[evil] = [Queue(1)]
    _join(cluster, evil, evil, running(**_CONCURRENT))
    with served(cluster) as name_server:
        for form in ("table", "wide", "csv", "name"):
            result = call(capsys, *_WORDS, "-n", name_server, "-o", form)
            assert result.code == 0
            assert not raw_in(result.out + result.err)
