"""Answers of real servers, from the recordings in tests/golden. Each line there lacks the frame's 4-byte length."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path

from rmqctl.protocol.command import Command
from rmqctl.protocol.frame import FrameBuffer

_GOLDEN = Path(__file__).parent.parent / "golden"


@cache
def exchanges(version: str) -> tuple[tuple[Command, Command], ...]:
    """Return the recorded requests with their answers, in order; oneway requests are left out."""
    rows = [json.loads(line) for line in (_GOLDEN / f"java-{version}.jsonl").read_text().splitlines()]
    return tuple((_command(row["request"]), _command(row["response"])) for row in rows if "response" in row)


def answer(version: str, code: int, **fields: str) -> Command:
    """Return the last recorded success of a request with these fields."""
    matching = [
        response
        for request, response in exchanges(version)
        if request.code == code and response.code == 0 and fields.items() <= request.ext_fields.items()
    ]
    return matching[-1]


def _command(text: str) -> Command:
    data = base64.b64decode(text)
    frames = FrameBuffer()
    frames.feed(len(data).to_bytes(4, "big") + data)
    command = frames.next_command()
    assert command is not None
    return command
