from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from tests.admin.cluster import Group, running, subscribed

from .groups import healthy, offline, show_subscriptions, torn

Captured = pytest.CaptureFixture[str]


def _items(listing: Listing, capsys: Captured) -> list[dict[str, Any]]:
    capsys.readouterr()
    render(listing, Display(format="json"))
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    return items


def test_one_filter_that_all_name(capsys: Captured) -> None:
    assert _items(show_subscriptions(healthy()), capsys) == [
        {
            "topic": "T",
            "expressionType": "TAG",
            "subString": "*",
            "tagsSet": [],
            "subVersion": 1795238115408,
            "subVersionIso": "2026-11-21T05:15:15.408Z",
            "brokerNames": ["broker-a", "broker-b"],
            "clientCount": 2,
            "clientIds": ["c1", "c2"],
            "lackingBrokerNames": [],
            "lackingClientIds": [],
            "agrees": True,
            "reasons": {},
        }
    ]


def test_filters_that_differ_are_rows_of_their_own(capsys: Captured) -> None:
    items = _items(show_subscriptions(torn()), capsys)
    assert [(item["topic"], item["subString"], item["agrees"]) for item in items] == [
        ("T", "A", False), ("T", "B||A", False), ("U", "*", False),
    ]  # fmt: skip
    assert [(item["brokerNames"], item["clientIds"]) for item in items] == [
        ([], ["c2"]), (["broker-a"], ["c1"]), (["broker-b"], ["c2"]),
    ]  # fmt: skip
    # The newest that means the same is shown as it was written, its tags sorted.
    assert (items[1]["subVersion"], items[1]["tagsSet"]) == (1_795_238_115_999, ["A", "B"])
    assert (items[2]["lackingBrokerNames"], items[2]["lackingClientIds"]) == (["broker-a"], ["c1"])
    render(show_subscriptions(torn()), Display(format="plain"))
    notes = capsys.readouterr().err.splitlines()
    assert [note.split()[0] for note in notes[:3]] == ["SUB001", "SUB002", "SUB008"]


def test_sql_is_shown_as_such(capsys: Captured) -> None:
    cluster = healthy()
    sql = subscribed("T", "a > 3 AND b = 'x'", 0, "SQL92")
    for broker in cluster.brokers.values():
        broker.groups["G"] = Group({"c1": running(subscriptions=[sql])}, subscriptions={"T": sql})
    (item,) = _items(show_subscriptions(cluster), capsys)
    assert (item["expressionType"], item["subString"], item["tagsSet"]) == ("SQL92", "a > 3 AND b = 'x'", [])
    assert (item["agrees"], item["clientCount"]) == (True, 1)


def test_names_tell_filters_of_one_topic_apart(capsys: Captured) -> None:
    render(show_subscriptions(torn()), Display(format="name"))
    assert capsys.readouterr().out.splitlines() == ["T:A", "T:B||A", "U:*"]


def test_a_group_without_members_has_none_and_that_is_said(capsys: Captured) -> None:
    assert _items(show_subscriptions(offline()), capsys) == []
    render(show_subscriptions(offline()), Display())
    assert capsys.readouterr().err == "No broker sees a member of G.\n"


def test_members_that_name_no_topic_are_not_called_nobody(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.groups["G"] = Group({"c1": running(subscriptions=[subscribed("%RETRY%G")])}, ("%RETRY%G",))
    listing = show_subscriptions(cluster)
    assert (listing.extra["state"], _items(listing, capsys)) == ("ONLINE", [])
    render(listing, Display())
    assert capsys.readouterr().err == "The members of G subscribe to no topic except its retry topic.\n"
