"""OFF004: messages are in queues that no consumer can read."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.rules.words import counted


@check(
    "OFF004",
    Severity.WARNING,
    "messages are in queues that no consumer can read",
    meaning="The topic has more write queues than read queues. Producers wrote to the others; no member is assigned "
    "those, and no lag counts their messages.",
    advice="Raise readQueueNums until they are read, for example: mqadmin updateTopic -t TOPIC -r COUNT.",
    needs=(Need.BROKERS,),
)
def unreadable(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the queues that hold messages with readQueueNums."""
    for topic in facts.topics:
        if topic.unreadable_count:
            where = f"{counted(topic.unreadable_queue_count, 'queue')} " if topic.unreadable_queue_count else "queues "
            yield Symptom(
                f"{counted(topic.unreadable_count, 'message')} of {topic.topic} "
                f"{'is' if topic.unreadable_count == 1 else 'are'} in {where}that no consumer can read "
                "(readQueueNums).",
                (Evidence("messageCount", topic.unreadable_count, topic.topic),),
                command("topic", "status", topic.topic),
                topic.topic,
            )
