"""PRG006: all threads of a member are busy, and messages wait for them."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import growing_topics
from rmqctl.model.group import RunningInfo
from rmqctl.text.words import counted, listed

_NEAR = 0.9


@check(
    "PRG006",
    Severity.INFO,
    "a member's consume threads are busy all the time",
    meaning="By its counters of the last minute, the member's listener runs on all its threads, and messages in "
    "flight wait for a thread. The listener, not RocketMQ, sets the pace. The finding is a WARNING where the lag "
    "grows (PRG004).",
    advice="Make the listener faster, raise consumeThreadMin and consumeThreadMax together, or add members, up to the "
    "number of queues.",
    needs=(Need.MEMBERS,),
)
def threads_busy(facts: GroupFacts) -> Iterator[Symptom]:
    """Compute the least number of threads that the time in the listener requires (consumeRT x calls)."""
    growing, settings = growing_topics(facts), facts.settings
    for client_id, info in facts.running.items():
        threads = settings[client_id].thread_count
        in_hand = sum(held.in_hand_count for held in info.process_queues.values() if not held.dropped)
        if not threads or in_hand <= threads:
            continue
        busy = busy_threads(info, settings[client_id].batch_size)
        if busy is None or busy < _NEAR * threads:
            continue
        topics = {mq.topic for mq, held in info.process_queues.items() if not held.dropped and mq.topic in growing}
        yield Symptom(
            f"{client_id} kept at least {min(busy, threads):.1f} of its {counted(threads, 'thread')} busy over the "
            f"last minute, and has {counted(in_hand, 'message')} in flight"
            + (f"; the lag of {listed(sorted(topics))} grows." if topics else "."),
            (
                Evidence("busyThreads", round(busy, 1), client_id),
                Evidence("threadCount", threads, client_id),
                Evidence("inHandCount", in_hand, client_id),
            ),
            command("group", "members", facts.group, "-o", "wide"),
            key=client_id,
            severity=Severity.WARNING if topics else None,
        )


def busy_threads(info: RunningInfo, batch_size: int | None) -> float | None:
    """Return the least average number of threads in the listener: batches may be smaller than `batch_size`.

    None if that is unknown.
    """
    if batch_size is None:
        return None
    return sum(
        status.consume_rt_ms * (status.consume_ok_tps + status.consume_failed_tps) / batch_size / 1000
        for status in info.statuses.values()
    )
