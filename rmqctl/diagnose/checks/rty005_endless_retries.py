"""RTY005: an orderly member retries a failing message without limit."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.rules.member_settings import NO_LIMIT, retry_limit
from rmqctl.text.words import listed


@check(
    "RTY005",
    Severity.ERROR,
    "an orderly member retries a message without limit",
    meaning="Unless maxReconsumeTimes is set, an orderly member has no retry limit. A message that always fails "
    "blocks its queue forever, and everything behind it waits.",
    advice="Set maxReconsumeTimes in the members, or skip the message: rmqctl offset reset GROUP --to-offset.",
    needs=(Need.MEMBERS,),
)
def endless_retries(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for orderly members whose listener fails and which have no limit (ConsumeMessageOrderlyService)."""
    settings = facts.settings
    for client_id, info in facts.running.items():
        own = settings[client_id]
        limit = retry_limit(own.max_reconsume_times, is_orderly=own.is_orderly)
        failing = sorted(
            topic
            for topic, status in info.statuses.items()
            if status.consume_failed_tps > 0
            and any(mq.topic == topic and held.in_hand_count for mq, held in info.process_queues.items())
        )
        if own.is_orderly and limit == NO_LIMIT and failing:
            yield Symptom(
                f"{client_id} consumes in order and fails on {listed(failing)}: it retries the same messages "
                "without limit.",
                tuple(
                    Evidence("consumeFailedTPS", round(info.statuses[each].consume_failed_tps, 3), client_id)
                    for each in failing
                ),
                command("clean-expired", facts.group),
                key=client_id,
            )
