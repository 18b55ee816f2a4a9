"""TRX001: half messages of the group's topics stay open."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.text.durations import short_duration
from rmqctl.text.words import agreeing, counted, listed


@check(
    "TRX001",
    Severity.WARNING,
    "half messages of transactions stay open",
    meaning="Producers have sent messages of the group's topics in transactions, and neither committed them nor rolled "
    "them back, although the broker asked. Consumers do not see them. After transactionCheckMax checks, the broker "
    "gives them up: they are never delivered.",
    advice="Check the producer group: whether it has a connected producer (rmqctl topic producers TOPIC), and how that "
    "answers checks (TransactionListener.checkLocalTransaction).",
    needs=(Need.BROKERS, Need.HELD),
)
def open_halves(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for half messages that a check found open, in a sample of those that each broker has."""
    topics = {each.topic for each in facts.topics if not each.topic.startswith(RETRY_PREFIX)} | facts.wanted().keys()
    for name, held in facts.held_back.items():
        halves = held.halves.of_topics(topics)
        oldest = halves.oldest
        if oldest is None or not halves.is_piled_up:
            continue
        count = len(halves.checked)
        groups = sorted({each.producer_group or "-" for each in halves.checked})
        meant_for = sorted({each.topic for each in halves.checked})
        yield Symptom(
            f"At least {counted(count, 'half message')} of {listed(meant_for)} at {name} {agreeing(count, 'is')} open, "
            f"of {listed(groups)}; the oldest was prepared {short_duration(oldest.age_ms)} ago and checked "
            f"{counted(oldest.check_count, 'time')}.",
            (
                Evidence("openCount", count, name),
                Evidence("mostCount", halves.most_count, name),
                Evidence("producerGroups", groups, name),
            ),
            command("doctor", "--where", "check=transactions"),
            topic=meant_for[0] if len(meant_for) == 1 else None,
            key=name,
        )
