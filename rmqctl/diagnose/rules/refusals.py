"""Pulls that a broker refuses because of the members' filter, and groups that clean-expired refuses. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.model.group import BROADCASTING, CONSUME_ACTIVELY, CPP

_TAG = "TAG"
# PullMessageProcessor refuses each pull by any expression but tags; PopMessageProcessor does not.
_SETTING = "enablePropertyFilter"


def refused_filters(facts: GroupFacts) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the members whose pulls a broker refuses because they filter by SQL92, by topic and broker.

    The filter that the broker has registered decides; without one, those that members report. A broker whose setting
    was not read is missing.
    """
    wanted, filtered = facts.wanted(), facts.filtered()
    refused: dict[tuple[str, str], tuple[str, ...]] = {}
    for name in sorted(name for name, settings in facts.broker_settings.items() if settings.get(_SETTING) == "false"):
        for topic in sorted({row.mq.topic for row in facts.rows if row.mq.broker_name == name}):
            own = wanted.get(topic, {})
            registered = filtered.get(topic, {}).get(name)
            decisive = own.values() if registered is None else (registered,)
            if all(item.expression_type == _TAG for item in decisive):
                continue
            pulling = _holders(facts, topic, name)
            if pulling or not facts.popping:
                refused[topic, name] = pulling or tuple(own) or tuple(sorted(facts.registered(name)))
    return refused


def may_clean(facts: GroupFacts, motions: Sequence[QueueMotion]) -> bool:
    """Return whether clean-expired certainly does not refuse to clean the queues (require_resettable, _find_refusals).

    One member that broadcasts or pulls by itself is enough for a refusal. With members that pop or of several
    languages, it depends on the brokers.
    """
    connected = [found for found in facts.connections.values() if found is not None]
    types = {found.consume_type for found in connected} | set(facts.consume_types().values())
    languages = {member.language for found in connected for member in found.members}
    is_refused = (
        facts.is_broadcasting
        or bool(facts.broadcasting)
        or BROADCASTING in {found.message_model for found in connected}
        or CONSUME_ACTIVELY in types
        or bool(facts.popping)
        or (CPP in languages and len(languages) > 1)
    )
    places = [facts.retry_places.get(each.mq.broker_name) for each in motions]
    return not is_refused and any(place is None or place.hindrance is None for place in places)


def _holders(facts: GroupFacts, topic: str, broker_name: str) -> tuple[str, ...]:
    """Return the members that pull the topic at the broker, as far as they report their queues."""
    return tuple(
        client_id
        for client_id, info in sorted(facts.running.items())
        if any(mq.topic == topic and mq.broker_name == broker_name for mq in info.process_queues)
    )
