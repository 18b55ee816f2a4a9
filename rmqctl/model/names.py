"""How RocketMQ names retry topics and its own groups and topics (MixAll, TopicValidator), and which names are legal."""

from __future__ import annotations

import re
from collections.abc import Collection

from rmqctl.errors import UsageError

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
_NAMESPACE_END = "%"

# Proxies share their clients with each other through it, so each of its members is a proxy (HeartbeatSyncer).
PROXY_GROUP = "CID_DefaultHeartBeatSyncerTopic"

# MixAll.PREDEFINE_GROUP_SET of 5.4.0, whose names only RocketMQ itself uses, and the group of proxies. Brokers create
# some of them.
_SYSTEM_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "__MONITOR_CONSUMER",
        PROXY_GROUP,
    }
)
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"


# Where brokers keep messages until their time: delay levels, one queue per level, and timers of 5.x.
DELAY_TOPIC, TIMER_TOPIC = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
# Where brokers keep the messages of transactions until they are committed (TransactionalMessageUtil).
HALF_TOPICS = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC")
# Where they keep those whose producer did not answer, and the group whose offsets show how far they have checked.
GIVEN_UP_TOPIC, TRANSACTION_CHECKER = "TRANS_CHECK_MAX_TIME_TOPIC", "CID_RMQ_SYS_TRANS"

# Topics that every broker creates (TopicConfigManager, TopicValidator); more of them start with rmq_sys_ or RMQ_SYS_.
_SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SELF_TEST_TOPIC",
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        GIVEN_UP_TOPIC,
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",  # of proxies (HeartbeatSyncer)
    }
)
_SYSTEM_PREFIXES = ("rmq_sys_", "RMQ_SYS_")

# What the name of a new group may be (Validators.checkGroup of 5.x; 4.9 brokers accept any).
_MAX_LENGTH = 120
_MAX_TOPIC_LENGTH, _MAX_SPECIAL_TOPIC_LENGTH = 127, 255
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def dead_letter_topic(group: str) -> str:
    """Return the name of a group's dead-letter topic (MixAll.getDLQTopic)."""
    return f"{DLQ_PREFIX}{group}"


def is_system_topic(topic: str) -> bool:
    """Return whether a topic is RocketMQ's own, created by brokers themselves (TopicValidator)."""
    return topic in _SYSTEM_TOPICS or topic == DELAY_TOPIC or topic.startswith(_SYSTEM_PREFIXES)


def is_sent_to_by_rocketmq(topic: str) -> bool:
    """Return whether only RocketMQ sends to a topic: a system topic, or a group's retry or dead-letter topic."""
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_system_group(group: str) -> bool:
    """Return whether a group is RocketMQ's own (MixAll); a group in a namespace never is."""
    return group in _SYSTEM_GROUPS or group.startswith(_SYSTEM_GROUP_PREFIX)


def with_namespace(namespace: str, name: str) -> str:
    """Return a group's or topic's full name, `NS%name`, after the prefix of a retry or dead-letter topic.

    A name that already has the namespace is unchanged (NamespaceUtil.wrapNamespace); RocketMQ's own names have none.
    """
    if is_system_group(name) or is_system_topic(name):
        return name
    prefix = next((prefix for prefix in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(prefix)), "")
    bare = name.removeprefix(prefix)
    start = f"{namespace}{_NAMESPACE_END}"
    return f"{prefix}{bare}" if bare.startswith(start) else f"{prefix}{start}{bare}"


def pop_retry_topics(group: str, topic: str) -> tuple[str, str]:
    """Return the topics that can contain what popping clients of a group have not acknowledged in a topic.

    The second is used when enableRetryTopicV2 is set (KeyBuilder.buildPopRetryTopic).
    """
    return f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"


def is_pop_retry_topic(group: str, topic: str, topics: Collection[str]) -> bool:
    """Return whether a topic is the pop retry topic of the group for one of its other topics."""
    return any(topic in pop_retry_topics(group, other) for other in topics)


def require_legal_name(group: str) -> None:
    """Raise UsageError for a name that no group can have."""
    if not group.strip():
        raise UsageError("The name of a group is empty.")
    if len(group) > _MAX_LENGTH:
        raise UsageError(f"The name of a group has at most {_MAX_LENGTH} characters, not {len(group)}.")
    if not _LEGAL.fullmatch(group):
        raise UsageError(f"Invalid group name {group!r}.", hint="Use only letters, digits, _, -, % and |.")


def require_new_name(group: str) -> None:
    """Raise UsageError for a name that a new group must not have."""
    require_legal_name(group)
    if group.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise UsageError(f"{group} is the name of a group's retry or dead-letter topic, not of a group.")
    require_no_system_group(group)


def require_topic_name(topic: str) -> None:
    """Raise UsageError for a name that no topic can have (TopicValidator)."""
    if not topic.strip():
        raise UsageError("The name of a topic is empty.")
    limit = _MAX_SPECIAL_TOPIC_LENGTH if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else _MAX_TOPIC_LENGTH
    if len(topic) > limit:
        raise UsageError(f"The name of a topic has at most {limit} characters, not {len(topic)}.")
    if not _LEGAL.fullmatch(topic):
        raise UsageError(f"Invalid topic name {topic!r}.", hint="Use only letters, digits, _, -, % and |.")


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
