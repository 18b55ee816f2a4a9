"""CLK004: a member's clock is so fast that it drops the messages that it pops."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.clocks import skew_words
from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import clock_evidence

_DEFAULT_INVISIBLE_MS = 60_000


@check(
    "CLK004",
    Severity.ERROR,
    "a member's clock is so fast that it drops the messages that it pops",
    meaning="A member compares its own clock with the broker's time of the pop. If its clock is ahead by more than "
    "the invisible time (popInvisibleTime), every message appears expired. The member drops it without calling the "
    "listener, and it is popped again later.",
    advice="Synchronise the clock of the member's host (NTP).",
    needs=(Need.MEMBERS, Need.CLOCKS),
)
def pops_skipped(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare clocks of members that pop with their invisible time (ConsumeMessagePopConcurrentlyService)."""
    for client_id, bounds in facts.clocks.off().items():
        info = facts.running[client_id]
        if not info.popped_at_ms:
            continue
        text = info.properties.get("popInvisibleTime", "")
        invisible_ms = int(text) if text.isascii() and text.isdigit() else _DEFAULT_INVISIBLE_MS
        if bounds.off_ms() > invisible_ms:
            yield Symptom(
                f"{client_id} drops every message that it pops: its clock is {skew_words(bounds)} "
                f"{facts.clocks.reference_name}.",
                (
                    Evidence("popInvisibleTime", invisible_ms, client_id),
                    *clock_evidence(client_id, facts.clocks.members[client_id]),
                ),
                command("diagnose", facts.group, "--only", "CLK", "--probe"),
                key=client_id,
            )
