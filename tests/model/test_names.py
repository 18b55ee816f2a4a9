from __future__ import annotations

import pytest

from rmqctl.model.names import is_sent_to_by_rocketmq, is_system_group, with_namespace


@pytest.mark.parametrize(
    "group",
    [
        *("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL"),
        *("CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP"),
        *("DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "SCHEDULE_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP"),
        *("__MONITOR_CONSUMER", "CID_DefaultHeartBeatSyncerTopic"),
    ],
)
def test_groups_that_brokers_make_are_system_groups(group: str) -> None:
    assert is_system_group(group)


@pytest.mark.parametrize(
    "group",
    [
        *("", "orders", "CID_ORDERS", "tools_consumer", "MY_TOOLS_CONSUMER", "CID_RMQ_SYS"),
        *("NS%CID_RMQ_SYS_TRANS", "NS%TOOLS_CONSUMER"),  # MixAll compares the whole name
    ],
)
def test_users_groups_are_none(group: str) -> None:
    assert not is_system_group(group)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("G", "NS%G"),
        ("NS%G", "NS%G"),
        ("NS2%G", "NS%NS2%G"),
        ("%RETRY%G", "%RETRY%NS%G"),
        ("%RETRY%NS%G", "%RETRY%NS%G"),
        ("%DLQ%G", "%DLQ%NS%G"),
        ("%DLQ%NS%G", "%DLQ%NS%G"),
        ("TOOLS_CONSUMER", "TOOLS_CONSUMER"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("", "NS%"),
    ],
)
def test_a_namespace_stands_before_a_name_and_behind_the_prefix_of_a_retry_topic(name: str, full: str) -> None:
    assert with_namespace("NS", name) == full


@pytest.mark.parametrize(
    ("topic", "is_own"),
    [
        ("orders", False), ("NS%orders", False), ("RETRY", False), ("orders%DLQ%G", False), ("RMQ_SYS", False),
        *((name, True) for name in ("%DLQ%G", "%DLQ%NS%G", "%RETRY%G", "%RETRY%NS%G", "%RETRY%G_T", "%RETRY%G+T")),
        *((name, True) for name in ("TBW102", "SCHEDULE_TOPIC_XXXX", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC")),
        *((name, True) for name in ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer")),
    ],
)  # fmt: skip
def test_topics_that_only_rocketmq_sends_to(topic: str, is_own: bool) -> None:
    assert is_sent_to_by_rocketmq(topic) == is_own
