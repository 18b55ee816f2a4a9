"""The offset at which a newly taken queue starts: consumer/rules/start_position.py with the brokers' answers."""

from __future__ import annotations

from rmqctl.client.core import Client
from rmqctl.consumer.rules.start_position import AskMaxOffset, AskOffsetAt, position_from_answer, start_position
from rmqctl.errors import UnreachableError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers

from .offset_store import OffsetStore
from .settings import ConsumerSettings

# The default of DefaultMQPushConsumer.consumeTimestamp.
_SINCE_MS = 30 * 60 * 1000


async def find_start(
    client: Client, settings: ConsumerSettings, offsets: OffsetStore, mq: MessageQueue, *, address: str | None,
    started_at_ms: int,
) -> int:  # fmt: skip
    """Return the offset. Raises RmqctlError when it cannot be determined; the queue must then not be taken."""
    since_ms = settings.consume_timestamp_ms
    start = start_position(
        await offsets.fetch(mq), settings.consume_from, is_retry_topic=mq.topic == RETRY_PREFIX + settings.group,
        since_ms=started_at_ms - _SINCE_MS if since_ms is None else since_ms,
    )  # fmt: skip
    if isinstance(start, int):
        return start
    if address is None:
        raise UnreachableError(mq.broker_name, "no route has an address of its master")
    match start:
        case AskMaxOffset():
            request = headers.get_max_offset(mq.topic, mq.queue_id)
        case AskOffsetAt(at_ms):
            request = headers.search_offset(mq.topic, mq.queue_id, at_ms)
    return position_from_answer(headers.int_field(await client.ask(address, request), "offset"))
