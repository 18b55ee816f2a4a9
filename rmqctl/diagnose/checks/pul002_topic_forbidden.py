"""PUL002: a broker forbids the group to read a topic."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import refusal_severity


@check(
    "PUL002",
    Severity.ERROR,
    "a broker forbids the group to read a topic",
    meaning="5.x brokers keep a list of topics that a group may not read (UPDATE_AND_GET_GROUP_FORBIDDEN). They "
    "refuse pulls of these topics.",
    advice="`rmqctl group config GROUP` shows the list. Request 353 changes it; mqadmin has no command for it.",
    needs=(Need.BROKERS,),
)
def topic_forbidden(facts: GroupFacts) -> Iterator[Symptom]:
    """Check the forbidden topics in the group's configuration; topics that no member wants are INFO."""
    wanted = {*facts.wanted(), *facts.filtered(), *(topic.topic for topic in facts.topics)}
    for name, config in facts.configs.items():
        forbidden = config.forbidden_topics if config is not None else ()
        for topics, severity in (
            ([topic for topic in forbidden if topic in wanted or not wanted], refusal_severity(facts)),
            ([topic for topic in forbidden if topic not in wanted and wanted], Severity.INFO),
        ):
            if topics:
                yield Symptom(
                    f"{name} forbids the group to read {', '.join(topics)}.",
                    tuple(Evidence("forbiddenTopics", topic, name) for topic in topics),
                    command("group", "config", facts.group, "-o", "wide"),
                    key=name,
                    severity=severity,
                )
