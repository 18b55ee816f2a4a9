"""Runs the long proofs against real RocketMQ and prints what was seen: python -m tests.soak [MINUTES [RELEASE]].

Each of the parts in which members come and go takes a sixth of the minutes, the one with orderly members all of them;
those with outages take 9 minutes more, the replay of dead letters 2, and twice the minutes go to random faults while
rmqctl reads and changes.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.real.harness.clean_kills import kill_cleaning
from tests.real.harness.cluster import Cluster
from tests.real.harness.jars import VERSIONS, missing_tools
from tests.real.harness.rmqctl import Rmqctl

from .dead_letters import replay_letters, synchronous_cluster
from .mixed_groups import run_flapping, run_mixed
from .orderly_groups import run_orderly
from .outages import run_outages
from .random_faults import random_faults

# Runs of clean-expired that are killed between sending back and acknowledging.
_KILLS = 50
_STRATEGIES = ("averagely", "circle", "consistent-hash")


def main() -> int:
    """Run all; exit 1 when something was lost."""
    missing = missing_tools()
    if missing is not None:
        print(missing, file=sys.stderr)
        return 1
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-soak-"))
    is_good = True
    for version in sys.argv[2:] or VERSIONS:
        cluster = Cluster(version, folder / version, broker_count=2)
        try:
            cluster.wait()
            for strategy in _STRATEGIES:
                seen = run_mixed(cluster, folder / f"{version}-{strategy}", strategy, minutes * 60 / 6)
                is_good &= seen.is_good
                print(f"{version} {strategy}: {seen}", flush=True)
            for protect in ("0s", "30s"):
                seen = run_flapping(cluster, folder / f"{version}-{protect}", protect, minutes * 60 / 6)
                is_good &= seen.is_good
                print(f"{version} one of three flaps, --protect {protect}: {seen}", flush=True)
            orderly = run_orderly(cluster, folder / f"{version}-orderly", minutes * 60)
            is_good &= orderly.is_good
            print(f"{version} in order: {orderly}", flush=True)
            for what, outage, is_well in run_outages(cluster, folder / f"{version}-outages"):
                is_good &= is_well
                print(f"{version} {what}: {outage}{'' if is_well else ' (BAD)'}", flush=True)
            os.environ["RMQCTL_STATE"] = str(folder / f"{version}-cleaning")
            chance = random.Random(version)
            rmqctl = Rmqctl(cluster.namesrv)
            kills = [kill_cleaning(cluster, rmqctl, f"Soak{number}", chance) for number in range(_KILLS)]
            is_good &= all(each.is_good for each in kills)
            in_time = sum(each.was_running for each in kills)
            bad = [each for each in kills if not each.is_good]
            print(
                f"{version} clean-expired killed {_KILLS} times, {in_time} in time: {len(bad)} wrong {bad}", flush=True
            )
        finally:
            cluster.stop()
        os.environ["RMQCTL_STATE"] = str(folder / f"{version}-replaying")
        with synchronous_cluster(version, folder / f"{version}-letters") as letters:
            replayed = replay_letters(letters, random.Random(version))
            is_good &= replayed.is_good
            print(f"{version} dlq replay: {replayed}{'' if replayed.is_good else ' (BAD)'}", flush=True)
        os.environ["RMQCTL_STATE"] = str(folder / f"{version}-state")
        with random_faults(version, folder / f"{version}-faults") as faults:
            faults.run(minutes * 60 * 2 / len(sys.argv[2:] or VERSIONS))
            is_good &= not faults.wrong
            rounds = sum(faults.counts.values())
            print(
                f"{version} {rounds} rounds of random faults (seed {faults.seed}): {len(faults.wrong)} wrong",
                flush=True,
            )
            for wrong in faults.wrong:
                print(f"  {wrong}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
