"""OFF011: brokers store offsets of a broadcasting group."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.model.group import BROADCASTING
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.text.words import counted


@check(
    "OFF011",
    Severity.INFO,
    "brokers store offsets of a broadcasting group, which no member uses",
    meaning="The group consumed in clustering mode before. Broadcasting members neither read nor change these "
    "offsets, so the lag that other tools compute from them only grows.",
    advice="If the group stays in broadcasting mode, delete them while it has no members: rmqctl offset delete GROUP "
    "--topic TOPIC --dry-run.",
)
def broadcast_offsets(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for stored offsets where every member broadcasts."""
    models = {info.properties.get("messageModel") for info in facts.running.values()}
    if models != {BROADCASTING} or facts.silent:
        return
    by_topic: dict[str, dict[str, int]] = {}
    for row in facts.rows:
        if row.consumer_offset is not None and not row.mq.topic.startswith(RETRY_PREFIX):
            by_topic.setdefault(row.mq.topic, {})[str(row.mq)] = row.consumer_offset
    for topic, stored in by_topic.items():
        yield Symptom(
            f"Brokers store offsets of {counted(len(stored), 'queue')} of {topic}, but every member broadcasts and "
            "none of them uses these offsets.",
            tuple(Evidence("consumerOffset", offset, queue) for queue, offset in stored.items()),
            command("offset", "show", facts.group, "--topic", topic),
            topic,
        )
