"""Identify the kind of server at an address: name server, broker or proxy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

from rmqctl.errors import BrokerError, NotAuthorisedError, RmqctlError, UsageError
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command

_Ask = Callable[[str, Command], Awaitable[Command]]


class ServerKind(StrEnum):
    """The kind of server behind a remoting port."""

    NAME_SERVER = "NAME_SERVER"
    BROKER = "BROKER"
    PROXY = "PROXY"
    UNKNOWN = "UNKNOWN"


async def identify(ask: _Ask, address: str) -> ServerKind:
    """Return a server's kind by the requests that it supports; `ask` is Client.ask.

    A name server lists the cluster, a broker returns its configuration, and a proxy returns only routes. Name servers
    have no access control; a broker with access control refuses even requests that it does not know. Raises
    UnreachableError when the server does not answer.
    """
    if await _knows(ask, address, headers.get_cluster_info(), may_refuse=False):
        return ServerKind.NAME_SERVER
    if await _knows(ask, address, headers.get_broker_config()):
        return ServerKind.BROKER
    if await _knows(ask, address, headers.get_route("TBW102")):
        return ServerKind.PROXY
    return ServerKind.UNKNOWN


async def _knows(ask: _Ask, address: str, command: Command, *, may_refuse: bool = True) -> bool:
    try:
        await ask(address, command)
    except NotAuthorisedError:
        return may_refuse
    except BrokerError as error:
        return error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return True


async def misplaced_name_server(ask: _Ask, address: str, refused: RmqctlError) -> RmqctlError:
    """Return the error for a server that was given as a name server but cannot list the cluster."""
    kind = await identify(ask, address)
    if kind is ServerKind.PROXY:
        return UsageError(
            f"{address} is a proxy, which cannot list the cluster.",
            hint="Give a name server with -n: a proxy forwards only requests of consumers and producers.",
        )
    if kind is ServerKind.BROKER:
        return UsageError(
            f"{address} is a broker, not a name server.",
            hint="Give the address of a name server; the default port is 9876.",
        )
    return refused
