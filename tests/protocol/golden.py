"""Frames recorded between Java peers, one exchange a line (tests/golden/java-*.jsonl)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from rmqctl.protocol.command import Command
from rmqctl.protocol.frame import FrameBuffer

_FOLDER = Path(__file__).parent.parent / "golden"


@dataclass(frozen=True)
class Exchange:
    """One request and its answer, whole frames; a oneway request has none."""

    rocketmq: str
    line: int
    request_code: int
    request: bytes
    response: bytes | None

    def __str__(self) -> str:
        return f"{self.rocketmq}:{self.line}:{self.request_code}"

    @property
    def frames(self) -> tuple[bytes, ...]:
        return (self.request,) if self.response is None else (self.request, self.response)


def _frame(text: str) -> bytes:
    # Recorded behind Netty's decoder, which takes the length away.
    data = base64.b64decode(text)
    return len(data).to_bytes(4, "big") + data


def _exchanges() -> list[Exchange]:
    exchanges = []
    for rocketmq in ("4.9.7", "5.4.0"):
        lines = (_FOLDER / f"java-{rocketmq}.jsonl").read_text().splitlines()
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            response = _frame(row["response"]) if "response" in row else None
            exchanges.append(Exchange(rocketmq, number, row["request_code"], _frame(row["request"]), response))
    return exchanges


EXCHANGES = _exchanges()
FRAMES = [frame for exchange in EXCHANGES for frame in exchange.frames]


def decode(frame: bytes) -> Command:
    """Return the one command that the frame holds."""
    buffer = FrameBuffer()
    buffer.feed(frame)
    command = buffer.next_command()
    assert command is not None
    assert len(buffer) == 0
    return command


def answers(*request_codes: int) -> list[Exchange]:
    """Return the exchanges with a successful answer to one of these requests."""
    return [
        exchange
        for exchange in EXCHANGES
        if exchange.request_code in request_codes
        if exchange.response is not None and decode(exchange.response).code == 0
    ]


def answer(exchange: Exchange) -> Command:
    """Return the answer of an exchange that has one."""
    assert exchange.response is not None
    return decode(exchange.response)


def fastjson_lines() -> list[str]:
    """Return bodies written by fastjson 1.2.69, one a line."""
    return (_FOLDER / "fastjson-1.2.69.txt").read_text(encoding="utf-8").splitlines()
