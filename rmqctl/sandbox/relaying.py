"""Requests that a broker forwards to a member of a group (Broker2Client.callClient)."""

from __future__ import annotations

from rmqctl.errors import DeadlineError, UnreachableError
from rmqctl.net.clock import pause
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message_id import decode_offset_id
from rmqctl.protocol.versions import version_name

from .broker import Broker
from .channel import Channel
from .members import Member
from .request import RefusalError, Request

_TIMEOUT_S = 10.0
# MQVersion's ordinal of V3_1_8_SNAPSHOT: older clients do not know the request.
_RELAY_SINCE = 62


async def relay(broker: Broker, request: Request, fields: dict[str, str], body: bytes) -> Command | None:
    """Forward a request to a member, and return the member's answer unchanged."""
    group, client_id = request.text("consumerGroup"), request.text("clientId", "null")
    channel, member = _find(broker, group, client_id)
    if member.version < _RELAY_SINCE:
        raise RefusalError(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <{client_id}> Version <{version_name(member.version)}> too low to finish, please upgrade it "
            "to V3_1_8_SNAPSHOT",
        )
    response = await ask_member(broker, channel, Command(request.command.code, fields, body), _TIMEOUT_S)
    if response is None:
        raise _timeout(broker, group, client_id, channel)
    _hand_on(request, response)
    return None


async def ask_member(broker: Broker, channel: Channel, question: Command, timeout_s: float) -> Command | None:
    """Return a client's answer, or None on a timeout.

    RocketMQ does not notice that the client has disconnected: it waits for the whole timeout all the same.
    """
    since_s = broker.clock.monotonic_s()
    try:
        return await channel.ask(question, timeout_s)
    except DeadlineError:
        return None
    except UnreachableError:
        await pause(broker.clock, since_s + timeout_s - broker.clock.monotonic_s())
        return None


def _find(broker: Broker, group: str, client_id: str) -> tuple[Channel, Member]:
    online = broker.consumers.find(group)
    channel = None if online is None else online.find(client_id)
    if online is None or channel is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    return channel, online.members[channel]


def _timeout(broker: Broker, group: str, client_id: str, channel: Channel) -> RefusalError:
    slash = "/" if broker.profile.is_5 else ""
    return RefusalError(
        ResponseCode.CONSUME_MSG_TIMEOUT,
        f"consumer <{group}> <{client_id}> Timeout: org.apache.rocketmq.remoting.exception.RemotingTimeoutException: "
        f"wait response on the channel <{slash}{channel.address}> timeout, {round(_TIMEOUT_S * 1000)}(ms)",
    )


def _hand_on(request: Request, response: Command) -> None:
    """Reply with the member's own answer; its language and version stay, as in RocketMQ."""
    if not request.command.is_oneway:
        request.channel.write(request.channel.protocol.send_response(request.command, response))


async def consume_directly(broker: Broker, request: Request) -> Command | None:
    """Ask a member to run its listener on a stored message, which is sent as the body."""
    record = _record(broker, request.text("msgId"))
    fields = {**request.fields, "brokerName": broker.name}
    if broker.profile.is_5:
        _add_system_flags(broker, request, fields)
    return await relay(broker, request, fields, record)


def _record(broker: Broker, offset_id: str) -> bytes:
    """Return the stored message of an id; the broker in the id is ignored."""
    try:
        commit_log_offset = decode_offset_id(offset_id).commit_log_offset
    except ValueError as error:
        remark = f"java.nio.BufferUnderflowException: {error}"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark) from None
    message = broker.store.message_in_log(commit_log_offset)
    if message is None:
        remark = f"java.lang.NullPointerException: no message starts at {commit_log_offset}"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
    return message.record


def _add_system_flags(broker: Broker, request: Request, fields: dict[str, str]) -> None:
    topic = broker.topics.find(request.text("topic", ""))
    if topic is not None:
        fields["topicSysFlag"] = str(topic.sys_flag)
    group = request.text("consumerGroup", "")
    may_create = broker.settings.flag("autoCreateSubscriptionGroup")
    config = broker.groups.find_or_create(group, may_create=may_create) if group else None
    if config is not None:
        fields["groupSysFlag"] = str(config["groupSysFlag"])
