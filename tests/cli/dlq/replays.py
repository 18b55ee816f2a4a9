"""Dead letters, replays and their results."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rmqctl.client.core import Client
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.producer.producer import Producer
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result, call
from tests.schemas import check_document

Captured = pytest.CaptureFixture[str]
COUNT = 10


def letter(number: int, origin: str | None, **more: str) -> OutgoingMessage:
    properties = {"UNIQ_KEY": f"ID{number}", "KEYS": f"k{number}", "TAGS": "A", "ORIGIN_MESSAGE_ID": f"FIRST{number}"}
    return OutgoingMessage(
        f"body {number}".encode(), {**properties, **({"RETRY_TOPIC": origin} if origin else {}), **more}
    )


def put(sandbox: ThreadedSandbox, letters: list[OutgoingMessage]) -> None:
    """Store dead letters, each in the next queue."""

    async def send() -> None:
        async with Client([sandbox.addr]) as client:
            producer = Producer(client, "P")
            for each in letters:
                await producer.send_message("%DLQ%G", each)

    asyncio.run(send())


def found(capsys: Captured, topic: str) -> list[dict[str, Any]]:
    result = call(capsys, "message", "find", topic, "-o", "json")
    items: list[dict[str, Any]] = json.loads(result.out)["items"]
    return items


def ledgers(capsys: Captured) -> list[dict[str, Any]]:
    document = json.loads(call(capsys, "dlq", "status", "-o", "json").out)
    check_document(document)
    items: list[dict[str, Any]] = document["items"]
    return items


def replay(capsys: Captured, *words: str) -> tuple[Result, dict[str, Any]]:
    result = call(capsys, "dlq", "replay", "G", *words, "-o", "json")
    document = json.loads(result.out) if result.out else {}
    if document:
        check_document(document)
    return result, document
