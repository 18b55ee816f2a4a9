"""CFG004: a reset by message would not reach all members."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import CPP
from rmqctl.text.words import by_value, listed, who_has


@check(
    "CFG004",
    Severity.INFO,
    "C++ members and other members cannot be reset together",
    meaning="Brokers of 4.x, and later ones with useServerSideResetOffset=false, reset a group by sending its members "
    "the new offsets. C++ clients expect a different format than all other clients, and a broker sends only one "
    "format to the whole group.",
    advice="Stop the members before a reset, or set useServerSideResetOffset=true on 5.x brokers.",
    needs=(Need.BROKERS, Need.BACKLOG),
)
def resets_unread(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the languages of members, where a broker does not reset offsets itself."""
    languages = by_value((each.client_id, language) for each in facts.members for language in each.languages)
    reported = {
        name: settings.get("useServerSideResetOffset") == "true" for name, settings in facts.broker_settings.items()
    }
    if CPP not in languages or len(languages) == 1 or all(reported.values()):
        return
    yield Symptom(
        f"A reset would not reach all members: they use {who_has(languages)}, but the "
        f"reset of {listed(name for name, resets in reported.items() if not resets)} has one format for all members.",
        (
            *(Evidence("language", listed(each.languages), each.client_id) for each in facts.members),
            *(Evidence("useServerSideResetOffset", resets, name) for name, resets in reported.items()),
        ),
        command("group", "members", facts.group, "-o", "wide"),
    )
