"""Runs programs by a clock that is off: libfaketime, from Debian's package where the machine has not installed it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .jars import cached

_LIBRARY = "libfaketime.so.1"


def _library() -> Path:
    installed = sorted(Path("/usr/lib").glob(f"*/faketime/{_LIBRARY}"))
    if installed:
        return installed[0]
    if shutil.which("apt-get") is None:
        raise RuntimeError("libfaketime not found; install it (Debian: libfaketime)")
    (found,) = cached("libfaketime", _fetch).glob(f"usr/lib/*/faketime/{_LIBRARY}")
    return found


def _fetch(folder: Path) -> None:
    subprocess.run(["apt-get", "download", "libfaketime"], cwd=folder, check=True, capture_output=True)
    (package,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True, capture_output=True)


def by_a_clock(skew_s: float) -> tuple[str, ...]:
    """Return the words before a command whose wall clock is so many seconds ahead; its timers stay as they are."""
    return (
        "env", f"LD_PRELOAD={_library()}", f"FAKETIME={skew_s:+g}s", "FAKETIME_DONT_FAKE_MONOTONIC=1",
        # The fix is for an older libc; with it Java's timed waits do not wait.
        "FAKETIME_FORCE_MONOTONIC_FIX=0",
    )  # fmt: skip
