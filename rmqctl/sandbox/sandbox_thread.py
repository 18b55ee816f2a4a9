"""A sandbox for code without asyncio: it runs in its own thread and has plain methods."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from rmqctl.errors import DeadlineError, NotFoundError
from rmqctl.net.clock import VirtualClock
from rmqctl.sandbox.faults.faults import Faults
from rmqctl.text.names import closest

from .sandbox import Sandbox

_T = TypeVar("_T")
# A start may read gigabytes, and advance() may run thousands of timers; what takes longer hangs.
_DEADLINE_S = 120.0
_END_S = 10.0
_OWN_THREAD = "Within the sandbox's thread, use the sandbox that call() passes, not this one."
_NOT_RUNNING = "The sandbox is not running."


class ThreadedSandbox:
    """A sandbox in a background thread; clients in any process connect to `addr`.

        with ThreadedSandbox(brokers=2) as sandbox:
            sandbox.faults.drop(11)

    `options` are those of Sandbox. With `virtual_clock`, time moves only with `advance()`; without it, time is the
    machine's and `advance()` jumps ahead. After `stop()`, `start()` begins a new sandbox. A call that the thread does
    not finish within 120 s raises DeadlineError.
    """

    def __init__(self, *, virtual_clock: bool = False, **options: Any) -> None:
        self._options = options
        self._is_virtual = virtual_clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._sandbox: Sandbox | None = None

    def start(self) -> None:
        """Open all ports. Raises the same errors as Sandbox."""
        if self._loop is not None:
            raise RuntimeError("The sandbox is already running.")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rmqctl-sandbox", daemon=True)
        self._thread.start()
        options = {**self._options, "clock": VirtualClock()} if self._is_virtual else self._options

        async def start() -> Sandbox:
            sandbox = Sandbox(**options)
            await sandbox.start()
            return sandbox

        try:
            self._sandbox = self.run(start())
        except BaseException:
            self._end_thread()
            raise

    def stop(self) -> None:
        """Close everything, and end the thread. Raises DeadlineError; the thread does not outlive the process."""
        if self._sandbox is not None:
            try:
                self.run(self._sandbox.stop())
            finally:
                self._sandbox = None
                self._end_thread()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox itself, for use with `call()` and `run()` only: it belongs to its thread."""
        if self._sandbox is None:
            raise RuntimeError(_NOT_RUNNING)
        return self._sandbox

    @property
    def addr(self) -> str:
        """The name server's address, host:port."""
        return self.call(lambda sandbox: sandbox.addr)

    @property
    def brokers(self) -> Mapping[str, str]:
        """The brokers' addresses by their names."""
        return self.call(lambda sandbox: {name: broker.address for name, broker in sandbox.brokers.items()})

    @property
    def faults(self) -> Faults:
        """The faults to inject; see Faults."""
        return cast("Faults", _InThread(self, lambda sandbox: sandbox.faults))

    def advance(self, seconds: float) -> None:
        """Advance the clock immediately; see Sandbox.advance()."""
        self.run(self.sandbox.advance(seconds))

    def create_topic(
        self, name: str, *, queues: int = 8, attributes: Mapping[str, str] = {}, broker: str | None = None
    ) -> None:
        """Create a topic; see Sandbox.create_topic()."""
        self.call(lambda sandbox: sandbox.create_topic(name, queues=queues, attributes=attributes, broker=broker))

    def restart(self, broker: str | None = None, *, lose_unflushed: bool = False) -> None:
        """Restart one broker, or all of them. Raises NotFoundError."""
        for name in self._names(broker):
            self.run(self.sandbox.brokers[name].restart(lose_unflushed=lose_unflushed))

    def stop_broker(self, broker: str) -> None:
        """Stop a broker. Raises NotFoundError."""
        for name in self._names(broker):
            self.run(self.sandbox.brokers[name].stop())

    def start_broker(self, broker: str) -> None:
        """Start a stopped broker. Raises NotFoundError."""
        for name in self._names(broker):
            if not self.sandbox.brokers[name].is_running:
                self.run(self.sandbox.brokers[name].resume())

    def call(self, work: Callable[[Sandbox], _T]) -> _T:
        """Call a function with the sandbox, in the sandbox's thread; return its result."""
        sandbox = self.sandbox

        async def call() -> _T:
            return work(sandbox)

        return self.run(call())

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the sandbox's thread; return its result. Raises DeadlineError."""
        if self._loop is None or threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(_NOT_RUNNING if self._loop is None else _OWN_THREAD)
        future = asyncio.run_coroutine_threadsafe(_returning_exits(coroutine), self._loop)
        try:
            value, exited = future.result(_DEADLINE_S)
            if exited is not None:
                raise exited
            return cast("_T", value)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise  # the coroutine's own
            future.cancel()
            raise DeadlineError("the sandbox's thread", _DEADLINE_S) from None

    def _names(self, broker: str | None) -> list[str]:
        known = list(self.sandbox.brokers)
        if broker is None:
            return known
        if broker not in known:
            raise NotFoundError("Broker", broker, suggestions=closest(broker, known))
        return [broker]

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_END_S)
            if not thread.is_alive():
                loop.close()


async def _returning_exits(coroutine: Coroutine[Any, Any, _T]) -> tuple[_T | None, BaseException | None]:
    """Await a coroutine. What would end the event loop, as sys.exit() does, is returned, to be raised by the caller."""
    try:
        return await coroutine, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


class _InThread:
    """A proxy for an object of the sandbox: reads and calls happen in the sandbox's thread."""

    def __init__(self, threaded: ThreadedSandbox, find: Callable[[Sandbox], Any]) -> None:
        self._threaded = threaded
        self._find = find

    def __getattr__(self, name: str) -> Any:
        value = self._threaded.call(lambda sandbox: getattr(self._find(sandbox), name))
        if not callable(value):
            return value

        def call(*args: Any, **settings: Any) -> Any:
            return self._threaded.call(lambda sandbox: getattr(self._find(sandbox), name)(*args, **settings))

        return call
