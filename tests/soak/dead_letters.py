"""100,000 dead letters replayed through kills of rmqctl and a kill of a broker: each is stored exactly once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.real.harness.cluster import Cluster
from tests.real.harness.dead_letters import put_letters
from tests.real.harness.queue_tables import wait_until
from tests.real.harness.replay_kills import kill_replay, ledger_of, start_replay, stored_count
from tests.real.harness.rmqctl import Rmqctl

_COUNT, _KILLS = 100_000, 10
_GROUP, _TOPIC = "SoakLetters", "SoakReplayed"
# At full speed it would be through before it is killed for the tenth time.
_WORDS = ("dlq", "replay", _GROUP, "--to-topic", _TOPIC, "--rate", "8000", "--yes")
# An operator gives up after so many runs.
_MOST_RUNS = 10
_AGAIN_S = 5.0


class Replayed(NamedTuple):
    """What came of it. `broker_exit_code` is that of the run during which the broker was killed.

    `later_exit_codes` are those of the runs after the kills, up to the one that sent the rest.
    """

    lost_count: int
    doubled_count: int
    stranger_count: int
    killed_count: int
    broker_exit_code: int
    later_exit_codes: tuple[int, ...]
    in_doubt_count: int
    state: str
    run_count: int
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether each dead letter is stored exactly once, and the ledger says so."""
        return (
            self.lost_count == self.doubled_count == self.stranger_count == self.in_doubt_count == 0
            and self.killed_count == _KILLS
            and self.run_count == _KILLS + 1 + len(self.later_exit_codes)
            and self.later_exit_codes[-1:] == (0,)
            and self.state == "DONE"
        )

    def __str__(self) -> str:
        return (
            f"{_COUNT:,} dead letters, {self.killed_count} of {_KILLS} runs killed while they sent, a broker killed "
            f"(that run ended with {self.broker_exit_code}, later ones with {self.later_exit_codes}): "
            f"{self.lost_count} lost, {self.doubled_count} stored twice, {self.stranger_count} strange, "
            f"{self.in_doubt_count} in doubt, {self.run_count} runs, ledger {self.state}, {self.seconds:.0f} s"
        )


@contextmanager
def synchronous_cluster(version: str, folder: Path) -> Iterator[Cluster]:
    """Run two brokers that answer a send when it is on the disk, so that a kill loses nothing of what they answered."""
    cluster = Cluster(version, folder, broker_count=2, settings={"flushDiskType": "SYNC_FLUSH"})
    try:
        yield cluster.wait()
    finally:
        cluster.stop()


def replay_letters(cluster: Cluster, chance: random.Random) -> Replayed:
    """Replay through kills; half-way broker-a is killed and started again. RMQCTL_STATE is the caller's."""
    began_s = time.monotonic()
    rmqctl = Rmqctl(cluster.namesrv)
    cluster.create_topic(_TOPIC, queue_count=4)
    put_letters(cluster, _GROUP, _TOPIC, _COUNT, brokers=("broker-a", "broker-b"))
    killed_count = sum(kill_replay(cluster, _WORDS, _TOPIC, chance) for _ in range(_KILLS // 2))
    broker_exit_code = _kill_broker(cluster, chance)
    killed_count += sum(kill_replay(cluster, _WORDS, _TOPIC, chance) for _ in range(_KILLS - _KILLS // 2))
    later = []
    while len(later) < _MOST_RUNS and later[-1:] != [0]:
        later.append(rmqctl(*_WORDS, limit_s=600).exit_code)
        if later[-1]:
            time.sleep(_AGAIN_S)
    counts = Counter(_stored_ids(rmqctl))
    wanted = {f"{_GROUP}-{number}" for number in range(_COUNT)}
    ledger = ledger_of(rmqctl, _GROUP)
    return Replayed(
        lost_count=len(wanted - counts.keys()),
        doubled_count=sum(count > 1 for count in counts.values()),
        stranger_count=len(counts.keys() - wanted),
        killed_count=killed_count,
        broker_exit_code=broker_exit_code,
        later_exit_codes=tuple(later),
        in_doubt_count=ledger["inDoubtCount"],
        state=ledger["state"],
        run_count=len(ledger["runs"]),
        seconds=time.monotonic() - began_s,
    )


def _kill_broker(cluster: Cluster, chance: random.Random) -> int:
    """Kill broker-a when half is stored, and start it again. Returns the exit code of the run that this hits."""
    broker = cluster.brokers["broker-a"]
    running = start_replay(cluster, _WORDS)
    while running.poll() is None and stored_count(cluster, _TOPIC) < _COUNT // 2:
        time.sleep(0.02)
    broker.kill()
    time.sleep(chance.uniform(0, 3))
    broker.start()
    exit_code = running.wait(timeout=600)
    cluster.wait()
    # A broker that has just started may not report all of its queues yet.
    sent_count = ledger_of(Rmqctl(cluster.namesrv), _GROUP)["sentCount"]
    wait_until(lambda: stored_count(cluster, _TOPIC) >= sent_count, "the queues of broker-a")
    return exit_code


def _stored_ids(rmqctl: Rmqctl) -> list[str]:
    """Return the ids of all messages of the target; copies keep the id of their first sending."""
    words = ("message", "find", _TOPIC, "--limit", str(2 * _COUNT), "--body", "none", "--timeout", "300s")
    found = rmqctl(*words, "-o", "tsv", "--columns", "msgId", "--no-headers", limit_s=600)
    assert found.exit_code == 0, found.stderr
    return found.stdout.split()
