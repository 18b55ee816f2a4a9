"""SKW001: most of a topic's lag is in a few of its queues."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.skew import find_outliers
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.text.words import listed

# A smaller backlog is consumed before a user has typed a command.
_LEAST = 1_000
_FACTOR = 5.0


@check(
    "SKW001",
    Severity.WARNING,
    "lag is concentrated in a queue",
    meaning="A queue has at least five times the average lag of the topic's other queues. Its owner is slow or stuck, "
    "or most messages go to that queue (SKW003).",
    advice="Look for a stuck message first: rmqctl clean-expired GROUP. Then compare the members' rates.",
    needs=(Need.BROKERS,),
)
def lag_in_queues(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the lag of each queue with the mean of the others."""
    lags: dict[str, dict[str, float]] = {}
    owners = {}
    for row in facts.rows:
        if row.lag is not None and not row.mq.topic.startswith(RETRY_PREFIX):
            lags.setdefault(row.mq.topic, {})[str(row.mq)] = row.lag
            owners[str(row.mq)] = listed(row.client_ids) or "no member"
    for topic, by_queue in lags.items():
        hot = find_outliers(by_queue, factor=_FACTOR, least=_LEAST)
        if hot:
            total = sum(by_queue.values())
            part = sum(by_queue[queue] for queue in hot)
            yield Symptom(
                f"{part:.0f} of {total:.0f} unread messages of {topic} are in {len(hot)} of {len(by_queue)} queues: "
                f"{listed(f'{queue} ({owners[queue]})' for queue in hot)}.",
                tuple(Evidence("lag", int(lag), queue) for queue, lag in by_queue.items()),
                command("offset", "show", facts.group, "--topic", topic, "--sort", "-lag"),
                topic,
            )
