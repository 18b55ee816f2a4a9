"""How RocketMQ names retry topics and its own system groups (MixAll, TopicValidator)."""

from __future__ import annotations

RETRY_PREFIX = "%RETRY%"

# BrokerController and SubscriptionGroupManager create these on every broker; no user's consumer is behind them.
_SYSTEM_GROUPS = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "__MONITOR_CONSUMER",
    }
)
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"


def is_system_group(group: str) -> bool:
    """Tell RocketMQ's own groups, which brokers make by themselves, from users' groups."""
    return group in _SYSTEM_GROUPS or group.startswith(_SYSTEM_GROUP_PREFIX)
