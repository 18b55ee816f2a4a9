"""RTY004: most messages fail."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command

# What fails now and then is what retries are for.
_SHARE = 0.5
_LEAST_TPS = 0.2


@check(
    "RTY004",
    Severity.WARNING,
    "most messages fail",
    meaning="The members' listeners failed on more messages in the last minute than they finished. Each failure is "
    "stored once more and delivered again later, and becomes a dead letter in the end.",
    advice="Look in the members' logs for what their listeners throw. To stop the retries meanwhile, stop the members.",
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
            f"{failed_tps:.3g} messages a second fail, and {ok_tps:.3g} are consumed.",
            tuple(Evidence("consumeFailedTPS", round(tps, 3), name) for name, tps in failed.items() if tps),
            command("group", "members", facts.group, "-o", "wide"),
        )
