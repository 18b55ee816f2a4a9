"""Stuck queues that cleaning leaves alone: it would not free them, and would send back what no listener got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rmqctl.changes.clean_expired.rules.blocking import describe_not_followed, find_block, is_delivered
from rmqctl.changes.journal.journal import Journal
from rmqctl.errors import RefusedError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import ListenerBlock
from rmqctl.model.queue import MessageQueue
from rmqctl.observe.stuck_scan import StuckQueue
from rmqctl.text.words import counted

_BLOCKS = (ListenerBlock.IN_ORDER, ListenerBlock.ALL_THREADS)


def find_left_alone(
    group: str, queues: Iterable[StuckQueue], stored: Mapping[MessageQueue, int | None], journal: Journal
) -> dict[MessageQueue, RefusedError]:
    """Return the queues that are not cleaned, and why. `stored` are offsets that are newer than the scan's.

    A blocked client is cleaned once: after its restart, the poison message is then not the first one. What it gets
    after that waits for its listener, so each further cleaning would only use up retries of the next messages.
    """
    found = {}
    for queue in queues:
        sentence = _why(group, queue, stored.get(queue.progress.mq, queue.progress.consumer_offset), journal)
        if sentence is not None:
            found[queue.progress.mq] = RefusedError(sentence)
    return found


def _why(group: str, queue: StuckQueue, stored: int | None, journal: Journal) -> str | None:
    holder, held, mq = queue.holder, queue.watched.last.held, queue.progress.mq
    if holder is None or held is None or held.head_offset is None:
        return None
    client_id = holder.client_id
    if held.uncommitted_count:
        # Past the message, they would count as committed, although the listener may still roll them back.
        said = counted(held.uncommitted_count, "message")
        return f"The listener of {client_id} has consumed {said} of {mq} without COMMIT. Only it can acknowledge them."
    sentence = describe_not_followed(mq, client_id, held.head_offset, stored)
    block = find_block(holder, queue.watched)
    if sentence is not None or block not in _BLOCKS:
        return sentence
    delivered = is_delivered(holder, queue.watched)
    if delivered is False:
        return (
            f"The message at {held.head_offset} of {mq} waits: the listener of {client_id} has not returned from an "
            f"earlier one. Restart {client_id}."
        )
    if delivered is None:
        # Copies of what was sent back from any queue wait in the retry topic.
        from_any = mq.topic.startswith(RETRY_PREFIX)
        earlier = journal.last_blocked_cleaning(group, None if from_any else mq, client_id)
        if earlier is not None:
            return (
                f"{earlier} already moved {client_id} past a message, and all threads of {client_id} are still in its "
                f"listener: it may not have started the message at {held.head_offset} of {mq}. Restart {client_id}."
            )
    return None
