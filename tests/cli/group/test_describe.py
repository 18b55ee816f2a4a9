from __future__ import annotations

import json
from typing import Any

import pytest

from rmqctl.cli.invocation import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from rmqctl.model.names import PROXY_GROUP
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.command import Command
from tests.admin.cluster import Group, held, running, subscribed
from tests.scripted import SILENCE, ok

from .groups import WORDS, healthy, offline, show_details, torn

Captured = pytest.CaptureFixture[str]


def _item(listing: Listing, capsys: Captured) -> dict[str, Any]:
    capsys.readouterr()
    render(listing, Display(format="json"))
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert isinstance(item, dict)
    return item


def _text(listing: Listing, capsys: Captured, **display: Any) -> str:
    capsys.readouterr()
    render(listing, Display(**{"format": "plain", **display}))
    return capsys.readouterr().out


def test_a_healthy_group_needs_no_attention(capsys: Captured) -> None:
    item = _item(show_details(healthy()), capsys)
    assert (item["state"], item["memberCount"], item["lag"], item["deadLetterCount"]) == ("ONLINE", 2, 50, 0)
    assert (item["strategies"], item["clientVersions"]) == (["averagely"], ["5.4.0"])
    assert (item["consumeFromWhere"], item["attention"], item["reasons"]) == ("CONSUME_FROM_LAST_OFFSET", [], {})
    (topic,) = item["topics"]
    assert (topic["topic"], topic["queueCount"], topic["ownedQueueCount"]) == ("T", 4, 4)
    assert (topic["lag"], topic["timeLagMs"], topic["lost"], topic["reasons"]) == (50, 5000, 0, {})
    assert [len(item[key]) for key in ("members", "subscriptions", "configs")] == [2, 1, 2]


def test_a_healthy_group_on_one_page(capsys: Captured) -> None:
    lines = [line.split() for line in _text(show_details(healthy()), capsys).splitlines()]
    assert ["State", "ONLINE,", "2", "members"] in lines
    assert ["Lag", "50,", "3", "msg/s"] in lines
    assert ["Retries", "16,", "1", "retry", "queue", "a", "broker"] in lines
    titles = [words[0] for words in lines if len(words) == 1]
    assert titles == ["Topics", "Members", "Subscriptions"]
    assert ["T", "4", "4", "50", "0", "0", "0", "5s"] in lines


def test_all_that_is_torn_is_said(capsys: Captured) -> None:
    item = _item(show_details(torn()), capsys)
    assert item["attention"] == [
        "c2 is not seen by broker-b.",
        "c2 has several connections to one broker: clients share the id, or a lost connection still counts there.",
        "cpp is not seen by broker-b.",
        "Members share queues in different ways: averagely, circle.",
        "Brokers and members do not agree on the subscription of T: messages may be lost.",
        "Brokers and members do not agree on the subscription of U: messages may be lost.",
        "broker-a lets nobody of this group pull (consumeEnable=false).",
        "broker-a has no retry queue for it: failed messages are acknowledged and lost.",
        "broker-a forbids it to read T.",
        "broker-b has no configuration of this group.",
        "At least 20 messages of T were deleted before the group read them.",
        "3 dead letters are kept.",
    ]
    assert (item["consumeFromWhere"], item["reasons"]["consumeFromWhere"]) == (None, "BROKERS_DIFFER")
    text = _text(show_details(torn()), capsys)
    assert text.count("\n!  ") == len(item["attention"])
    assert "\nConfiguration\n" in text


def test_who_holds_queues_is_not_guessed_while_a_member_is_silent(capsys: Captured) -> None:
    first = _item(show_details(torn()), capsys)["topics"][0]
    assert (first["ownedQueueCount"], first["reasons"]["ownedQueueCount"]) == (None, "CLIENT_SILENT")


def test_a_silent_member_does_not_matter_once_all_queues_are_held(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.groups["G"].members["cpp"] = SILENCE
    (topic,) = _item(show_details(cluster), capsys)["topics"]
    assert topic["ownedQueueCount"] == 4


def test_queues_that_nobody_holds_are_told_when_all_members_answer(capsys: Captured) -> None:
    cluster = healthy()
    member = running({("T", "broker-a", 0): held(commit=75)}, subscriptions=[subscribed("T")])
    for broker in cluster.brokers.values():
        broker.groups["G"] = Group({"c1": member})
    item = _item(show_details(cluster), capsys)
    assert item["attention"] == ["3 of 4 queues of T are held by nobody."]


@pytest.mark.parametrize("model", ["BROADCASTING", "nobody"])
def test_a_broadcasting_or_offline_group_needs_no_owners(model: str, capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.groups["G"] = Group({"c1": running()}, message_model=model)
        if model == "nobody":
            broker.groups.clear()
    item = _item(show_details(cluster), capsys)
    assert [sentence for sentence in item["attention"] if "held by nobody" in sentence] == []
    assert item["reasons"].get("lag") == ("BROADCASTING" if model == "BROADCASTING" else None)


def test_a_group_that_never_consumed_has_no_lag_rather_than_0(capsys: Captured) -> None:
    item = _item(show_details(offline()), capsys)
    assert (item["lag"], item["lost"], item["inflight"], item["lagAtLeast"]) == (None, None, None, 0)
    assert {item["reasons"][key] for key in ("lag", "lost", "inflight")} == {"NEVER_COMMITTED"}
    assert {item["reasons"][key] for key in ("consumeType", "messageModel", "consumeFromWhere")} == {"NO_MEMBERS"}
    assert (item["state"], item["memberCount"], item["topics"], item["members"]) == ("EMPTY", 0, [], [])
    text = _text(show_details(offline()), capsys)
    assert "EMPTY: No broker sees a member of G." in text
    assert "unknown, 3 msg/s" in text


def test_nobody_seen_where_proxies_are_is_unknown(capsys: Captured) -> None:
    cluster = offline()
    cluster.brokers["broker-a"].groups[PROXY_GROUP] = Group({"proxy": running()})
    item = _item(show_details(cluster), capsys)
    assert (item["state"], item["memberCount"], item["reasons"]["memberCount"]) == ("UNKNOWN", None, "BEHIND_PROXY")
    assert "it may have some behind a proxy" in _text(show_details(cluster), capsys)


def test_with_a_broker_down_sums_are_lower_bounds(capsys: Captured) -> None:
    cluster = healthy()
    cluster.stop("broker-b")
    item = _item(show_details(cluster), capsys)
    assert (item["lag"], item["lagAtLeast"], item["reasons"]["lag"]) == (None, 25, "BROKER_UNREACHABLE")
    assert (item["deadLetterCount"], item["reasons"]["deadLetterCount"]) == (None, "BROKER_UNREACHABLE")
    assert (item["consumeTps"], item["reasons"]["consumeTps"]) == (None, "BROKER_UNREACHABLE")
    assert "at least 25, rate unknown" in _text(show_details(cluster), capsys)


def test_wide_has_the_configuration_also_when_brokers_agree(capsys: Captured) -> None:
    assert "\nConfiguration\n" not in _text(show_details(healthy()), capsys)
    assert "\nConfiguration\n" in _text(show_details(healthy()), capsys, format="wide")


def test_chosen_columns_are_a_table_of_groups(capsys: Captured) -> None:
    columns = ("group", "lag", "attention")
    assert _text(show_details(healthy()), capsys, columns=columns, with_headers=False).split() == ["G", "50", "-"]
    assert _text(show_details(torn()), capsys, format="csv", columns=("group", "deadLetterCount")) == (
        "group,deadLetterCount\nG,3\n"
    )


def test_what_failed_for_several_groups_is_said_once(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.configured.add("H")
    cluster.stop("broker-b")
    listing = show_details(cluster, "G", "H")
    whats = [failure.what for failure in listing.failures if failure.broker_name == "broker-b"]
    assert whats == ["offsets of G and 1 more group"]
    assert _text(listing, capsys, format="name").splitlines() == ["G", "H"]


def test_members_that_consume_in_different_modes_are_told(capsys: Captured) -> None:
    cluster = healthy()
    words = {**WORDS, "messageModel": "BROADCASTING", "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"}
    for broker in cluster.brokers.values():
        broker.groups["G"].members["c3"] = running(subscriptions=[subscribed("T")], **words)
    assert _item(show_details(cluster), capsys)["attention"] == [
        "Members consume in different modes: BROADCASTING, CLUSTERING.",
        "Members consume in different ways: CONSUME_ACTIVELY, CONSUME_PASSIVELY.",
    ]


def test_dead_letters_of_a_broker_that_is_not_registered_are_unknown(capsys: Captured) -> None:
    cluster = healthy()
    gone = running({("T", "broker-x", 0): held(commit=1)}, subscriptions=[subscribed("T")], **WORDS)
    for broker in cluster.brokers.values():
        broker.groups["G"].members["c3"] = gone
    item = _item(show_details(cluster), capsys)
    assert (item["deadLetterCount"], item["reasons"]["deadLetterCount"]) == (None, "BROKER_UNREACHABLE")
    assert (item["consumeTps"], item["reasons"]["consumeTps"]) == (None, "BROKER_UNREACHABLE")


def test_retries_that_a_broker_does_not_tell_are_dashes(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.group_configs["G"] = {"retryMaxTimes": 16, "retryQueueNums": 1}
        table, usual = cluster.servers[broker.name].table, broker.table()[Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG]
        assert callable(usual)
        body = usual(Command(Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
        assert b'"retryMaxTimes": 16, ' in body
        table[Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = ok(body.replace(b'"retryMaxTimes": 16, ', b""))
    assert "Retries        -, 1 retry queue a broker" in _text(show_details(cluster), capsys)


def test_many_silent_members_leave_time_for_everything_else(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.groups["G"].members |= {f"hung-{number}": SILENCE for number in range(30)}
    listing = show_details(cluster)
    item = _item(listing, capsys)
    assert {failure.what.rpartition(" ")[0] for failure in listing.failures} == {"running info of"}
    assert ([config["isConfigured"] for config in item["configs"]], item["deadLetterCount"]) == ([True, True], 0)
