"""The effects of changing a group's configuration at one broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rmqctl.changes.configs.rules.fields import GROUP, differing_names
from rmqctl.model.group import BROADCASTING
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import Consequence
from rmqctl.text.words import counted


def describe_effects(
    group: str, before: Mapping[str, Any] | None, target: Mapping[str, Any], *, message_model: str | None,
    retry_queue_count: int | None,
) -> Iterator[Consequence]:  # fmt: skip
    """Yield the effects of a change on the group, only for the fields that it changes.

    `message_model` is the members' model, None without members. `retry_queue_count` is the number of queues of the
    group's retry topic at the broker, None without that topic.
    """
    names = set(differing_names(before or {}, target))

    def becomes(name: str, value: object) -> bool:
        return name in names and target.get(name) == value

    if becomes("consumeEnable", False):
        yield Consequence("CONSUME_OFF", "Brokers refuse its pulls: the group stops consuming until this is reverted.")
    if becomes("consumeBroadcastEnable", False):
        who = "its members broadcast, so they stop" if message_model == BROADCASTING else "the group has none now"
        yield Consequence("BROADCAST_OFF", f"Brokers refuse pulls from broadcasting members: {who}.")
    if "retryQueueNums" in names:
        yield from _retry_queues(group, target["retryQueueNums"], retry_queue_count)
    if "retryMaxTimes" in names:
        text = "Clients that send their own retry limit, as Java clients do, are not affected by retryMaxTimes."
        yield Consequence("CLIENTS_DECIDE", text)
        if target["retryMaxTimes"] <= 0:
            yield Consequence("NO_RETRIES", "For all other clients, a message that fails once becomes a dead letter.")
    if becomes("notifyConsumerIdsChangedEnable", False):
        text = "Brokers do not notify members of joins and leaves: members rebalance only every 20 s."
        yield Consequence("NOTIFY_OFF", text)
    for name in ("brokerId", "whichBrokerWhenConsumeSlowly"):
        if name in names and target[name] != GROUP.fields[name].default:
            when = "always" if name == "brokerId" else "when they lag far behind"
            text = f"Brokers with slaveReadEnable make members read from broker id {target[name]}, {when}."
            yield Consequence("READS_ELSEWHERE", text)


def _retry_queues(group: str, count: int, topic_count: int | None) -> Iterator[Consequence]:
    if count <= 0:
        text = "Failed messages are acknowledged and lost, because the group has no retry queue."
        yield Consequence("RETRIES_LOST", text)
    elif topic_count is not None and count > topic_count:
        text = (
            f"{RETRY_PREFIX}{group} has {counted(topic_count, 'queue')}, and keeps that number: brokers put failed "
            f"messages into queues 0 to {count - 1}, but no member reads those from {topic_count} on. Add queues first."
        )
        yield Consequence("RETRY_TOPIC_NARROW", text)
