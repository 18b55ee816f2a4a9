"""PXY002: messages wait, and neither a broker nor a proxy sees a member."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import GroupState
from rmqctl.rules.words import counted, listed


@check(
    "PXY002",
    Severity.WARNING,
    "messages wait, and neither a broker nor a proxy sees a member",
    meaning="Proxies tell each other who is connected to them, so one that answers speaks for all of the cluster. "
    "Nothing consumes the group's topics; what is not read within the retention is deleted.",
    advice="Start the group's consumers. Ask proxies without heartbeat synchronisation as well: --proxy for each.",
    needs=(Need.BROKERS,),
)
def nobody_anywhere(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for lag of a group that no broker and none of the proxies that were asked (--proxy) sees members of."""
    lag = sum(topic.lag for topic in facts.topics)
    is_nobody = bool(facts.proxied) and all(found is None for found in facts.proxied.values())
    if lag and facts.state is GroupState.UNKNOWN and is_nobody and not facts.silent_proxies:
        yield Symptom(
            f"{counted(lag, 'message')} {'waits' if lag == 1 else 'wait'}, and no broker and no proxy sees a member of "
            f"{facts.group} (asked: {listed(facts.proxied)}).",
            tuple(Evidence("lag", topic.lag, topic.topic) for topic in facts.topics if topic.lag),
            command("offset", "show", facts.group),
        )
