"""SKW003: most messages of a topic arrive in a few of its queues."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.skew import find_outliers
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.text.numbers import rate_words, rounded_rate
from rmqctl.text.words import listed

# Fewer messages than this in the sample say nothing about the distribution.
_LEAST_COUNT = 100
_FACTOR = 5.0


@check(
    "SKW003",
    Severity.WARNING,
    "most messages go to one queue",
    meaning="Each queue is consumed by one member, so a hot queue is only as fast as that member, however many "
    "members there are. Common causes: a selector that maps most keys to one queue, or a broker that producers avoid.",
    advice="Check how producers choose queues (MessageQueueSelector). More members do not help.",
    needs=(Need.BROKERS, Need.RATES),
)
def hot_queue(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the messages per second of each queue with the mean of the others."""
    rates: dict[str, dict[str, float]] = {}
    for mq, rate in (facts.put_rates or {}).items():
        if not mq.topic.startswith(RETRY_PREFIX):
            rates.setdefault(mq.topic, {})[str(mq)] = rate
    for topic, by_queue in rates.items():
        hot = find_outliers(by_queue, factor=_FACTOR, least=_LEAST_COUNT / facts.sampled_s) if facts.sampled_s else []
        if hot:
            part, total = sum(by_queue[queue] for queue in hot), sum(by_queue.values())
            yield Symptom(
                f"{part / total:.0%} of the messages of {topic} arrive in {len(hot)} of {len(by_queue)} queues: "
                f"{listed(f'{queue} ({rate_words(by_queue[queue])} msg/s)' for queue in hot)}.",
                tuple(Evidence("putTps", rounded_rate(rate), queue) for queue, rate in by_queue.items()),
                command("topic", "status", topic, "--sort", "-maxOffset"),
                topic,
            )
