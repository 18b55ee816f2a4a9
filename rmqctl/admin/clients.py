"""Clients: what the members of a group say of themselves, asked through a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rmqctl.client.core import Client
from rmqctl.model.group import GroupConnections, RunningInfo
from rmqctl.protocol import bodies, headers

from .results import Answers, ask_all

# A relayed question holds one of a broker's 16 admin threads until the client answers, up to 10 s.
_RELAYED_AT_ONCE = 8


async def fetch_running_infos(
    client: Client, group: str, connections: Mapping[str, GroupConnections]
) -> Answers[str, RunningInfo]:
    """Ask every member what it is doing; `connections` is by broker address. Keys of the answer are client ids.

    A broker passes the question on to the client and waits 10 s for it. Clients in other languages may not answer.
    """
    through: dict[str, str] = {}
    for address, connection in connections.items():
        for member in connection.members:
            through.setdefault(member.client_id, address)

    gates = {address: asyncio.Semaphore(_RELAYED_AT_ONCE) for address in connections}

    async def ask(client_id: str) -> RunningInfo:
        address = through[client_id]
        async with gates[address]:
            response = await client.ask(address, headers.get_running_info(group, client_id))
        return bodies.decode_running_info(response.body)

    return await ask_all(through, ask)
