"""OFF001: messages were deleted before the group read them."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import agreeing, counted


@check(
    "OFF001",
    Severity.ERROR,
    "messages were deleted before the group read them",
    meaning="The group's offset is below the smallest offset that the broker still has. The messages in between are "
    "deleted: retention or a full disk was faster than the group.",
    advice="Resend them from their source. To see the time left for other messages: rmqctl offset show GROUP -o wide.",
    needs=(Need.BROKERS,),
)
def lost(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for offsets below the minimum."""
    for topic in facts.topics:
        if topic.lost and not facts.is_broadcasting:
            at_least = "" if topic.is_lost_exact else "At least "
            of_topic = f"{counted(topic.lost, 'message')} of {topic.topic} {agreeing(topic.lost, 'was')}"
            yield Symptom(
                f"{at_least}{of_topic} deleted before the group read them.",
                (Evidence("lost", topic.lost, topic.topic),),
                command("offset", "show", facts.group, "--topic", topic.topic),
                topic.topic,
            )
