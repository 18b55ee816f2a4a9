"""A sandbox in its own process, which runs until it is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import UnreachableError, UsageError
from rmqctl.net.address import parse_address
from rmqctl.net.file_lock import require_file_locks
from rmqctl.net.server import is_own_address
from rmqctl.net.stream import resolve
from rmqctl.sandbox.profile import find_profile
from rmqctl.sandbox.sandbox import Sandbox, check_counts
from rmqctl.sandbox.settings import check_settings

from .messages import AskStatus, SandboxStatus
from .server import ControlServer
from .state_file import StateFile, find_running

_INTERRUPTED = 130
_MAX_OPEN_FILES = 65_536


class SandboxOptions(Struct, frozen=True):
    """The options of `rmqctl sandbox up`."""

    brokers: int
    queues: int
    plays: str
    port: int
    listen: str
    directory: Path | None = None
    settings: Mapping[str, str] = {}
    like_default: bool = False
    is_loopback: bool = True


def check_options(wanted: SandboxOptions) -> SandboxOptions:
    """Return the options with a numeric listen address. Raises UsageError for invalid options."""
    check_settings(find_profile(wanted.plays), wanted.settings)
    check_counts(brokers=wanted.brokers, queues=wanted.queues)
    try:
        found = asyncio.run(resolve(wanted.listen, 0))
        address = ip_address(found[0])
    except (OSError, ValueError):
        raise UsageError(f"--listen {wanted.listen} is not an address of this machine.") from None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    address = mapped or address
    if address.is_unspecified:
        raise UsageError(
            f"--listen {wanted.listen} means all addresses, but brokers must advertise a single one.",
            hint="Use the address at which clients reach this machine, for example --listen 192.168.1.5.",
        )
    return replace(wanted, listen=str(address), is_loopback=address.is_loopback)


def run_sandbox(wanted: SandboxOptions, on_ready: Callable[[SandboxStatus], None]) -> int:
    """Run a sandbox until a signal or the control socket ends it; return the exit code, 130 for Ctrl-C.

    Raises UnreachableError for ports that cannot be opened, AlreadyRunningError.
    """
    require_file_locks("Running a sandbox for other commands")
    _raise_file_limit()
    return asyncio.run(_run(wanted, on_ready))


async def _run(wanted: SandboxOptions, on_ready: Callable[[SandboxStatus], None]) -> int:
    loop = asyncio.get_running_loop()
    sandbox = Sandbox(
        brokers=wanted.brokers, queues=wanted.queues, plays=wanted.plays, port=wanted.port, listen=wanted.listen,
        dir=wanted.directory, settings=wanted.settings, like_default=wanted.like_default,
    )  # fmt: skip
    code = 0
    control = ControlServer(sandbox, directory=None if wanted.directory is None else str(wanted.directory))

    def end(number: signal.Signals, exit_code: int) -> None:
        nonlocal code
        # A second signal ends the process immediately.
        loop.remove_signal_handler(number)
        code = code or exit_code
        control.is_over.set()

    for number, exit_code in ((signal.SIGINT, _INTERRUPTED), (signal.SIGTERM, 0), (signal.SIGHUP, 0)):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background
            loop.add_signal_handler(number, end, number, exit_code)
    await _start(sandbox, wanted)
    try:
        with StateFile(parse_address(sandbox.addr)[1]) as state:
            await control.open(state.socket_path)
            try:
                status = await control.status(AskStatus())
                state.publish(sandbox.addr)
                on_ready(status)
                await control.is_over.wait()
            finally:
                await control.aclose()
                # Before the file is removed: a client that waits for that finds the ports free.
                await sandbox.stop()
    finally:
        await sandbox.stop()
    return code


async def _start(sandbox: Sandbox, wanted: SandboxOptions) -> None:
    try:
        await sandbox.start()
    except UnreachableError as error:
        hint = "Use --port 0 to choose free ports." if wanted.port else None
        if not is_own_address(wanted.listen):
            hint = "Use --listen with an address of this machine."
        if wanted.port and find_running(wanted.port):
            hint = f"Stop the sandbox on this port: rmqctl sandbox down --port {wanted.port}. {hint}"
        raise error.reworded(error.sentence, hint=hint) from None
    except OverflowError:
        raise UsageError(f"--port {wanted.port} is too high: the brokers' ports above it would exceed 65535.") from None


def _raise_file_limit() -> None:
    """Raise the limit of open files as far as the system allows."""
    import resource

    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_OPEN_FILES if hard_limit == resource.RLIM_INFINITY else min(hard_limit, _MAX_OPEN_FILES)
    if soft_limit != resource.RLIM_INFINITY and soft_limit < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard_limit))
