"""rmqctl demo: a sandbox with faults, and the commands that find them."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from typing import Annotated

import typer
from msgspec import Struct

from rmqctl.cli.invocation import Invocation
from rmqctl.errors import RmqctlError

HELP = """\b
Examples:
  rmqctl demo
  rmqctl demo --keep

Starts a name server and two brokers in a separate process, runs producers and consumers in it, and shows what rmqctl
reports about them. Requires no RocketMQ, Java or Docker; listens on loopback only; leaves nothing behind.

With --keep the sandbox keeps running, so that you can try more commands."""

_SCENARIO = "shop"
_BROKER_COUNT = 2
_START_S = 20.0
# Variables that a user has set for other clusters.
_NOT_FOR_THE_SANDBOX = frozenset({
    "RMQCTL_CONTEXT", "RMQCTL_ACCESS_KEY", "RMQCTL_SECRET_KEY", "RMQCTL_SECURITY_TOKEN", "ROCKETMQ_SERIALIZE_TYPE",
})  # fmt: skip
_PALE, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


# Replaced by the id of the last change.
CHANGE_ID = "ID"


class DemoStep(Struct, frozen=True):
    """A sentence, and the command that shows it."""

    says: str
    words: tuple[str, ...]


STEPS = (
    DemoStep("Two brokers and a name server, started a moment ago.", ("cluster", "list")),
    DemoStep("Five groups. All but one have members, and some are behind.", ("group", "list")),
    DemoStep("What is wrong with them? Each finding has a code and suggests the next command.", ("diagnose", "--all")),
    DemoStep(
        "billing: one of its three members is slow, so its queues fall behind while the others have caught up.",
        ("offset", "show", "billing"),
    ),
    DemoStep(
        "Its members also disagree about their subscription; brokers apply the newest one to all of them.",
        ("group", "subscriptions", "billing"),
    ),
    DemoStep(
        "mailing: PRG001 is a stuck message. The offset of its queue cannot move past it, whatever is consumed behind "
        "it.",
        ("offset", "show", "mailing", "--only-with-lag"),
    ),
    DemoStep(
        "That message, and the messages behind it.",
        ("offset", "peek", "mailing", "--topic", "invoices", "--queue", "broker-a:2", "--before", "1", "--after", "2"),
    ),
    DemoStep(
        "accounting gave up on some messages: they are now dead letters.",
        ("message", "find", "%DLQ%accounting", "--limit", "3"),
    ),
    DemoStep("shipping went offline two hours ago and left a backlog.", ("group", "describe", "shipping")),
    DemoStep(
        "A change: shipping goes back to the parcels of 90 minutes ago. The plan shows what that costs.",
        ("offset", "reset", "shipping", "--topic", "parcels", "--to-time", "-90m", "--yes"),
    ),
    DemoStep(
        "Each change is recorded in a journal and can be undone by its id.", ("offset", "undo", CHANGE_ID, "--yes")
    ),
)  # fmt: skip


def command(
    ctx: typer.Context,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the sandbox running.")] = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.net.file_lock import require_file_locks
    from rmqctl.sandbox.control.messages import Seed
    from rmqctl.sandbox.control.process import SandboxOptions
    from rmqctl.sandbox.control.state_file import find_running
    from rmqctl.sandbox.scenarios.seeded_group import SeededGroup

    from .control_client import ask, find_sandbox
    from .detach import start_detached
    from .down import end_sandbox

    invocation = Invocation(ctx, needs_cluster=False)
    timeout_s = invocation.timeout_s(_START_S)
    with_color = invocation.display.with_color and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    require_file_locks("The demonstration")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The sandbox is a separate process: it is stopped with the demonstration even when the terminal is closed.
        signal.signal(number, signal.default_int_handler)
    status = start_detached(
        SandboxOptions(brokers=_BROKER_COUNT, queues=8, plays="5.4.0", port=0, listen="127.0.0.1"), timeout_s
    )
    port = int(status.namesrv.rpartition(":")[2])
    is_shown = False
    try:
        ask(find_sandbox(port), Seed(_SCENARIO), list[SeededGroup], timeout_s)
        with tempfile.TemporaryDirectory(prefix="rmqctl-demo-") as state:
            for step in STEPS:
                _show(step, _environment(status.namesrv, state), with_color=with_color)
        is_shown = True
    finally:
        if not (keep and is_shown):
            for running in find_running(port):
                end_sandbox(running, timeout_s)
    _say_what_next(status.namesrv, port, keep=keep)
    return 0


def _environment(namesrv: str, state: str) -> dict[str, str]:
    """Return the variables of the commands: nothing of the user's other clusters, and a journal of their own."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_THE_SANDBOX}
    return env | {"NAMESRV_ADDR": namesrv, "RMQCTL_CACHE": os.devnull, "RMQCTL_MEMORY": "0", "RMQCTL_STATE": state}


def _show(step: DemoStep, env: dict[str, str], *, with_color: bool) -> None:
    """Write the sentence and the command, then run it as a user would."""
    program = [sys.executable, "-P", "-m", "rmqctl"]
    words = step.words
    if CHANGE_ID in words:
        history = subprocess.run(  # noqa: S603 - our own program
            [*program, "offset", "history", "-o", "name"], env=env, check=False, capture_output=True, text=True
        )
        words = tuple(history.stdout.strip() if word == CHANGE_ID else word for word in words)
    bold, pale, plain = (_BOLD, _PALE, _PLAIN) if with_color else ("", "", "")
    typed = shlex.join(("rmqctl", *words)).replace("'%DLQ%accounting'", "%DLQ%accounting")
    says = f"# {step.says}"
    if sys.stdout.isatty():
        says = textwrap.fill(says, max(shutil.get_terminal_size().columns, 40), subsequent_indent="# ")
    sys.stdout.write(f"{pale}{says}{plain}\n{bold}$ {typed}{plain}\n")
    sys.stdout.flush()
    done = subprocess.run(  # noqa: S603 - our own program
        [*program, *words, *([] if with_color else ["--no-color"])], env=env, check=False
    )
    if done.returncode != 0:
        raise RmqctlError(f"{typed} ended with exit code {done.returncode}.", hint="Run rmqctl doctor.")
    sys.stdout.write("\n")


def _say_what_next(namesrv: str, port: int, *, keep: bool) -> None:
    if keep:
        lines = [
            "The sandbox keeps running. Try next:",
            f"  export NAMESRV_ADDR={namesrv}",
            "  rmqctl group describe billing",
            "  rmqctl clean-expired mailing",
            "  rmqctl topic status orders",
            "  rmqctl message tail orders",
            "  rmqctl sandbox fault --help",
            f"rmqctl sandbox down --port {port} stops it.",
        ]
    else:
        lines = [
            "The sandbox has been stopped. Try next:",
            "  rmqctl demo --keep          the same, but keep it running",
            "  rmqctl sandbox up           an empty one, for your own clients",
            "  rmqctl -n HOST:9876 doctor  check your own cluster; this changes nothing on it",
            "  rmqctl --help               all commands",
        ]
    sys.stdout.write("\n".join(lines) + "\n")
