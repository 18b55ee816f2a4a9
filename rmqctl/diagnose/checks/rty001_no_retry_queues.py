"""RTY001: a broker has no retry queues for the group."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command


@check(
    "RTY001",
    Severity.ERROR,
    "a broker has no retry queue (retryQueueNums=0)",
    meaning="The broker accepts a failed message that is sent back, and stores it nowhere: it is acknowledged and "
    "lost. A broker without write permission refuses it, so that it blocks its queue.",
    advice="Give it retry queues: rmqctl group update GROUP --retry-queues 1.",
    needs=(Need.BROKERS,),
)
def no_retry_queues(facts: GroupFacts) -> Iterator[Symptom]:
    """Look at retryQueueNums (AbstractSendMessageProcessor.consumerSendMsgBack)."""
    for name, config in facts.configs.items():
        if config is not None and config.retry_queue_count <= 0:
            if name in facts.read_only_brokers:
                what = "and is read-only: a message that fails blocks its queue."
                sentence = f"{name} has no retry queue for it {what}"
            else:
                sentence = f"{name} has no retry queue for it: failed messages are acknowledged and lost."
            yield Symptom(
                sentence,
                (Evidence("retryQueueNums", config.retry_queue_count, name),),
                command("group", "update", facts.group, "--retry-queues", "1", "--dry-run"),
                key=name,
            )
