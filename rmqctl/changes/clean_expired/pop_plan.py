"""Plans the cleaning of popped messages: each is sent back, and acknowledged when its copy was seen."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rmqctl.changes.clean_expired.rules.methods import are_dead, becomes_dead, finished_words
from rmqctl.changes.plan_parts import NOT_LOOKED_UP
from rmqctl.errors import NotFoundError, RefusedError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.plan import CleanStep, Consequence, PlanItem, ReturnedMessage, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.observe.stuck_scan import StuckQueue
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.protocol.sends import RETRY_TOPIC
from rmqctl.rules.member_settings import DEFAULT_RETRIES, retry_limit
from rmqctl.rules.pop_handles import normal_topic
from rmqctl.text.words import counted


def describe_acknowledged(items: Sequence[PlanItem]) -> Consequence:
    """Return what happens to the popped messages of these items."""
    text = (
        "No offset moves. Each message is acknowledged for the client that has it; the acknowledgement cannot be "
        f"undone. The listener may still finish the message: it is then {finished_words(are_dead(items))}."
    )
    return Consequence("POP_ACKNOWLEDGED", text)


def require_retry_reader(group: str, subscribed: Collection[str]) -> None:
    """Raise RefusedError if no member reads what is sent back: clients of a proxy pop from other retry topics."""
    if f"{RETRY_PREFIX}{group}" not in subscribed:
        sentence = f"No member of {group} subscribes to {RETRY_PREFIX}{group}: what is sent back would not be consumed."
        raise RefusedError(sentence, hint="Clients behind a proxy do not read it. Wait for the broker to redeliver.")


def pop_items(group: str, popped: Sequence[StuckQueue], level: int) -> tuple[list[PlanItem], list[Failure]]:
    """Return an item for each queue with popped messages; a message that cannot be sent back is a failure."""
    by_queue: dict[MessageQueue, list[tuple[StuckQueue, ReturnedMessage]]] = {}
    failures = []
    for each in sorted(popped, key=lambda each: (each.progress.mq, each.popped.queue_offset if each.popped else 0)):
        mq = each.progress.mq
        try:
            message = _returned(group, each)
        except RmqctlError as error:
            failures.append(Failure(mq.broker_name, f"popped message of {mq}", error))
            continue
        found = by_queue.setdefault(mq, [])
        if not found or found[-1][1].queue_offset != message.queue_offset:
            found.append((each, message))
        else:  # popped again after a reset: the later pop counts
            found[-1] = each, message
    return [_item(mq, found, level) for mq, found in by_queue.items()], failures


def _returned(group: str, queue: StuckQueue) -> ReturnedMessage:
    mq, popped, message = queue.progress.mq, queue.popped, None if queue.head is None else queue.head.message
    if popped is None or message is None:
        raise NotFoundError("Message", str(mq))
    if message.inner_index is not None:
        raise RefusedError(f"{mq} offset {popped.queue_offset} is part of a batch, which is sent back as a whole.")
    if not message.properties.get(UNIQ_KEY):
        raise RefusedError(f"{mq} offset {popped.queue_offset} has no unique key: its copy could not be found.")
    return ReturnedMessage(
        popped.queue_offset, message.commit_log_offset, message.message_id,
        message.properties.get(RETRY_TOPIC) or normal_topic(group, message.topic), message.reconsume_times,
        popped.handle,
    )  # fmt: skip


def _item(mq: MessageQueue, found: Sequence[tuple[StuckQueue, ReturnedMessage]], level: int) -> PlanItem:
    row, settings, messages = found[0][0].progress, found[0][0].settings, tuple(message for _, message in found)
    limit = None if settings is None else retry_limit(settings.max_reconsume_times, is_orderly=False)
    limit = DEFAULT_RETRIES if limit is None else limit
    alive_count = sum(not becomes_dead(each.reconsume_times, limit, level) for each in messages)
    return PlanItem(
        mq=mq,
        before=row.consumer_offset,
        target=row.consumer_offset,
        route=Route.POP_ACK,
        reconsumed=None if alive_count else 0,
        reconsumed_min=0,
        reconsumed_max=alive_count,
        skipped=0,
        skipped_min=0,
        skipped_max=0,
        lost=0,
        note=f"{counted(len(messages), 'popped message')} sent back",
        reasons={
            **{key: why for key, why in NOT_LOOKED_UP.items() if not key.startswith(("skipped", "lost", "change"))},
            **({"reconsumed": "IN_FLIGHT"} if alive_count else {}),
            **({} if row.consumer_offset is not None else dict.fromkeys(("before", "target", "change"), "NOT_READ")),
        },
        cleaning=CleanStep(
            head_offset=messages[0].queue_offset,
            delay_level=level,
            max_reconsume_times=limit,
            messages=messages,
        ),
    )
