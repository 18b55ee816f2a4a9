from __future__ import annotations

from math import nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.model.group import (
    GroupConfig,
    GroupConnections,
    Member,
    RunningInfo,
    Subscription,
    SubscriptionView,
    TopicConsumeStatus,
)
from rmqctl.rules.group_views import (
    consume_rt_ms,
    differing_fields,
    member_views,
    strategy_name,
    subscription_views,
    total_status,
)

BOTH = {"T": ("broker-a", "broker-b")}


def _sub(topic: str, expression: str = "*", version_ms: int = 1, kind: str = "TAG") -> Subscription:
    is_tags = kind == "TAG" and expression != "*"
    tags = sorted(tag.strip() for tag in expression.split("||")) if is_tags else []
    return Subscription(topic, expression, kind, version_ms, frozenset(tags))


def _connected(*members: str | Member, subscriptions: tuple[Subscription, ...] = (_sub("T"),)) -> GroupConnections:
    every = (item if isinstance(item, Member) else Member(item, "192.0.2.2:50000", "JAVA", 493) for item in members)
    table = {item.topic: item for item in subscriptions}
    return GroupConnections(tuple(every), "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", table)


def _says(*subscriptions: Subscription, **properties: str) -> RunningInfo:
    return RunningInfo(properties, {}, {}, {}, subscriptions)


# Members


def test_a_member_has_its_connections_by_broker_and_the_views_are_sorted() -> None:
    connections = {
        "broker-b": _connected("c2", Member("c1", "192.0.2.1:2", "GO", 1)),
        "broker-a": _connected(Member("c1", "192.0.2.1:1", "JAVA", 2), "c2"),
    }
    first, second = member_views(connections, {}, BOTH)
    assert (first.client_id, second.client_id) == ("c1", "c2")
    assert first.addresses == {"broker-a": ("192.0.2.1:1",), "broker-b": ("192.0.2.1:2",)}
    assert list(first.addresses) == ["broker-a", "broker-b"]
    assert (first.languages, first.versions, first.unseen_at) == (("GO", "JAVA"), (1, 2), ())


def test_a_member_that_a_broker_of_its_topics_does_not_see_is_told() -> None:
    connections = {"broker-a": _connected("c1", "c2"), "broker-b": _connected("c2")}
    first, second = member_views(connections, {}, BOTH)
    assert (first.unseen_at, second.unseen_at) == (("broker-b",), ())
    nobody_there = {"broker-a": _connected("c1"), "broker-b": None}
    assert member_views(nobody_there, {}, BOTH)[0].unseen_at == ("broker-b",)


def test_a_broker_that_did_not_answer_or_does_not_have_the_topic_is_not_missed() -> None:
    silent = {"broker-a": _connected("c1")}
    assert member_views(silent, {}, BOTH)[0].unseen_at == ()
    elsewhere = {"broker-a": _connected("c1"), "broker-b": None}
    assert member_views(elsewhere, {}, {"T": ("broker-a",)})[0].unseen_at == ()
    assert member_views(elsewhere, {}, {})[0].unseen_at == ()


def test_where_a_member_should_be_seen_follows_from_its_own_topics() -> None:
    # The last heartbeat at broker-a named U only; c1 says that it wants T.
    connections = {"broker-a": _connected("c1", subscriptions=(_sub("U"),)), "broker-b": None}
    brokers = {"T": ("broker-a", "broker-b"), "U": ("broker-a",)}
    assert member_views(connections, {}, brokers)[0].unseen_at == ()
    assert member_views(connections, {"c1": _says(_sub("T"))}, brokers)[0].unseen_at == ("broker-b",)


def test_a_retry_topic_is_only_where_something_failed_and_says_nothing() -> None:
    connections = {"broker-a": _connected("c1", subscriptions=(_sub("T"), _sub("%RETRY%G"))), "broker-b": None}
    brokers = {"T": ("broker-a",), "%RETRY%G": ("broker-a", "broker-b")}
    assert member_views(connections, {}, brokers)[0].unseen_at == ()


def test_two_clients_that_share_an_id_show_in_two_connections_at_one_broker() -> None:
    twins = (Member("c1", "192.0.2.9:1", "JAVA", 493), Member("c1", "192.0.2.1:1", "JAVA", 493))
    (view,) = member_views({"broker-a": _connected(*twins)}, {}, {})
    assert view.addresses == {"broker-a": ("192.0.2.1:1", "192.0.2.9:1")}


def test_nobody_is_no_view() -> None:
    assert member_views({"broker-a": None, "broker-b": _connected()}, {}, BOTH) == ()
    assert member_views({}, {}, {}) == ()


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.sampled_from("12345"), unique=True).map(tuple)))
def test_every_member_is_seen_or_unseen_at_every_broker(seen: dict[str, tuple[str, ...]]) -> None:
    views = member_views({name: _connected(*ids) for name, ids in seen.items()}, {}, {"T": tuple(seen)})
    assert {view.client_id for view in views} == {client_id for ids in seen.values() for client_id in ids}
    for view in views:
        assert set(view.addresses) | set(view.unseen_at) == set(seen)
        assert not set(view.addresses) & set(view.unseen_at)


# Subscriptions


def _views(at_brokers: dict[str, Any], at_clients: dict[str, RunningInfo] | None = None) -> list[SubscriptionView]:
    return list(subscription_views("G", at_brokers, at_clients or {}))


def test_one_filter_everywhere_agrees_and_the_newest_version_is_told() -> None:
    (view,) = _views(
        {"broker-a": _connected("c1", subscriptions=(_sub("T", "A", 5),)), "broker-b": None},
        {"c1": _says(_sub("T", "A", 7)), "c2": _says(_sub("T", "A", 6))},
    )
    assert view.subscription == _sub("T", "A", 7)
    assert (view.broker_names, view.client_ids) == (("broker-a",), ("c1", "c2"))
    assert (view.lacking_brokers, view.lacking_clients, view.agrees) == ((), (), True)


def test_the_order_of_tags_and_blanks_between_them_mean_nothing() -> None:
    (view,) = _views(
        {"broker-a": _connected("c1", subscriptions=(_sub("T", "A||B", 1),))},
        {"c1": _says(_sub("T", "B || A", 2)), "c2": _says(Subscription("T", " B ||A", "TAG", 3))},
    )
    assert (view.agrees, view.client_ids) == (True, ("c1", "c2"))
    assert view.subscription.expression == " B ||A"


def test_two_filters_of_a_topic_are_two_views_that_disagree() -> None:
    first, second = _views(
        {
            "broker-a": _connected("c1", subscriptions=(_sub("T", "A"),)),
            "broker-b": _connected("c1", subscriptions=(_sub("T", "B"),)),
        },
        {"c1": _says(_sub("T", "A")), "c2": _says(_sub("T", "B"))},
    )
    assert [view.subscription.expression for view in (first, second)] == ["A", "B"]
    assert (first.broker_names, first.client_ids) == (("broker-a",), ("c1",))
    assert (second.broker_names, second.client_ids) == (("broker-b",), ("c2",))
    assert not first.agrees
    assert not second.agrees


def test_a_topic_that_only_some_name_disagrees_and_tells_who_does_not() -> None:
    views = _views(
        {
            "broker-a": _connected("c1", "c2", subscriptions=(_sub("T"),)),
            "broker-b": _connected("c1", "c2", subscriptions=(_sub("U"),)),
        },
        {"c1": _says(_sub("T")), "c2": _says(_sub("U"))},
    )
    assert [(view.subscription.topic, view.agrees) for view in views] == [("T", False), ("U", False)]
    assert (views[0].lacking_brokers, views[0].lacking_clients) == (("broker-b",), ("c2",))
    assert (views[1].lacking_brokers, views[1].lacking_clients) == (("broker-a",), ("c1",))


def test_a_topic_that_only_a_member_names_is_shown() -> None:
    # Where members want different topics, brokers keep those of whoever was heard last.
    views = _views({"broker-a": _connected("c1", "c2")}, {"c1": _says(_sub("T")), "c2": _says(_sub("U"))})
    assert [(view.subscription.topic, view.broker_names) for view in views] == [("T", ("broker-a",)), ("U", ())]


@pytest.mark.parametrize("other", [_sub("T", "*"), _sub("T", "a > 1", 1, "SQL92"), _sub("T", "A")])
def test_sql_is_compared_as_it_is_written(other: Subscription) -> None:
    sql = _sub("T", "a > 0", 1, "SQL92")
    (same,) = _views({}, {"c1": _says(sql), "c2": _says(_sub("T", "a > 0", 9, "SQL92"))})
    assert same.agrees
    assert len(_views({}, {"c1": _says(sql), "c2": _says(other)})) == 2


def test_a_silent_client_and_a_broker_without_members_lack_nothing() -> None:
    (view,) = _views({"broker-a": _connected("c1"), "broker-b": None, "broker-c": _connected()}, {"c1": _says()})
    assert (view.client_ids, view.lacking_clients, view.lacking_brokers) == ((), (), ())
    # The broker keeps what one of them told: whether the others want the same nobody has said.
    assert view.agrees is None


def test_the_groups_own_retry_topic_is_left_out_and_that_of_another_is_not() -> None:
    connections = {"broker-a": _connected("c1", subscriptions=(_sub("%RETRY%G"), _sub("%RETRY%H")))}
    assert [view.subscription.topic for view in _views(connections)] == ["%RETRY%H"]


# Configurations


def _config(**fields: Any) -> GroupConfig:
    forbidden = fields.pop("forbidden", ())
    return GroupConfig("G", True, True, 1, 16, fields, forbidden)


def test_settings_that_are_not_the_same_everywhere_are_named() -> None:
    first = _config(retryMaxTimes=16, consumeEnable=True, attributes={"a": 1})
    second = _config(retryMaxTimes=3, consumeEnable=True, attributes={"a": 2})
    assert differing_fields([first, second]) == ("attributes", "retryMaxTimes")
    assert differing_fields([first, first]) == ()
    assert differing_fields([first]) == differing_fields([]) == ()


def test_a_setting_that_an_older_broker_does_not_know_is_no_difference() -> None:
    old, new = _config(retryMaxTimes=16), _config(retryMaxTimes=16, consumeTimeoutMinute=15)
    assert differing_fields([old, new]) == ()
    assert differing_fields([old, new, _config(consumeTimeoutMinute=30)]) == ("consumeTimeoutMinute",)


def test_a_topic_that_one_broker_forbids_is_a_difference() -> None:
    assert differing_fields([_config(forbidden=("T",)), _config()]) == ("forbiddenTopics",)


# A member's own words


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely@663be0ea", "averagely"),
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle@1", "circle"),
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash@1", "consistent-hash"),
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig@1", "config"),
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom@1", "machine-room"),
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby@1", "machine-room-nearby"),
        ("com.example.Ours@1b2c", "Ours"),
        ("com.example.Ours$$Lambda$32/0x00007f5fe801aab8@b45099b", "Ours"),
        ("Bare", "Bare"),
        ("", None),
        (" ", None),
        ("@", None),
    ],
)
def test_strategies_have_our_names_and_others_their_class(text: str, name: str | None) -> None:
    assert strategy_name(_says(allocateMessageQueueStrategy=text)) == name


def test_a_client_that_does_not_tell_its_strategy_has_none() -> None:
    assert strategy_name(_says()) is None


def test_rates_are_summed_and_times_weighted_by_them() -> None:
    total = total_status([TopicConsumeStatus(10, 30, 2, 20, 10, 7), TopicConsumeStatus(40, 10, 12, 10, 0, 1)])
    assert total is not None
    assert (total.pull_tps, total.consume_ok_tps, total.consume_failed_tps, total.consume_failed_count) == (
        40, 30, 10, 8,
    )  # fmt: skip
    assert total.pull_rt_ms == (10 * 30 + 40 * 10) / 40
    assert total.consume_rt_ms == (2 * 30 + 12 * 10) / 40


def test_where_nothing_moves_the_longest_time_stands() -> None:
    total = total_status([TopicConsumeStatus(10, 0, 2, 0, 0, 0), TopicConsumeStatus(4, 0, 5, 0, 0, 3)])
    assert total == TopicConsumeStatus(10, 0, 5, 0, 0, 3)
    assert total_status([]) is None


def test_a_topic_where_nothing_moves_does_not_weigh() -> None:
    total = total_status([TopicConsumeStatus(1, 5, 1, 5, 0, 0), TopicConsumeStatus(0, 0, 1000, 0, 0, 0)])
    assert total is not None
    assert (total.pull_rt_ms, total.consume_rt_ms) == (1, 1)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([TopicConsumeStatus(10, 30, 2, 20, 10, 7), TopicConsumeStatus(40, 10, 12, 10, 0, 1)], 4.5),
        ([TopicConsumeStatus(10, 0, 2, 0, 0, 0)], None),
        ([TopicConsumeStatus(10, 30, nan, 20, 10, 7)], None),
        ([], None),
    ],
)
def test_a_listener_has_a_time_if_it_consumed(statuses: list[TopicConsumeStatus], expected: float | None) -> None:
    info = RunningInfo({}, {}, {}, {f"T{number}": status for number, status in enumerate(statuses)})
    assert consume_rt_ms(info) == expected
