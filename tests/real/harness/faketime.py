"""Runs programs by a clock that is off: libfaketime, from Debian's package where the machine has not installed it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

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
    return ("env", *(f"{key}={value}" for key, value in {**_preload(), "FAKETIME": f"{skew_s:+g}s"}.items()))


class SteppingClock:
    """A wall clock that steps while programs run by it; their timers stay as they are.

    `environment` are the variables of such a program.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.environment: dict[str, Any] = {
            **_preload(),
            "FAKETIME_TIMESTAMP_FILE": str(path),
            "FAKETIME_NO_CACHE": "1",
        }
        self.set(0)

    def set(self, skew_s: int) -> None:
        """Step to so many seconds ahead of the machine's clock."""
        # Replaced as a whole: the file is read at each look at the clock.
        written = self._path.with_suffix(".new")
        written.write_text(f"{skew_s:+d}\n")
        written.replace(self._path)


def _preload() -> dict[str, str]:
    # The fix is for an older libc; with it Java's timed waits do not wait.
    return {
        "LD_PRELOAD": str(_library()), "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }  # fmt: skip
