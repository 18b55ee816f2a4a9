"""Runs the examples of README.md and docs/ on real clusters: `python -m tests.real.docs_stage [PAGE]...`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from tests.docs import MESSAGE_ID, RECEIPT, ROOT, TIME, Part, page_id, pages, parts, rewritten

from .harness.cluster import Cluster

VERSION = "5.4.0"


class Stage:
    """A scene's cluster, and a home of its own for the commands: journal, memory and contexts begin empty.

    `time`, where a scene sets it, takes the place of the times in commands.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._module = import_module(f"tests.real.scenes.{name}")
        self.home = folder / "user"
        self.home.mkdir()
        self.time = ""
        self._ids: dict[str, str] = {}
        self.cluster = Cluster(VERSION, folder / "home", **getattr(self._module, "CLUSTER", {"broker_count": 2}))

    def set_up(self) -> None:
        """Wait for the cluster and set the scene up."""
        self.cluster.wait()
        self._module.set_up(self)

    def take(self, step: str) -> None:
        """Do what happens between two examples."""
        getattr(self._module, step.replace("-", "_"))(self)

    def run(self, written: str) -> tuple[str, str]:
        """Run an example as a user would, in a pipe; return the command as it was run, and all that it printed."""
        command = self._with_own_ids(written)
        words = shlex.split(command)
        assert words[0] == "rmqctl", command
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(("RMQCTL_", "XDG_", "NO_COLOR"))
        }
        done = subprocess.run(
            [sys.executable, "-m", "rmqctl", *words[1:]], cwd=self.home,
            env={
                **env, "PYTHONPATH": str(ROOT), "HOME": str(self.home), "NAMESRV_ADDR": self.cluster.namesrv,
                "COLUMNS": "100",
            },
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180,
            check=False,
        )  # fmt: skip
        for pattern in (RECEIPT, MESSAGE_ID):
            if found := re.search(pattern, done.stdout):
                self._ids[pattern] = found.group()
        return command, "\n".join(line.rstrip() for line in done.stdout.splitlines())

    def _with_own_ids(self, command: str) -> str:
        """Put the ids shown last here, and the scene's time, in the place of those of another run."""
        for pattern, own in (*self._ids.items(), (TIME, self.time)):
            if own:
                command = re.sub(pattern, own, command)
        return command

    def stop(self) -> None:
        """End the cluster."""
        self.cluster.stop()


@contextmanager
def _stage(name: str) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="rmqctl-docs-", ignore_cleanup_errors=True) as folder:
        stage = Stage(name, Path(folder))
        try:
            stage.set_up()
            yield stage
        finally:
            stage.stop()


def scenes(text: str) -> list[list[Part]]:
    """Return the parts of a page, one list a scene; those that need no cluster are left out."""
    found: list[list[Part]] = []
    for part in parts(text):
        if part.kind == "scene":
            found.append([])
        if part.scene:
            found[-1].append(part)
    return [scene for scene in found if scene]


def play(text: str) -> Iterator[tuple[Part, str, str]]:
    """Run a page's examples on its scenes; yield each with the command as it was run and its output."""
    for scene in scenes(text):
        with _stage(scene[0].scene) as stage:
            for part in scene[1:]:
                if part.kind == "step":
                    stage.take(part.text)
                else:
                    yield part, *stage.run(part.text)


def main(names: list[str]) -> None:
    """Write the examples of the named pages (all without a name) as they come out now."""
    for page in pages():
        text = page.read_text()
        if (not names or page_id(page) in names) and scenes(text):
            print(page_id(page))
            page.write_text(rewritten(text, list(play(text))))


if __name__ == "__main__":
    main(sys.argv[1:])
