"""MEM009: a member does not answer."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command


@check(
    "MEM009",
    Severity.INFO,
    "a member does not report its state",
    meaning="The broker forwarded the request (GET_CONSUMER_RUNNING_INFO), but the member did not answer. It hangs, "
    "cannot be reached, or its client library does not support the request. Its queues and subscriptions are unknown.",
    advice="Check the member's process and log on its host.",
    needs=(),
)
def silent(facts: GroupFacts) -> Iterator[Symptom]:
    """Report the members that did not answer, without those for which the deadline left no time."""
    for client_id, reason in facts.silent.items():
        if client_id in facts.unasked:
            continue
        yield Symptom(
            f"{client_id} does not report its state: what it consumes is unknown.",
            (Evidence("error", reason, client_id),),
            command("group", "members", facts.group),
            key=client_id,
        )
