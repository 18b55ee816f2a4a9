"""A sandbox with a folder, killed 200 times at random moments under load: what was acknowledged must be there."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from tests.sandbox.storage.kill_runs import run_cycles

CYCLE_COUNT = 200
# Each cycle is loaded for a third of a second on average; without a load nothing could be missing.
LEAST_PER_CYCLE = 20


def measure() -> list[tuple[str, str, str, bool]]:
    """Return what went wrong; the seed is that of the clock, and is shown."""
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-kills-"))
    seed = time.time_ns() % 1_000_000
    started = time.perf_counter()
    try:
        ledger = run_cycles(folder / "sandbox", CYCLE_COUNT, seed)
        size_mib = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / (1 << 20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in ledger.wrong[:10]:
        print(line)
    seconds = time.perf_counter() - started
    figure = f"{len(ledger.wrong)} of {ledger.acknowledged_count:,} ({size_mib:.0f} MiB, seed {seed}, {seconds:.0f} s)"
    return [(f"{CYCLE_COUNT} kills under load: acknowledged, then missing or twice", figure,
             f"0 of >= {CYCLE_COUNT * LEAST_PER_CYCLE:,}",
             not ledger.wrong and ledger.acknowledged_count >= CYCLE_COUNT * LEAST_PER_CYCLE)]  # fmt: skip
