"""A client of a script that answers what the broker asks it, in a thread beside the script."""

from __future__ import annotations

import json
import select
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import RequestReceived
from tests.real.differential.asker import Asker, Exchange

HEART_BEAT = 34
_POLL_S = 0.02


class Member:
    """A consumer that registers in a group and, inside of `with`, answers the broker's requests.

    `answers` are by request code; a request without one is taken without an answer. What the broker asked is kept
    among the script's exchanges, as asked of "client", so that it is compared as well. The script must not use the
    member's connection while it answers.
    """

    def __init__(self, ask: Asker, client: str, answers: Mapping[int, Command | None]) -> None:
        self._ask, self.client, self._answers = ask, client, answers
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.seen: list[Command] = []

    def join(self, group: str, *topics: str, language: str = "JAVA", version: int | None = None) -> Self:
        """Send a heartbeat for a group that subscribes to topics. Call it before `with`."""
        connection = self._ask.connection("broker", self.client)
        subscriptions = [
            {"classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*", "subVersion": 1,
             "tagsSet": [], "topic": topic}
            for topic in topics
        ]  # fmt: skip
        item = {
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": group,
            "messageModel": "CLUSTERING", "subscriptionDataSet": subscriptions, "unitMode": False,
        }  # fmt: skip
        body = json.dumps({"clientID": self.client, "consumerDataSet": [item], "producerDataSet": []}).encode()
        ordinal = self._ask._version if version is None else version
        connection.ask(Command(HEART_BEAT, {}, body, language=language, version=ordinal))
        return self

    def __enter__(self) -> Self:
        self._ask.connection("broker", self.client).pushed.clear()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        time.sleep(10 * _POLL_S)  # requests that want no answer may come after the answer to the script
        self._over.set()
        self._thread.join()
        for command in self.seen:
            self._ask.exchanges.append(Exchange("client", command.code, {}, command))

    def leave(self) -> None:
        """Close the connection."""
        self._ask.connection("broker", self.client).socket.close()
        self._ask._connections.pop(("broker", self.client))

    def _serve(self) -> None:
        connection = self._ask.connection("broker", self.client)
        while not self._over.is_set():
            event: Any = connection.protocol.next_event()
            if event is None:
                if select.select([connection.socket], [], [], _POLL_S)[0]:
                    received = connection.socket.recv(1 << 16)
                    if not received:
                        return
                    connection.protocol.receive_data(received)
                continue
            if isinstance(event, RequestReceived) and event.command.code in self._answers:
                self.seen.append(event.command)
                answer = self._answers[event.command.code]
                if answer is not None:
                    connection.socket.sendall(connection.protocol.send_response(event.command, answer))
