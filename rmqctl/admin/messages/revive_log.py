"""Read what a broker has to redeliver to popping groups, and how late it is (PopReviveService).

The broker's own reader, a group, commits the offset of the last check point that it has processed, and continues with
the next record. It processes each check point, acknowledged or not, as soon as it is due. Acknowledgements alone do not
move its offset.
"""

from __future__ import annotations

from contextlib import aclosing

from rmqctl.admin.brokers.probe import fetch_earliest_now_ms
from rmqctl.admin.results import all_or_failed, ask_all
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.rules.pop_checkpoints import CHECK_POINT, REVIVE_PREFIX, UnrevivedRecords, oldest_due_ms

from .pull import ALL, Expression, pull_queue

# PopAckConstants.REVIVE_GROUP: the broker's own reader.
_REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
# The acknowledgements of a check point follow it within seconds.
_MOST_RECORDS = 1024

_Record = tuple[str | None, bytes, int]


async def fetch_unrevived(client: Client, broker: BrokerData) -> UnrevivedRecords:
    """Return what waits in a broker's revive queues; empty for a broker without such queues.

    Raises the errors of Client.ask_broker(), and RemoteProtocolError for an unreadable message.
    """
    topic = f"{REVIVE_PREFIX}{broker.cluster}"
    try:
        answer = await client.ask_broker(broker, headers.get_consume_stats(_REVIVE_GROUP, topic))
    except BrokerError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return UnrevivedRecords()
        raise
    behind = {
        mq: wrapper
        for mq, wrapper in bodies.decode_consume_stats(answer.command.body).queues.items()
        if mq.broker_name == broker.broker_name and wrapper.broker_offset > wrapper.consumer_offset
    }
    if not behind:
        return UnrevivedRecords()
    told_ms = await fetch_earliest_now_ms(client, answer.address)
    now_ms = client.clock.now_ms() if told_ms is None else told_ms

    async def span(mq: MessageQueue) -> tuple[int, int | None]:
        """Return how many records of a queue are not processed, and when the oldest redelivery was due."""
        end, offset = behind[mq].broker_offset, behind[mq].consumer_offset
        next_offset = offset + 1 if offset > 0 or await _is_committed(client, answer.address, mq) else 0
        return end - next_offset, await _oldest_due_ms(client, answer.address, mq, next_offset, end, now_ms)

    spans = all_or_failed(await ask_all(behind, span)).values()
    due = [at_ms for _, at_ms in spans if at_ms is not None]
    return UnrevivedRecords(sum(count for count, _ in spans), max([0, *(now_ms - at_ms for at_ms in due)]))


async def _is_committed(client: Client, address: str, mq: MessageQueue) -> bool:
    """Tell whether the broker has processed record 0; the table of all queues has 0 for "nothing" as well."""
    try:
        await client.ask(address, headers.query_consumer_offset(_REVIVE_GROUP, mq.topic, mq.queue_id))
    except BrokerError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return False
        raise
    return True


async def _oldest_due_ms(
    client: Client, address: str, mq: MessageQueue, next_offset: int, end_offset: int, now_ms: int
) -> int | None:
    """Return when the oldest redelivery of a queue was due.

    If more records wait than are read, and all that are read are acknowledged, it is when the first check point was
    due: the broker is late with it, whatever it contains.
    """
    points = Expression(CHECK_POINT)
    heads = await _read(client, address, mq, (next_offset, end_offset), most=1, expression=points)
    if not heads:
        return None
    ((head_offset, head),) = heads.items()
    head_due_ms = oldest_due_ms([head])
    if head_due_ms is not None and head_due_ms >= now_ms:
        return head_due_ms
    last_offset = min(end_offset, head_offset + _MOST_RECORDS)
    records = await _read(client, address, mq, (head_offset, last_offset), most=_MOST_RECORDS)
    due_ms = oldest_due_ms(records.values())
    return head_due_ms if due_ms is None and last_offset < end_offset else due_ms


async def _read(
    client: Client, address: str, mq: MessageQueue, span: tuple[int, int], *, most: int, expression: Expression = ALL
) -> dict[int, _Record]:
    """Return the first records of a span by offset, at most `most`."""
    found: dict[int, _Record] = {}
    pulls = pull_queue(client, address, mq, *span, batch_count=min(most, 32), expression=expression)
    async with aclosing(pulls):
        async for messages in pulls:
            for each in messages[: most - len(found)]:
                found[each.queue_offset] = each.tags, bytes(each.body), each.stored_at_ms
            if len(found) >= most:
                break
    return found
