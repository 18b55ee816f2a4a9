"""SUB007: a member's subscription is older than the member itself."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence
from rmqctl.text.words import listed

# Applications subscribe before they start, some of them a while before.
_BEFORE_START_MS = 86_400_000


@check(
    "SUB007",
    Severity.WARNING,
    "a subscription's version is older than its member",
    meaning="A broker replaces a filter only by one with a newer version. A member whose version is older than its "
    "own start (by more than a day) never changes the broker's filter.",
    advice="Check the clock and the client library of the member: versions are ms since 1970, set at each subscribe.",
    needs=(Need.MEMBERS,),
)
def version_behind(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare versions with the start of each member, both by its own clock."""
    settings = facts.settings
    for topic, by_client in facts.wanted().items():
        old = {
            client_id: item
            for client_id, item in by_client.items()
            # DefaultMQPullConsumer sends version 0 and has no filter of its own.
            if (started_ms := settings[client_id].started_at_ms) and 0 < item.version_ms < started_ms - _BEFORE_START_MS
        }
        if old:
            yield Symptom(
                f"The version of the subscription to {topic} is older than its members: {listed(old)}.",
                subscriptions_as_evidence(topic, old),
                show_subscriptions(facts),
                topic,
            )
