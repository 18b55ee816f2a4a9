"""Find queues that members hold on brokers that no name server lists: these brokers are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.model.group import GroupConnections
from rmqctl.model.queue import MessageQueue

from .members import fetch_running_infos

_GROUPS_AT_ONCE = 8
_MEMBERS_ASKED = 16
# A static topic's queues carry a made-up broker name (MixAll.LOGICAL_QUEUE_MOCK_BROKER_PREFIX).
_MADE_UP = "__syslo__"


def note_held(client: Client, queues: Iterable[MessageQueue]) -> None:
    """Remember queues of missing brokers: members forget them with their next rebalance, up to 20 s later."""
    for mq in queues:
        counts = client.sightings.held.setdefault(mq.topic, {})
        counts[mq.broker_name] = max(counts.get(mq.broker_name, 0), mq.queue_id + 1)


async def find_held_elsewhere(
    client: Client, groups: Mapping[str, Mapping[str, GroupConnections]], registered: Collection[str]
) -> dict[str, set[MessageQueue]]:
    """Return by group the queues that members hold on brokers that are not registered, and remember them.

    `groups` are the connections by group and broker address. At most 16 members per group are asked, evenly spread:
    queues are shared in the order of brokers, so neighbours hold those of one broker. This is for a cluster that is not
    in the memory yet; later the memory replaces asking members.
    """

    async def ask(group: str) -> set[MessageQueue]:
        ids = sorted({member.client_id for found in groups[group].values() for member in found.members})
        asked = {ids[number * len(ids) // _MEMBERS_ASKED] for number in range(_MEMBERS_ASKED)} if ids else set()
        chosen = {
            address: replace(found, members=tuple(each for each in found.members if each.client_id in asked))
            for address, found in groups[group].items()
        }
        infos = await fetch_running_infos(client, group, chosen)
        return {
            mq
            for info in infos.ok.values()
            for mq, held in info.process_queues.items()
            if not held.dropped and mq.broker_name not in registered
            if not mq.broker_name.startswith(_MADE_UP)
        }

    answers = await ask_all(groups, ask, at_once=_GROUPS_AT_ONCE)
    found = {group: queues for group, queues in answers.ok.items() if queues}
    for queues in found.values():
        note_held(client, queues)
    return found
