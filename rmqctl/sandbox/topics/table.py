"""A broker's topics (TopicConfigManager)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.flags import Permission
from rmqctl.sandbox.data_version import DataVersion
from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.settings import ServerSettings
from rmqctl.sandbox.storage.state import StateStore

from .name_rules import is_system_topic

READ_WRITE = Permission.READ | Permission.WRITE
INHERITED = READ_WRITE | Permission.INHERIT

AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
DELAY_QUEUE_COUNT = 18
# RocketMQ has no limit, and needs minutes to list the queues of a topic with millions.
MAX_QUEUE_COUNT = 65_536

# TopicValidator.isNotAllowedSendTopic.
NO_SEND_TOPICS = frozenset({
    SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
})  # fmt: skip

# TopicSysFlag.
UNIT, UNIT_SUBSCRIBED = 1, 2

# Reserved system names whose topics are not created at the start (TopicValidator).
_RESERVED = frozenset({
    AUTO_CREATE_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC, "RMQ_SYS_TRACE_TOPIC",
})  # fmt: skip
_RESERVED_5 = frozenset({"CHECKPOINT_TOPIC"})
_NO_NAMES: frozenset[str] = frozenset()

_TABLE = "topics"
_AUTO_CREATE = "autoCreateTopicEnable"
# TopicConfig.defaultReadQueueNums.
_DEFAULT_QUEUE_COUNT = 16


class Topic(Struct, frozen=True):
    """One topic's configuration (TopicConfig). `perm` are PermName bits."""

    name: str
    read_queue_count: int
    write_queue_count: int
    perm: int = READ_WRITE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    is_ordered: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    def to_wire(self, *, with_attributes: bool = True) -> dict[str, Any]:
        """Return it as JSON data; 4.9 has no attributes."""
        wire = {
            "order": self.is_ordered, "perm": self.perm, "readQueueNums": self.read_queue_count,
            "topicFilterType": self.filter_type, "topicName": self.name, "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queue_count,
        }  # fmt: skip
        return {"attributes": self.attributes, **wire} if with_attributes else wire

    @classmethod
    def from_wire(cls, name: str, item: dict[str, Any]) -> Topic:
        """Read it from JSON data; missing fields get their defaults. Raises TypeError, ValueError for other JSON."""
        return cls(
            name, int(item.get("readQueueNums", _DEFAULT_QUEUE_COUNT)),
            int(item.get("writeQueueNums", _DEFAULT_QUEUE_COUNT)), int(item.get("perm", READ_WRITE)),
            str(item.get("topicFilterType") or "SINGLE_TAG"), int(item.get("topicSysFlag", 0)),
            bool(item.get("order", False)), dict(item.get("attributes") or {}),
        )  # fmt: skip


class TopicTable:
    """Topics by name. `on_change` is called with the name of each new or changed topic, for the name server.

    It is not called for deleted topics: as in RocketMQ, these need their own request (DELETE_TOPIC_IN_NAMESRV).
    `system_names` are the topics that no request may change.
    """

    def __init__(
        self, profile: Profile, cluster: str, broker_name: str, now_ms: Callable[[], int], state: StateStore,
        settings: ServerSettings,
    ) -> None:  # fmt: skip
        self.version = DataVersion(now_ms)
        self.on_change: Callable[[str], None] = lambda _: None
        self._profile = profile
        self._state = state
        self._settings = settings
        self.topics: dict[str, Topic] = {
            topic.name: topic for topic in _system_topics(profile, cluster, broker_name, settings)
        }
        self.system_names = frozenset(self.topics) | _RESERVED | (_RESERVED_5 if profile.is_5 else _NO_NAMES)
        for name, item in state.load(_TABLE).items():
            self.topics[name] = Topic.from_wire(name, item)

    def find(self, name: str) -> Topic | None:
        """Return a topic, or None."""
        return self.topics.get(name)

    def require(self, name: str) -> Topic:
        """Return a topic. Raises RefusalError with TOPIC_NOT_EXIST."""
        topic = self.find(name)
        if topic is None:
            raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return topic

    def put(self, topic: Topic, *, is_reported: bool = True) -> None:
        """Create or change a topic. Not `is_reported`: name servers learn of it with the next full registration."""
        if self._profile.is_5 and self.topics.get(topic.name) == topic:
            return
        self._state.put(_TABLE, topic.name, topic.to_wire())
        self.topics[topic.name] = topic
        self.version.next()
        if is_reported:
            self.on_change(topic.name)

    def delete(self, name: str) -> None:
        """Delete a topic; a missing one is ignored."""
        if name in self.topics:
            self._state.delete(_TABLE, name)
            del self.topics[name]
            self.version.next()

    def is_system(self, name: str) -> bool:
        """Return whether a topic is a system topic, which no request may change."""
        return is_system_topic(name, self.system_names)

    def create_for_send(self, name: str, default_topic: str, queue_count: int, sys_flag: int = 0) -> Topic | None:
        """Create the topic of a send, based on the default topic (createTopicInSendMessageMethod).

        Returns None when the default topic does not exist or is not one to inherit from.
        """
        default = self.topics.get(default_topic)
        if default_topic == AUTO_CREATE_TOPIC and default is not None and not self._settings.flag(_AUTO_CREATE):
            # It was switched off at run time. As in RocketMQ, it stays off until the topic is created again.
            default = self.topics[default_topic] = replace(default, perm=READ_WRITE)
            self._state.put(_TABLE, default_topic, default.to_wire())
        if default is None or not default.perm & Permission.INHERIT:
            return None
        count = max(0, min(queue_count, default.write_queue_count))
        topic = Topic(name, count, count, default.perm & ~Permission.INHERIT, default.filter_type, sys_flag)
        self.put(topic)
        return topic

    def create_for_group(self, name: str, queue_count: int, perm: int = READ_WRITE, sys_flag: int = 0) -> Topic:
        """Return a retry or dead-letter topic; create it if it does not exist (createTopicInSendMessageBackMethod)."""
        found = self.topics.get(name)
        if found is None:
            queue_count = min(queue_count, MAX_QUEUE_COUNT)
            found = Topic(name, queue_count, queue_count, perm, sys_flag=sys_flag)
            self.put(found)
        return found

    def change(self, name: str, **changes: Any) -> None:
        """Change some fields of an existing topic."""
        self.put(replace(self.topics[name], **changes))


def retry_topic(group: str) -> str:
    """Return the name of a group's retry topic."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the name of a group's dead-letter topic."""
    return DLQ_PREFIX + group


def _system_topics(profile: Profile, cluster: str, broker_name: str, settings: ServerSettings) -> list[Topic]:
    """Return the topics that a broker creates when it starts (TopicConfigManager.init)."""
    topics = [
        Topic("SELF_TEST_TOPIC", 1, 1),
        Topic("BenchmarkTest", 1024, 1024),
        Topic(cluster, 16, 16, INHERITED),
        Topic(broker_name, 1, 1, INHERITED),
        Topic("OFFSET_MOVED_EVENT", 1, 1),
        Topic(SCHEDULE_TOPIC, DELAY_QUEUE_COUNT, DELAY_QUEUE_COUNT),
        Topic(f"{cluster}_REPLY_TOPIC", 1, 1),
        # 4.9 creates it for its own consumer of half messages, shortly after the start.
        Topic(HALF_TOPIC, 1, 1),
    ]
    if settings.flag(_AUTO_CREATE):
        count = settings.number("defaultTopicQueueNums")
        topics.append(Topic(AUTO_CREATE_TOPIC, count, count, INHERITED))
    if settings.flag("traceTopicEnable"):
        topics.append(Topic(settings.text("msgTraceTopicName"), 1, 1))
    if profile.is_5:
        revive_count = settings.number("reviveQueueNum")
        topics += [
            Topic(OP_TOPIC, 1, 1),
            Topic("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 1, 1),
            Topic("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", 1, 1),
            Topic(revive_topic(cluster), revive_count, revive_count),
            Topic(f"rmq_sys_SYNC_BROKER_MEMBER_{broker_name}", 1, 1, Permission.INHERIT),
        ]
        if settings.flag("timerWheelEnable"):
            topics.append(Topic(TIMER_TOPIC, 1, 1))
    return topics


def revive_topic(cluster: str) -> str:
    """Return the name of the topic of pop check-points and acknowledgements."""
    return f"rmq_sys_REVIVE_LOG_{cluster}"
