"""VER002: brokers run a version with known defects that concern the group."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.defects import BROKER_DEFECTS
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.text.words import listed


@check(
    "VER002",
    Severity.WARNING,
    "the broker version has known defects",
    meaning="These brokers have a defect that later releases fixed, and the group's use of them makes it relevant. "
    "The finding is a WARNING if this group is certain to be affected, otherwise INFO.",
    advice="Upgrade the brokers. The evidence contains the advice and the source for the defect (-o wide).",
    needs=(Need.BROKERS,),
)
def broker_defects(facts: GroupFacts) -> Iterator[Symptom]:
    """Look up the brokers' versions in the table of defects."""
    for each in BROKER_DEFECTS:
        hit = {name: v for name, v in facts.broker_versions.items() if each.since <= v < each.fixed_in}
        if hit and each.hits(facts):
            yield Symptom(
                f"{listed(hit)} has a known defect: {each.defect.sentence}.",
                (
                    *(Evidence("version", plain_version(version_name(version)), name) for name, version in hit.items()),
                    Evidence("defect", f"{each.defect.advice} ({each.defect.source})", "rmqctl"),
                ),
                command("cluster", "list"),
                key=each.defect.source,
                severity=each.defect.severity,
            )
