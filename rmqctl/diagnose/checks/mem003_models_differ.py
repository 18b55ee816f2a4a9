"""MEM003: some members broadcast and some share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.rules.words import by_value, listed


@check(
    "MEM003",
    Severity.ERROR,
    "members use different message models",
    meaning="A member that broadcasts consumes every queue and keeps its offsets to itself; the others share the "
    "queues among all members, so the share of the broadcasting one is not committed by anyone.",
    advice="Use one message model per group; give the other members a group of their own.",
)
def models_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the model that each member and each broker reports; a broker has that of who was heard last."""
    told = {client_id: info.properties.get("messageModel") or None for client_id, info in facts.running.items()}
    at_brokers = {name: found.message_model or None for name, found in facts.connections.items() if found is not None}
    yield from differing(facts, "messageModel", "message models", told, at_brokers)


def differing(
    facts: GroupFacts, key: str, what: str, told: Mapping[str, str | None], at_brokers: Mapping[str, str | None]
) -> Iterator[Symptom]:
    """Compare what members report, and what brokers do where the members that answered agree."""
    by_members = by_value(told.items())
    every = by_value((*told.items(), *at_brokers.items()))
    shown = by_members if len(by_members) > 1 else every
    if len(shown) > 1:
        words = ", ".join(f"{value} ({listed(names)})" for value, names in shown.items())
        who = "Members use" if len(by_members) > 1 else "Brokers and members report"
        yield Symptom(
            f"{who} different {what}: {words}.",
            tuple(Evidence(key, value, name) for name, value in (*told.items(), *at_brokers.items()) if value),
            command("group", "members", facts.group, "-o", "wide"),
        )
