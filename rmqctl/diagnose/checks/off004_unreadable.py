"""OFF004: messages are in queues that no consumer can read."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.rules.readable_queues import describe_unreadable


@check(
    "OFF004",
    Severity.ERROR,
    "messages are in queues that no consumer can read",
    meaning="The topic has more write queues than read queues, or its queue count was reduced before the group had "
    "read everything. No member is assigned these queues, and no lag counts their messages.",
    advice="Make them readable until they are read: rmqctl topic update TOPIC --read-queues COUNT.",
    needs=(Need.BROKERS,),
)
def unreadable(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the queues that contain messages with readQueueNums."""
    for topic in facts.topics:
        if topic.unreadable_count:
            yield Symptom(
                describe_unreadable(
                    topic.topic, topic.unreadable_count, topic.unreadable_queue_count, topic.unreadable_end
                ),
                (Evidence("messageCount", topic.unreadable_count, topic.topic),),
                command("offset", "show", facts.group, "--topic", topic.topic),
                topic.topic,
            )
