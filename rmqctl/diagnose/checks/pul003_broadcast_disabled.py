"""PUL003: members broadcast, and a broker does not allow it."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import BROADCASTING


@check(
    "PUL003",
    Severity.ERROR,
    "a broker refuses broadcasting (consumeBroadcastEnable=false)",
    meaning="The group's configuration on that broker does not allow broadcasting, but its members broadcast. Each "
    "pull is refused (16 NO_PERMISSION).",
    advice="Allow it: rmqctl group update GROUP --broadcast. Or set the members to CLUSTERING.",
    needs=(Need.BROKERS,),
)
def broadcast_disabled(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the members' model with consumeBroadcastEnable (PullMessageProcessor)."""
    for name, config in facts.configs.items():
        found = facts.connections.get(name)
        if config is None or config.consume_broadcast_enable or found is None:
            continue
        refused = sorted(facts.broadcasting & facts.registered(name))
        # The broker's own report is of the last heartbeat, which may be that of a member that did not answer.
        if refused or found.message_model == BROADCASTING:
            yield Symptom(
                f"{name} refuses pulls of members that broadcast (consumeBroadcastEnable=false).",
                (
                    Evidence("consumeBroadcastEnable", False, name),
                    *(Evidence("messageModel", BROADCASTING, each) for each in refused or [name]),
                ),
                command("group", "config", facts.group),
                key=name,
            )
