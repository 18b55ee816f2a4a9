"""CFG003: a broker does not notify members of changes."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command


@check(
    "CFG003",
    Severity.INFO,
    "members are not notified of changes (notifyConsumerIdsChangedEnable=false)",
    meaning="The broker does not notify members when one joins or leaves. They notice at their next periodic "
    "rebalance, up to 20 s later and each at a different time. Until then, queues have two owners or none.",
    advice="If this is not intended: rmqctl group update GROUP --set notifyConsumerIdsChangedEnable=true.",
    needs=(Need.BROKERS,),
)
def notifications_off(facts: GroupFacts) -> Iterator[Symptom]:
    """Check notifyConsumerIdsChangedEnable (ConsumerManager.registerConsumer)."""
    for name, config in facts.configs.items():
        if config is not None and config.fields.get("notifyConsumerIdsChangedEnable") is False:
            yield Symptom(
                f"{name} does not notify the members when one joins or leaves: they notice up to 20 s later.",
                (Evidence("notifyConsumerIdsChangedEnable", False, name),),
                command("group", "config", facts.group),
                key=name,
            )
