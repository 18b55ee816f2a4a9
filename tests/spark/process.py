"""rmqctl in a process of its own, for its Spark must be its own, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RMQCTL = str(Path(sys.executable).with_name("rmqctl"))


def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with these environment variables beside the test's own, and return what it said."""
    return subprocess.run(
        [RMQCTL, *words], env={**os.environ, **environment}, capture_output=True, text=True, timeout=280, check=False
    )
