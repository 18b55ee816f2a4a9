"""`rmqctl consume run` as a process that a test starts, looks at and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.real.harness.conditions import wait_until

from .rmqctl import Rmqctl

_LISTENER = Path(__file__).with_name("listener.py")
_JOINED = re.compile(r"Joined \S+ as (\S+), for ")


class Heard(msgspec.Struct, frozen=True):
    """What the listener noted of a message; `queue` is broker:id of the queue in which it was read.

    `clock_s` is the monotonic clock, which is the same in all processes of a machine, `at_ms` the time of day.
    """

    event: str
    at_ms: int
    clock_s: float
    body: str
    topic: str
    message_id: str
    keys: str | None
    reconsume_times: int
    queue: str
    from_topic: str
    offset: int


def settled_members(rmqctl: Rmqctl, group: str, topic: str, queue_count: int) -> dict[str, Any]:
    """Return both members of a group by client id, once each holds half of the topic's queues, which are so many."""
    found: dict[str, Any] = {}

    def are_settled() -> bool:
        found.clear()
        found.update({item["clientId"]: item for item in rmqctl.items("group", "members", group)})
        held = [{each for each in item["queues"] or () if each.startswith(f"{topic}@")} for item in found.values()]
        return [len(each) for each in held] == [queue_count // 2] * 2 and len(set.union(*held)) == queue_count

    wait_until(are_settled, 40, why=lambda: found)
    return found


class OurConsumer:
    """A member of a group that is rmqctl. What it says is in `said`, what its listener noted in heard()."""

    def __init__(
        self, namesrv: str, folder: Path, name: str, group: str, *words: str, listener: dict[str, object] | None = None
    ) -> None:
        """`words` are topics and options; `listener` is what listener.py reads, without it --print shows messages."""
        folder.mkdir(exist_ok=True)
        self.name = name
        self._heard_path, self._said_path = folder / f"{name}.heard", folder / f"{name}.said"
        self._heard_path.touch()
        self._said_before = self._said_path.stat().st_size if self._said_path.exists() else 0
        env = {key: value for key, value in os.environ.items() if key not in ("NAMESRV_ADDR", "NO_COLOR")}
        env |= {
            "NAMESRV_ADDR": namesrv, "RMQCTL_CACHE": os.devnull, "HOME": str(folder), "HEARD": str(self._heard_path),
        }  # fmt: skip
        env |= {key: str(value) for key, value in (listener or {}).items()}
        env |= {"ORDERLY": "1"} if "--orderly" in words else {}
        how = ("--print", "-o", "jsonl") if listener is None else ("--handler", f"{_LISTENER}:consume")
        with self._said_path.open("ab") as said, (folder / f"{name}.printed").open("ab") as printed:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rmqctl", "consume", "run", group, *words, *how, "--yes"],
                env=env, stdin=subprocess.DEVNULL, stdout=printed, stderr=said, start_new_session=True,
            )  # fmt: skip
        self.printed_path = folder / f"{name}.printed"

    def wait_joined(self) -> str:
        """Wait until it has joined the group; return its client id."""
        wait_until(lambda: _JOINED.search(self.said) or self.process.poll() is not None, why=lambda: self.said)
        joined = _JOINED.search(self.said)
        assert joined is not None, self.said
        return joined[1]

    @property
    def said(self) -> str:
        """Everything on stderr of this run so far."""
        return self._said_path.read_bytes()[self._said_before :].decode()

    def heard(self, *events: str) -> list[Heard]:
        """Return what was noted of these kinds (BEGAN, FAILED; DONE without any), over all runs of this name."""
        whole = self._heard_path.read_bytes().rpartition(b"\n")[0]
        found = [msgspec.json.decode(line, type=Heard) for line in whole.splitlines()]
        return [each for each in found if each.event in (events or ("DONE",))]

    def release(self) -> None:
        """Have the listener return from messages that were to hang (SLOW)."""
        self._heard_path.with_name(f"{self._heard_path.name}.released").touch()

    def terminate(self, limit_s: float = 60) -> int:
        """Ask it to end (SIGTERM), wait for that and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        exit_code = self.process.wait(limit_s)
        assert "Traceback" not in self.said, self.said
        return exit_code

    def kill(self) -> None:
        """End it at once (kill -9)."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=30)


class OurConsumers:
    """Makes members of one cluster, in one folder."""

    def __init__(self, namesrv: str, folder: Path) -> None:
        self._namesrv, self._folder = namesrv, folder
        self.started: list[OurConsumer] = []

    def __call__(self, name: str, group: str, *words: str, joins: bool = True, **listener: object) -> OurConsumer:
        """Start one, with --from earliest, and wait until it has joined; `listener` is what listener.py reads."""
        given = ("--from", "earliest", *words)
        made = OurConsumer(self._namesrv, self._folder, name, group, *given, listener=listener)
        self.started.append(made)
        if joins:
            made.wait_joined()
        return made


@contextmanager
def our_consumers(namesrv: str, folder: Path) -> Iterator[OurConsumers]:
    """Give what starts members of ours, and end those that are left."""
    made = OurConsumers(namesrv, folder)
    try:
        yield made
    finally:
        for each in made.started:
            each.kill()
