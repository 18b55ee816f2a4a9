"""rmqctl sandbox up: start an embedded name server and brokers."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import split_pair
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqctl.sandbox.control.messages import SandboxStatus

HELP = """\b
Examples:
  rmqctl sandbox up
  rmqctl sandbox up --brokers 2 --as 4.9.7
  rmqctl sandbox up --dir ./sandbox-data
  rmqctl sandbox up --like-default --set autoCreateTopicEnable=false
  ADDR=$(rmqctl sandbox up --port 0 --detach -o name)

RocketMQ's own clients and tools work with it unmodified. It is for experiments and tests, not for production: it has
no accounts and no slaves. Its brokers filter by SQL92, which real ones do only with enablePropertyFilter=true:
--like-default switches that off. --set has RocketMQ's names; what the sandbox does not obey is refused, also at run
time.

Without --detach it runs until Ctrl-C. The name server listens on --port, the first broker on the port 1011 above it,
each further broker another 20 above. Data is kept in memory, and in --dir if given."""

_LAST_PORT = 65_535
_FIRST_BROKER, _NEXT_BROKER = 1011, 20


def command(
    ctx: typer.Context,
    brokers: Annotated[int, typer.Option("--brokers", metavar="N", help="Number of brokers, 1 to 26.")] = 1,
    queues: Annotated[int, typer.Option("--queues", metavar="N", help="Queues of a topic that a send creates.")] = 8,
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Folder to store all data in.", show_default=False)
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", help="Port of the name server; 0 uses free ports.")
    ] = 9876,
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDR", help="Address that clients connect to.")
    ] = "127.0.0.1",
    plays: Annotated[
        str, typer.Option("--as", metavar="RELEASE", help="Release to emulate: 5.5.0, 5.4.0 or 4.9.7.")
    ] = "5.4.0",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of all brokers. Repeatable.", show_default=False),
    ] = None,
    like_default: Annotated[
        bool, typer.Option("--like-default", help="Set brokers as real ones are without a configuration.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background.")] = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.journal.cluster_memory import forget_cluster
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.sandbox.control.process import SandboxOptions, check_options, run_sandbox

    from .listing import COLUMNS, to_listing

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(COLUMNS, invocation.display)
    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"Invalid --port {port}.", hint=f"Use 1 to {_LAST_PORT}, or 0 for free ports.")
    if port and port > _LAST_PORT - _FIRST_BROKER - _NEXT_BROKER * (max(brokers, 1) - 1):
        raise UsageError(
            f"Port {port} leaves no ports for the brokers above it.",
            hint=f"Use a lower one: the first broker is {_FIRST_BROKER} above it, each further {_NEXT_BROKER} more.",
        )
    folder = None if directory is None else directory.expanduser().absolute()
    wanted = check_options(
        SandboxOptions(
            brokers=brokers, queues=queues, plays=plays, port=port, listen=listen, directory=folder,
            settings=_parse_settings(settings or ()), like_default=like_default,
        )
    )  # fmt: skip
    if not wanted.is_loopback and not detach:  # otherwise the other process says it
        to_stderr(
            printable(f"rmqctl: anyone who can reach {wanted.listen} can read and change everything in this sandbox.")
        )

    def show(status: "SandboxStatus") -> None:
        # Earlier sightings at this address belong to another sandbox.
        forget_cluster(status.namesrv)
        notes = _next_steps(status, is_detached=detach)
        render(to_listing([status], notes=notes), invocation.display)

    if detach:
        from .detach import start_detached

        show(start_detached(wanted, invocation.timeout_ms / 1000))
        return 0
    with _logging_to_stderr():
        return run_sandbox(wanted, show)


def _next_steps(status: "SandboxStatus", *, is_detached: bool) -> list[str]:
    port = status.namesrv.rpartition(":")[2]
    steps = [
        "Try next:" if is_detached else "Try next, in another terminal:",
        f"  export NAMESRV_ADDR={status.namesrv}",
        "  rmqctl sandbox seed --list",
        "  rmqctl cluster list",
        "  rmqctl sandbox fault --help",
    ]
    return [*steps, f"rmqctl sandbox down --port {port} stops it." if is_detached else "Ctrl-C stops it."]


def _parse_settings(pairs: "Iterable[str]") -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, value = split_pair("--set", pair, hint="Write --set recallMessageEnable=true.")
        if found.setdefault(name, value) != value:
            raise UsageError(f"--set has two values for {name}.")
    return found


@contextlib.contextmanager
def _logging_to_stderr() -> "Iterator[None]":
    """Write the sandbox's warnings, and the progress of a long start, to stderr in rmqctl's format."""
    import logging

    class Handler(logging.Handler):
        """Writes one line per record."""

        def emit(self, record: logging.LogRecord) -> None:
            """Write one record."""
            to_stderr(f"rmqctl: {printable(record.getMessage())}")

    logger = logging.getLogger("rmqctl.sandbox")
    handler, before = Handler(logging.INFO), (logger.propagate, logger.level)
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before[0]
        logger.setLevel(before[1])
