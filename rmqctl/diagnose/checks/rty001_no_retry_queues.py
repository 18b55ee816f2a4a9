"""RTY001: a broker has no retry queues for the group."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import fails_now


@check(
    "RTY001",
    Severity.ERROR,
    "a broker has no retry queue (retryQueueNums=0)",
    meaning="The broker accepts a failed message that is sent back but does not store it: the message is acknowledged "
    "and lost. The finding is an ERROR while messages fail, otherwise a WARNING.",
    advice="Add retry queues: rmqctl group update GROUP --retry-queues 1.",
    needs=(Need.BROKERS,),
)
def no_retry_queues(facts: GroupFacts) -> Iterator[Symptom]:
    """Check retryQueueNums (AbstractSendMessageProcessor.consumerSendMsgBack)."""
    for name, config in facts.configs.items():
        place = facts.retry_places.get(name)
        # A broker that is not writable refuses a send-back before it checks the queues: RTY002.
        is_refused = place is not None and place.is_writable is False
        if config is not None and config.retry_queue_count <= 0 and not is_refused:
            yield Symptom(
                f"{name} has no retry queue for the group: failed messages are acknowledged and lost.",
                (Evidence("retryQueueNums", config.retry_queue_count, name),),
                command("group", "update", facts.group, "--retry-queues", "1", "--dry-run"),
                key=name,
                severity=Severity.ERROR if fails_now(facts) else Severity.WARNING,
            )
