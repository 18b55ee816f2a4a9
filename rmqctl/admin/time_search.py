"""The first message of a queue that was stored at a time or later, exactly, whatever the broker's own search rounds."""

from __future__ import annotations

from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage, iter_messages

from .messages import ALL, PULL_ANSWERS, pull_request


async def fetch_message_at(client: Client, address: str, mq: MessageQueue, queue_offset: int) -> StoredMessage | None:
    """Return the message at an offset, or the next one behind it; None where there is none.

    What was deleted meanwhile is passed over. Raises what Client.ask() raises, and RemoteProtocolError for a message
    that can't be read.
    """
    while True:
        answer = await client.ask(address, pull_request(mq, queue_offset, ALL, 1), accept=PULL_ANSWERS)
        if answer.code == ResponseCode.SUCCESS:
            found = [message for message in iter_messages(answer.body) if message.queue_offset >= queue_offset]
            if found:
                return found[0]
        next_offset = headers.int_field(answer, "nextBeginOffset")
        if next_offset <= queue_offset:
            return None
        queue_offset = next_offset


async def find_first_since(
    client: Client, address: str, mq: MessageQueue, at_ms: int, min_offset: int, max_offset: int
) -> StoredMessage | None:
    """Return the first message between these offsets that was stored at `at_ms` or later, None when all are older.

    The broker's search (SEARCH_OFFSET_BY_TIMESTAMP) is where it begins: 4.9 answers any message of that ms, else the
    nearer neighbour. Store times are taken to rise with the offsets; a clock that was set back makes some message whose
    predecessor is older the answer.
    """
    if min_offset >= max_offset:
        return None
    answer = await client.ask(address, headers.search_offset(mq.topic, mq.queue_id, max(0, at_ms)))
    probe = max(min_offset, min(headers.int_field(answer, "offset"), max_offset - 1))
    # What stands below `low` is older; `found` is the first from `high` on that is not.
    low, high, found, step = min_offset, max_offset, None, 1
    is_low_seen = is_high_seen = False
    while low < high:
        message = await fetch_message_at(client, address, mq, probe)
        if message is None or message.queue_offset >= high:
            high, is_high_seen = probe, True
        elif message.stored_at_ms >= at_ms:
            found, high, is_high_seen = message, probe, True
        else:
            low, is_low_seen = message.queue_offset + 1, True
        if is_low_seen and is_high_seen:
            probe = (low + high) // 2
        else:
            # Most guesses are off by one, if at all: near ones first, then ever further away.
            probe = low + step - 1 if is_low_seen else high - step
            probe, step = max(low, min(probe, high - 1)), step * 2
    return found
