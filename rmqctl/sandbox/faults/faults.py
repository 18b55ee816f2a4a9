"""Faults on demand: effects on the next requests, and clients that are cut off from brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.protocol.codes import RequestCode, ResponseCode, response_code_name
from rmqctl.sandbox.channel import Channel
from rmqctl.sandbox.request import Request
from rmqctl.text.names import hint_for

from .partitions import Partitions, TraitsOf

# Answers of a send whose message is stored, with its place (SendMessageProcessor.handlePutMessageResult).
STORED_CODES = frozenset({
    ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT,
})  # fmt: skip
_SENDS = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})


class AnswerCode(Struct, frozen=True):
    """Answer with a code instead of handling the request.

    A send that is answered with one of STORED_CODES is handled, as these codes say.
    """

    word: ClassVar[str] = "ANSWER"
    code: int
    remark: str | None = None

    def is_handled(self, request_code: int) -> bool:
        """Return whether a request with this code is handled before it is answered."""
        return self.code in STORED_CODES and request_code in _SENDS

    @property
    def text(self) -> str:
        """The remark; derived from the name of the code when none was given."""
        return self.remark or f"[sandbox] {response_code_name(self.code)}"


class Drop(Struct, frozen=True):
    """Close the connection instead of answering."""

    word: ClassVar[str] = "DROP"


class Silence(Struct, frozen=True):
    """Neither handle the request nor answer it."""

    word: ClassVar[str] = "SILENCE"


class Delay(Struct, frozen=True):
    """Handle the request this much later."""

    word: ClassVar[str] = "DELAY"
    seconds: float


class Corrupt(Struct, frozen=True):
    """Handle the request, and answer with a frame whose header is unreadable."""

    word: ClassVar[str] = "CORRUPT"


Effect = AnswerCode | Drop | Silence | Delay | Corrupt


class Fault(Struct, eq=False):
    """An effect on the next `left_count` requests of a code; None means any code, any server, no end."""

    effect: Effect
    code: int | None = None
    server: str | None = None
    left_count: int | None = 1
    struck_count: int = 0


class _Watcher(Struct, frozen=True):
    review: Callable[[], None]
    traits_of: TraitsOf | None


class Faults:
    """All faults of one sandbox. Servers check them before they handle a request.

    Faults are tried in the order they were added. A fault is removed when its `left_count` reaches 0.
    """

    def __init__(self) -> None:
        self.planned: list[Fault] = []
        self._partitions = Partitions()
        self._watchers: dict[str, _Watcher] = {}

    def watch(self, server: str, review: Callable[[], None], traits_of: TraitsOf | None = None) -> None:
        """Register a server. `review` is called when the partitions change; only brokers have `traits_of` clients."""
        self._watchers[server] = _Watcher(review, traits_of)

    def add(
        self, effect: Effect, code: int | None = None, *, server: str | None = None, count: int | None = 1
    ) -> Fault:
        """Plan an effect on the next `count` requests of a code at a server ("namesrv" or a broker's name).

        Raises NotFoundError for an unknown server, UsageError for a count below 1, a negative delay or a code that is
        not a number.
        """
        self._require(server)
        codes: tuple[object, ...] = (code, effect.code if isinstance(effect, AnswerCode) else None)
        for each in codes:
            if each is not None and (not isinstance(each, int) or each < 0):
                hint = "Use a number, or a name such as RequestCode.SEND_MESSAGE_V2."
                raise UsageError(f"Invalid code {each!r}: it is not a number of RocketMQ's.", hint=hint)
        if count is not None and count < 1:
            raise UsageError(f"Invalid fault count '{count}'.", hint="Use 1 or more.")
        if isinstance(effect, Delay) and effect.seconds < 0:
            raise UsageError("A delay cannot be negative.")
        fault = Fault(effect, code, server, count)
        self.planned.append(fault)
        return fault

    def answer(
        self, code: int | None, with_code: int, *, remark: str | None = None, server: str | None = None,
        count: int | None = 1,
    ) -> Fault:  # fmt: skip
        """Answer the next requests of a code with `with_code`, without handling them."""
        return self.add(AnswerCode(with_code, remark), code, server=server, count=count)

    def drop(self, code: int | None = None, *, server: str | None = None, count: int | None = 1) -> Fault:
        """Close the connection on the next requests."""
        return self.add(Drop(), code, server=server, count=count)

    def silence(self, code: int | None = None, *, server: str | None = None, count: int | None = 1) -> Fault:
        """Neither handle nor answer the next requests."""
        return self.add(Silence(), code, server=server, count=count)

    def delay(
        self, seconds: float, code: int | None = None, *, server: str | None = None, count: int | None = 1
    ) -> Fault:
        """Handle the next requests this many seconds later."""
        return self.add(Delay(seconds), code, server=server, count=count)

    def corrupt(self, code: int | None = None, *, server: str | None = None, count: int | None = 1) -> Fault:
        """Handle the next requests, but answer with an unreadable frame."""
        return self.add(Corrupt(), code, server=server, count=count)

    def partition(self, client_id: str, *, server: str | None = None) -> bool:
        """Cut a client off from a broker, or from all: traffic in both directions is lost, connections stay open.

        A broker drops the client after 120 s without a heartbeat. Requests to the name server do not identify the
        client, so no client is cut off from it. Returns whether a broker knows the client. Raises NotFoundError,
        UsageError.
        """
        self._require(server)
        if server is not None and self._watchers[server].traits_of is None:
            raise UsageError(
                "A client cannot be cut off from the name server: requests to it do not identify the client."
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
        """End the partition of a client, or all partitions; return the ids of the clients that were cut off."""
        wanted = [client_id] if client_id is not None else list(self._partitions.cut)
        healed = [each for each in wanted if self._partitions.remove(each)]
        self._review()
        return healed

    @property
    def partitions(self) -> dict[str, list[str] | None]:
        """The brokers that each client is cut off from, by client id; None means all brokers."""
        cut = self._partitions.cut
        return {client_id: None if servers is None else sorted(servers) for client_id, servers in cut.items()}

    def clear(self) -> None:
        """Remove all planned faults and all partitions."""
        self.planned.clear()
        self.heal()

    def strike(self, server: str, request: Request) -> Effect | None:
        """Return the effect of the first fault that matches a request, and count it; None when no fault matches."""
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
        """Whether any client is cut off."""
        return bool(self._partitions.cut)

    def identify(self, request: Request) -> None:
        """Attribute the connection of a request to a client, if the request identifies one."""
        self._partitions.identify(request)

    def is_cut(self, server: str, channel: Channel) -> bool:
        """Return whether a connection belongs to a client that is cut off."""
        return self._partitions.is_cut(server, channel)

    def _review(self) -> None:
        for watcher in self._watchers.values():
            watcher.review()

    def _require(self, server: str | None) -> None:
        if server is not None and server not in self._watchers:
            raise NotFoundError("Server", server, hint=hint_for(server, self._watchers))
