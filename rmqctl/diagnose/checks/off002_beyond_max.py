"""OFF002: an offset is beyond the end of its queue."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import counted


@check(
    "OFF002",
    Severity.ERROR,
    "an offset is beyond the end of its queue",
    meaning="The topic was deleted and recreated, the broker lost data, or a reset was wrong. The broker corrects a "
    "member that pulls there (21 PULL_OFFSET_MOVED). The member then skips messages or consumes them again.",
    advice="Set the offset from which the group should continue: rmqctl offset reset GROUP --dry-run.",
    needs=(Need.BROKERS,),
)
def beyond_max(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for offsets above the maximum."""
    for topic in facts.topics:
        if topic.beyond_max_count and not facts.is_broadcasting:
            queues = counted(topic.beyond_max_count, "queue")
            yield Symptom(
                f"The offset is beyond the end of {queues} of {topic.topic}: "
                "members continue there from a different offset.",
                (Evidence("queuesBeyondMax", topic.beyond_max_count, topic.topic),),
                command("offset", "show", facts.group, "--topic", topic.topic),
                topic.topic,
            )
