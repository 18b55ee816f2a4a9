"""Whole runs against a scripted cluster behind real sockets: exit codes, and what goes to which stream."""

from __future__ import annotations

import json

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.cli.scripted_server import Serve, served
from tests.scripted_peer import ok, refused

from .calls import call, closed_address

Captured = pytest.CaptureFixture[str]


def _cluster() -> Cluster:
    a, b = BrokerState("broker-a"), BrokerState("broker-b")
    for broker in (a, b):
        broker.topics["orders"] = [Queue(100)]
        broker.configured |= {"payments", "TOOLS_CONSUMER"}
        broker.offsets["payments"] = {"orders": {0: 60}}
    a.groups["payments"] = Group({"c1": running({("orders", "broker-a", 0): held(commit=60)})}, ("orders",))
    return Cluster(a, b)


@pytest.fixture
def whole(serve: Serve) -> Cluster:
    """Serve a cluster where everything answers; NAMESRV_ADDR names it."""
    return serve(_cluster())


@pytest.fixture
def partial(serve: Serve) -> Cluster:
    """Serve a cluster one of whose brokers refuses connections."""
    return serve(_cluster(), down=["broker-b"])


def test_data_goes_to_stdout_and_notes_to_stderr(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "offset", "show", "payments")
    assert result.code == 0
    assert [line.split()[:5] for line in result.out.splitlines()[1:]] == [
        ["orders", "broker-a", "0", "100", "60"],
        ["orders", "broker-b", "0", "100", "60"],
    ]
    assert result.err == "Group payments: 1 member, lag 80, consuming 3 msg/s (1-minute average).\n"
    assert call(capsys, "offset", "show", "payments", "-q").err == ""


@pytest.mark.parametrize("argv", [("offset", "show", "payments"), ("group", "list"), ("cluster", "list")], ids=" ".join)
def test_json_is_one_document_and_nothing_else(argv: tuple[str, ...], whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, *argv, "-o", "json")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert document["apiVersion"] == "rmqctl/v1"
    assert len(document["items"]) >= 1
    assert document["errors"] == []


@pytest.mark.parametrize("argv", [("offset", "show", "payments"), ("group", "list"), ("cluster", "list")], ids=" ".join)
def test_a_broker_that_is_down_is_exit_code_8_and_named_even_when_quiet(
    argv: tuple[str, ...], partial: Cluster, capsys: Captured
) -> None:
    result = call(capsys, *argv, "-q")
    assert result.code == 8
    assert result.out
    assert result.err.startswith("rmqctl: not read: broker-b: ")
    assert "connection refused" in result.err
    document = json.loads(call(capsys, *argv, "-o", "json").out)
    assert [(error["brokerName"], error["name"]) for error in document["errors"]] == [("broker-b", "UNREACHABLE")]


@pytest.mark.parametrize("argv", [("offset", "show", "payments"), ("group", "list"), ("cluster", "list")], ids=" ".join)
def test_no_broker_that_answers_is_exit_code_6(
    argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    cluster = _cluster()
    cluster.addresses |= {"broker-a": closed_address(), "broker-b": closed_address()}
    with served(cluster) as address:
        result = call(capsys, *argv, "-n", address)
    assert (result.code, result.out) == (6, "")
    dead = cluster.addresses["broker-a"]
    every = "" if argv[0] == "offset" else " All 2 brokers failed: broker-a, broker-b."
    sentence, hint = result.err.splitlines()
    assert sentence == f"rmqctl: {dead}: connection refused.{every}"
    assert f"--map-address {dead}=" in hint


@pytest.mark.parametrize("argv", [("offset", "show", "payments"), ("group", "list"), ("cluster", "list")], ids=" ".join)
def test_a_cluster_that_wants_credentials_is_exit_code_4(
    argv: tuple[str, ...], whole: Cluster, capsys: Captured
) -> None:
    for server in whole.servers.values():
        server.table = dict.fromkeys(server.table, refused(1, "o.a.r.acl.common.AclException: No accessKey"))
    result = call(capsys, *argv)
    assert (result.code, result.out) == (4, "")
    assert "refused the request" in result.err
    assert call(capsys, *argv, "-o", "json").error["name"] == "NOT_AUTHORISED"


def test_a_group_or_topic_that_does_not_exist_is_exit_code_5_with_a_suggestion(
    whole: Cluster, capsys: Captured
) -> None:
    result = call(capsys, "offset", "show", "paymnets")
    assert (result.code, result.out) == (5, "")
    assert result.err.splitlines() == ["rmqctl: Group paymnets does not exist.", "        Did you mean payments?"]
    result = call(capsys, "offset", "show", "payments", "--topic", "order", "-o", "json")
    assert (result.code, result.error["message"]) == (5, "Topic order does not exist.")
    assert result.error["hint"] == "Did you mean orders?"


def test_a_refusal_of_the_name_server_is_exit_code_1_with_the_codes_name(whole: Cluster, capsys: Captured) -> None:
    whole.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = refused(R.SYSTEM_BUSY, "slow down")
    result = call(capsys, "group", "list")
    assert result.code == 1
    sentence, hint = result.err.splitlines()
    assert sentence.endswith("answered SYSTEM_BUSY (2): slow down")
    assert hint == "        rmqctl explain 2"


def test_a_body_that_is_none_is_exit_code_1_and_no_traceback(whole: Cluster, capsys: Captured) -> None:
    whole.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(b'{"brokerAddrTable":[7]}')
    result = call(capsys, "group", "list")
    assert (result.code, result.out) == (1, "")
    assert "RocketMQ's format" in result.err


def test_a_column_that_there_is_not_is_exit_code_2(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "group", "list", "--columns", "group,lga")
    assert (result.code, result.out) == (2, "")
    assert "Unknown column 'lga'." in result.err


def test_columns_and_headings_are_as_asked(whole: Cluster, capsys: Captured) -> None:
    result = call(capsys, "group", "list", "--columns", "group,lag", "--no-headers", "-o", "csv")
    assert (result.code, result.out) == (0, "payments,80\n")


def test_the_global_options_stand_before_or_behind_the_command(whole: Cluster, capsys: Captured) -> None:
    before = call(capsys, "-q", "-o", "name", "group", "list")
    behind = call(capsys, "group", "list", "-q", "-o", "name")
    between = call(capsys, "group", "-q", "-o", "name", "list")
    assert before == behind == between == (0, "payments\n", "")


def test_systems_groups_are_shown_on_demand(whole: Cluster, capsys: Captured) -> None:
    assert call(capsys, "group", "list", "-o", "name", "--system").out == "TOOLS_CONSUMER\npayments\n"
