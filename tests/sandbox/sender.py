"""What tests of sends share: a message in one line, a queue read as tools read it."""

from __future__ import annotations

import struct
from typing import Any

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages
from tests.sandbox.peer import Peer

BORN_MS = 1_700_000_000_000

_BATCH_HEAD = struct.Struct(">iiiii")


def pairs(**properties: object) -> str:
    """Return properties as clients send them."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def send_fields(topic: str, properties: str = "", **changes: Any) -> dict[str, Any]:
    """Return the fields of SEND_MESSAGE_V2; None leaves one out."""
    fields = {
        "a": "P", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": BORN_MS, "h": 0, "i": properties, "j": 0,
        "k": False, "m": False, **changes,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


async def send(peer: Peer, topic: str, body: bytes = b"hello", *, properties: str = "", **changes: Any) -> Command:
    """Send one message, or whatever the changed fields make of it."""
    return await peer.ask(RequestCode.SEND_MESSAGE_V2, body, **send_fields(topic, properties, **changes))


async def send_batch(peer: Peer, topic: str, body: bytes, *, properties: str = "", **changes: Any) -> Command:
    """Send a batch that batch_body() made."""
    fields = send_fields(topic, properties, **{"m": True, **changes})
    return await peer.ask(RequestCode.SEND_BATCH_MESSAGE, body, **fields)


def batch_body(*parts: tuple[bytes, str]) -> bytes:
    """Return the body of a batch, of (body, properties)."""
    data = b""
    for number, (body, text) in enumerate(parts):
        properties = text.encode()
        size = _BATCH_HEAD.size + len(body) + 2 + len(properties)
        data += _BATCH_HEAD.pack(size, 0, 0, number, len(body)) + body
        data += struct.pack(">h", len(properties)) + properties
    return data


async def read(peer: Peer, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    """Return what a queue holds."""
    answer = await peer.ask(
        RequestCode.PULL_MESSAGE, consumerGroup="TOOLS_CONSUMER", topic=topic, queueId=queue_id, queueOffset=0,
        maxMsgNums=32, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subscription="*", subVersion=0,
    )  # fmt: skip
    return list(iter_messages(answer.body)) if answer.code == ResponseCode.SUCCESS else []


async def bodies(peer: Peer, topic: str, queue_id: int = 0) -> list[bytes]:
    """Return the bodies of what a queue holds."""
    return [message.stored_body for message in await read(peer, topic, queue_id)]


def log_offset(answer: Command) -> int:
    """Return where a message that was sent stands in the log."""
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return int(answer.ext_fields["msgId"][-16:], 16)
