"""Faults on demand: what shall happen to the next requests of a code, and who is cut off from whom."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.protocol.codes import response_code_name
from rmqctl.rules.names import closest

from .channel import Channel
from .partitions import Partitions, TraitsOf
from .request import Request


class Answer(Struct, frozen=True):
    """Answer with a code instead of doing what was asked."""

    code: int
    remark: str | None = None

    @property
    def text(self) -> str:
        """Return the remark, made from the code's name when none was given."""
        return self.remark or f"[sandbox] {response_code_name(self.code)}"


class Drop(Struct, frozen=True):
    """Close the connection instead of answering."""


class Silence(Struct, frozen=True):
    """Don't do what was asked, and never answer."""


class Delay(Struct, frozen=True):
    """Do what was asked that much later."""

    seconds: float


class Corrupt(Struct, frozen=True):
    """Do what was asked, and answer with a frame whose header can't be read."""


Effect = Answer | Drop | Silence | Delay | Corrupt


class Fault(Struct, eq=False):
    """An effect on the next `left_count` requests of a code; None stands for any code, any server, no end."""

    effect: Effect
    code: int | None = None
    server: str | None = None
    left_count: int | None = 1
    struck_count: int = 0


class _Watcher(Struct, frozen=True):
    review: Callable[[], None]
    traits_of: TraitsOf | None


class Faults:
    """All faults of one sandbox. Servers ask it before they handle a request.

    Faults are tried in the order they were set; one that has struck `left_count` times is gone.
    """

    def __init__(self) -> None:
        self.planned: list[Fault] = []
        self._partitions = Partitions()
        self._watchers: dict[str, _Watcher] = {}

    def watch(self, server: str, review: Callable[[], None], traits_of: TraitsOf | None = None) -> None:
        """Make a server known. `review` is called when others are cut off; brokers know the traits of their clients."""
        self._watchers[server] = _Watcher(review, traits_of)

    def add(
        self, effect: Effect, code: int | None = None, *, server: str | None = None, count: int | None = 1
    ) -> Fault:
        """Plan an effect on the next `count` requests of a code at a server ("namesrv" or a broker's name).

        Raises NotFoundError for a server that there is not, UsageError for a count below 1.
        """
        self._require(server)
        if count is not None and count < 1:
            raise UsageError(f"A fault strikes at least once, not {count} times.")
        if isinstance(effect, Delay) and effect.seconds < 0:
            raise UsageError("A delay can't be negative.")
        fault = Fault(effect, code, server, count)
        self.planned.append(fault)
        return fault

    def answer(
        self, code: int | None, with_code: int, *, remark: str | None = None, server: str | None = None,
        count: int | None = 1,
    ) -> Fault:  # fmt: skip
        """Answer the next requests of a code with a code."""
        return self.add(Answer(with_code, remark), code, server=server, count=count)

    def drop(self, code: int | None = None, *, server: str | None = None, count: int | None = 1) -> Fault:
        """Close the connection on the next requests."""
        return self.add(Drop(), code, server=server, count=count)

    def silence(self, code: int | None = None, *, server: str | None = None, count: int | None = 1) -> Fault:
        """Leave the next requests without an answer."""
        return self.add(Silence(), code, server=server, count=count)

    def delay(
        self, seconds: float, code: int | None = None, *, server: str | None = None, count: int | None = 1
    ) -> Fault:
        """Handle the next requests that much later."""
        return self.add(Delay(seconds), code, server=server, count=count)

    def corrupt(self, code: int | None = None, *, server: str | None = None, count: int | None = 1) -> Fault:
        """Answer the next requests with a frame that can't be read."""
        return self.add(Corrupt(), code, server=server, count=count)

    def partition(self, client_id: str, *, server: str | None = None) -> bool:
        """Cut a client off from a broker, or from all: what goes either way is lost, connections stay open.

        A broker gives the client up after 120 s without a heartbeat. The name server is never told who asks it, so
        nobody is cut off from it. Tells whether a broker knows the client. Raises NotFoundError, UsageError.
        """
        self._require(server)
        if server is not None and self._watchers[server].traits_of is None:
            raise UsageError(
                "A client can't be cut off from the name server: its requests there don't say whose they are."
            )
        traits = {
            trait
            for watcher in self._watchers.values()
            if watcher.traits_of is not None
            for trait in watcher.traits_of(client_id)
        }
        self._partitions.add(client_id, server, traits)
        self._review()
        return bool(traits)

    def heal(self, client_id: str | None = None) -> list[str]:
        """Let a client through again, or all of them; returns those that were cut off."""
        wanted = [client_id] if client_id is not None else list(self._partitions.cut)
        healed = [each for each in wanted if self._partitions.remove(each)]
        self._review()
        return healed

    @property
    def partitions(self) -> dict[str, list[str] | None]:
        """Who is cut off from which brokers; None stands for all."""
        cut = self._partitions.cut
        return {client_id: None if servers is None else sorted(servers) for client_id, servers in cut.items()}

    def clear(self) -> None:
        """Forget every planned fault and every partition."""
        self.planned.clear()
        self.heal()

    def strike(self, server: str, request: Request) -> Effect | None:
        """Return what shall happen to a request, and count it."""
        for fault in self.planned:
            if fault.code not in (None, request.command.code) or fault.server not in (None, server):
                continue
            fault.struck_count += 1
            if fault.left_count is not None:
                fault.left_count -= 1
                if fault.left_count <= 0:
                    self.planned.remove(fault)
            return fault.effect
        return None

    @property
    def has_partitions(self) -> bool:
        """Whether anybody is cut off."""
        return bool(self._partitions.cut)

    def identify(self, request: Request) -> None:
        """Note whose connection it is that a request came on, as far as the request tells."""
        self._partitions.identify(request)

    def is_cut(self, server: str, channel: Channel) -> bool:
        """Tell whether a connection is that of a client that is cut off."""
        return self._partitions.is_cut(server, channel)

    def _review(self) -> None:
        for watcher in self._watchers.values():
            watcher.review()

    def _require(self, server: str | None) -> None:
        if server is not None and server not in self._watchers:
            known = tuple(self._watchers)
            raise NotFoundError(
                "Server", server, suggestions=closest(server, known), hint=None if closest(server, known) else
                f"There are {', '.join(known)}.",
            )  # fmt: skip
