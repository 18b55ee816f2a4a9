"""OFF012: the group has offsets of topics that no member subscribes to."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.text.words import counted


@check(
    "OFF012",
    Severity.INFO,
    "offsets are stored for a topic that no member subscribes to",
    meaning="The group consumed the topic before. Its lag there grows, and no member consumes it. A member that "
    "subscribes to the topic again starts from the old offset and ignores its consumeFromWhere.",
    advice="If the group no longer needs the topic, delete these offsets while the group has no members: rmqctl "
    "offset delete GROUP --topic TOPIC --dry-run. Otherwise, find the members that should subscribe to it.",
)
def unwanted_topics(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the topics with stored offsets with those that members and brokers report."""
    if not facts.running or facts.silent or any(facts.proxied.values()) or facts.silent_proxies:
        return
    named = {*facts.wanted(), *facts.filtered()}
    for topic in sorted(facts.stored_topics - named):
        if not topic.startswith(RETRY_PREFIX):
            count = facts.unwanted_counts.get(topic)
            unread = "" if count is None else f": {counted(count, 'message', 'is')} unread there"
            yield Symptom(
                f"Offsets are stored for {topic}, but no member subscribes to it{unread}.",
                tuple(Evidence("subscriptions", sorted(facts.wanted()), client_id) for client_id in facts.running),
                command("offset", "show", facts.group, "--topic", topic),
                topic,
            )
