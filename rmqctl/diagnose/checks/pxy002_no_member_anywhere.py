"""PXY002: messages wait, and neither a broker nor a proxy sees a member."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import waiting
from rmqctl.model.group import GroupState
from rmqctl.text.words import listed


@check(
    "PXY002",
    Severity.ERROR,
    "messages wait, and neither a broker nor a proxy sees a member",
    meaning="Proxies share their lists of connected clients, so the answer of one proxy covers the whole cluster. No "
    "member consumes the group's topics. Messages that are not read within the retention are deleted.",
    advice="Start the group's consumers. Also ask each proxy that does not synchronise heartbeats: one --proxy for "
    "each.",
    needs=(Need.BROKERS,),
)
def no_member_anywhere(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for lag of a group in which no broker and none of the asked proxies (--proxy) sees members."""
    found = waiting(facts)
    has_none = bool(facts.proxied) and not any(facts.proxied.values()) and not facts.silent_proxies
    if found is not None and facts.state is GroupState.UNKNOWN and has_none:
        words, evidence, severity = found
        yield Symptom(
            f"{words}, and no broker and no proxy sees a member of {facts.group} (asked: {listed(facts.proxied)}).",
            evidence,
            command("offset", "show", facts.group),
            severity=severity,
        )
