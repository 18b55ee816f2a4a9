"""Which names topics and groups may have (TopicValidator, GroupValidator of 5.x)."""

from __future__ import annotations

import re

from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.request import RefusalError

MAX_TOPIC_LENGTH = 127
MAX_GROUP_LENGTH = 120
# 5.x: what prefixes and namespaces may add to a name. 4.9 has no such allowance.
_MAX_LENGTH_WITH_PREFIX = 255

_TOO_LONG = "The specified topic is longer than topic max length."
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_RULE = "allowing only ^[%|a-zA-Z0-9_-]+$"


def check_topic_name(profile: Profile, topic: str) -> None:
    """Raise RefusalError for an invalid topic name."""
    if not topic.strip():
        raise _refusal(profile, "The specified topic is blank.")
    if not is_legal(topic):
        named = f": {topic}," if profile.is_5 else ""
        raise _refusal(profile, f"The specified topic{named} contains illegal characters, {_RULE}")
    is_special = topic.startswith(("%RETRY%", "%DLQ%"))
    limit = _MAX_LENGTH_WITH_PREFIX if profile.is_5 and is_special else MAX_TOPIC_LENGTH
    if len(topic) > limit:
        raise _refusal(profile, _too_long(topic, limit, is_special=is_special) if profile.is_5 else _TOO_LONG)


def check_no_system_topic(profile: Profile, topic: str, system_names: frozenset[str]) -> None:
    """Raise RefusalError for a system topic, which users may not change."""
    if is_system_topic(topic, system_names):
        raise _refusal(profile, f"The topic[{topic}] is conflict with system topic.")


def is_system_topic(topic: str, system_names: frozenset[str]) -> bool:
    """Return whether a topic belongs to the broker itself (TopicValidator.isSystemTopic)."""
    return topic in system_names or topic.startswith("rmq_sys_")


def check_group_name(profile: Profile, group: str) -> None:
    """Raise RefusalError for an invalid group name. 4.9 accepts any name."""
    if not profile.is_5:
        return
    if not group.strip():
        raise _refusal(profile, "The specified group is blank.")
    if not is_legal(group):
        raise _refusal(profile, f"The specified group: {group}, contains illegal characters, {_RULE}")
    if len(group) > MAX_GROUP_LENGTH:
        text = f"The specified group: {group}, is longer than group max length: {MAX_GROUP_LENGTH}"
        raise _refusal(profile, text)


def may_create_group(profile: Profile, group: str) -> bool:
    """Return whether a group of this name is created on first use (SubscriptionGroupManager)."""
    return not profile.is_5 or (is_legal(group) and len(group) <= MAX_GROUP_LENGTH)


def is_legal(name: str) -> bool:
    """Return whether a name has only the characters that RocketMQ allows."""
    return _LEGAL.fullmatch(name) is not None


def _too_long(topic: str, limit: int, *, is_special: bool) -> str:
    if is_special:
        return f"The specified topic is DLQ or Retry topic: {topic}, and it's longer than topic max length: {limit}"
    return f"The specified topic: {topic}, is longer than topic max length: {limit}"


def _refusal(profile: Profile, remark: str) -> RefusalError:
    return RefusalError(ResponseCode.INVALID_PARAMETER if profile.is_5 else ResponseCode.SYSTEM_ERROR, remark)
