"""Names that a new group may have."""

from __future__ import annotations

import pytest

from rmqctl.errors import UsageError
from rmqctl.model.names import require_new_name, require_no_system_group


@pytest.mark.parametrize("name", ["orders", "NS%orders", "a|b", "-_9", "g" * 120])
def test_a_legal_name_is_taken(name: str) -> None:
    require_new_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("a.b", "Invalid group name"),
        ("a b", "Invalid group name"),
        ("a\n", "Invalid group name"),
        ("gruppe-ä", "Invalid group name"),
        ("g" * 121, "120 characters, not 121"),
        ("%RETRY%orders", "topic, not of a group"),
        ("%DLQ%orders", "topic, not of a group"),
        ("TOOLS_CONSUMER", "RocketMQ's own"),
        ("CID_RMQ_SYS_TRANS", "RocketMQ's own"),
    ],
)
def test_any_other_name_is_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        require_new_name(name)


def test_rocketmqs_own_groups_are_left_alone() -> None:
    require_no_system_group("orders")
    with pytest.raises(UsageError):
        require_no_system_group("CID_ONSAPI_PULL")
