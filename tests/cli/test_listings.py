"""What the commands that ask a cluster show of its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.status import fetch_broker_statuses
from rmqctl.admin.groups.list import fetch_group_list
from rmqctl.admin.offsets.group import fetch_group_progress, fetch_matching_progress
from rmqctl.cli.cluster import list as cluster_list
from rmqctl.cli.group import list as group_list
from rmqctl.cli.offset import show as offset_show
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from rmqctl.cli.output.rich_table import rich_table
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.schemas import check_document
from tests.scripted_peer import V4_9_7, V5_4_0, passing, run

_T = TypeVar("_T")
Captured = pytest.CaptureFixture[str]


def _cluster(version: int = V5_4_0) -> Cluster:
    """Return a cluster with everything that makes a null somewhere."""
    a, b = BrokerState("broker-a", version), BrokerState("broker-b", version)
    for broker in (a, b):
        broker.topics["T"] = [Queue(2201, 2000), Queue(100), Queue(100), Queue(10)]
        broker.configured |= {"G", "idle", "TOOLS_CONSUMER"}
    a.offsets["G"] = {"T": {0: 2101, 1: 0, 2: 101}}
    b.offsets["G"] = {"T": {0: 1990, 1: 100, 2: 50, 3: 5}}
    a.pulls["G", "T", 0] = 2201
    a.groups["G"] = Group({"c1": running({("T", "broker-a", 0): held(1, 2101, 2101, 2101)})})
    return Cluster(a, b)


def _await(cluster: Cluster, coroutine: Coroutine[Any, Any, _T]) -> _T:
    return run(passing(cluster.clock, coroutine))


def _offsets(cluster: Cluster) -> Listing:
    async def fetch() -> Listing:
        async with cluster.client() as client:
            return offset_show.to_listing([await fetch_group_progress(client, "G")])

    return _await(cluster, fetch())


def _groups(cluster: Cluster) -> Listing:
    async def fetch() -> Listing:
        async with cluster.client() as client:
            return group_list.to_listing(await fetch_group_list(client))

    return _await(cluster, fetch())


def _brokers(cluster: Cluster) -> Listing:
    async def fetch() -> Listing:
        async with cluster.client() as client:
            statuses, failures = await fetch_broker_statuses(client, await fetch_cluster(client))
            return cluster_list.to_listing(statuses, failures)

    return _await(cluster, fetch())


_ALL = {"offset show": _offsets, "group list": _groups, "cluster list": _brokers}


def _json(listing: Listing, capsys: Captured) -> dict[str, Any]:
    render(listing, Display(format="json"))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    check_document(document)
    return document


@pytest.mark.parametrize("command", _ALL)
@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
@pytest.mark.parametrize("is_partial", [False, True], ids=["whole", "partial"])
def test_every_null_in_json_has_its_reason(command: str, version: int, is_partial: bool, capsys: Captured) -> None:
    cluster = _cluster(version)
    if is_partial:
        cluster.stop("broker-b")
    document = _json(_ALL[command](cluster), capsys)
    assert document["items"]
    for item in document["items"]:
        for key, value in item.items():
            # A source stands beside a value, an Iso time beside its number, and no error is no unknown.
            if value is None and not key.endswith(("Source", "Iso")) and key != "error":
                assert key in item["reasons"], (command, key, item)


@pytest.mark.parametrize("command", _ALL)
def test_a_part_that_fails_is_exit_code_8_and_listed(command: str, capsys: Captured) -> None:
    cluster = _cluster()
    assert render(_ALL[command](cluster), Display(format="json")) == 0
    cluster = _cluster()
    cluster.stop("broker-b")
    listing = _ALL[command](cluster)
    assert render(listing, Display(format="json")) == 8
    capsys.readouterr()
    document = _json(listing, capsys)
    assert [(error["brokerName"], error["name"]) for error in document["errors"]] == [("broker-b", "UNREACHABLE")]
    render(listing, Display(with_notes=False))
    assert capsys.readouterr().err.startswith("rmqctl: not read: broker-b: ")


@pytest.mark.parametrize("command", _ALL)
def test_every_column_is_a_key_of_json_and_every_row_fits_every_format(command: str, capsys: Captured) -> None:
    listing = _ALL[command](_cluster())
    for column in listing.columns:
        assert all(column.key in item for item in listing.items), column.key
    for form in ("table", "wide", "plain", "csv", "tsv", "name", "jsonl", "yaml"):
        render(listing, Display(format=form))
        lines = capsys.readouterr().out.splitlines()
        if form in ("name", "jsonl"):
            assert len(lines) == len(listing.items)
        if form in ("table", "wide", "plain", "csv", "tsv"):
            assert len(lines) == len(listing.items) + 1


@pytest.mark.parametrize("command", _ALL)
def test_no_column_is_there_twice(command: str) -> None:
    columns = _ALL[command](_cluster()).columns
    assert len({column.key for column in columns}) == len({column.heading for column in columns}) == len(columns)


def test_a_stuck_head_is_seen_in_the_table(capsys: Captured) -> None:
    render(_offsets(_cluster()), Display(with_headers=False))
    first = capsys.readouterr().out.splitlines()[0].split()
    # topic broker queue max consumer lag in-flight risk time-lag kept owner
    assert first == ["T", "broker-a", "0", "2201", "2101", "100", "100", "99", "5s", "2d23h", "c1"]


def test_an_offset_row_has_the_wires_names_and_exact_numbers(capsys: Captured) -> None:
    document = _json(_offsets(_cluster()), capsys)
    assert (document["kind"], document["group"]) == ("OffsetList", "G")
    item = document["items"][0]
    assert {
        key: item[key] for key in ("topic", "brokerName", "queueId", "minOffset", "maxOffset", "consumerOffset")
    } == {
        "topic": "T",
        "brokerName": "broker-a",
        "queueId": 0,
        "minOffset": 2000,
        "maxOffset": 2201,
        "consumerOffset": 2101,
    }
    assert (item["pullOffset"], item["lag"], item["inflight"], item["duplicateRisk"]) == (2201, 100, 100, 99)
    assert (item["clientId"], item["clientIds"]) == ("c1", ["c1"])
    assert (item["lastTimestamp"], item["lastTimestampIso"]) == (1_795_238_122_995, "2026-11-21T05:15:22.995Z")
    assert (item["duplicateRiskSource"], item["timeLagSource"]) == ("BROKER", "HEAD_STORE_TIME")


def test_a_sum_with_an_unknown_part_is_unknown_and_a_lower_bound_is_told(capsys: Captured) -> None:
    # broker-a: 100, 100, beyond max, never committed; broker-b: 201 and 10 lost, 0, 50, 5.
    document = _json(_offsets(_cluster()), capsys)
    summary = document["summary"]
    assert (summary["lag"], summary["lagAtLeast"], summary["lost"]) == (None, 456, None)
    assert (summary["state"], summary["memberCount"]) == ("ONLINE", 1)
    render(_offsets(_cluster()), Display())
    notes = capsys.readouterr().err
    assert "Group G: 1 member, lag at least 456" in notes
    assert "10 messages were deleted before this group read them." in notes
    assert "Lag is unknown on 1 queue: NEVER_COMMITTED." in notes
    assert "Lag is unknown on 1 queue: OFFSET_BEYOND_MAX." in notes


def test_what_is_known_of_the_members_is_said(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.brokers["broker-a"].groups.clear()
    render(_offsets(cluster), Display())
    assert "Group G: no members that brokers can see, " in capsys.readouterr().err
    cluster.stop("broker-b")
    render(_offsets(cluster), Display())
    assert "Group G: members unknown, " in capsys.readouterr().err


def test_names_are_what_other_commands_take(capsys: Captured) -> None:
    cluster = _cluster()
    render(_offsets(cluster), Display(format="name"))
    assert capsys.readouterr().out.splitlines()[0] == "T@broker-a:0"
    render(_groups(cluster), Display(format="name"))
    assert capsys.readouterr().out.splitlines() == ["G", "idle"]
    render(_brokers(cluster), Display(format="name"))
    assert capsys.readouterr().out.splitlines() == ["broker-a", "broker-b"]


# Several groups, and only what is behind


def _matching(cluster: Cluster, *patterns: str, only_with_lag: bool = False) -> Listing:
    async def fetch() -> Listing:
        async with cluster.client() as client:
            found, failures = await fetch_matching_progress(client, patterns)
            return offset_show.to_listing(found, failures, only_with_lag=only_with_lag)

    return _await(cluster, fetch())


def test_several_groups_stand_in_a_column_and_have_each_its_sums(capsys: Captured) -> None:
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.offsets["H"] = {"T": {0: 2201, 1: 100, 2: 100, 3: 10}}
    listing = _matching(cluster, "*")
    render(listing, Display(format="plain"))
    captured = capsys.readouterr()
    assert captured.out.split()[:3] == ["GROUP", "TOPIC", "BROKER"]
    assert {line.split()[0] for line in captured.out.splitlines()[1:]} == {"G", "H"}
    notes = captured.err.splitlines()
    assert [note.split(":")[0] for note in notes if note.startswith("Group ")] == ["Group G", "Group H", "Group idle"]
    document = _json(listing, capsys)
    assert (document["group"], document["summary"]) == (None, None)
    assert [(each["group"], each["lag"], each["lagAtLeast"]) for each in document["summaries"]] == [
        ("G", None, 456),
        ("H", 0, 0),
        ("idle", None, 0),
    ]
    assert document["summaries"][2]["reasons"]["lag"] == "NEVER_COMMITTED"


def test_the_sums_of_the_only_group_that_was_read_are_not_those_of_all(capsys: Captured) -> None:
    document = _json(_matching(_cluster(), "G", "missing"), capsys)
    assert (document["group"], document["summary"]) == (None, None)
    assert [each["group"] for each in document["summaries"]] == ["G"]
    assert "group missing" in [each["what"] for each in document["errors"]]


def test_one_group_needs_no_column_of_its_own(capsys: Captured) -> None:
    render(_matching(_cluster(), "G"), Display(format="plain"))
    assert capsys.readouterr().out.split()[:2] == ["TOPIC", "BROKER"]
    render(_matching(_cluster(), "G"), Display(format="wide"))
    assert capsys.readouterr().out.split()[:2] == ["GROUP", "TOPIC"]


def test_what_failed_for_several_groups_is_said_once(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    document = _json(_matching(cluster, "*"), capsys)
    assert [error["what"] for error in document["errors"]] == ["names of groups", "offsets of G and 1 more group"]


def test_only_with_lag_leaves_out_what_is_read_and_keeps_what_is_not_known(capsys: Captured) -> None:
    every = _json(_matching(_cluster(), "G"), capsys)["items"]
    behind = _json(_matching(_cluster(), "G", only_with_lag=True), capsys)["items"]
    assert [item for item in every if item["lag"] != 0] == behind
    assert {item["lag"] for item in behind} >= {None, 100}
    assert 0 < len(behind) < len(every)


def test_when_nothing_is_behind_that_is_said(capsys: Captured) -> None:
    a = BrokerState("broker-a", topics={"T": [Queue(10)]}, configured={"G"}, offsets={"G": {"T": {0: 10}}})
    cluster = Cluster(a)
    render(_matching(cluster, "G", only_with_lag=True), Display())
    assert capsys.readouterr().err.splitlines()[0] == "No queue is behind."
    a.offsets.clear()
    render(_matching(cluster, "G", only_with_lag=True), Display())
    assert "it has never consumed" in capsys.readouterr().err


def test_that_a_group_never_consumed_is_said_only_when_all_brokers_answered(capsys: Captured) -> None:
    a, b = BrokerState("broker-a", configured={"G"}), BrokerState("broker-b", configured={"G"})
    cluster = Cluster(a, b)
    assert render(_matching(cluster, "G"), Display()) == 0
    assert "it has never consumed" in capsys.readouterr().err
    cluster.stop("broker-b")
    assert render(_matching(cluster, "G"), Display()) == 8
    err = capsys.readouterr().err
    assert "never consumed" not in err
    assert err.startswith("In the part that was read: group G ")


def test_groups_that_are_not_behind_can_be_left_out(capsys: Captured) -> None:
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.offsets["done"] = {"T": {0: 2201, 1: 100, 2: 100, 3: 10}}

    async def fetch() -> Listing:
        async with cluster.client() as client:
            return group_list.to_listing(await fetch_group_list(client, ["*"]), only_with_lag=True)

    listing = _await(cluster, fetch())
    assert [item["group"] for item in _json(listing, capsys)["items"]] == ["G", "idle"]


def test_hidden_groups_are_noted(capsys: Captured) -> None:
    render(_groups(_cluster()), Display())
    assert "1 system group is not shown" in capsys.readouterr().err


def test_a_groups_lag_is_a_lower_bound_when_a_broker_is_down(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    render(_groups(cluster), Display(format="plain", with_headers=False))
    assert capsys.readouterr().out.split()[:4] == ["G", "ONLINE", "1", ">=200"]


def test_a_broker_that_is_down_keeps_its_line_with_the_errors_name(capsys: Captured) -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    render(_brokers(cluster), Display(format="plain"))
    line = capsys.readouterr().out.splitlines()[2].split()
    assert line[:2] == ["C", "broker-b"]
    assert line[-1] == "UNREACHABLE"


def test_hostile_names_from_a_cluster_are_harmless_in_every_format(capsys: Captured) -> None:
    a = BrokerState("broker-a", topics={"\x1b[31mT\u202e": [Queue(10)]})
    a.offsets["G"] = {"\x1b[31mT\u202e": {0: 5}}
    a.configured = {"G", "\x9bg\n[red]\ud800"}
    cluster = Cluster(a)
    for listing in (_offsets(cluster), _groups(cluster)):
        for form in ("table", "wide", "plain", "csv", "tsv", "name", "json", "jsonl", "yaml"):
            render(listing, Display(format=form))
            captured = capsys.readouterr()
            assert not set(captured.out + captured.err) & set("\x1b\x9b\u202e\ud800")


def test_nothing_here_waits_for_real_time() -> None:
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_one_rule_for_queues_that_no_consumer_can_read(capsys: Captured) -> None:
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.topics["T"] += [Queue(7), Queue(5)]
        broker.topic_configs["T"] = {"readQueueNums": 4, "writeQueueNums": 6}
        broker.offsets["G"]["T"] |= {0: 2101, 1: 0, 2: 100, 3: 10}
        broker.groups["G"] = Group({"c1": running()})
    (group,) = [item for item in _json(_groups(cluster), capsys)["items"] if item["group"] == "G"]
    document = _json(_offsets(cluster), capsys)
    # A queue with the offset 0 was committed.
    assert group["lag"] == document["summary"]["lag"] == 400
    assert (group["unreadableMessageCount"], group["attention"]) == (24, ["OFF004"])
    assert group["unchecked"] == [{"part": "MEMBERS", "reason": "NOT_ASKED"}]
    assert {item["queueId"] for item in document["items"]} == {0, 1, 2, 3}
    assert sum(queue["messageCount"] for queue in document["unreadableQueues"]) == 24
    for form in ("plain", "csv", "json"):
        render(_offsets(cluster), Display(format=form, with_notes=False))
        warning = "rmqctl: 24 messages of T are in 4 queues that no consumer can read until readQueueNums is 6.\n"
        assert capsys.readouterr().err == warning


def test_ages_that_were_not_asked_for_have_a_reason_and_a_note(capsys: Captured) -> None:
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.offsets = {f"g{number:03}": {"T": dict.fromkeys(range(4), 5)} for number in range(150)}
    listing = _groups(cluster)
    items = _json(listing, capsys)["items"]
    unasked = [item for item in items if item["reasons"].get("timeLagMs") == "NOT_ASKED"]
    assert len(unasked) == 50
    assert all(item["timeLagMs"] is None for item in unasked)
    assert any(note.startswith("TIME-LAG was not measured for 50 groups") for note in listing.notes)


def test_group_list_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.offsets["payments-settlement-consumer"] = broker.offsets["G"]
    monkeypatch.setenv("COLUMNS", "80")
    listing = _groups(cluster)
    columns = [column for column in listing.columns if not column.is_wide]
    items = [{**item, "timeLagMs": 61_000} for item in listing.items]
    text = rich_table(items, columns, Display(with_color=False))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    headings = text.splitlines()[0].split()
    assert {"GROUP", "STATE", "MEMBERS", "LAG", "LOST", "TIME-LAG", "!"} <= set(headings)
    assert "payments-settlement-consumer" in text


def test_why_groups_need_attention_is_said_below_the_table(capsys: Captured) -> None:
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.offsets |= {f"left{number}": {"T": dict.fromkeys(range(4), 100)} for number in range(5)}
    render(_groups(cluster), Display(format="plain"))
    err = capsys.readouterr().err
    says = "messages were deleted before the group read them."
    assert f"! OFF001 (G, left0, left1 and 3 more): {says}\n" in err
    assert "! OFF005 (left0, left1, left2 and 2 more): messages wait, and no broker sees a member.\n" in err
    render(_groups(cluster), Display(format="csv"))
    assert "OFF001" not in capsys.readouterr().err


def _marks(cluster: Cluster, capsys: Captured) -> tuple[dict[str, str], str]:
    """Return the mark of each group, and the note about those that were not looked at."""
    render(_groups(cluster), Display(format="plain", columns=("group", "attention")))
    shown = capsys.readouterr()
    rows = [line.split() for line in shown.out.splitlines()[1:]]
    notes = [line for line in shown.err.splitlines() if line.startswith("?")]
    return dict(rows), "\n".join(notes)


def test_a_group_whose_members_were_not_asked_is_not_shown_as_fine(capsys: Captured) -> None:
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.configured |= {"fine", "unseen", "left"}
        broker.offsets |= {name: {"T": {0: 2201, 1: 100, 2: 100, 3: 10}} for name in ("fine", "unseen")}
        broker.offsets["left"] = {"T": {0: 2200, 1: 100, 2: 100, 3: 10}}
        broker.groups["unseen"] = Group({"c1": running()})
    marks, note = _marks(cluster, capsys)
    assert marks == {"G": "!", "fine": "-", "idle": "-", "left": "!", "unseen": "?"}
    assert "1 group" in note
    assert "members are not asked here" in note
    assert "rmqctl diagnose GROUP" in note
    assert "rmqctl group describe GROUP" in note
    cluster.stop("broker-b")
    marks, note = _marks(cluster, capsys)
    assert marks == {"G": "!", "fine": "?", "idle": "?", "left": "?", "unseen": "?"}
    assert "a part of the brokers' tables is missing" in note


def test_without_a_group_that_was_not_looked_at_there_is_no_note_about_it(capsys: Captured) -> None:
    cluster = _cluster()
    for broker in cluster.brokers.values():
        broker.groups.clear()
        broker.offsets["G"] = {"T": {0: 2201, 1: 100, 2: 100, 3: 10}}
    marks, note = _marks(cluster, capsys)
    assert (marks, note) == ({"G": "-", "idle": "-"}, "")
