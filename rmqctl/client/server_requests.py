"""Requests that servers send to a client, passed on to the consumers that share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from rmqctl.errors import RefusedError
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command

from .link import Handler


class _Consumer(NamedTuple):
    handlers: Mapping[int, Handler]
    on_connected: Callable[[str], None]
    on_disconnected: Callable[[str], None]


class ServerRequests:
    """The handlers of one client, by request code in `by_code`, and the consumers that it serves.

    (MQClientInstance.consumerTable, ClientRemotingProcessor.) Each consumer is one group: a broker knows the members of
    a group by their connections, and all consumers of a client share one.
    """

    def __init__(self, handlers: Mapping[int, Handler]) -> None:
        self._own = dict(handlers)
        # Connections read it while it changes.
        self.by_code: dict[int, Handler] = dict(handlers)
        self._groups: dict[str, _Consumer] = {}

    def join(
        self, group: str, handlers: Mapping[int, Handler], on_connected: Callable[[str], None],
        on_disconnected: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Pass requests for a group to its handlers, and the address of each connection that is opened, or that ends.

        Raises RefusedError if the client has a consumer of the group already.
        """
        if group in self._groups:
            raise RefusedError(
                f"This client already has a consumer of {group}: brokers cannot tell two of them apart.",
                hint="Use another Client for it.",
            )
        self._groups[group] = _Consumer(handlers, on_connected, on_disconnected)
        self.by_code.update(dict.fromkeys(handlers, self._pass_on))

    def leave(self, group: str) -> None:
        """Forget the consumer of a group."""
        self._groups.pop(group, None)
        if not self._groups:
            self.by_code.clear()
            self.by_code.update(self._own)

    def connected(self, address: str) -> None:
        """Note a new connection."""
        for consumer in list(self._groups.values()):
            consumer.on_connected(address)

    def disconnected(self, address: str) -> None:
        """Note a connection that has ended."""
        for consumer in list(self._groups.values()):
            consumer.on_disconnected(address)

    async def _pass_on(self, address: str, command: Command) -> Command | None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            # For each of them: Java's client does not look at the group either.
            for consumer in list(self._groups.values()):
                await consumer.handlers[command.code](address, command)
            return None
        named = command.ext_fields.get("consumerGroup") or command.ext_fields.get("group") or ""
        # A consumer of another group has the answer for a group that is not here.
        consumer = self._groups.get(named) or next(iter(self._groups.values()))
        return await consumer.handlers[command.code](address, command)
