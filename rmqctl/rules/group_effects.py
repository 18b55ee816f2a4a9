"""What follows from a change of a group's configuration at one broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rmqctl.model.group import BROADCASTING
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import Consequence

from .group_fields import FIELDS, differing_names
from .words import counted


def describe_effects(
    group: str, before: Mapping[str, Any] | None, target: Mapping[str, Any], *, message_model: str | None,
    retry_queue_count: int | None,
) -> Iterator[Consequence]:  # fmt: skip
    """Say what a change does to the group, only of fields that it changes.

    `message_model` is that of its members, None for nobody; `retry_queue_count` how many queues its retry topic has at
    the broker, None for no such topic.
    """
    names = set(differing_names(before or {}, target))

    def becomes(name: str, value: object) -> bool:
        return name in names and target.get(name) == value

    if becomes("consumeEnable", False):
        yield Consequence("CONSUME_OFF", "Brokers refuse its pulls: the group stands still until that is taken back.")
    if becomes("consumeBroadcastEnable", False):
        who = "its members broadcast, and stand still" if message_model == BROADCASTING else "none is there now"
        yield Consequence("BROADCAST_OFF", f"Brokers refuse pulls of broadcasting members: {who}.")
    if "retryQueueNums" in names:
        yield from _retry_queues(group, target["retryQueueNums"], retry_queue_count)
    if "retryMaxTimes" in names:
        text = "Clients that say themselves how often they try, as Java's do, are not affected by retryMaxTimes."
        yield Consequence("CLIENTS_DECIDE", text)
        if target["retryMaxTimes"] <= 0:
            yield Consequence("NO_RETRIES", "A message of any other client that fails once is a dead letter.")
    if becomes("notifyConsumerIdsChangedEnable", False):
        text = "Members are not told who comes and goes: they share the queues anew only every 20 s."
        yield Consequence("NOTIFY_OFF", text)
    for name in ("brokerId", "whichBrokerWhenConsumeSlowly"):
        if name in names and target[name] != FIELDS[name].default:
            when = "always" if name == "brokerId" else "when they lag far behind"
            text = f"Brokers with slaveReadEnable tell members to read from broker id {target[name]}, {when}."
            yield Consequence("READS_ELSEWHERE", text)


def _retry_queues(group: str, count: int, topic_count: int | None) -> Iterator[Consequence]:
    if count <= 0:
        text = "Messages that fail are acknowledged and lost: there is no retry queue."
        yield Consequence("RETRIES_LOST", text)
    elif topic_count is not None and count > topic_count:
        text = (
            f"{RETRY_PREFIX}{group} has {counted(topic_count, 'queue')}, and is not made wider: brokers put messages "
            f"that fail into queues 0 to {count - 1}, and nobody reads those from {topic_count} on. Widen it first."
        )
        yield Consequence("RETRY_TOPIC_NARROW", text)
