"""Ask all name servers concurrently: the union of their answers, and those that answer less or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from rmqctl.client.broker_names import BrokerNames
from rmqctl.client.rules.name_server_views import differing_addresses, unlisted_brokers, without_queues
from rmqctl.errors import DeadlineError, NameServersDifferError, RemoteProtocolError, RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.route import ClusterInfo, TopicRoute
from rmqctl.net.clock import Clock, wait_for
from rmqctl.text.words import listed

_T = TypeVar("_T")

# Once a name server has answered, the others get this long, or ten times its response time: they answer from memory,
# and a dead one must not hold up every command for a third of its deadline.
_PATIENCE_S = 1.0
_PATIENCE_TIMES = 10
# A command that runs for long asks a silent one again after this time.
_SILENT_S = 60.0


class NameServers:
    """Asks all name servers, and remembers for this run which are silent and which omit something.

    A silent one is not asked again for a minute: each attempt would use up the command's time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By address: why it did not answer.
        self.silent: dict[str, RmqctlError] = {}
        self._silent_since_s: dict[str, float] = {}
        # The address whose error was raised last.
        self.first_refused = ""
        self._unlisted: dict[str, tuple[str, ...]] = {}
        self._addresses: dict[str, dict[str, str]] = {}
        self.broker_names = BrokerNames()
        self._without_route: dict[str, dict[str, tuple[str, ...]]] = {}

    async def ask_each(self, addresses: Sequence[str], ask: Callable[[str], Awaitable[_T]]) -> Mapping[str, _T]:
        """Return the answers by name server, in the order of `addresses`.

        When none succeeds, raises the first error answer, or else the first one's error.
        """
        started_s = self._clock.monotonic_s()
        resting = {address for address, since_s in self._silent_since_s.items() if since_s > started_s - _SILENT_S}
        asked = [address for address in addresses if address not in resting] or list(addresses)
        answers: dict[str, _T] = {}
        failed: dict[str, RmqctlError] = {}
        first = asyncio.Event()

        async def one(address: str) -> None:
            try:
                answers[address] = await ask(address)
                first.set()
            except RmqctlError as error:
                failed[address] = error

        if len(asked) == 1:
            await one(asked[0])
        else:
            await self._gather([one(address) for address in asked], first, started_s)
        waited_s = self._clock.monotonic_s() - started_s
        for address in asked:
            if address not in answers:
                failed.setdefault(address, DeadlineError(address, waited_s))
        if not answers:
            self.first_refused = _weightiest(failed, asked)
            raise failed[self.first_refused]
        for address in answers:
            self.silent.pop(address, None)
            self._silent_since_s.pop(address, None)
        self.silent |= failed
        self._silent_since_s |= dict.fromkeys(failed, self._clock.monotonic_s())
        return {address: answers[address] for address in addresses if address in answers}

    async def _gather(self, calls: Sequence[Awaitable[None]], first: asyncio.Event, started_s: float) -> None:
        """Wait for all calls; once one has succeeded, wait only a moment longer for the others."""
        rest = asyncio.gather(*calls)
        first_answer = asyncio.ensure_future(first.wait())
        try:
            await asyncio.wait((rest, first_answer), return_when=asyncio.FIRST_COMPLETED)
            took_s = self._clock.monotonic_s() - started_s
            await wait_for(self._clock, rest, max(_PATIENCE_S, took_s * _PATIENCE_TIMES))
        except TimeoutError:
            pass
        finally:
            first_answer.cancel()
            rest.cancel()

    def note_clusters(self, views: Mapping[str, ClusterInfo]) -> None:
        """Note which name servers omit a broker that others list, or give a different address for one."""
        self._unlisted = unlisted_brokers(views)
        self._addresses = differing_addresses(views)
        self.broker_names.note_views(views)

    def note_routes(self, topic: str, routes: Mapping[str, TopicRoute | None]) -> None:
        """Note which name servers have no route of a topic, or one without a broker that others list."""
        for address, brokers in without_queues(routes).items():
            whole = routes[address] is None
            # A broker that a name server does not list is reported once, not for each topic.
            left = tuple(name for name in brokers if name not in self._unlisted.get(address, ()))
            if whole and left:
                self._without_route.setdefault(address, {})[topic] = ()
            elif left:
                self._without_route.setdefault(address, {})[topic] = left

    def differences(self) -> list[Failure]:
        """Return the disagreements among the name servers, one failure per name server and kind."""
        found = [
            _differ(address, f"It does not list {_named(names)}, which other name servers do.")
            for address, names in self._unlisted.items()
        ]
        found += [
            _differ(address, f"It has no route for {listed(_topic_words(topics))}, which other name servers have.")
            for address, topics in self._without_route.items()
        ]
        for broker_name, addresses in self._addresses.items():
            words = " and ".join(f"{address} (by {name_server})" for name_server, address in addresses.items())
            sentence = f"The name servers give different addresses: {words}."
            found.append(Failure(broker_name, "address", NameServersDifferError(sentence)))
        return found

    def silences(self) -> list[Failure]:
        """Return the name servers that did not answer, each with its reason."""
        return [Failure(None, f"name server {address}", error) for address, error in self.silent.items()]


def _weightiest(failed: Mapping[str, RmqctlError], asked: Sequence[str]) -> str:
    silence = (UnreachableError, RemoteProtocolError)
    return next((address for address in asked if not isinstance(failed[address], silence)), asked[0])


def _differ(address: str, sentence: str) -> Failure:
    hint = "Check namesrvAddr of the brokers, which register with each name server separately; or run rmqctl doctor."
    return Failure(None, f"name server {address}", NameServersDifferError(sentence, hint=hint))


def _named(names: Sequence[str]) -> str:
    return listed(names, 10)


def _topic_words(topics: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"{topic} on {_named(names)}" if names else topic for topic, names in sorted(topics.items())]


def unanswered(first_error: RmqctlError, address: str, asked_count: int) -> RmqctlError:
    """Return the error for a request that no name server answered; `first_error` is that of the one at `address`."""
    others = f" None of the {asked_count} name servers answered." if asked_count > 1 else ""
    said, hint = first_error.sentence, "Check the address (-n, NAMESRV_ADDR) and that the name server is running."
    if isinstance(first_error, RemoteProtocolError):
        hint = "Check that it is the address of a RocketMQ name server (-n, NAMESRV_ADDR)."
        # An error about the content of an answer may not name the server.
        said = said if said.startswith(address) else f"{address}: {said[:1].lower()}{said[1:]}"
    return first_error.reworded(f"Name server {said}{others}", hint=first_error.hint or hint)
