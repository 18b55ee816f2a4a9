"""RTY006: messages wait in the group's retry topic, and no member subscribes to it."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.text.words import counted


@check(
    "RTY006",
    Severity.WARNING,
    "failed messages wait for a retry, and no member reads them",
    meaning="Failed messages are in the group's retry topic. Push members subscribe to it; members that pull or "
    "broadcast, and members with gRPC clients, do not. Messages that are not read within the retention are deleted.",
    advice="Start a push consumer of the group temporarily, or read the messages: rmqctl message tail TOPIC.",
    needs=(Need.BROKERS,),
)
def retries_unread(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for unread messages in a retry topic that no broker or member reports as subscribed or held."""
    topic = RETRY_PREFIX + facts.group
    count = sum(each.waiting_count for each in facts.topics if each.topic == topic)
    if not count or not facts.is_online:
        return
    named = {name for found in facts.connections.values() if found is not None for name in found.subscriptions}
    for info in facts.running.values():
        named.update(each.topic for each in info.subscriptions)
        named.update(mq.topic for mq in info.process_queues)
    if topic not in named and not facts.silent:
        yield Symptom(
            f"{counted(count, 'message')} {'waits' if count == 1 else 'wait'} in {topic}, and no member subscribes "
            "to it.",
            (Evidence("waiting", count, topic), Evidence("subscriptions", sorted(named), "brokers")),
            command("offset", "show", facts.group, "--topic", topic),
            topic,
        )
