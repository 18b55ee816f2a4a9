from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from rmqctl.model.names import PROXY_GROUP
from tests.admin.cluster import Group, held, running, subscribed
from tests.scripted_peer import V4_9_7

from .groups import healthy, offline, show_members, torn

Captured = pytest.CaptureFixture[str]


def _document(listing: Listing, capsys: Captured) -> dict[str, Any]:
    capsys.readouterr()
    render(listing, Display(format="json"))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def _items(listing: Listing, capsys: Captured) -> dict[str, dict[str, Any]]:
    return {item["clientId"]: item for item in _document(listing, capsys)["items"]}


def test_a_member_in_full(capsys: Captured) -> None:
    document = _document(show_members(healthy()), capsys)
    assert (document["group"], document["state"], document["stateReason"]) == ("G", "ONLINE", None)
    assert document["brokerNames"] == ["broker-a", "broker-b"]
    first = document["items"][0]
    assert first == {
        "clientId": "c1",
        "language": "JAVA",
        "clientVersion": "5.4.0",
        "clientAddrs": {"broker-a": ["192.0.2.2:50000"], "broker-b": ["192.0.2.2:50000"]},
        "brokerNames": ["broker-a", "broker-b"],
        "unseenAt": [],
        "untoldAt": [],
        "isIdShared": False,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "isOrderly": False,
        "startTimestamp": 1795238000000,
        "startTimestampIso": "2026-11-21T05:13:20.000Z",
        "queueCount": 2,
        "queues": ["T@broker-a:0", "T@broker-a:1"],
        "cachedMsgCount": 25,
        "cachedMsgSizeInMiB": 0,
        "popUnackedCount": 0,
        "pullTps": 2.5,
        "consumeOkTps": 2.5,
        "consumeFailedTps": 0.5,
        "consumeFailedMsgs": 3,
        "consumeRtMs": 12.25,
        "strategy": "averagely",
        "consumeThreadMax": 20,
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "maxReconsumeTimes": -1,
        "consumeTimeoutMs": 900_000,
        "nameServers": ["ns:1", "ns2:1"],
        "reasons": {},
    }


def test_what_brokers_see_differently_is_told(capsys: Captured) -> None:
    items = _items(show_members(torn()), capsys)
    assert [items[name]["unseenAt"] for name in ("c1", "c2", "cpp")] == [[], ["broker-b"], ["broker-b"]]
    assert [items[name]["isIdShared"] for name in ("c1", "c2", "cpp")] == [False, True, False]
    render(show_members(torn()), Display(format="plain"))
    notes = capsys.readouterr().err.splitlines()
    assert [note.split()[0] for note in notes[:-1]] == [
        "MEM001",
        "MEM002",
        "MEM002",
        "ALO001",
        "MEM005",
        "MEM008",
        "MEM009",
    ]
    assert notes[-1].startswith("rmqctl: not read: running info of cpp: ")


def test_a_silent_member_has_reasons_for_all_of_its_own_words(capsys: Captured) -> None:
    item = _items(show_members(torn()), capsys)["cpp"]
    assert (item["language"], item["queueCount"], item["strategy"]) == ("CPP", None, None)
    assert set(item["reasons"].values()) == {"CLIENT_SILENT"}
    assert set(item["reasons"]) == {key for key, value in item.items() if value is None}
    render(show_members(torn()), Display(format="plain", with_headers=False, with_notes=False))
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last == ["cpp", "192.0.2.2", "5.4.0", "1/2", *"------"]


def test_a_member_that_tells_little_has_reasons_for_the_rest(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.groups["G"] = Group({"go": running(PROP_CONSUMER_START_TIMESTAMP="soon")}, languages={"go": "GO"})
    item = _items(show_members(cluster), capsys)["go"]
    assert (item["queueCount"], item["cachedMsgCount"], item["queues"]) == (0, 0, [])
    for key in ("consumeOkTps", "strategy", "startTimestamp", "isOrderly", "nameServers", "consumeThreadMax"):
        assert (item[key], item["reasons"][key]) == (None, "NOT_REPORTED")


def test_dropped_queues_are_not_held_and_popped_ones_are(capsys: Captured) -> None:
    cluster = healthy()
    holds = {("T", "broker-a", 0): held(5, 1, 5), ("T", "broker-a", 1): held(7, 1, 7, dropped=True)}
    member = running(holds, {("T", "broker-b", 0): 4, ("T", "broker-a", 0): 1}, subscriptions=[subscribed("T")])
    for broker in cluster.brokers.values():
        broker.groups["G"] = Group({"c1": member})
    item = _items(show_members(cluster), capsys)["c1"]
    assert (item["queueCount"], item["queues"]) == (2, ["T@broker-a:0", "T@broker-b:0"])
    assert (item["cachedMsgCount"], item["popUnackedCount"]) == (5, 5)


def test_versions_read_as_people_write_them(capsys: Captured) -> None:
    assert _items(show_members(healthy(V4_9_7)), capsys)["c1"]["clientVersion"] == "4.9.7"
    cluster = healthy()
    cluster.brokers["broker-a"].groups["G"].client_version = V4_9_7
    cluster.brokers["broker-a"].groups["G"].languages["c1"] = "GO"
    item = _items(show_members(cluster), capsys)["c1"]
    assert (item["clientVersion"], item["language"]) == ("4.9.7,5.4.0", "GO,JAVA")


def test_nobody_is_said_in_a_sentence_and_why_it_is_not_sure(capsys: Captured) -> None:
    cluster = offline()
    assert render(show_members(cluster), Display(format="plain")) == 0
    assert capsys.readouterr().err == "No broker sees a member of G.\n"
    cluster.brokers["broker-a"].groups[PROXY_GROUP] = Group({"proxy": running()})
    render(show_members(cluster), Display(format="plain"))
    assert "there may be some behind a proxy" in capsys.readouterr().err
    assert _document(show_members(cluster), capsys)["stateReason"] == "BEHIND_PROXY"
    cluster.stop("broker-b")
    assert render(show_members(cluster), Display(format="plain")) == 8
    assert "no member of G was seen, but not every broker answered." in capsys.readouterr().err
    document = _document(show_members(cluster), capsys)
    assert (document["state"], document["stateReason"], document["items"]) == ("UNKNOWN", "BROKER_UNREACHABLE", [])


def test_a_broker_that_did_not_answer_is_counted_with_a_question_mark(capsys: Captured) -> None:
    cluster = healthy()
    cluster.stop("broker-b")
    items = _items(show_members(cluster), capsys)
    assert [items[name]["untoldAt"] for name in ("c1", "c2")] == [["broker-b"], ["broker-b"]]
    assert [items[name]["unseenAt"] for name in ("c1", "c2")] == [[], []]
    render(show_members(cluster), Display(format="plain"))
    assert [line.split()[3] for line in capsys.readouterr().out.splitlines()] == ["REPORTED-BY", "1/2?", "1/2?"]
    render(show_members(healthy()), Display(format="plain"))
    assert [line.split()[3] for line in capsys.readouterr().out.splitlines()] == ["REPORTED-BY", "2/2", "2/2"]
