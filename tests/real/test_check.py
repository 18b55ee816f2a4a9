"""`check` as the gate of a deployment: real brokers, Java members that are restarted one by one, and a shell script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until
from tests.repetition import repeating

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl
from .harness.workbench import Workbench

_GROUP = "CheckDeploy"
# The deployment tool of this test restarts a member when it finds its file, and removes the file when the member is
# gone.
_DEPLOY = f"""
for member in 1 2 3; do
    touch "$STEPS/$member"
    while [ -e "$STEPS/$member" ]; do sleep 0.1; done
    "$PYTHON" -m rmqctl check {_GROUP} --min-members 3 --max-lag 1000 --max-dlq-growth 0 \\
        --stable-for 10s --wait "$WAIT" --every 1s || exit $?
done
"""


class _Fleet:
    """Three members, each in a JVM of its own."""

    def __init__(self, start: Callable[[str], Workbench]) -> None:
        self._start = start
        self.members = {name: start(name) for name in ("1", "2", "3")}

    def stop(self, name: str) -> None:
        self.members.pop(name).close()

    def start(self, name: str) -> None:
        self.members[name] = self._start(name)


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[_Fleet]:
    """Run three members of a group that get messages all the time."""
    jvms: list[Workbench] = []

    def start(name: str) -> Workbench:
        java = Workbench(cluster.version, cluster.folder, cluster.namesrv)
        jvms.append(java)
        java.consume(name, _GROUP, _GROUP, instance=f"{_GROUP}-{name}-{len(jvms)}")
        return java

    cluster.create_topic(_GROUP, queue_count=4)
    try:
        with repeating(lambda: cluster.java.produce(_GROUP, 20), 0.2):
            yield _Fleet(start)
    finally:
        for java in jvms:
            java.close()


def _deploying(fleet: _Fleet, steps: Path, *, stays_away: str | None) -> AbstractContextManager[None]:
    """Restart members as their files appear; one of them stays away."""

    def work() -> None:
        for file in sorted(steps.iterdir()):
            fleet.stop(file.name)
            file.unlink()
            if file.name != stays_away:
                fleet.start(file.name)

    return repeating(work, 0.1)


def _deploy(cluster: Cluster, steps: Path, wait: str) -> tuple[int, str, str]:
    env = os.environ | {
        "STEPS": str(steps), "PYTHON": sys.executable, "WAIT": wait, "NAMESRV_ADDR": cluster.namesrv,
        "RMQCTL_MEMORY": "0", "RMQCTL_CACHE": os.devnull,
    }  # fmt: skip
    done = subprocess.run(["sh", "-c", _DEPLOY], env=env, capture_output=True, text=True, timeout=500, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.smoke
def test_limits_are_those_of_the_group(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("CheckLimits", queue_count=2)
    cluster.java.consume("limits", "CheckLimits", "CheckLimits")
    cluster.java.produce("CheckLimits", 20)
    cluster.java.wait_consumed("limits", 20)
    cluster.java.persist("limits")
    words = ("check", "CheckLimits", "--max-lag", "9", "--min-members", "1", "-o", "nagios")
    wait_until(lambda: rmqctl(*words).exit_code == 0)
    cluster.java.stop("limits")
    cluster.java.produce("CheckLimits", 10)
    closed = rmqctl(*words)
    assert (closed.exit_code, closed.stdout.split(" | ")[0]) == (
        2, "CRITICAL - CheckLimits: lag 10 (max 9); 0 members (min 1)",
    ), closed.stdout + closed.stderr  # fmt: skip


@pytest.mark.timeout(900)
def test_a_deployment_goes_on_while_members_come_back_and_stops_when_one_stays_away(
    cluster: Cluster, fleet: _Fleet, tmp_path: Path
) -> None:
    with _deploying(fleet, tmp_path, stays_away=None):
        code, out, err = _deploy(cluster, tmp_path, "3m")
    assert code == 0, out + err
    assert out.count(f"OK {_GROUP}: ") == 3
    with _deploying(fleet, tmp_path, stays_away="2"):
        code, out, err = _deploy(cluster, tmp_path, "40s")
    assert code == 2, out + err
    assert set(fleet.members) == {"1", "3"}
    assert f"CRITICAL {_GROUP}: 2 members (min 3)" in out
    assert out.count(f"OK {_GROUP}: ") == 1


def test_a_member_that_hangs_is_not_counted_as_fine(cluster: Cluster, fleet: _Fleet, rmqctl: Rmqctl) -> None:
    """A broker counts it for two minutes, but it does not answer."""
    words = ("check", _GROUP, "--min-members", "3", "--max-lag", "1000", "--wait", "2m", "--stable-for", "5s")
    ready = rmqctl(*words)
    assert ready.exit_code == 0, ready.stdout
    hung = fleet.members["1"].java.process
    hung.send_signal(signal.SIGSTOP)
    try:
        result = rmqctl(*words[:6])
    finally:
        hung.send_signal(signal.SIGCONT)
    assert result.exit_code == 3, result.stdout
    assert "not read: running info of " in result.stdout
