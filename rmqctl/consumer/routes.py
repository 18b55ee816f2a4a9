"""The routes of what a consumer subscribes to, and so the addresses of all its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.route import MASTER_ID, Broker, TopicRoute


class Routes:
    """Routes by topic. What could not be fetched anew stays as it was (MQClientInstance.updateTopicRouteInfo...)."""

    def __init__(self, client: Client, refresh_s: float) -> None:
        self._client = client
        self._refresh_s = refresh_s
        self._routes: dict[str, TopicRoute] = {}
        # Monotonic, by topic: when its route was fetched last.
        self._fetched_at_s: dict[str, float] = {}
        self._brokers: dict[str, Broker] = {}
        self.errors: dict[str, RmqctlError] = {}

    async def refresh(self, topics: Collection[str]) -> None:
        """Fetch routes that are missing or too old, and forget those of other topics. Failures go to `errors`."""
        now_s = self._client.clock.monotonic_s()
        for known in (self._routes, self._fetched_at_s, self.errors):
            for topic in [topic for topic in known if topic not in topics]:
                del known[topic]
        due = [
            topic
            for topic in topics
            if topic not in self._routes or now_s - self._fetched_at_s[topic] >= self._refresh_s
        ]
        await asyncio.gather(*map(self._fetch, due))
        # The last one wins where name servers differ; a broker that no route names any more is gone.
        self._brokers = {broker.broker_name: broker for route in self._routes.values() for broker in route.brokers}

    async def _fetch(self, topic: str) -> None:
        try:
            self._routes[topic] = await self._client.fresh_route(topic)
        except RmqctlError as error:
            self.errors[topic] = error
        else:
            self._fetched_at_s[topic] = self._client.clock.monotonic_s()
            self.errors.pop(topic, None)

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic, None while it has none."""
        return self._routes.get(topic)

    def brokers(self) -> Collection[Broker]:
        """Return all brokers of all routes."""
        return self._brokers.values()

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return where a replica of a broker is, None when no route says so."""
        broker = self._brokers.get(broker_name)
        return None if broker is None else broker.addresses.get(broker_id)
