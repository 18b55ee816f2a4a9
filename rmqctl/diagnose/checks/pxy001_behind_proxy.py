"""PXY001: members are connected through a proxy."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import counted, listed


@check(
    "PXY001",
    Severity.INFO,
    "members are connected through a proxy",
    meaning="A proxy pops messages for its members, and no broker sees them. Brokers do not know their queues, "
    "positions and settings, so checks of members cannot cover them.",
    advice="Judge the group by its lag. The proxy's metrics and the members' logs show the rest.",
    needs=(Need.MEMBERS,),
)
def behind_proxy(facts: GroupFacts) -> Iterator[Symptom]:
    """Report the members that the proxies (--proxy) return for GET_CONSUMER_CONNECTION_LIST."""
    for address, found in facts.proxied.items():
        if found is None:
            continue
        client_ids = sorted({member.client_id for member in found.members} - _seen(facts))
        if client_ids:
            yield Symptom(
                f"{counted(len(client_ids), 'member')} of {facts.group} {'is' if len(client_ids) == 1 else 'are'} "
                f"connected through the proxy {address}, where no broker sees them: {listed(client_ids)}.",
                tuple(Evidence("clientIdList", client_id, address) for client_id in client_ids),
                command("offset", "show", facts.group),
                key=address,
            )


def _seen(facts: GroupFacts) -> set[str]:
    return {member.client_id for member in facts.members}
