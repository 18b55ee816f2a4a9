"""OFF013: members are so far behind that they read from a slave."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.queue import MessageQueue
from rmqctl.text.words import agreeing, counted


@check(
    "OFF013",
    Severity.INFO,
    "members read from a slave",
    meaning="The next messages are no longer in the master's memory, so the master sends members to a slave "
    "(slaveReadEnable, whichBrokerWhenConsumeSlowly). The slave reads the messages from its disk. Members see only "
    "messages that the slave has copied. Without that slave, they stay with the master.",
    advice="Do nothing while they catch up. If they do not, make the listener faster or skip messages that are too "
    "old: rmqctl offset reset GROUP --topic TOPIC --to-time TIME --dry-run.",
    needs=(Need.BROKERS, Need.BACKLOG),
)
def read_elsewhere(facts: GroupFacts) -> Iterator[Symptom]:
    """Report the brokers that send members to a slave, by topic."""
    by_topic: dict[str, dict[MessageQueue, int]] = {}
    for mq, broker_id in sorted(facts.read_elsewhere.items()):
        by_topic.setdefault(mq.topic, {})[mq] = broker_id
    lags = {row.mq: row.lag for row in facts.rows}
    for topic, ids in by_topic.items():
        first = next(iter(ids))
        more = (
            f", and so {agreeing(len(ids) - 1, 'does')} {counted(len(ids) - 1, 'other broker')}" if len(ids) > 1 else ""
        )
        yield Symptom(
            f"{first.broker_name} sends members that read {topic} to its slave (broker id {ids[first]}){more}: the "
            "next messages are no longer in its memory.",
            tuple(
                Evidence("suggestWhichBrokerId", f"{mq} {ids[mq]}, lag {lags.get(mq)}", mq.broker_name) for mq in ids
            ),
            command("offset", "show", facts.group, "--topic", topic, "-o", "wide"),
            topic,
        )
