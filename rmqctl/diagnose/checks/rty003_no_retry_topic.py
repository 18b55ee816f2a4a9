"""RTY003: the group's retry topic is missing at a broker with members."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.model.names import RETRY_PREFIX


@check(
    "RTY003",
    Severity.WARNING,
    "the retry topic is missing at a broker",
    meaning="A broker creates the group's retry topic at the first heartbeat of a member and registers it at the name "
    "servers. Without it, members do not read failed messages from that broker: these messages wait.",
    advice="Check whether the topic was deleted; the next heartbeat or failed message recreates it. A broker that "
    "cannot reach a name server does not register it.",
    may_pass=True,
)
def no_retry_topic(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the route of the retry topic with the brokers at which push consumers are registered."""
    senders = facts.senders
    for name, place in facts.retry_places.items():
        has_queues = place.retry_queue_count is not None and place.retry_queue_count > 0
        if place.is_topic_writable is None and has_queues and senders & facts.registered(name):
            topic = RETRY_PREFIX + facts.group
            yield Symptom(
                f"{topic} is missing at {name}, where members are registered: "
                "messages that fail there are not redelivered.",
                (Evidence("route", "not registered", topic), Evidence("retryQueueNums", place.retry_queue_count, name)),
                command("topic", "route", topic),
                topic=topic,
                key=name,
            )
