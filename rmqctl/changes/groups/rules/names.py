"""Which names a new group may have (Validators.checkGroup of 5.x; 4.9 brokers accept any), and which are RocketMQ's."""

from __future__ import annotations

import re
from collections.abc import Collection

from rmqctl.errors import UsageError
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX, is_sent_to_by_rocketmq, is_system_group

_MAX_LENGTH = 120
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def require_new_name(group: str) -> None:
    """Raise UsageError for a name that a new group must not have."""
    if not group.strip():
        raise UsageError("The name of a group is empty.")
    if len(group) > _MAX_LENGTH:
        raise UsageError(f"The name of a group has at most {_MAX_LENGTH} characters, not {len(group)}.")
    if not _LEGAL.fullmatch(group):
        raise UsageError(f"Invalid group name {group!r}.", hint="Use only letters, digits, _, -, % and |.")
    if group.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise UsageError(f"{group} is the name of a group's retry or dead-letter topic, not of a group.")
    require_no_system_group(group)


def require_no_system_group(group: str) -> None:
    """Raise UsageError for one of RocketMQ's own groups: a change of its offsets can lose or repeat its work."""
    if is_system_group(group):
        sentence = f"{group} is one of RocketMQ's own groups: rmqctl reads them and does not change them."
        raise UsageError(sentence, hint=f"To read it: rmqctl offset show {group}")


def require_target_topic(
    topic: str, *, own: Collection[str] = (), hint: str = "Name a topic that applications send to."
) -> None:
    """Raise UsageError for a topic that only RocketMQ itself sends to; `own` are a cluster's, see own_topics()."""
    if topic in own or is_sent_to_by_rocketmq(topic):
        sentence = f"Sending to {topic} is not supported: only RocketMQ itself sends to this topic."
        raise UsageError(sentence, hint=hint)
