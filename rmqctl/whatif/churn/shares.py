"""Which clients a member shares a topic with, and which queues are its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from rmqctl.consumer.rules.rebalance import Share, compute_share
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.protection import counted_clients, look, next_change_ms, since_notified_ms, waiting_clients

from .group import ChurnGroup
from .parties import ClientList, ClientLists, SimulatedMember


class Shares:
    """Computes shares from what a broker lists, with the functions of the consumer. `members` are those that run."""

    def __init__(
        self, group: ChurnGroup, members: Mapping[str, SimulatedMember], lists: ClientLists, protection_ms: int
    ) -> None:
        self._group = group
        self._members = members
        self._lists = lists
        self._protection_ms = protection_ms
        self._counted_lists: dict[tuple[ClientList, frozenset[str]], ClientList] = {}

    def visible(self, topic: str, listed: ClientList) -> ClientList:
        """Return those clients of a list that connect to the brokers of a topic."""
        strangers = self._group.strangers.get(topic)
        if not strangers:
            return listed
        return self._lists.get(client_id for client_id in listed.ids if self._origin(client_id) not in strangers)

    def with_missing(self, member: SimulatedMember, topic: str, listed: ClientList) -> ClientList:
        """Return the clients that a broker lists, with protection also those missing that other brokers still list."""
        presence = member.presences.get(topic)
        if not self._protection_ms or presence is None or presence.client_ids <= listed.as_set:
            return listed
        missing = presence.client_ids - listed.as_set
        others = (broker.listed() for broker in member.route.places[topic] if member.reaches(broker))
        found = {client_id for other in others if other is not listed for client_id in missing & other.as_set}
        return self._lists.get((*listed.ids, *found)) if found else listed

    def counted(self, member: SimulatedMember, topic: str, listed: ClientList, now_ms: int) -> ClientList:
        """Return the clients that share a topic: all that the broker lists, with protection those that count."""
        if not self._protection_ms:
            return listed
        notified_ms = None if member.notified_ms is None else int(member.notified_ms)
        joined_ms = since_notified_ms(notified_ms, now_ms, int(member.timing.rebalance_min_ms))
        presence = look(
            member.presences.get(topic), listed.as_set, now_ms, own_id=member.client_id, joined_ms=joined_ms
        )
        member.presences[topic] = presence
        waiting = waiting_clients(presence, now_ms, self._protection_ms)
        if not waiting:
            return listed
        if waiting == listed.as_set:
            return self._lists.get(counted_clients(presence, now_ms, self._protection_ms))
        key = listed, waiting
        if key not in self._counted_lists:
            self._counted_lists[key] = self._lists.get(counted_clients(presence, now_ms, self._protection_ms))
        return self._counted_lists[key]

    def next_counted_ms(self, member: SimulatedMember) -> float:
        """Return when the next client that a member lists starts to count."""
        changes = [
            next_change_ms(presence, int(member.last_rebalance_ms), self._protection_ms)
            for presence in member.presences.values()
        ]
        return min((float(at_ms) for at_ms in changes if at_ms is not None), default=inf)

    def share(self, member: SimulatedMember, topic: str, counted: ClientList) -> Share:
        """Return the queues of a topic that a member holds when these clients share it."""
        topics = self._group.topics.get(member.origin)
        if topics is not None and topic not in topics:
            return Share()
        route = member.route

        def allocate(_: Sequence[MessageQueue], __: Sequence[str]) -> dict[str, list[MessageQueue]]:
            return route.assignment(topic, counted, self._group.allocate)

        return compute_share(route.queues[topic], counted.ids, member.client_id, allocate, known=route.known[topic])

    def _origin(self, client_id: str) -> str:
        member = self._members.get(client_id)
        return client_id if member is None else member.origin
