"""PUL004: a topic is not readable at a broker."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import listed


@check(
    "PUL004",
    Severity.WARNING,
    "a topic has no read permission at a broker",
    meaning="The topic's permission at that broker does not include reading. Its queues there are not in the route "
    "that members share, so their messages are not consumed. The finding is an ERROR where messages wait there.",
    advice="If this is not intended, restore the permission: rmqctl topic update TOPIC --perm rw.",
    needs=(Need.BROKERS,),
)
def topic_unreadable(facts: GroupFacts) -> Iterator[Symptom]:
    """Check the permission in the routes of subscribed topics (PermName.PERM_READ)."""
    for topic, names in facts.closed_brokers.items():
        yield Symptom(
            f"{topic} is not readable at {listed(names)}: messages stored there are not consumed.",
            tuple(Evidence("perm", "not readable", name) for name in names),
            command("topic", "status", topic),
            topic,
            severity=Severity.ERROR if _waits(facts, topic, names) else None,
        )


def _waits(facts: GroupFacts, topic: str, broker_names: Collection[str]) -> bool:
    """Return whether the group has unread messages of the topic at these brokers."""
    return not facts.is_broadcasting and any(
        row.lag for row in facts.rows if row.mq.topic == topic and row.mq.broker_name in broker_names
    )
