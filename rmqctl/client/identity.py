"""Tells what kind of server answers at an address: name server, broker or proxy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

from rmqctl.errors import BrokerError, NotAuthorisedError, RmqctlError, UsageError
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command

_Ask = Callable[[str, Command], Awaitable[Command]]


class ServerKind(StrEnum):
    """What a remoting port belongs to."""

    NAME_SERVER = "NAME_SERVER"
    BROKER = "BROKER"
    PROXY = "PROXY"
    UNKNOWN = "UNKNOWN"


async def identify(ask: _Ask, address: str) -> ServerKind:
    """Find out by what a server answers to; `ask` is Client.ask. Raises UnreachableError when it answers to nothing.

    A name server lists the cluster; a broker tells its configuration; a proxy tells routes, and neither of the others.
    Name servers have no access control, while a broker that has it refuses even requests that it does not know.
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
    """Return the error for a server that was named as a name server and can't list the cluster."""
    kind = await identify(ask, address)
    if kind is ServerKind.PROXY:
        return UsageError(
            f"{address} is a proxy, which can't list the cluster.",
            hint="Name the cluster's name server with -n: a proxy passes on only what consumers and producers ask.",
        )
    if kind is ServerKind.BROKER:
        return UsageError(f"{address} is a broker, not a name server.", hint="Name servers listen on 9876.")
    return refused
