"""Offsets of a broadcasting consumer, in the file format of Java's clients (LocalFileOffsetStore)."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rmqctl.errors import RemoteProtocolError, RmqctlError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import ObjectMap, loads

from .store import MemoryOffsets

_MAX_OFFSET = 2**63 - 1


def local_offsets_path(client_id: str, group: str, folder: Path | None = None) -> Path:
    """Return the file of a group, in the user's ~/.rocketmq_offsets by default.

    Raises UsageError for names that would lead elsewhere.
    """
    for name in (client_id, group):
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise UsageError(f"Offsets cannot be stored under {name!r}, which is not a valid file name.")
    return (folder or Path.home() / ".rocketmq_offsets") / client_id / group / "offsets.json"


class LocalOffsets(MemoryOffsets):
    """Offsets in a file; its previous version is kept as .bak. Queues that are not written keep their offsets.

    Clients with the same id and group on one machine share the file, as in Java: the last one to write a queue wins.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._lock = asyncio.Lock()

    async def fetch(self, mq: MessageQueue) -> int | None:
        """See OffsetStore. Raises RmqctlError when neither the file nor its .bak can be read."""
        return (await asyncio.to_thread(read_offsets, self.path)).get(mq)

    async def store(self, mq: MessageQueue, offset: int) -> None:
        """See OffsetStore."""
        async with self._lock:
            await asyncio.to_thread(merge_offsets, self.path, {mq: offset})

    async def persist(self, mqs: Iterable[MessageQueue] | None = None) -> list[Failure]:
        """See OffsetStore. A file that cannot be read is not overwritten."""
        async with self._lock:
            offsets = {mq: self._offsets[mq] for mq in self._known(mqs)}
            if not offsets:
                return []
            try:
                await asyncio.to_thread(merge_offsets, self.path, offsets)
            except RmqctlError as error:
                return [Failure(None, f"offsets in {self.path}", error)]
        return []


def read_offsets(path: Path) -> dict[MessageQueue, int]:
    """Return the offsets of a file or else of its .bak; empty if neither exists. Raises RmqctlError."""
    first_error: RmqctlError | None = None
    for file in (path, _bak(path)):
        try:
            text = file.read_bytes()
            if text.strip():
                return decode_offsets(text)
        except FileNotFoundError:
            continue
        except RemoteProtocolError:
            first_error = first_error or UsageError(
                f"{file} is damaged.", hint="Move the file away; its queues then start without a stored offset."
            )
        except OSError as error:
            first_error = first_error or _refusal(file, "read", error)
    if first_error is not None:
        raise first_error
    return {}


def merge_offsets(path: Path, offsets: Mapping[MessageQueue, int]) -> None:
    """Merge offsets into a file, which stays complete at any moment. Raises RmqctlError."""
    text = encode_offsets({**read_offsets(path), **offsets})
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _keep_before(path)
        _replace(path, text)
    except OSError as error:
        raise _refusal(path, "write", error) from None


def _keep_before(path: Path) -> None:
    """Copy a readable file to its .bak; a damaged file must not replace a good one."""
    try:
        before = path.read_bytes()
        decode_offsets(before)
    except (FileNotFoundError, RemoteProtocolError):
        return
    _replace(_bak(path), before)


def _replace(path: Path, text: bytes) -> None:
    """Write a file in one step, safe against a power loss. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".rmqctl-")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _bak(path: Path) -> Path:
    return path.with_name(f"{path.name}.bak")


def _refusal(path: Path, what: str, error: OSError) -> RmqctlError:
    return RmqctlError(f"Cannot {what} {path}: {(error.strerror or str(error)).lower()}.")


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the text of a file (OffsetSerializeWrapper.toJson, as 5.4.0 indents it), queues sorted."""
    rows = [f"\t\t{_indented(mq)}:{offset}" for mq, offset in sorted(offsets.items())]
    return ('{\n\t"offsetTable":{\n' + ",\n".join(rows) + "\n\t}\n}").encode()


def _indented(mq: MessageQueue) -> str:
    name, broker_name = (dumps(text).decode() for text in (mq.topic, mq.broker_name))
    return f'{{\n\t\t\t"brokerName":{broker_name},\n\t\t\t"queueId":{mq.queue_id},\n\t\t\t"topic":{name}\n\t\t}}'


def decode_offsets(text: bytes) -> dict[MessageQueue, int]:
    """Read the text of a file of any release. Raises RemoteProtocolError."""
    data = loads(text)
    table = data.get("offsetTable") if isinstance(data, dict) else None
    if data == {} or table == {}:
        return {}
    if not isinstance(table, ObjectMap):
        raise RemoteProtocolError("The file has no table of offsets.")
    return dict(_row(key, offset) for key, offset in table)


def _row(key: Any, offset: Any) -> tuple[MessageQueue, int]:
    match key:
        case {"topic": str(topic), "brokerName": str(broker_name), "queueId": int(queue_id)}:
            if type(queue_id) is type(offset) is int and 0 <= offset <= _MAX_OFFSET:
                return MessageQueue(topic, broker_name, queue_id), offset
    raise RemoteProtocolError("The file has a row that is not a queue with an offset.")
