"""Routes for long-running clients: refreshed when they are old, and kept while no name server answers."""

from __future__ import annotations

import asyncio

from rmqctl.errors import RmqctlError
from rmqctl.model.route import TopicRoute
from rmqctl.net.clock import wait_for

from .core import Client

# How long to wait for a new route when an old one is known: a silent name server must not hold up sends.
_PATIENCE_S = 1.0


class FreshRoutes:
    """Routes by topic, refreshed when they are older than max_age_s (pollNameServerInterval).

    A known route stays valid until a new one arrives: name servers and topics can be missing for a moment.
    """

    def __init__(self, client: Client, max_age_s: float = 30.0) -> None:
        self._client = client
        self._max_age_s = max_age_s
        self._known: dict[str, tuple[float, TopicRoute]] = {}
        self._asked: dict[str, asyncio.Task[TopicRoute]] = {}
        # Why known routes could not be refreshed the last time, by topic.
        self.failures: dict[str, RmqctlError] = {}

    async def route(self, topic: str, *, again: bool = False) -> TopicRoute:
        """Return a topic's route; with `again` a new one, if it arrives within a second.

        Without a known route raises NotFoundError, or the error of the name servers.
        """
        known = self._known.get(topic)
        if known is None:
            return await asyncio.shield(self._ask(topic))
        if again:
            try:
                return await wait_for(self._client.clock, asyncio.shield(self._ask(topic)), _PATIENCE_S)
            except (RmqctlError, TimeoutError):
                return known[1]
        if self.is_old(topic):
            self._ask(topic)
        return known[1]

    def is_old(self, topic: str) -> bool:
        """Return whether the route of a topic is known and older than max_age_s."""
        known = self._known.get(topic)
        return known is not None and self._client.clock.monotonic_s() >= known[0] + self._max_age_s

    def _ask(self, topic: str) -> asyncio.Task[TopicRoute]:
        """Return the pending request for the route, which all callers share."""
        asked = self._asked.get(topic)
        if asked is None:
            asked = self._asked[topic] = asyncio.ensure_future(self._fetch(topic))
            asked.add_done_callback(lambda task: self._answered(topic, task))
        return asked

    def _answered(self, topic: str, task: asyncio.Task[TopicRoute]) -> None:
        del self._asked[topic]
        if task.cancelled():
            return
        error = task.exception()  # this marks it as retrieved: there may be no caller left
        if error is None:
            self.failures.pop(topic, None)
        elif isinstance(error, RmqctlError) and topic in self._known:
            self.failures[topic] = error

    async def _fetch(self, topic: str) -> TopicRoute:
        route = await self._client.fresh_route(topic)
        self._known[topic] = (self._client.clock.monotonic_s(), route)
        return route
