"""Pulls that a broker refuses because of the members' filter. Pure."""

from __future__ import annotations

from rmqctl.diagnose.facts import GroupFacts

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


def _holders(facts: GroupFacts, topic: str, broker_name: str) -> tuple[str, ...]:
    """Return the members that pull the topic at the broker, as far as they report their queues."""
    return tuple(
        client_id
        for client_id, info in sorted(facts.running.items())
        if any(mq.topic == topic and mq.broker_name == broker_name for mq in info.process_queues)
    )
