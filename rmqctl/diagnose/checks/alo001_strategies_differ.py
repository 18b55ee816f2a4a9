"""ALO001: members use different allocation strategies."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.rules.group_views import strategy_name
from rmqctl.text.words import by_value


@check(
    "ALO001",
    Severity.ERROR,
    "members use different allocation strategies",
    meaning="Each member computes its own share of the queues independently. With different strategies, the shares do "
    "not match. Some queues have several owners, each of which consumes every message; other queues have no owner.",
    advice="Set the same allocateMessageQueueStrategy for all members and restart those that differ.",
    needs=(Need.MEMBERS,),
)
def strategies_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare allocateMessageQueueStrategy."""
    sharers = facts.sharers
    reported = {client_id: strategy_name(info) for client_id, info in facts.running.items() if client_id in sharers}
    strategies = by_value(reported.items())
    if len(strategies) > 1:
        yield Symptom(
            f"Members use different allocation strategies: {', '.join(strategies)}.",
            tuple(
                Evidence("allocateMessageQueueStrategy", name, client_id)
                for client_id, name in reported.items()
                if name
            ),
            command("whatif", "allocate", facts.group, "--compare", ",".join(strategies)),
        )
