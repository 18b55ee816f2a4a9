"""MEM006: members differ in settings that decide what happens to a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import CONSUME_PASSIVELY
from rmqctl.rules.member_settings import limit_words, retry_limit
from rmqctl.text.words import by_value, who_has


@check(
    "MEM006",
    Severity.WARNING,
    "members have different settings",
    meaning="The member that holds a queue decides where it starts without an offset, when a message counts as stuck, "
    "and how often it is redelivered. With different settings, the outcome depends on which member that is.",
    advice="Give all members the same settings.",
    needs=(Need.MEMBERS,),
)
def settings_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare start positions, consume timeouts and retry limits."""
    settings = facts.settings
    compared: tuple[tuple[str, str, Mapping[str, Any], Callable[[Any], str]], ...] = (
        ("start positions", "consumeFromWhere", {name: own.consume_from_where for name, own in settings.items()}, str),
        (
            "consume timeouts",
            "consumeTimeoutMs",
            {name: own.consume_timeout_ms for name, own in settings.items()},
            lambda timeout_ms: f"{timeout_ms / 60_000:g} min",
        ),
        ("retry limits", "maxReconsumeTimes", _retry_limits(facts), limit_words),
    )
    for what, key, reported, words in compared:
        holders = by_value(reported.items())
        if len(holders) > 1:
            yield Symptom(
                f"Members have different {what}: {who_has(holders, words)}.",
                tuple(Evidence(key, value, name) for name, value in reported.items() if value is not None),
                command("group", "members", facts.group, "-o", "wide"),
                key=key,
            )


def _retry_limits(facts: GroupFacts) -> dict[str, int | None]:
    """Return the retry limit of each push member, None where it is unknown."""
    if len({own.max_reconsume_times for own in facts.settings.values()}) == 1:
        return {}  # one default has another meaning for orderly members: MEM007
    types = facts.consume_types()
    return {
        client_id: retry_limit(own.max_reconsume_times, is_orderly=own.is_orderly)
        for client_id, own in facts.settings.items()
        if types.get(client_id) == CONSUME_PASSIVELY
    }
