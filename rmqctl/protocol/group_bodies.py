"""Bodies of responses about groups and their members: bytes in, frozen values out; see bodies.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqctl.model.group import (
    DirectResult,
    GroupConfig,
    GroupConnections,
    Member,
    ProcessQueueInfo,
    ProducerInfo,
    RunningInfo,
    Subscription,
    TopicConsumeStatus,
)
from rmqctl.model.queue import MessageQueue

from .body_values import as_bool, as_float, as_int, as_list, as_number, as_queue, as_str, as_text, as_time_ms, decoder
from .java_json import loads


@decoder
def decode_connections(body: bytes) -> GroupConnections:
    """Read the answer of GET_CONSUMER_CONNECTION_LIST (ConsumerConnection), members sorted by client id."""
    data = loads(body)
    members = [
        Member(
            client_id=as_str(item["clientId"]),
            client_address=as_str(item.get("clientAddr") or ""),
            language=as_str(item.get("language") or "OTHER"),
            version=as_int(item.get("version", 0)),
        )
        for item in as_list(data.get("connectionSet") or [])
    ]
    subscriptions = {
        as_str(topic): _subscription(topic, item) for topic, item in (data.get("subscriptionTable") or {}).items()
    }
    return GroupConnections(
        members=tuple(sorted(members, key=lambda member: (member.client_id, member.client_address))),
        consume_type=as_str(data.get("consumeType") or ""),
        message_model=as_str(data.get("messageModel") or ""),
        consume_from_where=as_str(data.get("consumeFromWhere") or ""),
        subscriptions=subscriptions,
    )


@decoder
def decode_producers(body: bytes) -> dict[str, tuple[ProducerInfo, ...]]:
    """Read the answer of GET_ALL_PRODUCER_INFO (ProducerTableInfo): all connections by producer group."""
    return {
        as_str(group): tuple(_producer(item, as_str(item.get("remoteIP") or "")) for item in as_list(items))
        for group, items in (loads(body).get("data") or {}).items()
    }


@decoder
def decode_producer_connections(body: bytes) -> tuple[ProducerInfo, ...]:
    """Read the answer of GET_PRODUCER_CONNECTION_LIST (ProducerConnection)."""
    items = as_list(loads(body).get("connectionSet") or [])
    return tuple(_producer(item, as_str(item.get("clientAddr") or "")) for item in items)


def _producer(item: Mapping[str, Any], address: str) -> ProducerInfo:
    return ProducerInfo(
        client_id=as_str(item["clientId"]),
        # The broker writes a Java SocketAddress: a host name, if it was resolved, a slash, host:port.
        client_address=address.rpartition("/")[2],
        language=as_str(item.get("language") or "OTHER"),
        version=as_int(item.get("version", 0)),
        heard_at_ms=as_time_ms(item.get("lastUpdateTimestamp")),
    )


def _subscription(topic: str, item: Mapping[str, Any]) -> Subscription:
    return Subscription(
        topic=topic,
        expression=as_str(item.get("subString") or ""),
        expression_type=as_str(item.get("expressionType") or "TAG"),
        version_ms=as_number(item.get("subVersion", 0)),
        tags=frozenset(as_str(tag) for tag in as_list(item.get("tagsSet") or [])),
    )


@decoder
def decode_consumer_ids(body: bytes) -> tuple[str, ...]:
    """Read the answer of GET_CONSUMER_LIST_BY_GROUP (GetConsumerListByGroupResponseBody).

    The ids are in the broker's order; one that uses two connections appears twice.
    """
    return tuple(as_str(client_id) for client_id in as_list(loads(body).get("consumerIdList") or []))


@decoder
def decode_locked_queues(body: bytes) -> frozenset[MessageQueue]:
    """Read the answer of LOCK_BATCH_MQ: the queues that the client holds now (LockBatchResponseBody)."""
    return frozenset(as_queue(item) for item in as_list(loads(body).get("lockOKMQSet") or []))


@decoder
def decode_direct_result(body: bytes) -> DirectResult:
    """Read the answer of CONSUME_MESSAGE_DIRECTLY (ConsumeMessageDirectlyResult), written by the client."""
    data = loads(body)
    remark = data.get("remark")
    return DirectResult(
        as_text(data.get("consumeResult") or ""), "" if remark is None else as_text(remark),
        as_int(data.get("spentTimeMills", 0)),
    )  # fmt: skip


@decoder
def decode_running_info(body: bytes) -> RunningInfo:
    """Read the answer of GET_CONSUMER_RUNNING_INFO (ConsumerRunningInfo).

    The client writes it, not a broker. Clients other than Java's omit parts; C++ writes offsets and versions as texts,
    and Go spells `dropped` correctly.
    """
    data = loads(body)
    popped = {as_queue(key): item for key, item in (data.get("mqPopTable") or {}).items()}
    popped_at_ms = {mq: as_time_ms(as_int(item.get("lastPopTimestamp", 0))) for mq, item in popped.items()}
    properties = {as_str(key): as_text(value) for key, value in (data.get("properties") or {}).items()}
    # A listener gets no more messages at once; 0 is unknown.
    batch = properties.get("consumeMessageBatchMaxSize", "")
    most = int(batch) if batch.isdecimal() and len(batch) < 10 else 0
    queues = {as_queue(key): _process_queue(item, most) for key, item in (data.get("mqTable") or {}).items()}
    statuses = {as_str(topic): _consume_status(item) for topic, item in (data.get("statusTable") or {}).items()}
    subscriptions = [_subscription(as_str(item["topic"]), item) for item in as_list(data.get("subscriptionSet") or [])]
    return RunningInfo(
        properties,
        queues,
        {mq: as_int(item.get("waitAckCount", 0)) for mq, item in popped.items()},
        statuses,
        tuple(sorted(subscriptions, key=lambda s: s.topic)),
        stacks=as_text(data["jstack"]) if data.get("jstack") else None,
        notes={as_str(key): as_text(value) for key, value in (data.get("userConsumerInfo") or {}).items()},
        popped_at_ms={mq: at_ms for mq, at_ms in popped_at_ms.items() if at_ms is not None},
    )


def _consume_status(item: Mapping[str, Any]) -> TopicConsumeStatus:
    return TopicConsumeStatus(
        pull_rt_ms=as_float(item.get("pullRT", 0.0)),
        pull_tps=as_float(item.get("pullTPS", 0.0)),
        consume_rt_ms=as_float(item.get("consumeRT", 0.0)),
        consume_ok_tps=as_float(item.get("consumeOKTPS", 0.0)),
        consume_failed_tps=as_float(item.get("consumeFailedTPS", 0.0)),
        consume_failed_count=as_int(item.get("consumeFailedMsgs", 0)),
    )


def _process_queue(item: Mapping[str, Any], batch_size: int) -> ProcessQueueInfo:
    def number(name: str, absent: int) -> int:
        return as_number(item.get(name, absent))

    commit_offset, in_order_count = number("commitOffset", -1), number("transactionMsgCount", 0)
    least_uncommitted = max(0, in_order_count - batch_size) if batch_size else 0
    return ProcessQueueInfo(
        cached_count=number("cachedMsgCount", 0),
        cached_min_offset=number("cachedMsgMinOffset", 0),
        cached_max_offset=number("cachedMsgMaxOffset", 0),
        commit_offset=commit_offset if commit_offset >= 0 else None,
        dropped=as_bool(item.get("droped", item.get("dropped", False))),
        cached_size_mib=number("cachedMsgSizeInMiB", 0),
        locked=as_bool(item.get("locked", False)),
        last_pull_at_ms=as_time_ms(number("lastPullTimestamp", 0)),
        last_consume_at_ms=as_time_ms(number("lastConsumeTimestamp", 0)),
        locked_at_ms=as_time_ms(number("lastLockTimestamp", 0)),
        in_order_count=in_order_count,
        in_order_min_offset=number("transactionMsgMinOffset", 0),
        unlock_tries=number("tryUnlockTimes", 0),
        # Only rmqctl's consumer counts them.
        uncommitted_count=min(in_order_count, max(0, number("uncommittedMsgCount", least_uncommitted))),
    )


@decoder
def decode_groups(body: bytes) -> dict[str, GroupConfig]:
    """Read the answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG (SubscriptionGroupWrapper)."""
    data = loads(body)
    forbidden = data.get("forbiddenTable") or {}
    return {
        group: GroupConfig(
            group=as_str(group),
            consume_enable=as_bool(item.get("consumeEnable", True)),
            consume_broadcast_enable=as_bool(item.get("consumeBroadcastEnable", True)),
            retry_queue_count=as_int(item.get("retryQueueNums", 1)),
            retry_max_times=as_int(item.get("retryMaxTimes", 16)),
            fields={as_str(name): value for name, value in item.items() if name != "groupName"},
            forbidden_topics=tuple(sorted(as_str(topic) for topic, bits in forbidden.get(group, {}).items() if bits)),
        )
        for group, item in data["subscriptionGroupTable"].items()
    }


@decoder
def decode_pop_shares(group: str, body: bytes) -> dict[str, int]:
    """Read a group's popShareQueueNum for each topic that it pops from the answer of GET_ALL_MESSAGE_REQUEST_MODE."""
    table = loads(body).get("messageRequestModeMap") or {}
    return {
        as_str(topic): as_int(groups[group].get("popShareQueueNum", 0))
        for topic, groups in table.items()
        if group in groups and groups[group].get("mode") == "POP"
    }


@decoder
def decode_pop_groups(topic: str, body: bytes) -> frozenset[str]:
    """Read the groups that pop a topic from the answer of GET_ALL_MESSAGE_REQUEST_MODE."""
    groups = (loads(body).get("messageRequestModeMap") or {}).get(topic) or {}
    return frozenset(as_str(group) for group, mode in groups.items() if mode.get("mode") == "POP")
