"""What rmqctl remembers of clusters between runs: a small file per name server, in the user's state folder.

Every command that asks a cluster writes it as a by-product. It is the only record of which brokers and queues existed
before: reads, changes, `doctor` and `doctor --forget-broker` all rely on it. It is stored next to the journal, because
cache folders are emptied without a second thought. Every command reports a problem with a file, because a missing
broker may otherwise go unnoticed. A damaged file is kept: without it, the next command would have nothing to report.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from rmqctl.errors import RmqctlError, UnsupportedError, UsageError
from rmqctl.model.cluster_memory import ClusterMemory, Expectation, Sightings
from rmqctl.net.address import canonical_address
from rmqctl.net.file_lock import lock_file
from rmqctl.rules.cluster_memory import expect, forget_broker, is_much_newer, merge_memories, not_after, remember
from rmqctl.state.folder import JOURNAL, state_folder, unusable
from rmqctl.state.replacement import replace_file
from rmqctl.text.durations import parse_duration_ms
from rmqctl.text.option_errors import option_errors

# How long a sighting counts unless RMQCTL_MEMORY or a context says otherwise.
DEFAULT_COUNTS_MS = 24 * 3_600_000
# An unchanged file is rewritten when it is this old: "last saw it" is accurate to this.
_STEP_MS = 5_000
# Far more than a cluster of 100,000 queues needs; rmqctl never writes a larger file.
_MAX_BYTES = 64 * 1024 * 1024


def read_memory(name_servers: Sequence[str], now_ms: int) -> tuple[ClusterMemory, list[str]]:
    """Return the memory of the cluster of these name servers (host:port each), and the problems with its files.

    Never raises. A sighting in the future, noted while this machine's clock was ahead, counts as seen now.
    """
    memories, problems = [], []
    for name_server in name_servers:
        try:
            memories.append(not_after(_read(name_server), now_ms))
        except RmqctlError as error:
            problems.append(_what_follows(error))
    return merge_memories(memories), problems


def read_expectation(
    name_servers: Sequence[str], now_ms: int, counts_ms: int, *, named: Sequence[str] = ()
) -> tuple[Expectation, list[str]]:
    """Return what the cluster of these name servers should have, and the problems with the files. Never raises.

    `counts_ms`: how long a broker is expected after it was seen; 0 reads no memory. `named` are expected in any case.
    """
    memory, problems = read_memory(name_servers, now_ms) if counts_ms else (ClusterMemory(), [])
    return expect(memory, named=named, now_ms=now_ms, counts_ms=counts_ms), problems


def memory_of_environment_ms() -> int:
    """Return how long a broker is expected after it was seen, in ms. Raises UsageError for an invalid RMQCTL_MEMORY."""
    text = os.environ.get("RMQCTL_MEMORY")
    with option_errors("RMQCTL_MEMORY"):
        return parse_duration_ms(text) if text else DEFAULT_COUNTS_MS


def note_sightings(name_servers: Sequence[str], seen: Sightings, now_ms: int) -> list[str]:
    """Add what a run saw to the memory of each of its name servers; return the problems. Never raises or waits.

    Skips a file while another run writes it: that run saw much the same.
    """
    problems = []
    for name_server in name_servers if seen.brokers or seen.held else ():
        try:
            path = _file(name_server, create=True)
            before = _read(name_server)
            after = remember(not_after(before, now_ms), seen, now_ms)
            if is_much_newer(before, after, _STEP_MS):
                with _writing(path, waits=False):  # another run may have written since it was read
                    after = remember(not_after(_read(name_server), now_ms), seen, now_ms)
                    replace_file(path, msgspec.json.encode(after))
        except BlockingIOError:
            continue
        except RmqctlError as error:
            problems.append(_what_follows(error))
    return problems


def forget(name_servers: Sequence[str], broker_name: str, now_ms: int) -> bool:
    """Drop a broker from the memory of these name servers; return whether it was remembered.

    Raises RmqctlError if a file cannot be read or written; the broker is then still remembered.
    """
    was_there = False
    for name_server in name_servers:
        path = _file(name_server, create=True)
        if broker_name in _read(name_server).brokers:
            was_there = True
            with _writing(path, waits=True):
                replace_file(path, msgspec.json.encode(forget_broker(_read(name_server), broker_name, now_ms)))
    return was_there


def forget_cluster(name_server: str) -> None:
    """Empty the memory of a name server, because a new cluster starts at its address. Never raises.

    Without a file, the journal would name the brokers of the cluster before.
    """
    try:
        path = _file(name_server)
        if path.parent.exists():
            replace_file(path, msgspec.json.encode(ClusterMemory()))
    except (OSError, RmqctlError):
        pass


def _file(name_server: str, *, create: bool = False) -> Path:
    """Return a name server's file. All names of this machine's loopback share one."""
    data = canonical_address(name_server).encode(errors="replace")
    return state_folder(create=create) / f"cluster-{zlib.crc32(data):08x}{zlib.adler32(data):08x}.json"


def _read(name_server: str) -> ClusterMemory:
    """Return a name server's memory; without a file, what the journal knows: the file may have been lost."""
    path = _file(name_server)
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=ClusterMemory)
    except FileNotFoundError:
        if not (path.parent / JOURNAL).exists():
            return ClusterMemory()
        from .sightings import read_sightings

        return read_sightings(name_server)
    except OSError as error:
        raise unusable(path, error) from None
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise UsageError(f"{path} is damaged.", hint="Delete it; the next command creates a new one.") from None


@contextmanager
def _writing(path: Path, *, waits: bool) -> Iterator[None]:
    """Lock a file against other writers. Raises BlockingIOError if another holds the lock and `waits` is false."""
    try:
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise unusable(path, error) from None
    try:
        with suppress(UnsupportedError):  # Windows: of two concurrent writers, one may be lost
            lock_file(descriptor, waits=waits)
        yield
    finally:
        os.close(descriptor)


def _what_follows(error: RmqctlError) -> str:
    hint = f" {error.hint}" if error.hint else ""
    return f"{error.sentence}{hint} A missing broker can go unnoticed until this is fixed."
