"""Requests of consumers: one function per request, with the field names of RocketMQ's header class.

GET_MAX_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP and QUERY_CONSUMER_OFFSET, which consumers also send, are in headers.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rmqctl.model.consumption import ConsumeFromWhere
from rmqctl.model.group import CLUSTERING, CONSUME_PASSIVELY, Subscription
from rmqctl.model.queue import MessageQueue

from .codes import RequestCode
from .command import Command
from .flags import PullFlag
from .java_dumps import dumps

# The producer group under which Java's clients heartbeat and send failed messages themselves (MixAll).
CLIENT_INNER_PRODUCER = "CLIENT_INNER_PRODUCER"


def heartbeat(
    client_id: str,
    group: str,
    subscriptions: Iterable[Subscription],
    *,
    message_model: str = CLUSTERING,
    consume_from: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
    producer_groups: Iterable[str] = (CLIENT_INNER_PRODUCER,),
) -> Command:
    """Register a member and its subscriptions with a broker, over this connection (HeartbeatData).

    The broker forgets, for all members of the group, every topic that the heartbeat does not name. It creates the group
    and its retry topic if they are missing.
    """
    consumer = {
        "consumeFromWhere": consume_from.value,
        "consumeType": CONSUME_PASSIVELY,
        "groupName": group,
        "messageModel": message_model,
        "subscriptionDataSet": [
            subscription_data(subscription) for subscription in sorted(subscriptions, key=lambda each: each.topic)
        ],
        "unitMode": False,
    }
    body = {
        "clientID": client_id,
        "consumerDataSet": [consumer],
        # 0: the heartbeat of all releases, not the shorter one of 5.1.3, which omits subscriptions.
        "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": name} for name in sorted(producer_groups)],
        "withoutSub": False,
    }
    return Command(RequestCode.HEART_BEAT, body=dumps(body))


def subscription_data(subscription: Subscription) -> dict[str, Any]:
    """Return a subscription as clients write it (SubscriptionData)."""
    return {
        "classFilterMode": False,
        "codeSet": subscription.codes,
        "expressionType": subscription.expression_type,
        "subString": subscription.expression,
        "subVersion": subscription.version_ms,
        "tagsSet": subscription.tags,
        "topic": subscription.topic,
    }


def unregister(client_id: str, group: str, *, producer_group: str = CLIENT_INNER_PRODUCER) -> Command:
    """Leave a group (UnregisterClientRequestHeader). Send it on the connection that the heartbeats used, only there.

    The broker notifies the remaining members immediately.
    """
    fields = {"clientID": client_id, "consumerGroup": group, "producerGroup": producer_group}
    return Command(RequestCode.UNREGISTER_CLIENT, fields)


def lock_queues(group: str, client_id: str, mqs: Iterable[MessageQueue]) -> Command:
    """Lock queues for a client, or renew its locks (LockBatchRequestBody). A lock lasts 60 s.

    The broker answers with those that the client holds now; it does not check whether the client is a member.
    """
    return Command(RequestCode.LOCK_BATCH_MQ, body=_lock_body(group, client_id, mqs))


def unlock_queues(group: str, client_id: str, mqs: Iterable[MessageQueue]) -> Command:
    """Unlock queues of a client (UnlockBatchRequestBody); others are left as they are."""
    return Command(RequestCode.UNLOCK_BATCH_MQ, body=_lock_body(group, client_id, mqs))


def _lock_body(group: str, client_id: str, mqs: Iterable[MessageQueue]) -> bytes:
    queues = [{"brokerName": mq.broker_name, "queueId": mq.queue_id, "topic": mq.topic} for mq in sorted(mqs)]
    return dumps({"clientId": client_id, "consumerGroup": group, "mqSet": queues, "onlyThisBroker": False})


def get_consumer_ids(group: str) -> Command:
    """Ask for a group's client ids (GetConsumerListByGroupRequestHeader). A broker without any answers SYSTEM_ERROR."""
    return Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})


def pull(
    group: str,
    mq: MessageQueue,
    queue_offset: int,
    subscription: Subscription,
    *,
    max_count: int,
    committed: int = 0,
    hold_ms: int = 0,
) -> Command:
    """Pull messages as a member of a group (PullMessageRequestHeader).

    The broker filters with the group's newest subscription that it has, and answers SUBSCRIPTION_NOT_LATEST when this
    one is newer. It stores `committed` as the group's offset when that is above 0; never send one to a slave. At the
    end of the queue the broker waits up to hold_ms for a message.
    """
    flags = (PullFlag.COMMIT_OFFSET if committed > 0 else 0) | (PullFlag.SUSPEND if hold_ms else 0)
    fields = {
        "consumerGroup": group,
        "topic": mq.topic,
        "queueId": str(mq.queue_id),
        "queueOffset": str(queue_offset),
        "maxMsgNums": str(max_count),
        "sysFlag": str(flags),
        "commitOffset": str(committed),
        "suspendTimeoutMillis": str(hold_ms),
        "subVersion": str(subscription.version_ms),
        "expressionType": subscription.expression_type,
    }
    return Command(RequestCode.PULL_MESSAGE, fields)
