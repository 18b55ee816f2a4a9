"""A client of the sandbox that speaks the bare protocol over a stream in memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from rmqctl.net.stream import Stream
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection, RequestReceived
from rmqctl.protocol.java_json import loads
from rmqctl.protocol.versions import version_ordinal
from rmqctl.sandbox import Sandbox

VERSION = version_ordinal(5, 4, 0)


class Peer:
    """One connection. `pushed` are the requests that the server sent, in order; `is_closed` reports its end.

    With `refuses` it answers those requests at once with an error, and with `info` the one for its running info with
    that, with `direct` the one to consume a message; without, it never answers them by itself.
    """

    def __init__(
        self, stream: Stream, *, version: int = VERSION, language: str = "JAVA", refuses: bool = False,
        info: bytes | None = None, direct: bytes | None = None,
    ) -> None:  # fmt: skip
        self._refuses = refuses
        self._bodies = {
            RequestCode.GET_CONSUMER_RUNNING_INFO: info, RequestCode.CONSUME_MESSAGE_DIRECTLY: direct,
        }  # fmt: skip
        self.pushed: list[Command] = []
        self.is_closed = False
        self._version, self._language = version, language
        self._stream = stream
        self._connection = Connection()
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def of_broker(cls, sandbox: Sandbox, name: str = "broker-a", **options: Any) -> Self:
        """Connect to a broker."""
        return cls(await sandbox.connect(sandbox.brokers[name].address), **options)

    @classmethod
    async def of_name_server(cls, sandbox: Sandbox, **options: Any) -> Self:
        """Connect to the name server."""
        return cls(await sandbox.connect(sandbox.addr), **options)

    def start(self, code: int, body: Any = b"", **fields: object) -> asyncio.Future[Command]:
        """Send a request; the future is its answer. A body that is no bytes is written as JSON."""
        opaque, data = self._connection.send_request(self._command(code, body, fields))
        answer = self._waiting[opaque] = asyncio.get_running_loop().create_future()
        self._stream.write(data)
        return answer

    async def ask(self, code: int, body: Any = b"", **fields: object) -> Command:
        """Send a request and return its answer, whatever its code. Fails the test when none comes in a while."""
        answer = self.start(code, body, **fields)
        for _ in range(200):
            if answer.done():
                return answer.result()
            await asyncio.sleep(0)
        raise AssertionError(f"request {code} was not answered")

    async def ask_ok(self, code: int, body: Any = b"", **fields: object) -> Command:
        """Send a request that must end in SUCCESS."""
        answer = await self.ask(code, body, **fields)
        assert answer.code == ResponseCode.SUCCESS, f"{answer.code}: {answer.remark}"
        return answer

    async def ask_json(self, code: int, body: Any = b"", **fields: object) -> Any:
        """Send a request that must end in SUCCESS; return the body of its answer."""
        return loads((await self.ask_ok(code, body, **fields)).body)

    def tell(self, code: int, body: Any = b"", **fields: object) -> None:
        """Send a request that wants no answer."""
        command = self._command(code, body, fields, flag=2)
        self._stream.write(self._connection.send_request(command)[1])

    def answer(self, request: Command, response: Command) -> None:
        """Answer a request that the server pushed."""
        self._stream.write(self._connection.send_response(request, response))

    async def heartbeat(self, client_id: str, *consumers: dict[str, Any], producers: tuple[str, ...] = ()) -> Command:
        """Send a heartbeat; `consumers` are made by consumer_data()."""
        body = {
            "clientID": client_id,
            "consumerDataSet": list(consumers),
            "producerDataSet": [{"groupName": name} for name in producers],
        }
        return await self.ask_ok(RequestCode.HEART_BEAT, body)

    async def aclose(self) -> None:
        await self._stream.aclose()
        await self._reading

    def _command(self, code: int, body: Any, fields: dict[str, object], flag: int = 0) -> Command:
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Command(code, texts, data, flag=flag, language=self._language, version=self._version)

    async def _read(self) -> None:
        while data := await self._stream.receive():
            self._connection.receive_data(data)
            while (event := self._connection.next_event()) is not None:
                if isinstance(event, RequestReceived):
                    self.pushed.append(event.command)
                    if (body := self._bodies.get(RequestCode(event.command.code))) is not None:
                        self.answer(event.command, Command(ResponseCode.SUCCESS, body=body))
                    elif self._refuses and not event.command.is_oneway:
                        self.answer(event.command, Command(ResponseCode.SYSTEM_ERROR, remark="this member is scripted"))
                else:
                    answer = self._waiting.pop(event.command.opaque, None)
                    if answer is not None and not answer.done():
                        answer.set_result(event.command)
        self.is_closed = True


def subscription(topic: str, expression: str = "*", version_ms: int = 1, **more: Any) -> dict[str, Any]:
    """Return a topic's part of a heartbeat as Java clients write it."""
    tags = [tag.strip() for tag in expression.split("||")] if expression != "*" else []
    return {
        "classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": expression,
        "subVersion": version_ms, "tagsSet": tags, "topic": topic, **more,
    }  # fmt: skip


def consumer_data(group: str, *subscriptions: dict[str, Any], model: str = "CLUSTERING", **more: Any) -> dict[str, Any]:
    """Return a group's part of a heartbeat."""
    return {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": group,
        "messageModel": model, "subscriptionDataSet": list(subscriptions), "unitMode": False, **more,
    }  # fmt: skip
