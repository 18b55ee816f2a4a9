"""CFG001: brokers have different settings for the group."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import GroupConfig
from rmqctl.rules.group_views import differing_fields


@check(
    "CFG001",
    Severity.WARNING,
    "brokers have different settings for the group",
    meaning="Each broker has its own copy of the group's configuration. What happens to a message depends on the "
    "broker that stores it.",
    advice="Compare the settings with rmqctl group config GROUP, then set the same value on all brokers with rmqctl "
    "group update.",
    needs=(Need.BROKERS,),
)
def configs_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the configurations field by field."""
    configs = {name: config for name, config in facts.configs.items() if config is not None}
    names = differing_fields(configs.values())
    if names:
        yield Symptom(
            f"Brokers have different settings: {', '.join(names)}.",
            tuple(
                Evidence(name, _value(config, name), broker_name)
                for name in names
                for broker_name, config in configs.items()
            ),
            command("group", "config", facts.group, "-o", "wide"),
        )


def _value(config: GroupConfig, name: str) -> object:
    return list(config.forbidden_topics) if name == "forbiddenTopics" else config.fields.get(name)
