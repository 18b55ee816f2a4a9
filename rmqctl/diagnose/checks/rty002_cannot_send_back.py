"""RTY002: a broker does not accept failed messages that are sent back."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import fails_now
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.rules.retry_places import HINDRANCES, RetryHindrance, blocks_retries


@check(
    "RTY002",
    Severity.WARNING,
    "failed messages cannot be sent back",
    meaning="A client sends a failed message back to its broker. If that broker refuses it, the client sends a new "
    "message to the group's retry topic at any broker. If that fails too, the client consumes the message again every "
    "5 s, and the offset of its queue does not move past it.",
    advice="Restore the master, the write permission of the broker (brokerPermission) or of the retry topic, or the "
    "group's configuration on that broker.",
    needs=(Need.BROKERS, Need.MEMBERS),
)
def cannot_send_back(facts: GroupFacts) -> Iterator[Symptom]:
    """Judge the brokers as places for retries of push consumers (SendMessageProcessor.consumerSendMsgBack)."""
    senders, fails = facts.senders, fails_now(facts)
    for name, place in facts.retry_places.items():
        hindrance = place.hindrance
        if hindrance is None or hindrance is RetryHindrance.NO_RETRY_QUEUES or not senders & facts.registered(name):
            continue  # RTY001 reports a broker without retry queues
        if blocks_retries(facts.retry_places, name) is None:
            severity, outcome = Severity.INFO, "its client sends it to another broker as a new message"
        else:
            severity = Severity.ERROR if fails else Severity.WARNING
            outcome = "its client retries it every 5 s, and its queue does not move"
        yield Symptom(
            f"{name} {HINDRANCES[hindrance]}. When a message from there fails, {outcome}.",
            (Evidence("hindrance", str(hindrance), name),),
            _next_command(facts, hindrance, name),
            key=name,
            severity=severity,
        )


def _next_command(facts: GroupFacts, hindrance: RetryHindrance, broker_name: str) -> str:
    """Return the command that shows what the broker refuses by."""
    if hindrance is RetryHindrance.BROKER_NOT_WRITABLE:
        return command("broker", "show", broker_name, "--key", "brokerPermission")
    if hindrance is RetryHindrance.RETRY_TOPIC_NOT_WRITABLE:
        return command("topic", "status", RETRY_PREFIX + facts.group)
    if hindrance is RetryHindrance.NO_MASTER:
        return command("broker", "show", broker_name)
    return command("group", "config", facts.group)
