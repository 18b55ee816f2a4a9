from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Listing
from rmqctl.cli.output.render import render
from rmqctl.model.names import PROXY_GROUP
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.command import Command
from tests.admin.cluster import ON_TIME, Cluster, Group, Queue, held, running, subscribed
from tests.observe.test_stuck_scan import cluster as stuck
from tests.observe.test_stuck_scan import member
from tests.scripted_peer import SILENCE, ok

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
    assert (item["consumeFromWhere"], item["attention"], item["reasons"]) == (
        "CONSUME_FROM_LAST_OFFSET",
        [],
        {"liteBindTopic": "NOT_LITE"},
    )
    (topic,) = item["topics"]
    assert (topic["topic"], topic["queueCount"], topic["ownedQueueCount"]) == ("T", 4, 4)
    assert (topic["lag"], topic["timeLagMs"], topic["lost"], topic["reasons"]) == (50, 5000, 0, {})
    assert [len(item[key]) for key in ("members", "subscriptions", "configs")] == [2, 1, 2]


def test_a_healthy_group_on_one_page(capsys: Captured) -> None:
    lines = [line.split() for line in _text(show_details(healthy()), capsys).splitlines()]
    assert ["State", "ONLINE,", "2", "members"] in lines
    assert ["Lag", "50,", "consuming", "3", "msg/s", "(1-minute", "average)"] in lines
    assert ["Retries", "16,", "1", "retry", "queue", "per", "broker"] in lines
    titles = [words[0] for words in lines if len(words) == 1]
    assert titles == ["Topics", "Members", "Subscriptions"]
    assert ["T", "4", "4", "50", "0", "0", "0", "5s"] in lines


def test_all_that_is_torn_is_said(capsys: Captured) -> None:
    item = _item(show_details(torn()), capsys)
    assert [finding["code"] for finding in item["findings"]] == [
        "SUB001", "SUB002", "SUB008", "PUL001", "PUL002", "MEM001", "MEM002", "MEM002", "ALO001", "OFF001",
        "CFG002", "RTY001", "MEM005", "MEM008", "MEM009", "DLQ001",
    ]  # fmt: skip
    assert item["attention"] == [finding["sentence"] for finding in item["findings"]]
    assert (item["consumeFromWhere"], item["reasons"]["consumeFromWhere"]) == (None, "BROKERS_DIFFER")
    text = _text(show_details(torn()), capsys)
    for finding in item["findings"]:
        line = rf"^{finding['code']} +{re.escape(finding['sentence'])}( \(seen once.*\))?$"
        assert re.search(line, text, re.MULTILINE)
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
    assert item["attention"] == ["3 of 4 queues of T have no owner."]


@pytest.mark.parametrize("model", ["BROADCASTING", "nobody"])
def test_a_broadcasting_or_offline_group_needs_no_owners(model: str, capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.groups["G"] = Group({"c1": running()}, message_model=model)
        if model == "nobody":
            broker.groups.clear()
    item = _item(show_details(cluster), capsys)
    assert [sentence for sentence in item["attention"] if "no owner" in sentence] == []
    assert item["reasons"].get("lag") == ("BROADCASTING" if model == "BROADCASTING" else None)


def test_a_group_that_never_consumed_has_no_lag_rather_than_0(capsys: Captured) -> None:
    item = _item(show_details(offline()), capsys)
    assert (item["lag"], item["lost"], item["inflight"], item["lagAtLeast"]) == (None, None, None, 0)
    assert {item["reasons"][key] for key in ("lag", "lost", "inflight")} == {"NEVER_COMMITTED"}
    assert {item["reasons"][key] for key in ("consumeType", "messageModel", "consumeFromWhere")} == {"NO_MEMBERS"}
    assert (item["state"], item["memberCount"], item["topics"], item["members"]) == ("EMPTY", 0, [], [])
    text = _text(show_details(offline()), capsys)
    assert "EMPTY: No broker sees a member of G." in text
    assert "unknown, consuming 3 msg/s" in text


def test_nobody_seen_where_proxies_are_is_unknown(capsys: Captured) -> None:
    cluster = offline()
    cluster.brokers["broker-a"].groups[PROXY_GROUP] = Group({"proxy": running()})
    item = _item(show_details(cluster), capsys)
    assert (item["state"], item["memberCount"], item["reasons"]["memberCount"]) == ("UNKNOWN", None, "BEHIND_PROXY")
    assert "there may be some behind a proxy" in _text(show_details(cluster), capsys)


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
    assert set(_item(show_details(cluster), capsys)["attention"]) >= {
        "Members use different message models: BROADCASTING (c3), CLUSTERING (c1, c2).",
        "Members use different consume types: CONSUME_ACTIVELY (c3), CONSUME_PASSIVELY (c1, c2).",
    }


def test_dead_letters_of_a_broker_that_is_not_registered_are_unknown(capsys: Captured) -> None:
    cluster = healthy()
    gone = running({("T", "broker-x", 0): held(commit=1)}, subscriptions=[subscribed("T")], **WORDS)
    for broker in cluster.brokers.values():
        broker.groups["G"].members["c3"] = gone
    item = _item(show_details(cluster), capsys)
    assert (item["deadLetterCount"], item["reasons"]["deadLetterCount"]) == (None, "BROKER_NOT_REGISTERED")
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
    assert "Retries        -, 1 retry queue per broker" in _text(show_details(cluster), capsys)


def test_many_silent_members_leave_time_for_everything_else(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.groups["G"].members |= {f"hung-{number}": SILENCE for number in range(30)}
    listing = show_details(cluster)
    item = _item(listing, capsys)
    assert {failure.what.rpartition(" ")[0] for failure in listing.failures} == {"running info of"}
    assert ([config["isConfigured"] for config in item["configs"]], item["deadLetterCount"]) == ([True, True], 0)


def _set_members(cluster: Cluster, **members: Command) -> Cluster:
    """Put these members at both brokers in place of those that there are."""
    for broker in cluster.brokers.values():
        broker.groups["G"].members = dict(members)
    return cluster


def _holds(*queues: str) -> dict[tuple[str, str, int], Any]:
    """Return queues of T to hold, such as a0 for broker-a:0."""
    return {("T", f"broker-{queue[0]}", int(queue[1])): held(commit=100, **ON_TIME) for queue in queues}


def _member(*queues: str, **words: str) -> Command:
    return running(_holds(*queues), subscriptions=[subscribed("T")], **{**WORDS, **words})


def _attention(cluster: Cluster, capsys: Captured) -> list[str]:
    found: list[str] = _item(show_details(cluster), capsys)["attention"]
    return found


def test_where_members_start_is_each_member_s_own_word(capsys: Captured) -> None:
    first = _member("a0", "a1", consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")
    cluster = _set_members(healthy(), c1=_member("b0", "b1"), c2=first)
    item = _item(show_details(cluster), capsys)
    assert (item["consumeFromWhere"], item["reasons"]["consumeFromWhere"]) == (None, "MEMBERS_DIFFER")
    assert [member["consumeFromWhere"] for member in item["members"]] == [
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
    ]
    words = "CONSUME_FROM_FIRST_OFFSET (c2), CONSUME_FROM_LAST_OFFSET (c1)"
    assert f"Members have different start positions: {words}." in item["attention"]
    assert f"Starts         {words}\n" in _text(show_details(cluster), capsys)
    # Brokers still have LAST, the word of whoever was heard last: members know better.
    alone = _item(show_details(_set_members(healthy(), c2=first)), capsys)
    assert alone["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"c1": "-1", "c2": "16"}, "16, 1"),
        ({"c1": "2", "c2": "2"}, "16 (configured); members use 2, 1"),
        ({"c1": "2", "c2": "-1"}, "16 (configured); members use 2 and 16, 1"),
    ],
)
def test_members_own_retry_limits_stand_beside_the_group_s(
    limits: dict[str, str], words: str, capsys: Captured
) -> None:
    members = {
        name: _member(f"{side}0", f"{side}1", maxReconsumeTimes=limits[name])
        for name, side in (("c1", "a"), ("c2", "b"))
    }
    cluster = _set_members(healthy(), **members)
    assert f"Retries        {words} retry queue per broker\n" in _text(show_details(cluster), capsys)
    differing = "Members have different retry limits: 2 (c1), 16 (c2)."
    assert (differing in _attention(cluster, capsys)) is (limits == {"c1": "2", "c2": "-1"})


def test_a_group_of_orderly_members_has_no_retry_limit_by_default(capsys: Captured) -> None:
    member = _member("a0", "a1", "b0", "b1", PROP_CONSUMEORDERLY="true")
    text = _text(show_details(_set_members(healthy(), c1=member)), capsys)
    assert "Retries        16 (configured); members use no limit, 1 retry queue per broker\n" in text


def test_consume_timeouts_that_differ_are_told(capsys: Captured) -> None:
    cluster = _set_members(healthy(), c1=_member("a0", "a1", consumeTimeout="1"), c2=_member("b0", "b1"))
    assert _attention(cluster, capsys) == ["Members have different consume timeouts: 1 min (c1), 15 min (c2)."]


def test_orderly_and_concurrent_members_in_one_group_are_told(capsys: Captured) -> None:
    orderly = _member("a0", "a1", PROP_CONSUMEORDERLY="true", maxReconsumeTimes="16")
    cluster = _set_members(healthy(), c1=orderly, c2=_member("b0", "b1"))
    (sentence,) = _attention(cluster, capsys)
    assert sentence.startswith("Only some members consume in order: c1. ")
    assert "5.1.1" in sentence


def test_queues_that_several_hold_and_members_that_hold_none_are_told(capsys: Captured) -> None:
    both = _member("a0", "a1", "b0", "b1")
    cluster = _set_members(
        healthy(),
        c1=both,
        c2=_member("a0", "b0"),
        c3=_member(),
        c4=_member(),
        c5=_member(PROP_CONSUME_TYPE="CONSUME_ACTIVELY"),
    )
    attention = _attention(cluster, capsys)
    assert any(each.startswith("2 of 4 queues of T are held by several members") for each in attention)
    # Pull consumers don't report what they hold.
    assert "2 of 5 members hold no queue: c3, c4." in attention


def test_an_offset_beyond_the_end_is_told(capsys: Captured) -> None:
    cluster = healthy()
    cluster.brokers["broker-a"].offsets["G"]["T"][0] = 101
    item = _item(show_details(cluster), capsys)
    (sentence,) = item["attention"]
    assert sentence.startswith("The offset is beyond the end of 1 queue of T: ")
    assert item["topics"][0]["beyondMaxQueueCount"] == 1


def test_messages_that_no_consumer_can_read_are_told_and_are_no_lag(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.topics["T"] += [Queue(4), Queue(2), Queue()]
        broker.topic_configs["T"] = {"readQueueNums": 2, "writeQueueNums": 5}
    item = _item(show_details(cluster), capsys)
    sentence = "12 messages of T are in 4 queues that no consumer can read until readQueueNums is 4."
    assert item["attention"] == [sentence]
    assert (item["lag"], item["topics"][0]["queueCount"]) == (50, 4)
    assert [queue["messageCount"] for queue in item["unreadableQueues"]] == [4, 2, 4, 2]


def test_offsets_of_queues_that_do_not_exist_are_told(capsys: Captured) -> None:
    cluster = healthy()
    cluster.brokers["broker-a"].offsets["G"]["T"][7] = 9
    (sentence,) = _attention(cluster, capsys)
    assert sentence.endswith("a queue that does not exist: T@broker-a:7.")
    cluster.brokers["broker-b"].offsets["G"]["gone"] = {0: 1, 1: 1, 2: 1}
    item = _item(show_details(cluster), capsys)
    (sentence,) = item["attention"]
    assert "4 queues that do not exist: T@broker-a:7, gone@broker-b:0, gone@broker-b:1 and 1 more." in sentence
    assert item["leftoverOffsets"][0] == {
        "topic": "T", "brokerName": "broker-a", "queueId": 7, "consumerOffset": 9,
    }  # fmt: skip


def test_popped_messages_that_are_not_acknowledged_are_counted(capsys: Captured) -> None:
    popping = running(
        pops={("T", name, -1): 128 for name in ("broker-a", "broker-b")}, subscriptions=[subscribed("T")], **WORDS
    )
    cluster = _set_members(healthy(), c1=popping, c2=popping)
    item = _item(show_details(cluster), capsys)
    assert item["popUnackedCount"] == 512
    assert any(each.startswith("512 messages are popped") and "LAG" in each for each in item["attention"])
    assert not [sentence for sentence in item["attention"] if "several members" in sentence]


def test_failed_messages_are_lost_without_retry_queues_and_refused_by_a_read_only_broker(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.group_configs["G"] = {"retryQueueNums": 0}
    cluster.brokers["broker-b"].settings["brokerPermission"] = "4"
    lost, refused = _attention(cluster, capsys)
    assert lost.startswith("broker-a has no retry queue")
    assert lost.endswith("acknowledged and lost.")
    assert refused.startswith("broker-b is not writable (brokerPermission).")


def test_a_stuck_message_needs_attention_at_one_reading(capsys: Captured) -> None:
    cluster = stuck(member(quiet_ms=120_000))
    item = _item(show_details(cluster), capsys)
    (finding,) = [each for each in item["findings"] if each["code"].startswith("PRG")]
    assert (finding["code"], finding["severity"], finding["isConfirmed"]) == ("PRG001", "ERROR", True)
    assert "offset 5 of T@broker-a:0 in flight for at least 2m" in finding["sentence"]
    # In hand for a moment only: a second reading would tell.
    item = _item(show_details(stuck(member(quiet_ms=25_000))), capsys)
    assert [each["code"] for each in item["findings"] if each["code"].startswith("PRG")] == []
    assert any(note.endswith("two readings: rmqctl diagnose G") for note in item["notes"])


def test_what_takes_two_readings_is_named_where_members_have_something_to_do(capsys: Captured) -> None:
    def notes(cluster: Cluster) -> list[str]:
        return [note for note in _item(show_details(cluster), capsys)["notes"] if "rmqctl diagnose" in note]

    assert len(notes(healthy())) == 1
    assert notes(offline()) == []
    cluster = _set_members(healthy(), c1=_member("a0", "a1"), c2=_member("b0", "b1"))
    for broker in cluster.brokers.values():
        broker.offsets["G"]["T"] = {0: 100, 1: 100}
    assert notes(cluster) == []
