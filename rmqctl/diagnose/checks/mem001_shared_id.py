"""MEM001: several connections to one broker use one client id."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command


@check(
    "MEM001",
    Severity.ERROR,
    "several connections use the same client id",
    meaning="Clients with the same id compute the same share. Both consume the same queues, each message twice, and "
    "neither consumes the share that is counted for the second client. A lost connection looks the same until the "
    "broker drops it, after at most 2 minutes.",
    advice="Give each client its own instanceName. Clients before 4.9.0 use only the process id, which is often the "
    "same in containers. Members that broadcast get all messages anyway, but on one host they store their offsets in "
    "one file.",
    may_pass=True,
)
def shared_id(facts: GroupFacts) -> Iterator[Symptom]:
    """Count the connections of each client id at each broker."""
    for member in facts.members:
        shared = {name: addresses for name, addresses in member.addresses.items() if len(addresses) > 1}
        if shared:
            everywhere = len(shared) == len(member.addresses)
            severity = Severity.ERROR if everywhere else Severity.WARNING
            yield Symptom(
                f"{member.client_id} has several connections to one broker: clients share the id, "
                "or a lost connection still counts there.",
                tuple(Evidence("clientAddr", address, name) for name, at in shared.items() for address in at),
                command("group", "members", facts.group, "-o", "wide"),
                key=member.client_id,
                severity=Severity.INFO if member.client_id in facts.broadcasting or facts.is_broadcasting else severity,
            )
