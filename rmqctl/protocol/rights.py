"""The actions that brokers ask for: what a request needs on the topics, the groups and the cluster that it names."""

from __future__ import annotations

from collections.abc import Mapping

from .codes import RequestCode as Code

_SENDS = (
    Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.END_TRANSACTION, Code.RECALL_MESSAGE,
)  # fmt: skip

# 5.x: RocketMQAction of a request's header, and DefaultAuthorizationContextBuilder. One of several actions is enough.
_ACTIONS: Mapping[str, tuple[Code, ...]] = {
    "Get": (
        Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME,
        Code.VIEW_MESSAGE_BY_ID, Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST,
        Code.GET_CONSUME_STATS, Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, Code.QUERY_TOPIC_CONSUME_BY_WHO,
        Code.QUERY_CONSUME_TIME_SPAN, Code.GET_CONSUMER_RUNNING_INFO, Code.QUERY_CORRECTION_OFFSET,
        Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_CONSUME_STATS, Code.QUERY_CONSUME_QUEUE,
        Code.GET_ALL_PRODUCER_INFO, Code.QUERY_TOPICS_BY_CONSUMER, Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
        Code.GET_TOPIC_CONFIG, Code.GET_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ROUTEINFO_BY_TOPIC,
    ),
    "Sub": (
        Code.PULL_MESSAGE, Code.HEART_BEAT, Code.CONSUMER_SEND_MSG_BACK, Code.CONSUME_MESSAGE_DIRECTLY,
        Code.POP_MESSAGE, Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME,
    ),
    "Pub": _SENDS,
    "Update": (Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.CLONE_GROUP_OFFSET, Code.UPDATE_AND_GET_GROUP_FORBIDDEN),
    "Create": (Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST),
    "Delete": (Code.DELETE_SUBSCRIPTIONGROUP, Code.DELETE_TOPIC_IN_BROKER),
    "Get or Sub": (Code.QUERY_MESSAGE, Code.QUERY_CONSUMER_OFFSET, Code.GET_CONSUMER_LIST_BY_GROUP),
    "Sub or Update": (Code.UPDATE_CONSUMER_OFFSET,),
    "Sub or Pub": (Code.UNREGISTER_CLIENT,),
}  # fmt: skip
_BY_CODE: Mapping[int, str] = {code: actions for actions, codes in _ACTIONS.items() for code in codes}


def action_of(code: int, *, is_group: bool) -> str | None:
    """Return the action that a 5.x broker asks for, of each resource that the request names; None when not known.

    A message to a retry topic needs what consuming as the group needs.
    """
    return "Sub" if is_group and code in _SENDS else _BY_CODE.get(code)


def plain_action_of(code: int, *, is_group: bool) -> str:
    """Return the permission that a 4.9 broker asks for on a topic or group (PlainAccessValidator.parse)."""
    return "PUB" if not is_group and code in _SENDS else "SUB"
