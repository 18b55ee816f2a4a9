"""SUB009: brokers filter one topic differently, and no member reports its own filter."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence


@check(
    "SUB009",
    Severity.WARNING,
    "brokers filter a topic differently",
    meaning="Each broker keeps the newest filter that it received. Brokers with different filters deliver different "
    "messages, or one of them did not receive the last change.",
    advice="Compare the subscriptions of the members. Check members that do not answer on their hosts.",
    needs=(Need.BROKERS,),
    may_pass=True,
)
def brokers_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare brokers with each other where no member reports its subscriptions."""
    if any(info.subscriptions for info in facts.running.values()):
        return  # SUB001 to SUB008 compare with the members' own reports
    for topic, by_broker in facts.filtered().items():
        if len({item.filter_key for item in by_broker.values()}) > 1:
            words = "; ".join(f"{item.expression} ({name})" for name, item in by_broker.items())
            yield Symptom(
                f"Brokers filter {topic} differently: {words}.",
                subscriptions_as_evidence(topic, by_broker),
                show_subscriptions(facts),
                topic,
            )
