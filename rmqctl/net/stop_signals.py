"""SIGINT and SIGTERM as calls in an event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Act = Callable[[], None]
# What listens in each event loop now: one loop may run several consumers.
_listening: dict[asyncio.AbstractEventLoop, list[Act]] = {}


@contextmanager
def on_stop_signals(act: Act) -> Iterator[None]:
    """Call `act` in the running event loop at each SIGINT and SIGTERM, as other blocks of it do that run at the time.

    Only the main thread gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    acts = _listening.setdefault(loop, [])
    if not acts:
        for number in _SIGNALS:
            _listen(loop, number, partial(_call_all, acts))
    acts.append(act)
    try:
        yield
    finally:
        acts.remove(act)
        if not acts:
            del _listening[loop]
            for number in _SIGNALS:
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)


def _call_all(acts: list[Act]) -> None:
    for act in list(acts):
        act()


def _listen(loop: asyncio.AbstractEventLoop, number: signal.Signals, act: Act) -> None:
    try:
        loop.add_signal_handler(number, act)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))
