"""MEM003: some members broadcast and some share."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Severity, Symptom, check
from rmqctl.diagnose.rules.parts import differing


@check(
    "MEM003",
    Severity.ERROR,
    "members use different message models",
    meaning="A broadcasting member consumes every queue and keeps its offsets locally. The others share the queues "
    "among all members, so no member commits the share of the broadcasting one.",
    advice="Use one message model per group. Move the other members to a separate group.",
)
def models_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the model that each member and each broker reports; a broker reports that of the last heartbeat."""
    reported = {client_id: info.properties.get("messageModel") or None for client_id, info in facts.running.items()}
    at_brokers = {name: found.message_model or None for name, found in facts.connections.items() if found is not None}
    yield from differing(facts, "messageModel", "message models", reported, at_brokers)
