"""PUL001: a broker refuses all pulls of the group."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import refusal_severity


@check(
    "PUL001",
    Severity.ERROR,
    "a broker refuses the group's pulls (consumeEnable=false)",
    meaning="The group's configuration on that broker forbids consuming. Members stay connected and hold their "
    "queues, but each pull is refused (16 NO_PERMISSION) and the lag grows.",
    advice="If this is not intended: rmqctl group update GROUP --consume.",
    needs=(Need.BROKERS,),
)
def consume_disabled(facts: GroupFacts) -> Iterator[Symptom]:
    """Check consumeEnable (SubscriptionGroupConfig)."""
    for name, config in facts.configs.items():
        if config is not None and not config.consume_enable:
            yield Symptom(
                f"{name} refuses pulls of this group (consumeEnable=false).",
                (Evidence("consumeEnable", False, name),),
                command("group", "config", facts.group),
                key=name,
                severity=refusal_severity(facts),
            )
