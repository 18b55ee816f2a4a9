"""RTY004: most messages fail."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.numbers import rate_words, rounded_rate

# Retries are meant for occasional failures.
_SHARE = 0.5
_LEAST_TPS = 0.2


@check(
    "RTY004",
    Severity.WARNING,
    "most messages fail",
    meaning="In the last minute, the members' listeners failed on more messages than they finished. Each failed "
    "message is stored once more, redelivered later, and finally becomes a dead letter.",
    advice="Check the members' logs for exceptions of their listeners. To stop the retries meanwhile, stop the "
    "members.",
    needs=(Need.MEMBERS,),
)
def most_fail(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the members' rates of the last minute (consumeFailedTPS, consumeOKTPS)."""
    failed = {
        name: sum(each.consume_failed_tps for each in info.statuses.values()) for name, info in facts.running.items()
    }
    ok_tps = sum(each.consume_ok_tps for info in facts.running.values() for each in info.statuses.values())
    failed_tps = sum(failed.values())
    if failed_tps >= _LEAST_TPS and failed_tps > _SHARE * (failed_tps + ok_tps):
        yield Symptom(
            f"{rate_words(failed_tps)} messages per second fail, and {rate_words(ok_tps)} are consumed.",
            tuple(Evidence("consumeFailedTPS", rounded_rate(tps), name) for name, tps in failed.items() if tps),
            command("group", "members", facts.group, "-o", "wide"),
        )
