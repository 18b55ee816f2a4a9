"""RTY003: the group's retry topic is not at a broker where members are."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.model.names import RETRY_PREFIX


@check(
    "RTY003",
    Severity.WARNING,
    "the retry topic is missing at a broker",
    meaning="A broker creates the group's retry topic with the first heartbeat of a member, and registers it at the "
    "name servers. Without it members do not read from that broker what failed: such messages wait.",
    advice="Look whether the topic was deleted; the next heartbeat or failed message creates it again. A broker that "
    "cannot reach a name server does not register it.",
    may_pass=True,
)
def no_retry_topic(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the route of the retry topic with the brokers at which push consumers are registered."""
    if not facts.sends_back or facts.is_popping:
        return
    for name, place in facts.retry_places.items():
        has_queues = place.retry_queue_count is not None and place.retry_queue_count > 0
        if place.is_topic_writable is None and has_queues and facts.registered(name):
            topic = RETRY_PREFIX + facts.group
            yield Symptom(
                f"{topic} is not at {name}, where members are registered: what fails there is not read again.",
                (Evidence("route", "not registered", topic), Evidence("retryQueueNums", place.retry_queue_count, name)),
                command("topic", "route", topic),
                topic=topic,
                key=name,
            )
