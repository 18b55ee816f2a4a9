"""Scripted brokers that take messages, for those that send."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.protocol.record import iter_batch
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.scripted_peer import V5_4_0, ok

TOPIC = "T"


def sending_cluster(*names: str, queue_count: int = 2, version: int = V5_4_0, topic: str = TOPIC) -> Cluster:
    """Return brokers that store what is sent: each queue counts its messages."""
    cluster = Cluster(
        *(BrokerState(name, version, topics={topic: [Queue() for _ in range(queue_count)]}) for name in names)
    )
    for name in names:
        cluster.servers[name].table |= {
            Q.SEND_MESSAGE_V2: _taking(name),
            Q.SEND_BATCH_MESSAGE: _taking(name),
            Q.CONSUMER_SEND_MSG_BACK: ok(),
            Q.GET_MAX_OFFSET: ok(offset="0"),
        }
    return cluster


def _taking(name: str) -> Callable[[Command], Command]:
    next_offsets: defaultdict[str, int] = defaultdict(int)

    def take(request: Command) -> Command:
        fields = request.ext_fields
        count = len(list(iter_batch(request.body))) if fields["m"] == "true" else 1
        first = next_offsets[fields["e"]]
        next_offsets[fields["e"]] += count
        ids = ",".join(f"{name}-{fields['e']}-{first + index}" for index in range(count))
        return stored(ids, fields["e"], first)

    return take


def stored(ids: str, queue_id: str = "0", queue_offset: int = 0, *, code: int = R.SUCCESS, **fields: str) -> Command:
    """Return the answer to a send."""
    told = {"msgId": ids, "queueId": queue_id, "queueOffset": str(queue_offset), "MSG_REGION": "R", **fields}
    return Command(code, told)


def sent(cluster: Cluster, name: str, *codes: int) -> list[Command]:
    """Return what a broker was sent, in order."""
    wanted = codes or (Q.SEND_MESSAGE_V2, Q.SEND_BATCH_MESSAGE)
    return [request for request in cluster.servers[name].asked if request.code in wanted]
