"""Sends the lanes of a replay to brokers: the requests of a lane in order, lanes at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RefusedError, RemoteProtocolError, RmqctlError
from rmqctl.model.send_result import SendStatus
from rmqctl.protocol import sends
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command

from .requests import ReplayRequest

_REQUESTS_AT_ONCE = 64
# A broker that does not answer in this time has the message, or will never have it (DefaultMQProducer.sendMsgTimeout).
_ANSWER_S = 10.0

Lanes = Sequence[Sequence[ReplayRequest]]
# Receives the index of a lane whose next request is stored, the offsets of its copies, and whether they are as safe as
# the broker is configured to store them.
OnStored = Callable[[int, Sequence[int], bool], None]


class LaneSender(Protocol):
    """Sends lanes."""

    async def send(self, lanes: Lanes, on_stored: OnStored, failing: set[tuple[str, str]]) -> Mapping[int, RmqctlError]:
        """Send each lane up to its first request that fails: later messages must not overtake it.

        Returns the errors by lane. Nothing is sent to the topics and brokers in `failing`; those that fail are added.
        """


class BrokerLanes:
    """Sends lanes from this process.

    `known` are rows whose copies are stored, by their places; they are not sent. `before_each` runs before each
    request, and what it raises ends the lane.
    """

    def __init__(
        self, client: Client, producer_group: str, *, known: Mapping[tuple[str, int, int, str], int] | None = None,
        before_each: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._client = client
        self._producer_group = producer_group
        self._known = known or {}
        self._before_each = before_each

    async def send(self, lanes: Lanes, on_stored: OnStored, failing: set[tuple[str, str]]) -> Mapping[int, RmqctlError]:
        """Send as LaneSender says."""

        async def send(index: int) -> None:
            for request in lanes[index]:
                if known := [self._known[row[:4]] for row in request.rows if row[:4] in self._known]:
                    if len(known) < len(request.rows):
                        raise RemoteProtocolError(f"{request.mq} has only a part of a batch.")
                    on_stored(index, known, True)
                    continue
                if request.place in failing:
                    raise RefusedError(f"Not sent to {request.mq.broker_name}, which failed before.")
                try:
                    answer = await self._ask(request)
                except RmqctlError as error:
                    if not _is_of_message(error):
                        failing.add(request.place)
                    raise
                result = sends.decode_send(answer)
                offsets = range(result.queue_offset, result.queue_offset + len(request.rows))
                on_stored(index, offsets, result.status is SendStatus.SEND_OK)

        return (await ask_all(range(len(lanes)), send, at_once=_REQUESTS_AT_ONCE)).failed

    async def _ask(self, request: ReplayRequest) -> Command:
        now_ms = self._client.clock.now_ms()
        if request.chunk.parts is not None:
            command = sends.send_batch(self._producer_group, request.mq, request.chunk.parts, now_ms)
        else:
            try:
                command = sends.send_message(self._producer_group, request.mq, request.chunk.items[0].message, now_ms)
            except ValueError as error:
                raise RefusedError(f"The message cannot be sent: {error}.") from None
        self._before_each()
        return await self._client.ask(
            request.address, command, accept=sends.STORED, may_repeat=False, timeout_s=_ANSWER_S
        )


def _is_of_message(error: RmqctlError) -> bool:
    """Return whether a message was refused for its content, so that others can be sent to the same broker."""
    return isinstance(error, RefusedError) or (
        isinstance(error, BrokerError) and error.code == ResponseCode.MESSAGE_ILLEGAL
    )
