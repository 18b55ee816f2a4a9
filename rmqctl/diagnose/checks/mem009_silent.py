"""MEM009: a member does not answer."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command


@check(
    "MEM009",
    Severity.INFO,
    "a member does not report its state",
    meaning="The broker passed the question on (GET_CONSUMER_RUNNING_INFO), and the member did not answer: it hangs, "
    "cannot be reached, or its client library does not support the request. What it holds and wants is unknown.",
    advice="Look at the member where it runs.",
    needs=(),
)
def silent(facts: GroupFacts) -> Iterator[Symptom]:
    """Name the members that did not answer."""
    for client_id, reason in facts.silent.items():
        yield Symptom(
            f"{client_id} does not report its state: what it consumes is unknown.",
            (Evidence("error", reason, client_id),),
            command("group", "members", facts.group),
            key=client_id,
        )
