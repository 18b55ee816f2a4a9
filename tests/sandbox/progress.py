"""What the tests of statistics, resets and relays have a client do: send, store offsets, join, leave."""

from __future__ import annotations

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox import Sandbox
from tests.sandbox.peer import Peer, consumer_data, subscription


async def send(
    peer: Peer, topic: str, queue_id: int = 0, *, count: int = 1, tag: str = "", unique: bool = False
) -> Command:
    """Store messages, with `unique` keys; a topic that there is not gets two queues. Return the last answer."""
    for number in range(count):
        properties = f"TAGS\x01{tag}\x02" if tag else ""
        properties += f"UNIQ_KEY\x01{queue_id:016X}{number:016X}\x02" if unique else ""
        answer = await peer.ask_ok(
            RequestCode.SEND_MESSAGE_V2, b"x", a="P", b=topic, c="TBW102", d=2, e=queue_id, f=0, g=0, h=0,
            i=properties, j=0, k=False, m=False,
        )  # fmt: skip
    return answer


async def join(sandbox: Sandbox, client_id: str, group: str, *topics: str, **options: int) -> Peer:
    """Connect a client and register it in a group that subscribes to topics."""
    peer = await Peer.of_broker(sandbox, **options)
    await peer.heartbeat(client_id, consumer_data(group, *(subscription(topic) for topic in topics)))
    await sandbox.await_idle()
    peer.pushed.clear()
    return peer


async def commit(peer: Peer, group: str, topic: str, queue_id: int, offset: int) -> Command:
    """Store an offset."""
    return await peer.ask_ok(
        RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id, commitOffset=offset
    )


async def pull(peer: Peer, group: str, topic: str, queue_id: int, offset: int) -> Command:
    """Read what is there, with the subscription in the request."""
    return await peer.ask(
        RequestCode.PULL_MESSAGE, consumerGroup=group, topic=topic, queueId=queue_id, queueOffset=offset,
        maxMsgNums=32, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*", subVersion=0,
    )  # fmt: skip
