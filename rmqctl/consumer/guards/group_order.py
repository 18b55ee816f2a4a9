"""Keep a group from having orderly and concurrent members.

A concurrent member consumes queues without their locks, so that their order is lost; and while an orderly member holds
locks, brokers from 5.1.1 on make dead letters of retries that are sent as new messages (see rules/retry_locks.py).
"""

from __future__ import annotations

from collections.abc import Collection

from rmqctl.client.core import Client
from rmqctl.consumer.reports.problems import Problems
from rmqctl.consumer.routes import Routes
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import RefusedError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.net.clock import pause
from rmqctl.rules.member_settings import consumes_orderly
from rmqctl.text.words import listed

from .member_reports import ask_members

# Between two questions to members that have not reported, and for how long they are asked. A member that starts does
# not report immediately.
_LOOK_S, _ASKED_FOR_S = 3.0, 30.0
# A broker that was restarted lists only some members for a while.
_FORGET_S = 60.0
_WAYS = {True: "orderly", False: "concurrently"}
_PLACE = "order"


class GroupOrder:
    """Asks each other member of a group once whether it consumes orderly. Pull clients do not report that."""

    def __init__(
        self, client: Client, settings: ConsumerSettings, own_id: str, routes: Routes, problems: Problems
    ) -> None:
        self._client = client
        self._settings = settings
        self._own_id = own_id
        self._routes = routes
        self._problems = problems
        # When a broker listed members last; by client id, when each was last seen, and since when those are asked that
        # have not reported.
        self._listed_s = 0.0
        self._seen_s: dict[str, float] = {}
        self._asked_since_s: dict[str, float] = {}
        self._others: set[str] = set()
        self._own_way, self._other_way = _WAYS[settings.is_orderly], _WAYS[not settings.is_orderly]

    async def check(self, members: Collection[str], *, force: bool) -> None:
        """Look at the members before joining. Raises RefusedError if one consumes in the other way, unless `force`."""
        self.saw(members)
        await self._look()
        if self._others and not force:
            raise RefusedError(
                f"{self._settings.group} has members that consume {self._other_way}: {listed(sorted(self._others))}.",
                hint="Use another group: order is lost, and retries can become dead letters. Or add --force.",
            )

    def saw(self, client_ids: Collection[str]) -> None:
        """Note the members that a broker lists now."""
        self._listed_s = now_s = self._client.clock.monotonic_s()
        for client_id in set(client_ids) - {self._own_id}:
            if client_id not in self._seen_s:
                self._asked_since_s[client_id] = now_s
            self._seen_s[client_id] = now_s

    async def run(self) -> None:
        """Ask members that come later, and report those that consume in the other way, until cancelled."""
        while True:
            self._forget()
            await self._look()
            self._report()
            await pause(self._client.clock, _LOOK_S)

    def _forget(self) -> None:
        before_s = self._listed_s - _FORGET_S
        for client_id in [client_id for client_id, seen_s in self._seen_s.items() if seen_s < before_s]:
            del self._seen_s[client_id]
            self._asked_since_s.pop(client_id, None)
            self._others.discard(client_id)

    async def _look(self) -> None:
        if not self._asked_since_s:
            return
        addresses = [broker.read_addresses[0] for broker in self._routes.brokers() if broker.addresses]
        reports = await ask_members(self._client, self._settings.group, dict.fromkeys(self._asked_since_s, addresses))
        for client_id, info in reports.items():
            self._asked_since_s.pop(client_id, None)
            if consumes_orderly(info) is (not self._settings.is_orderly):
                self._others.add(client_id)

    def _report(self) -> None:
        if self._others:
            self._problems(
                ConsumerWarning.GROUP,
                f"{listed(sorted(self._others))}: consumes {self._other_way}, this member {self._own_way}. Order is "
                "lost, and retries can become dead letters; make all members consume in the same way.",
                _PLACE,
                count=0,
            )
        else:
            self._problems.works(ConsumerWarning.GROUP, _PLACE, f"No member consumes {self._other_way} any more")
        before_s = self._client.clock.monotonic_s() - _ASKED_FOR_S
        for client_id in [client_id for client_id, since_s in self._asked_since_s.items() if since_s <= before_s]:
            del self._asked_since_s[client_id]
            self._problems(
                ConsumerWarning.GROUP,
                f"{client_id} does not report whether it consumes {self._own_way}, like this member.",
            )
