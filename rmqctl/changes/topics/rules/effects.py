"""The effects of changing a topic at some brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rmqctl.changes.configs.rules.fields import TOPIC_NAME
from rmqctl.model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from rmqctl.model.plan import OWN_TOPIC, ConfigItem, Consequence
from rmqctl.model.queue import MessageQueue
from rmqctl.model.stats import TopicOffset
from rmqctl.model.topic import READ, WRITE
from rmqctl.text.words import counted, listed

DELETED, UNREAD, NO_OFFSET, CUT_OFF, CLOSED = (
    "MESSAGES_DELETED", "UNREAD_LOST", "NO_OFFSET", "MESSAGES_CUT_OFF", "UNREAD_CLOSED",
)  # fmt: skip
# What takes messages from groups: a saved plan must name each before it is applied.
LOSSES = frozenset({DELETED, UNREAD, NO_OFFSET, CUT_OFF, CLOSED})
_SHOWN = 10


class UnreadMessages(Struct, frozen=True):
    """What a group has not read in some queues: `count` messages, and `unknown_count` in queues without an offset."""

    count: int
    unknown_count: int
    unknown_queue_count: int


def is_config_of(topic: str | None, config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is this topic's."""
    return config.get(TOPIC_NAME) == topic


def count_unread(queues: Mapping[MessageQueue, TopicOffset], offsets: Mapping[MessageQueue, int]) -> UnreadMessages:
    """Return what a group with these offsets has not read in these queues."""
    count = unknown_count = unknown_queue_count = 0
    for mq, bounds in queues.items():
        if not bounds.message_count:
            continue
        if mq in offsets:
            count += max(bounds.max_offset - max(offsets[mq], bounds.min_offset), 0)
        else:
            unknown_count += bounds.message_count
            unknown_queue_count += 1
    return UnreadMessages(count, unknown_count, unknown_queue_count)


def deleted_queues(
    items: Iterable[ConfigItem], queues: Mapping[MessageQueue, TopicOffset]
) -> dict[MessageQueue, TopicOffset]:
    """Return the queues that are deleted with their messages."""
    names = {item.broker_name for item in items if item.is_deletion}
    return {mq: bounds for mq, bounds in queues.items() if mq.broker_name in names}


def closed_queues(
    items: Iterable[ConfigItem], queues: Mapping[MessageQueue, TopicOffset], *, is_cut: bool
) -> dict[MessageQueue, TopicOffset]:
    """Return the queues that consumers can no longer read: cut off by a lower readQueueNums, or without permission."""
    closed: dict[MessageQueue, TopicOffset] = {}
    for item in items:
        if item.before is None or item.target is None or not item.before["perm"] & READ:
            continue
        had, gets = item.before["readQueueNums"], item.target["readQueueNums"]
        has_permission = bool(item.target["perm"] & READ)
        first = gets if is_cut else 0
        if is_cut or not has_permission:
            last = had if is_cut else min(had, gets)
            closed |= {
                mq: bounds
                for mq, bounds in queues.items()
                if mq.broker_name == item.broker_name and first <= mq.queue_id < last
            }
    return closed


def takes_messages(items: Iterable[ConfigItem]) -> list[ConfigItem]:
    """Return the items that may take messages from groups."""
    return [
        item
        for item in items
        if item.before is not None
        and (
            item.target is None
            or item.target["readQueueNums"] < item.before["readQueueNums"]
            or bool(item.before["perm"] & READ & ~item.target["perm"])
        )
    ]


def describe_own(topic: str, own: Iterable[str]) -> Iterator[Consequence]:
    """Yield that a topic is RocketMQ's own; `own` are those of a cluster, see own_topics()."""
    text = ""
    if topic.startswith(RETRY_PREFIX):
        text = f"{topic} is a retry topic: without it, its group loses the messages that wait for their retry."
    elif topic.startswith(DLQ_PREFIX):
        text = f"{topic} is a dead-letter topic: it has the only copies of its group's dead letters."
    elif topic in set(own) or is_system_topic(topic):
        text = f"{topic} is one of RocketMQ's own topics: brokers need it, and most refuse to change it."
    if text:
        yield Consequence(OWN_TOPIC, text)


def describe_settings(items: Sequence[ConfigItem]) -> Iterator[Consequence]:
    """Yield the effects of new permissions and numbers of queues, for the brokers that get them."""
    changed = [(item.broker_name, item.before, item.target) for item in items if item.target is not None]

    def at(names: Iterable[str]) -> str:
        return listed(sorted(names), _SHOWN)

    def lacks(perm: int) -> list[str]:
        return [
            name for name, before, target in changed
            if not target["perm"] & perm and (before is None or before["perm"] & perm)
        ]  # fmt: skip

    if names := lacks(WRITE):
        text = (
            f"Producers stop sending to the topic at {at(names)} when they next read its route, within 30 s. Brokers "
            "accept what arrives until then."
        )
        yield Consequence("NOT_WRITABLE", text)
    if names := lacks(READ):
        yield Consequence("NOT_READABLE", f"Brokers refuse to let consumers read the topic at {at(names)}.")
    moving = [
        name for name, before, target in changed
        if before is not None and before["writeQueueNums"] != target["writeQueueNums"]
    ]  # fmt: skip
    if moving:
        text = (
            f"The number of write queues changes at {at(moving)}: producers map keys to other queues, so messages of "
            "one key are not in order across the change."
        )
        yield Consequence("KEYS_MOVE", text)
    wider = [
        name for name, before, target in changed
        if target["writeQueueNums"] > target["readQueueNums"]
        and (before is None or _surplus(before) < _surplus(target))
    ]  # fmt: skip
    if wider:
        text = f"There are more write queues than read queues at {at(wider)}: consumers do not read the surplus."
        yield Consequence("UNREAD_QUEUES", text)


def _surplus(config: Mapping[str, Any]) -> int:
    return int(config["writeQueueNums"] - config["readQueueNums"])


def describe_losses(
    items: Sequence[ConfigItem], queues: Mapping[MessageQueue, TopicOffset],
    groups: Mapping[str, Mapping[MessageQueue, int]],
) -> Iterator[Consequence]:  # fmt: skip
    """Yield which messages are deleted or can no longer be read, in all and for each group."""
    deleted = deleted_queues(items, queues)
    count = sum(bounds.message_count for bounds in deleted.values())
    if count:
        names = listed(sorted({mq.broker_name for mq, bounds in deleted.items() if bounds.message_count}), _SHOWN)
        text = f"{counted(count, 'message', 'is')} deleted at {names}. An undo does not bring messages back."
        yield Consequence(DELETED, text)
    parts = (
        (UNREAD, deleted, "are deleted"),
        (CUT_OFF, closed_queues(items, queues, is_cut=True), "are in queues that are cut off"),
        (CLOSED, closed_queues(items, queues, is_cut=False), "wait until the topic is readable again"),
    )
    for code, some, what in parts:
        for group, offsets in groups.items():
            unread = count_unread(some, offsets)
            if unread.count:
                yield Consequence(code, f"Group {group} has {counted(unread.count, 'unread message')}: they {what}.")
            if unread.unknown_count:
                text = (
                    f"Group {group} has no offset in {counted(unread.unknown_queue_count, 'queue')} with "
                    f"{counted(unread.unknown_count, 'message')}: how many of them are unread is not known."
                )
                yield Consequence(NO_OFFSET, text)
    if deleted and not count:
        yield Consequence("NO_MESSAGES", "The topic has no messages.")


def loss_key(consequence: Consequence) -> tuple[str, str]:
    """Return what a loss is of: its code, and its group if it names one."""
    words = consequence.text.split()
    return consequence.code, words[1] if words[0] == "Group" else ""
