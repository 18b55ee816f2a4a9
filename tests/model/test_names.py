from __future__ import annotations

import pytest

from rmqctl.model.names import is_system_group


@pytest.mark.parametrize(
    "group",
    [
        *("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL"),
        *("CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP"),
    ],
)
def test_groups_that_brokers_make_are_system_groups(group: str) -> None:
    assert is_system_group(group)


@pytest.mark.parametrize("group", ["", "orders", "CID_ORDERS", "tools_consumer", "MY_TOOLS_CONSUMER", "CID_RMQ_SYS"])
def test_users_groups_are_none(group: str) -> None:
    assert not is_system_group(group)
