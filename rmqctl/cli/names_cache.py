"""Names of groups, topics and brokers that commands have seen, one file per cluster, for completion.

This is a cache: it is written as a by-product and read by completion only, and its errors are ignored.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

from rmqctl.errors import RmqctlError

KINDS = ("groups", "topics", "brokers")
_MAX_NAMES = 20_000
# Far more than 20,000 names need; rmqctl never writes a larger file.
_MAX_BYTES = 8 * 1024 * 1024


def cache_folder() -> Path:
    """Return the folder of the files, without platformdirs: its import would cost every list command 4 ms."""
    if given := os.environ.get("RMQCTL_CACHE"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rmqctl"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rmqctl"


def _file(name_servers: str) -> Path:
    """Return a cluster's file; the order of its name servers does not matter. A URL's secrets are not in its name."""
    key = ";".join(sorted(part.strip() for part in re.split("[;,]", name_servers) if part.strip()))
    data = key.encode(errors="replace")
    return cache_folder() / f"names-{zlib.crc32(data):08x}{zlib.adler32(data):08x}.json"


def read_names(name_servers: str, kind: str) -> list[str]:
    """Return the known names of a kind in a cluster, sorted; an empty list if there is no valid file."""
    names = _read(_file(name_servers)).get(kind)
    return sorted(name for name in names if isinstance(name, str)) if isinstance(names, list) else []


def remember_names(name_servers: str, kind: str, names: Iterable[str], *, is_whole: bool = True) -> None:
    """Save the names that a command saw; if not `is_whole`, known names are kept. Never raises, never waits."""
    # Completion reads only, and must start fast.
    from rmqctl.state.replacement import replace_file

    try:
        path = _file(name_servers)
        known = _read(path)
        before = known.get(kind)
        wanted = set(names)
        if not is_whole and isinstance(before, list):
            wanted.update(name for name in before if isinstance(name, str))
        after = sorted(wanted)[:_MAX_NAMES]
        if after == before:
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, json.dumps({**known, kind: after}).encode())
    except (RmqctlError, OSError, ValueError, RuntimeError):
        pass  # no home, no space, a read-only disk: then completion knows less


def _read(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            known = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return {kind: known[kind] for kind in KINDS if kind in known} if isinstance(known, dict) else {}
