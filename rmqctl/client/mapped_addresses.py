"""Connections to brokers that registered addresses which cannot be reached from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqctl.client.rules.address_map import map_hints, replica_name
from rmqctl.errors import UnreachableError
from rmqctl.model.route import BrokerData
from rmqctl.net.clock import Clock
from rmqctl.net.stream import Stream

from .pool import Connect


class MappedAddresses:
    """Connects to other addresses than the registered ones: `connect` opens the connections.

    `targets` maps a broker name (its master), name/id (a slave) or registered address to host:port; `mapped` has its
    keys as they were given.
    """

    def __init__(self, connect: Connect, targets: Mapping[str, str]) -> None:
        self._connect = connect
        self._targets = dict(targets)
        self.mapped = tuple(self._targets)
        # Addresses that brokers registered; unmapped addresses that a connection was opened to; those that failed.
        self._registered: set[str] = set()
        self._reached: set[str] = set()
        self._unreached: set[str] = set()

    async def connect(self, address: str, clock: Clock, timeout_s: float) -> Stream:
        """Open a connection to an address or what it is mapped to (Connect). Raises UnreachableError."""
        target = self._targets.get(address, address)
        try:
            stream = await self._connect(target, clock, timeout_s)
        except UnreachableError as error:
            if target == address:
                if error.hint is None:
                    self._unreached.add(address)
                raise
            raise error.reworded(f"{address} (mapped to {error.sentence.rstrip('.')}).") from None
        if target == address:
            self._reached.add(address)
        return stream

    def note(self, brokers: Sequence[BrokerData]) -> None:
        """Apply the map to brokers that it names: from now on their registered addresses are mapped too."""
        for broker in brokers:
            for broker_id, address in broker.addresses.items():
                self._registered.add(address)
                name = replica_name(broker, broker_id)
                if name in self._targets:
                    self._targets[address] = self._targets[name]

    def hints(self) -> dict[str, str]:
        """Return hints by registered address for those that could not be reached so far; some have no hint."""
        return map_hints(self._unreached & self._registered, self._reached & self._registered)
