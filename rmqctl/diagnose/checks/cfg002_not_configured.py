"""CFG002: a broker has no configuration for the group."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.names import RETRY_PREFIX


@check(
    "CFG002",
    Severity.WARNING,
    "a broker has no configuration for the group",
    meaning="A broker that creates groups automatically does so at the first heartbeat. With "
    "autoCreateSubscriptionGroup=false, it accepts heartbeats without registering the member, and refuses pulls (26 "
    "SUBSCRIPTION_GROUP_NOT_EXIST).",
    advice="Create the group on that broker: rmqctl group create GROUP --broker BROKER.",
    needs=(Need.BROKERS,),
)
def not_configured(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for brokers that answered but do not know a group that other brokers know."""
    # Members send heartbeats to the brokers of their topics only.
    of_topics = {row.mq.broker_name for row in facts.rows if not row.mq.topic.startswith(RETRY_PREFIX)}
    for name, config in facts.configs.items():
        if config is None and (name in of_topics or not of_topics):
            yield Symptom(
                f"{name} has no configuration for this group.",
                (Evidence("subscriptionGroupConfig", "none", name),),
                command("group", "config", facts.group),
                key=name,
                severity=_severity(facts, name) if of_topics else Severity.INFO,
            )


def _severity(facts: GroupFacts, broker_name: str) -> Severity:
    """Return how bad it is: a broker that does not create groups refuses pulls; without members, none is refused."""
    if not facts.is_online:
        return Severity.INFO
    place = facts.retry_places.get(broker_name)
    return Severity.ERROR if place is not None and place.makes_groups is False else Severity.WARNING
