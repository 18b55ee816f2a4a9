"""MEM005: members use different client versions."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.protocol.versions import plain_version, version_name
from rmqctl.text.words import by_value, who_has


@check(
    "MEM005",
    Severity.INFO,
    "members use different client versions or libraries",
    meaning="Different versions are normal during a deployment; afterwards, they mean that some members were left "
    "out. Libraries of different languages differ in how they retry, rebalance, clean up and react to a reset.",
    advice="Finish the deployment. Use one library per group.",
    needs=(Need.BROKERS,),
)
def versions_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare languages, and versions within each, as brokers report them."""
    reported = [
        (member.client_id, language, plain_version(version_name(version)))
        for member in facts.members
        for language in member.languages
        for version in member.versions
    ]
    languages = by_value(dict.fromkeys((client_id, language) for client_id, language, _ in reported))
    differing = {"libraries": languages} if len(languages) > 1 else {}
    for language in languages:
        versions = by_value((client_id, version) for client_id, own, version in reported if own == language)
        if len(versions) > 1:
            differing[f"versions of the {language} client"] = versions
    for what, values in differing.items():
        yield Symptom(
            f"Members use different {what}: {who_has(values)}.",
            tuple(Evidence("version", f"{language} {version}", client_id) for client_id, language, version in reported),
            command("group", "members", facts.group, "-o", "wide"),
            key=what,
        )
