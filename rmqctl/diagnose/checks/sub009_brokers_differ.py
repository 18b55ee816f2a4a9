"""SUB009: brokers filter one topic differently, and no member says which filter is right."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check
from rmqctl.diagnose.parts import show_subscriptions, subscriptions_as_evidence


@check(
    "SUB009",
    Severity.WARNING,
    "brokers filter a topic differently",
    meaning="Each broker keeps the newest filter that it heard of. Brokers with different ones deliver different "
    "messages, or one of them did not hear the last change.",
    advice="Compare what the members subscribe to; members that do not answer have to be looked at where they run.",
    needs=(Need.BROKERS,),
    may_pass=True,
)
def brokers_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare brokers with each other where no member's word is known."""
    if any(info.subscriptions for info in facts.running.values()):
        return  # SUB001 to SUB008 compare with the members' own words
    for topic, by_broker in facts.filtered().items():
        if len({item.filter_key for item in by_broker.values()}) > 1:
            words = "; ".join(f"{item.expression} ({name})" for name, item in by_broker.items())
            yield Symptom(
                f"Brokers filter {topic} differently: {words}.",
                subscriptions_as_evidence(topic, by_broker),
                show_subscriptions(facts),
                topic,
            )
