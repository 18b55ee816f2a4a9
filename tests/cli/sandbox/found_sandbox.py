"""A sandbox in this process that the commands find, as they find one in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rmqctl.net.address import parse_address
from rmqctl.sandbox.control.server import ControlServer
from rmqctl.sandbox.control.state_file import StateFile
from rmqctl.sandbox.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox


class Standing(ThreadedSandbox):
    """What runs, with the control that answers for it."""

    control: ControlServer


@contextmanager
def standing(**options: Any) -> Iterator[Standing]:
    """Run a sandbox with its control socket and its state file."""

    async def attach(sandbox: Sandbox, state: StateFile) -> ControlServer:
        control = ControlServer(sandbox)
        await control.open(state.socket_path)
        return control

    with Standing(**options) as threaded, StateFile(parse_address(threaded.addr)[1]) as state:
        threaded.control = threaded.run(attach(threaded.sandbox, state))
        state.publish(threaded.addr)
        yield threaded
        threaded.run(threaded.control.aclose())
