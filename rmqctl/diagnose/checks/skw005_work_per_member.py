"""SKW005: one member does most of the group's work."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.skew import find_outliers
from rmqctl.rules.group_views import total_status
from rmqctl.text.words import listed

_FACTOR = 5.0
_LEAST_TPS = 10.0


@check(
    "SKW005",
    Severity.INFO,
    "members consume at uneven rates",
    meaning="One member consumed at least five times as many messages per second as the others on average, by its own "
    "counters of the last minute. The others are slow, idle, or hold queues that receive few messages.",
    advice="Compare the members: rmqctl group members GROUP. Compare their queues: rmqctl offset show GROUP.",
    needs=(Need.MEMBERS,),
)
def work_per_member(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare consumeOKTPS of the members (ConsumeStatus)."""
    sharing = facts.sharers | facts.popping
    totals = {
        client_id: total_status(info.statuses.values())
        for client_id, info in facts.running.items()
        if client_id in sharing
    }
    rates = {client_id: total.consume_ok_tps for client_id, total in totals.items() if total is not None}
    busy = find_outliers(rates, factor=_FACTOR, least=_LEAST_TPS)
    if busy:
        part, total = sum(rates[client_id] for client_id in busy), sum(rates.values())
        yield Symptom(
            f"{listed(busy)} consumed {part / total:.0%} of the group's messages in the last minute.",
            tuple(Evidence("consumeOkTps", round(rate, 2), client_id) for client_id, rate in rates.items()),
            command("group", "members", facts.group, "--sort", "-consumeOkTps"),
        )
