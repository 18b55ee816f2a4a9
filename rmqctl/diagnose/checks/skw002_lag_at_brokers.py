"""SKW002: the queues of one broker lag behind those of the others."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.skew import find_outliers, medians_by
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.text.words import listed

_LEAST = 1_000
_FACTOR = 5.0


@check(
    "SKW002",
    Severity.WARNING,
    "lag is concentrated at a broker",
    meaning="The median queue of one broker has at least five times the lag of the other brokers' queues. That broker "
    "answers pulls slowly, or the members that hold its queues are slow.",
    advice="Check the broker: rmqctl broker show BROKER. Then check the members that hold its queues: rmqctl offset "
    "show GROUP.",
    needs=(Need.BROKERS,),
)
def lag_at_brokers(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the median lag of each broker's queues, topic by topic."""
    lags: dict[str, dict[str, list[float]]] = {}
    for row in facts.rows:
        if row.lag is not None and not row.mq.topic.startswith(RETRY_PREFIX):
            lags.setdefault(row.mq.topic, {}).setdefault(row.mq.broker_name, []).append(row.lag)
    for topic, by_broker in lags.items():
        medians = medians_by(by_broker)
        # One queue alone is SKW001's.
        slow = [name for name in find_outliers(medians, factor=_FACTOR, least=_LEAST) if len(by_broker[name]) > 1]
        if slow:
            yield Symptom(
                f"The queues of {topic} at {listed(slow)} lag behind those of the other brokers.",
                tuple(Evidence("medianLag", round(value), name) for name, value in medians.items()),
                command("offset", "show", facts.group, "--topic", topic, "--sort", "-lag"),
                topic,
            )
