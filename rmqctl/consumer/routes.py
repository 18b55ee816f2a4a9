"""The routes of a consumer's topics, and so the addresses of all its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.route import MASTER_ID, BrokerData, TopicRoute


class Routes:
    """Routes by topic, as of the last refresh (MQClientInstance.updateTopicRouteInfoFromNameServer)."""

    def __init__(self, fresh: FreshRoutes) -> None:
        self._fresh = fresh
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, BrokerData] = {}
        # Every broker that a route has or had. After a restart, name servers know only some brokers for up to 30 s:
        # queues of the others are given up, and their offsets and locks must still reach the brokers.
        self._last_known: dict[str, BrokerData] = {}
        # Why topics have no route.
        self.errors: dict[str, RmqctlError] = {}

    @property
    def old(self) -> Mapping[str, RmqctlError]:
        """Why known routes could not be refreshed, by topic."""
        return {topic: error for topic, error in self._fresh.failures.items() if topic in self._routes}

    async def refresh(self, topics: Collection[str]) -> None:
        """Fetch routes that are missing or too old, and forget those of other topics. Failures go to `errors`."""
        for known in (self._routes, self.errors):
            for topic in [topic for topic in known if topic not in topics]:
                del known[topic]
        await asyncio.gather(*map(self._fetch, topics))
        # The last one wins where name servers differ.
        self._brokers = {broker.broker_name: broker for route in self._routes.values() for broker in route.brokers}
        self._last_known |= self._brokers

    async def _fetch(self, topic: str) -> None:
        try:
            self._routes[topic] = await self._fresh.route(topic, again=self._fresh.is_old(topic))
        except RmqctlError as error:
            self.errors[topic] = error
        else:
            self.errors.pop(topic, None)

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic, None while it has none."""
        return self._routes.get(topic)

    def brokers(self) -> Collection[BrokerData]:
        """Return all brokers of all routes."""
        return self._brokers.values()

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of a broker's replica: the last known one if no route has it now, None without one."""
        broker = self._last_known.get(broker_name)
        return None if broker is None else broker.addresses.get(broker_id)


def require_master(address: str | None, broker_name: str) -> str:
    """Return the address of a broker's master. Raises UnreachableError for None: no route has it."""
    if address is None:
        raise UnreachableError(broker_name, "no route has an address of its master")
    return address
