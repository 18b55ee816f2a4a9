"""PRG005: a member's own limits keep it from pulling."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import CONSUME_ACTIVELY, ProcessQueueInfo, RunningInfo
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.flow_control import FlowControl, decide, flow_limits
from rmqctl.rules.health.positions import Motion
from rmqctl.text.words import counted, listed

_MIB_BYTES = 1 << 20


@check(
    "PRG005",
    Severity.INFO,
    "flow control keeps a member from pulling",
    meaning="The member has as many messages in flight as its limits allow, and pulls again when some are finished. "
    "That is usual while it catches up. With SPAN, the first and the last message in flight are too far apart. The "
    "queue is not pulled until the first one is finished, although most messages in between are done.",
    advice="With SPAN: find the message with rmqctl clean-expired GROUP. With a limit of count or size: the listener "
    "is the bottleneck; higher limits (pullThresholdForQueue and others) only use more memory.",
    needs=(Need.MEMBERS,),
)
def flow_control(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the messages in flight at each member with its limits (DefaultMQPushConsumerImpl.pullMessage)."""
    polling = {client_id for client_id, kind in facts.consume_types().items() if kind == CONSUME_ACTIVELY}
    # What an application has not polled yet is not an unfinished message.
    resting = {
        (each.mq, each.client_id)
        for each in facts.motions
        if each.watched.motion is Motion.RESTS and each.client_id not in polling
    }
    settings = facts.settings
    for client_id, info in facts.running.items():
        by_topic: dict[str, dict[MessageQueue, FlowControl]] = {}
        for mq, hold in _holds(info, is_orderly=settings[client_id].is_orderly is True).items():
            by_topic.setdefault(mq.topic, {})[mq] = hold
        for topic, holds in by_topic.items():
            by_span = [mq for mq, hold in holds.items() if hold is FlowControl.SPAN and (mq, client_id) in resting]
            pace = "application polls" if client_id in polling else "listener consumes"
            shown = by_span or list(holds)
            limits = listed(dict.fromkeys(holds[mq] for mq in shown))
            why = "its first message is not finished" if by_span else f"it pulls as fast as its {pace}"
            yield Symptom(
                f"{client_id} does not pull {counted(len(shown), 'queue')} of {topic} ({limits}): {why}. "
                f"{listed(shown)}.",
                tuple(Evidence("flowControl", f"{mq} {hold}", client_id) for mq, hold in holds.items()),
                command("clean-expired", facts.group, "--topic", topic)
                if by_span
                else command("offset", "show", facts.group, "--topic", topic, "-o", "wide"),
                topic,
                key=f"{topic} {client_id}",
                severity=Severity.WARNING if by_span else None,
            )


def _holds(info: RunningInfo, *, is_orderly: bool) -> dict[MessageQueue, FlowControl]:
    """Return the limit that keeps each queue of a member from being pulled."""
    limits = flow_limits(info.properties)
    held = {mq: each for mq, each in sorted(info.process_queues.items()) if not each.dropped}
    found = {
        mq: decide(
            limits, held_queue_count=len(held), count=each.unacked_count,
            size_bytes=each.cached_size_mib * _MIB_BYTES, span=None if is_orderly else _span(each),
        )
        for mq, each in held.items()
    }  # fmt: skip
    return {mq: hold for mq, hold in found.items() if hold is not None}


def _span(held: ProcessQueueInfo) -> int | None:
    return held.cached_max_offset - held.cached_min_offset if held.cached_count > 0 else None
