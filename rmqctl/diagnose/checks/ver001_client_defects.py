"""VER001: members run a client version with known defects that concern them."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import SEVERITIES, Evidence, Severity, Symptom, check, command
from rmqctl.diagnose.rules.defects import CLIENT_DEFECTS, clients_of
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.text.words import counted, listed


@check(
    "VER001",
    Severity.WARNING,
    "the client version has known defects",
    meaning="The client library of these members has defects that later releases fixed, and the members' settings or "
    "brokers make them relevant. The finding is a WARNING if this group is certain to be affected, otherwise INFO.",
    advice="Upgrade the client. The evidence contains the advice and the source for each defect (-o wide).",
)
def client_defects(facts: GroupFacts) -> Iterator[Symptom]:
    """Look up each member's language, version and settings in the table of defects."""
    clients = clients_of(facts)
    hit = [(each.defect, [client.member for client in clients if each.hits(facts, client)]) for each in CLIENT_DEFECTS]
    found = [(defect, members) for defect, members in hit if members]
    if not found:
        return
    versions = {member.client_id: member.versions for _, members in found for member in members}
    client_ids = sorted(versions)
    yield Symptom(
        f"The client library of {listed(client_ids)} has {counted(len(found), 'known defect')}: "
        f"{'; '.join(defect.sentence for defect, _ in found)}.",
        (
            *(
                Evidence("version", plain_version(version_name(version)), client_id)
                for client_id in client_ids
                for version in versions[client_id]
            ),
            *(Evidence("defect", f"{defect.advice} ({defect.source})", "rmqctl") for defect, _ in found),
        ),
        command("group", "members", facts.group),
        severity=min((defect.severity for defect, _ in found), key=SEVERITIES.index),
    )
