"""What rmqctl remembers of clusters between runs: a small file per name server, in the cache folder.

Written as a by-product of every command that asks a cluster. Where it cannot be read or written, nothing is expected
and nothing is noted as missing; `rmqctl doctor` tells.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rmqctl.model.cluster_memory import ClusterMemory, Sightings
from rmqctl.rules.cluster_memory import forget_broker, is_much_newer, merge_memories, remember

from .names_cache import cache_folder

# How long a sighting counts unless RMQCTL_MEMORY or a context says otherwise.
DEFAULT_COUNTS_MS = 24 * 3_600_000
# A file that holds the same is written again when it is this old: "registered until" is as exact as this.
_STEP_MS = 5_000
# Far more than a cluster of 100,000 queues; a larger file is not ours.
_MAX_BYTES = 64 * 1024 * 1024


def _file(name_server: str) -> Path:
    data = name_server.encode(errors="replace")
    return cache_folder() / f"cluster-{zlib.crc32(data):08x}{zlib.adler32(data):08x}.json"


def read_memory(name_servers: Sequence[str]) -> ClusterMemory:
    """Return what is remembered of the cluster of these name servers, host:port each. Never raises."""
    return merge_memories([_read(_file(name_server)) for name_server in name_servers])


def note_sightings(name_servers: Sequence[str], seen: Sightings, now_ms: int) -> None:
    """Add what a run saw to the memory of each of its name servers. Never raises, never waits."""
    if not seen.brokers and not seen.held:
        return
    for name_server in name_servers:
        path = _file(name_server)
        before = _read(path)
        after = remember(before, seen, now_ms)
        if is_much_newer(before, after, _STEP_MS):
            _write(path, after)


def forget(name_servers: Sequence[str], broker_name: str, now_ms: int) -> bool:
    """Drop a broker from the memory of these name servers; tell whether it was there. Never raises."""
    was_there = False
    for name_server in name_servers:
        path = _file(name_server)
        before = _read(path)
        if broker_name in before.brokers:
            was_there = True
            _write(path, forget_broker(before, broker_name, now_ms))
    return was_there


def forget_cluster(name_server: str) -> None:
    """Drop all that is remembered of a name server, for a new cluster begins at its address. Never raises."""
    try:
        _file(name_server).unlink(missing_ok=True)
    except (OSError, RuntimeError):
        pass


def _read(path: Path) -> ClusterMemory:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=ClusterMemory)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return ClusterMemory()


def _write(path: Path, memory: ClusterMemory) -> None:
    new = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(memory))
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except (OSError, ValueError, RuntimeError):
        pass  # no home, no space, a read-only disk: then the next run expects less
