"""Requests that read: one function per request, with the field names of RocketMQ's header class.

Requests that can create or delete data on a broker are left out on purpose: GET_SUBSCRIPTIONGROUP_CONFIG creates the
group, QUERY_CORRECTION_OFFSET can delete offsets.
"""

from __future__ import annotations

import json

from rmqctl.errors import RemoteProtocolError

from .codes import RequestCode
from .command import Command
from .flags import PullFlag

# A group that exists on every broker, so pulls under its name create nothing (MixAll.TOOLS_CONSUMER_GROUP).
TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"


def get_cluster_info() -> Command:
    """Ask a name server for all brokers."""
    return Command(RequestCode.GET_BROKER_CLUSTER_INFO)


def get_route(topic: str) -> Command:
    """Ask a name server for a topic's route (GetRouteInfoRequestHeader)."""
    fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
    return Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)


def get_all_topics() -> Command:
    """Ask a name server for the names of all topics."""
    return Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)


def get_kv_config(namespace: str, key: str) -> Command:
    """Ask a name server for one of its key-value pairs (GetKVConfigRequestHeader)."""
    return Command(RequestCode.GET_KV_CONFIG, {"namespace": namespace, "key": key})


def get_all_topic_configs() -> Command:
    """Ask a broker for the configuration of all its topics. Without paging fields 5.x returns all, as 4.9 does."""
    return Command(RequestCode.GET_ALL_TOPIC_CONFIG)


def get_topic_config(topic: str) -> Command:
    """Ask a broker of 5.x for the configuration of one topic (GetTopicConfigRequestHeader)."""
    return Command(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})


def get_topic_groups(topic: str) -> Command:
    """Ask which groups consume a topic, by connection or stored offset (QueryTopicConsumeByWhoRequestHeader)."""
    return Command(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})


def get_earliest_store_time(topic: str, queue_id: int) -> Command:
    """Ask when the oldest message of a queue was stored (GetEarliestMsgStoretimeRequestHeader).

    Only for a queue that is known to exist: the store creates an entry for any queue that a request names.
    """
    return Command(RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": topic, "queueId": str(queue_id)})


def get_consume_stats(group: str, topic: str | None = None) -> Command:
    """Ask for a group's offsets, in all topics or one (GetConsumeStatsRequestHeader)."""
    fields = {"consumerGroup": group}
    if topic is not None:
        fields["topic"] = topic
    return Command(RequestCode.GET_CONSUME_STATS, fields)


def get_broker_consume_stats() -> Command:
    """Ask for the offsets of all groups of a broker (GetConsumeStatsInBrokerHeader); may be megabytes."""
    return Command(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})


def get_topic_stats(topic: str) -> Command:
    """Ask for the smallest and largest offset of a topic's queues (GetTopicStatsInfoRequestHeader)."""
    return Command(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})


def get_consume_time_span(topic: str, group: str) -> Command:
    """Ask how old a group's first unread message of each queue is (QueryConsumeTimeSpanRequestHeader)."""
    return Command(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group})


def get_connections(group: str) -> Command:
    """Ask for a group's connected members (GetConsumerConnectionListRequestHeader)."""
    return Command(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})


def get_all_producers() -> Command:
    """Ask for the connections of all producer groups (GetAllProducerInfoRequestHeader); brokers before 4.9.4 refuse."""
    return Command(RequestCode.GET_ALL_PRODUCER_INFO)


def get_producer_connections(producer_group: str) -> Command:
    """Ask for a producer group's connections (GetProducerConnectionListRequestHeader)."""
    return Command(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": producer_group})


def get_running_info(group: str, client_id: str, *, with_stacks: bool = False) -> Command:
    """Ask a client, through a broker, for its running info (GetConsumerRunningInfoRequestHeader)."""
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": str(with_stacks).lower()}
    return Command(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)


def consume_directly(group: str, client_id: str, offset_id: str, broker_name: str, topic: str) -> Command:
    """Have a client's listener consume one message, through the broker (ConsumeMessageDirectlyResultRequestHeader).

    `offset_id` is the broker's id of the message; the client commits nothing.
    """
    fields = {
        "consumerGroup": group, "clientId": client_id, "msgId": offset_id, "brokerName": broker_name, "topic": topic,
    }  # fmt: skip
    return Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)


def get_all_groups() -> Command:
    """Ask for the configuration of all groups. Without paging fields 5.x returns all, as 4.9 does."""
    return Command(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)


def get_request_modes() -> Command:
    """Ask which groups pop which topics, and how many clients share a queue. 5.x only."""
    return Command(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)


def get_all_consumer_offsets() -> Command:
    """Ask for every stored offset of a broker; may be megabytes."""
    return Command(RequestCode.GET_ALL_CONSUMER_OFFSET)


def get_all_delay_offsets() -> Command:
    """Ask how many messages of each delay level a broker has delivered."""
    return Command(RequestCode.GET_ALL_DELAY_OFFSET)


def query_consumer_offset(group: str, topic: str, queue_id: int, *, zero_when_new: bool = False) -> Command:
    """Ask for one stored offset (QueryConsumerOffsetRequestHeader).

    setZeroIfNotFound=false makes 5.x answer QUERY_NOT_FOUND instead of 0 for "none"; 4.9 answers 0 regardless.
    `zero_when_new` omits it, as consumers do: the answer is then 0 for a queue that still has its first message.
    """
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
    if not zero_when_new:
        fields["setZeroIfNotFound"] = "false"
    return Command(RequestCode.QUERY_CONSUMER_OFFSET, fields)


def get_broker_config() -> Command:
    """Ask for a broker's configuration (properties text)."""
    return Command(RequestCode.GET_BROKER_CONFIG)


def get_broker_runtime() -> Command:
    """Ask for a broker's runtime table: version, rates, disk."""
    return Command(RequestCode.GET_BROKER_RUNTIME_INFO)


def query_consume_queue(topic: str, queue_id: int, queue_offset: int, count: int) -> Command:
    """Ask for entries of a queue's index (QueryConsumeQueueRequestHeader)."""
    fields = {"topic": topic, "queueId": str(queue_id), "index": str(queue_offset), "count": str(count)}
    return Command(RequestCode.QUERY_CONSUME_QUEUE, fields)


def pull_without_trace(
    topic: str,
    queue_id: int,
    queue_offset: int,
    *,
    max_count: int = 32,
    expression: str = "*",
    expression_type: str = "TAG",
    hold_ms: int = 0,
) -> Command:
    """Pull messages to read them (PullMessageRequestHeader), without a commit and without a group's subscription.

    An SQL92 expression that cannot be parsed filters nothing and is not refused: call check_expression() first. At the
    end of the queue the broker waits hold_ms for a message; it checks only every 5 s (PullRequestHoldService).
    """
    fields = {
        "consumerGroup": TOOLS_CONSUMER_GROUP,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        "maxMsgNums": str(max_count),
        "sysFlag": str(PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if hold_ms else 0)),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(hold_ms),
        "subVersion": "0",
        "subscription": expression,
        "expressionType": expression_type,
    }
    return Command(RequestCode.PULL_MESSAGE, fields)


def search_offset(topic: str, queue_id: int, at_ms: int) -> Command:
    """Ask for the offset of a store time (SearchOffsetRequestHeader).

    5.x answers the first message stored then or later; 4.9 any that was stored then, else the nearer neighbour.
    """
    fields = {"topic": topic, "queueId": str(queue_id), "timestamp": str(at_ms)}
    return Command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)


def get_min_offset(topic: str, queue_id: int) -> Command:
    """Ask for the smallest offset that still exists; 0 for an unknown queue (GetMinOffsetRequestHeader)."""
    return Command(RequestCode.GET_MIN_OFFSET, {"topic": topic, "queueId": str(queue_id)})


def get_max_offset(topic: str, queue_id: int) -> Command:
    """Ask for the next offset to be written; 0 for an unknown queue (GetMaxOffsetRequestHeader)."""
    return Command(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue_id)})


def view_message(topic: str, commit_log_offset: int) -> Command:
    """Ask for the message at a commit log offset (ViewMessageRequestHeader); brokers do not check the topic."""
    return Command(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(commit_log_offset), "topic": topic})


def query_message(topic: str, key: str, *, max_count: int, begin_ms: int, end_ms: int) -> Command:
    """Ask the index for the newest messages with a key or unique key (QueryMessageRequestHeader).

    The index compares hashes and times in seconds: check the key and the time of each message. Brokers return at most
    maxMsgsNumBatch messages (64). Java's _UNIQUE_KEY_QUERY is not sent: it would only lower that to 32.
    """
    fields = {
        "topic": topic,
        "key": key,
        "maxNum": str(max_count),
        "beginTimestamp": str(begin_ms),
        "endTimestamp": str(end_ms),
    }
    return Command(RequestCode.QUERY_MESSAGE, fields)


def check_expression(topic: str, sql: str) -> Command:
    """Ask whether an SQL92 expression is valid (CheckClientRequestBody). The broker compiles it and forgets it."""
    subscription = {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": "SQL92",
        "subString": sql,
        "subVersion": 0,
        "tagsSet": [],
        "topic": topic,
    }
    body = {"clientId": "rmqctl", "group": TOOLS_CONSUMER_GROUP, "namespace": "", "subscriptionData": subscription}
    return Command(RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode())


def int_field(response: Command, name: str) -> int:
    """Return a number of a response's header. Raises RemoteProtocolError when it is missing or not a number."""
    try:
        value = int(response.ext_fields[name])
    except (KeyError, ValueError):
        value = None
    if value is None or not -(2**63) <= value < 2**63:
        raise RemoteProtocolError(f"The peer's answer has no number in the field {name}.")
    return value
