"""Requests that a broker forwards to a member of a group (Broker2Client.callClient)."""

from __future__ import annotations

from rmqctl.errors import DeadlineError, UnreachableError
from rmqctl.net.clock import pause
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.versions import version_name
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.channel import Channel
from rmqctl.sandbox.groups.members import MemberChannel
from rmqctl.sandbox.request import RefusalError, Request

_TIMEOUT_S = 10.0
# MQVersion's ordinal of V3_1_8_SNAPSHOT: older clients do not know the request.
_RELAY_SINCE = 62
# V3_0_7_SNAPSHOT: older clients support neither resets nor queries of their offsets.
_OFFSETS_SINCE = 28


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


def _find(broker: Broker, group: str, client_id: str) -> tuple[Channel, MemberChannel]:
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


def require_offsets_version(member: MemberChannel) -> None:
    """Refuse a reset or an offset query for a client that is too old for both."""
    if member.version < _OFFSETS_SINCE:
        remark = f"the client does not support this feature. version={version_name(member.version)}"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
