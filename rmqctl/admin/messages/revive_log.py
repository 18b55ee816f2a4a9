"""Read what a broker has to redeliver to popping groups, and how late it is (PopReviveService)."""

from __future__ import annotations

from rmqctl.admin.brokers.probe import measure_clock
from rmqctl.admin.results import all_or_failed, ask_all
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.protocol import bodies, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.pop_checkpoints import REVIVE_PREFIX, UnrevivedRecords, due_ms

from .pull import fetch_one

# PopAckConstants.REVIVE_GROUP: the broker's own reader.
_REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"


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
    skew = await measure_clock(client, answer.address)

    async def first(mq: MessageQueue) -> StoredMessage | None:
        return await fetch_one(client, answer.address, mq, behind[mq].consumer_offset)

    heads = all_or_failed(await ask_all(behind, first))
    now_ms = client.clock.now_ms() + (0 if skew is None else skew.low_ms)
    due = [due_ms(head.tags, bytes(head.body), head.stored_at_ms) for head in heads.values() if head is not None]
    return UnrevivedRecords(
        sum(wrapper.broker_offset - wrapper.consumer_offset for wrapper in behind.values()),
        max([0, *(now_ms - at_ms for at_ms in due)]),
    )
