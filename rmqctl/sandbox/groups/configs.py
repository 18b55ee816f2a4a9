"""A consumer group's configuration as a JSON object, read as the JSON library of each release reads it."""

from __future__ import annotations

from typing import Any

from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.request import FailureError

# The fields and defaults of SubscriptionGroupConfig; the second part exists since 5.0.
_DEFAULTS: dict[str, Any] = {
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}
_DEFAULTS_5: dict[str, Any] = {
    "attributes": {},
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
}

_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1000, 60_000, 3_600_000
_EXPONENTIAL = {"initial": 5 * _SECOND_MS, "max": 2 * _HOUR_MS, "multiplier": 2}
_CUSTOMIZED = {
    "next": [
        1 * _SECOND_MS, 5 * _SECOND_MS, 10 * _SECOND_MS, 30 * _SECOND_MS,
        *(minutes * _MINUTE_MS for minutes in (*range(1, 11), 20, 30)), 1 * _HOUR_MS, 2 * _HOUR_MS,
    ],
}  # fmt: skip


def default_config(profile: Profile, group: str) -> dict[str, Any]:
    """Return the configuration of a new group."""
    extra = _DEFAULTS_5 if profile.is_5 else {}
    return {"groupName": group, **_DEFAULTS, **extra}


def read_config(profile: Profile, item: Any) -> dict[str, Any]:
    """Return a complete configuration: missing fields get their defaults, unknown fields are dropped.

    Raises FailureError for invalid values.
    """
    if not isinstance(item, dict):
        raise FailureError("com.alibaba.fastjson.JSONException: expect {")
    config = default_config(profile, "")
    group = item.get("groupName")
    if group is None and not profile.is_5:
        raise FailureError("java.lang.NullPointerException: the configuration has no groupName")
    config["groupName"] = "" if group is None else str(group)
    for name, default in config.items():
        if name in item and isinstance(default, bool | int):
            config[name] = _read_value(profile, name, default, item[name])
    if profile.is_5:
        _read_since_5(config, item)
    return config


def _read_since_5(config: dict[str, Any], item: dict[str, Any]) -> None:
    attributes, policy = item.get("attributes") or {}, item.get("groupRetryPolicy")
    config["attributes"] = {str(name): str(value) for name, value in attributes.items()}
    if policy is not None:
        config["groupRetryPolicy"] = _read_policy(policy)
    if item.get("subscriptionDataSet") is not None:
        config["subscriptionDataSet"] = [{"version": 0, **entry} for entry in item["subscriptionDataSet"]]


def _read_value(profile: Profile, name: str, default: bool | int, value: Any) -> bool | int:
    """Return the value of a field. Null or an empty text is the default in fastjson 1, 0 or false in fastjson 2."""
    if value is None or value == "":
        return type(default)(0) if profile.is_5 else default
    if isinstance(default, bool):
        known = {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower())
        if known is not None:
            return known
    else:
        try:
            return int(value)
        except (TypeError, ValueError):
            pass
    raise FailureError(f"com.alibaba.fastjson.JSONException: parse error, field : {name}")


def _read_policy(policy: dict[str, Any]) -> dict[str, Any]:
    """Return a GroupRetryPolicy; each part that is present is completed with its defaults."""
    read: dict[str, Any] = {}
    kind = policy.get("type", "CUSTOMIZED")
    if kind in ("CUSTOMIZED", "EXPONENTIAL"):
        read["type"] = kind  # an unknown type reads as null
    for name, defaults in (("exponentialRetryPolicy", _EXPONENTIAL), ("customizedRetryPolicy", _CUSTOMIZED)):
        if policy.get(name) is not None:
            read[name] = {**defaults, **policy[name]}
    return read
