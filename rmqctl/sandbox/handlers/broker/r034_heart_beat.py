"""HEART_BEAT: a client reports its producer and consumer groups (ClientManageProcessor.heartBeat)."""

from __future__ import annotations

from typing import Any

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.groups.members import CONSUME_ACTIVELY, MemberChannel
from rmqctl.sandbox.groups.subscription import SubscriptionData
from rmqctl.sandbox.request import RefusalError, Request, ok
from rmqctl.sandbox.topics.table import retry_topic

# Names that RocketMQ knows; other names are read as null.
_CONSUME_TYPES = {"CONSUME_ACTIVELY", "CONSUME_PASSIVELY"}
_CONSUME_TYPES_5 = {*_CONSUME_TYPES, "CONSUME_POP"}
_MESSAGE_MODELS = {"BROADCASTING", "CLUSTERING"}
_MESSAGE_MODELS_5 = {*_MESSAGE_MODELS, "LITE_SELECTIVE"}
_FROM_WHERE = {
    "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP",
}  # fmt: skip


def handle(broker: Broker, request: Request) -> Command:
    """Register the connection in all groups that the heartbeat names.

    A group that has no configuration and may not be created is skipped; the answer is SUCCESS nevertheless.
    """
    data = request.json()
    if not isinstance(data, dict):
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: the heartbeat is not an object")
    client_id = str(data.get("clientID") or "")
    request.channel.client_id = client_id
    # Since 5.1.3, heartbeats with a fingerprint may omit subscriptions while they do not change.
    fingerprint = int(data.get("heartbeatFingerprint") or 0) if broker.profile.is_5 else 0
    is_short = fingerprint != 0 and bool(data.get("withoutSub", False))
    changed = fingerprint == 0
    for item in data.get("consumerDataSet") or ():
        changed |= _hear_consumer(broker, request, item, client_id, fingerprint=fingerprint, is_short=is_short)
    for item in data.get("producerDataSet") or ():
        broker.producers.register(_group_name(item), request.channel, _member(broker, request, client_id))
    return ok(IS_SUPPORT_HEART_BEAT_V2=True, IS_SUB_CHANGE=changed) if broker.profile.is_5 else ok()


def _hear_consumer(
    broker: Broker, request: Request, item: dict[str, Any], client_id: str, *, fingerprint: int, is_short: bool
) -> bool:
    """Register a connection in one group; return whether the group's heartbeat fingerprint changed."""
    is_5 = broker.profile.is_5
    consume_type = _known(item, "consumeType", _CONSUME_TYPES_5 if is_5 else _CONSUME_TYPES)
    if is_5 and consume_type == CONSUME_ACTIVELY and broker.settings.flag("rejectPullConsumerEnable"):
        return False
    group = _group_name(item)
    changed = broker.consumers.swap_fingerprint(group, fingerprint)
    now_ms = broker.now_ms()
    subscriptions = [SubscriptionData.from_wire(entry, now_ms) for entry in item.get("subscriptionDataSet", ())]
    config = broker.groups.find_or_create(group)
    if config is None:
        return changed
    broker.topics.create_for_group(retry_topic(group), config["retryQueueNums"])
    broker.consumers.register(
        group, request.channel, _member(broker, request, client_id), consume_type=consume_type,
        message_model=_known(item, "messageModel", _MESSAGE_MODELS_5 if is_5 else _MESSAGE_MODELS),
        consume_from_where=_known(item, "consumeFromWhere", _FROM_WHERE),
        subscriptions=None if is_short else subscriptions,
    )  # fmt: skip
    return changed


def _group_name(item: dict[str, Any]) -> str:
    name = item.get("groupName")
    if name is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: a group without a name")
    return str(name)


def _member(broker: Broker, request: Request, client_id: str) -> MemberChannel:
    command = request.command
    return MemberChannel(client_id, command.language, command.version, broker.clock.monotonic_s(), broker.now_ms())


def _known(item: dict[str, Any], name: str, values: set[str]) -> str | None:
    value = item.get(name)
    return value if value in values else None
