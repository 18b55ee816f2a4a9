"""Ask the members of a group how they consume, through brokers that know them (GET_CONSUMER_RUNNING_INFO)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.group import RunningInfo
from rmqctl.net.clock import wait_for
from rmqctl.protocol import group_bodies, headers

# The time limit for all members to report, and for a broker to list them.
ASKING_S = 3.0
_ASKED_AT_ONCE = 16


async def ask_members(client: Client, group: str, through: Mapping[str, Sequence[str]]) -> dict[str, RunningInfo]:
    """Return the reports of the members that answer within ASKING_S, by client id.

    `through` has the addresses of brokers for each client id: the next one is asked if one does not answer in half of
    the time. Go's clients report no properties for some seconds after their first messages; that is left out.
    """
    gate, found = asyncio.Semaphore(_ASKED_AT_ONCE), dict[str, RunningInfo]()

    async def ask(client_id: str, addresses: Sequence[str]) -> None:
        async with gate:
            info = await _fetch(client, group, client_id, addresses)
        if info is not None and info.properties:
            found[client_id] = info

    try:
        await wait_for(client.clock, asyncio.gather(*(ask(*each) for each in through.items())), ASKING_S)
    except TimeoutError:
        pass
    return found


async def _fetch(client: Client, group: str, client_id: str, addresses: Sequence[str]) -> RunningInfo | None:
    request = headers.get_running_info(group, client_id)
    for address in addresses:
        try:
            answer = await client.ask(address, request, timeout_s=ASKING_S / 2)
            return group_bodies.decode_running_info(answer.body) if answer.body else None
        except RmqctlError:
            continue
    return None
