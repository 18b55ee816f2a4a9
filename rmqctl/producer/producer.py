"""Sends messages as RocketMQ's producer does (DefaultMQProducer, DefaultMQProducerImpl.sendDefaultImpl)."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from ipaddress import ip_address
from types import TracebackType
from typing import Annotated, Self, TypeVar, Unpack

from msgspec import Meta
from msgspec.structs import replace

from rmqctl.client.core import Client
from rmqctl.client.fresh_routes import FreshRoutes
from rmqctl.client.rules.unique_key import UniqueKeys
from rmqctl.errors import (
    BrokerError,
    DeadlineError,
    LocalProtocolError,
    NotAuthorisedError,
    RefusedError,
    RemoteProtocolError,
    RmqctlError,
    UnreachableError,
    UsageError,
)
from rmqctl.model.checked import Count, Seconds, checked
from rmqctl.model.names import require_legal_name
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute
from rmqctl.model.send_result import OutgoingMessage, SendResult
from rmqctl.net.clock import wait_for
from rmqctl.net.own_address import own_address
from rmqctl.protocol import headers, sends
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.protocol.sends import DELAYS
from rmqctl.protocol.versions import V5_0_0, version_name
from rmqctl.rules.send_queues import next_queue, queue_of_key, split_batches, writable_queues

from .message import MessageOptions, make_message, with_sharding_key

_T = TypeVar("_T")

# Answers after which another broker is tried (DefaultMQProducer.retryResponseCodes of 5.4.0).
_TRIED_AGAIN = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT, ResponseCode.GO_AWAY,
    }
)  # fmt: skip
# The answer's header contains the id of every message.
_MAX_BATCH_COUNT = 1_000

# Reasons of UnreachableErrors that were raised before anything was sent.
_NO_MASTER = "no master is registered"
_NEVER_SENT = (_NO_MASTER, "connection refused")


class Producer:
    """Sends to any topic, taking turns among its writable queues: `async with`, or aclose() at the end.

    `client` has the name servers, as in "10.0.0.5:9876;10.0.0.6:9876", or is a Client that others share. `group` is the
    producer group that brokers and traces show. A failed send is retried at another broker, up to `retry_count` times
    within `timeout_s`; a send to a given queue is not retried. If a broker stores a message but does not answer in
    time, a retry stores it twice, with the same key. At most `in_flight_limit` sends of submit() run at a time.
    Raises UsageError for arguments that are invalid or out of range.
    """

    def __init__(
        self, client: Client | str | Sequence[str], group: str = "rmqctl", *, timeout_s: float = 3.0,
        retry_count: int = 2, in_flight_limit: int = 64, routes: FreshRoutes | None = None,
        keys: UniqueKeys | None = None,
    ) -> None:  # fmt: skip
        require_legal_name(checked("group", group, str))
        checked("timeout_s", timeout_s, Seconds)
        checked("retry_count", retry_count, Annotated[int, Meta(ge=0)])
        checked("in_flight_limit", in_flight_limit, Count)
        self.group = group
        self._is_own_client = not isinstance(client, Client)
        self._client = client if isinstance(client, Client) else Client(client)
        self.routes = routes or FreshRoutes(self._client)
        self._timeout_s = timeout_s
        self._retry_count = retry_count
        self._keys = keys or new_keys()
        self._turns: dict[str, int] = {}
        self._versions: dict[str, int] = {}
        self._room = asyncio.Semaphore(in_flight_limit)
        self._submitted: set[asyncio.Task[SendResult]] = set()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait for submitted messages. Nothing can be sent afterwards."""
        await self.flush()
        self._is_closed = True
        if self._is_own_client:
            await self._client.aclose()

    async def send(
        self, topic: str, body: bytes, *, mq: MessageQueue | None = None, sharding_key: str | None = None,
        **options: Unpack[MessageOptions],
    ) -> SendResult:  # fmt: skip
        """Send one message, to a given queue or to the queue of a sharding key; see make_message() for the options.

        All messages with one sharding key get the same queue, as with Java's SelectMessageQueueByHash, as long as the
        writable queues stay the same. Raises UsageError for an invalid message, else the errors of send_message().
        """
        message, mq = await self._prepare(topic, body, mq, sharding_key, options)
        return await self.send_message(topic, message, mq=mq)

    async def submit(
        self, topic: str, body: bytes, *, mq: MessageQueue | None = None, sharding_key: str | None = None,
        **options: Unpack[MessageOptions],
    ) -> asyncio.Task[SendResult]:  # fmt: skip
        """Start to send one message and return the task, whose result or error is that of send().

        Waits first while `in_flight_limit` messages are being sent. Messages of one queue can be stored in another
        order. Raises UsageError for an invalid message, and what the choice of its queue raises.
        """
        self._require_open()
        message, mq = await self._prepare(topic, body, mq, sharding_key, options)
        await self._room.acquire()
        task = asyncio.create_task(self.send_message(topic, message, mq=mq))
        self._submitted.add(task)
        task.add_done_callback(self._is_sent)
        return task

    def _is_sent(self, task: asyncio.Task[SendResult]) -> None:
        self._submitted.discard(task)
        self._room.release()

    async def flush(self) -> None:
        """Wait until all submitted messages are sent, or have failed; their tasks have the errors."""
        while self._submitted:  # those that waited for room are submitted meanwhile
            await asyncio.wait(self._submitted)

    def _require_open(self) -> None:
        if self._is_closed or self._client.is_closed:
            raise RefusedError(f"The {'producer' if self._is_closed else 'client'} is closed.")

    async def _prepare(
        self, topic: str, body: bytes, mq: MessageQueue | None, sharding_key: str | None, options: MessageOptions
    ) -> tuple[OutgoingMessage, MessageQueue | None]:
        """Return the message, and the queue for it if there is only one."""
        message = make_message(body, **options)
        _require_queue(mq)
        if sharding_key is None:
            return message, mq
        checked("sharding_key", sharding_key, str)
        if mq is not None:
            raise UsageError("A message has either a queue or a sharding key.")
        mq = queue_of_key(self._writable(await self.routes.route(topic)), sharding_key)
        return with_sharding_key(message, sharding_key), mq

    async def send_message(
        self, topic: str, message: OutgoingMessage, *, mq: MessageQueue | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send a message with its own properties; adds a unique key unless it has one.

        Raises NotFoundError for a topic without a route; RefusedError for a topic without a writable queue, or when the
        broker does not support delivery times; LocalProtocolError for a message that is too large; else the last
        attempt's error.
        """
        (keyed,) = self._keyed([message])
        _require_size(len(keyed.body))
        _sendable(lambda message: sends.properties_text(message.properties), keyed)

        def make(mq: MessageQueue) -> Command:
            return sends.send_message(self.group, mq, keyed, self._client.clock.now_ms())

        (result,) = await self._send(topic, [keyed], make, mq, timeout_s)
        return result

    async def send_batches(
        self, topic: str, messages: Sequence[OutgoingMessage], *, mq: MessageQueue | None = None
    ) -> AsyncIterator[list[SendResult]]:
        """Send messages in order, in as few requests as their sizes allow; yields the results of each request.

        Each batch is stored in one queue, completely or not at all. Raises the errors of send_message(): earlier
        batches are stored then, later ones are not sent. Raises UsageError for delayed messages.
        """
        if any(DELAYS.intersection(message.properties) for message in messages):
            raise UsageError("Delayed messages cannot be sent in batches: brokers ignore the delay.")
        keyed = self._keyed(messages)
        parts = [_sendable(sends.batch_part, message) for message in keyed]
        sizes = [sends.stored_bytes(part) for part in parts]
        for size_bytes in sizes:
            _require_size(size_bytes)
        for batch in split_batches(sizes, max_bytes=sends.MAX_BODY_BYTES, max_count=_MAX_BATCH_COUNT):
            yield await self._send_batch(topic, keyed[batch], parts[batch], mq)

    async def _send_batch(
        self, topic: str, messages: Sequence[OutgoingMessage], parts: Sequence[bytes], mq: MessageQueue | None
    ) -> list[SendResult]:
        def make(mq: MessageQueue) -> Command:
            return sends.send_batch(self.group, mq, parts, self._client.clock.now_ms())

        return await self._send(topic, messages, make, mq, None)

    def _keyed(self, messages: Iterable[OutgoingMessage]) -> list[OutgoingMessage]:
        """Return the messages with unique keys."""
        now_ms = self._client.clock.now_ms()
        return [
            message
            if UNIQ_KEY in message.properties
            else replace(message, properties={**message.properties, UNIQ_KEY: self._keys.make(now_ms)})
            for message in messages
        ]

    async def _send(
        self, topic: str, messages: Sequence[OutgoingMessage], make: Callable[[MessageQueue], Command],
        mq: MessageQueue | None, timeout_s: float | None,
    ) -> list[SendResult]:  # fmt: skip
        """Send one request to one broker after the other, until one stores it or the time is over."""
        self._require_open()
        _require_queue(mq)
        clock = self._client.clock
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        until_s = clock.monotonic_s() + timeout_s
        errors: list[RmqctlError] = []
        failed_broker: str | None = None
        for attempt in range(1 if mq is not None else 1 + self._retry_count):
            if attempt and clock.monotonic_s() >= until_s:
                break
            route = await self.routes.route(topic, again=attempt > 0)
            target = mq if mq is not None else self._choose(route, failed_broker)
            try:
                address = master_of(route, target.broker_name)
                if sends.needs_timer(messages[0].properties):
                    await self._require_timers(address, target)
                asking = self._client.ask(address, make(target), accept=sends.STORED, may_repeat=False)
                response = await wait_for(clock, asking, until_s - clock.monotonic_s())
            except TimeoutError:
                errors.append(DeadlineError(address, timeout_s))
            except (UnreachableError, RemoteProtocolError, NotAuthorisedError) as error:
                errors.append(error)
            except BrokerError as error:
                if error.code not in _TRIED_AGAIN:
                    raise
                errors.append(error)
            else:
                return _results(target, messages, response)
            failed_broker = target.broker_name
        raise _failure(errors)

    def _writable(self, route: TopicRoute) -> Sequence[MessageQueue]:
        queues = writable_queues(route)
        if not queues:
            raise RefusedError(f"Topic {route.topic} has no writable queue.")
        return queues

    def _choose(self, route: TopicRoute, failed_broker: str | None) -> MessageQueue:
        queues = self._writable(route)
        # Start at a random queue, so that many short runs do not all send to the first one.
        turn = self._turns.get(route.topic, random.randrange(len(queues)))  # noqa: S311
        target, self._turns[route.topic] = next_queue(queues, turn, avoided_broker=failed_broker)
        return target

    async def _require_timers(self, address: str, mq: MessageQueue) -> None:
        """Raise RefusedError for a broker that ignores delivery times and would deliver immediately."""
        version = self._versions.get(address)
        if version is None:
            answer = await self._client.ask(address, headers.get_max_offset(mq.topic, mq.queue_id))
            version = self._versions[address] = answer.version
        if version < V5_0_0:
            number = version_name(version)[1:].replace("_", ".")
            raise RefusedError(
                f"{mq.broker_name} runs {number}, which supports only delay levels.",
                hint="Use a broker of version 5.0 or later, or a delay level.",
            )


def new_keys() -> UniqueKeys:
    """Return the unique keys of a new producer in this process."""
    return UniqueKeys(ip_address(own_address()).packed, os.getpid(), random.getrandbits(32))


def _sendable(read: Callable[[OutgoingMessage], _T], message: OutgoingMessage) -> _T:
    """Return the result of `read`. Raises LocalProtocolError for properties that cannot be stored."""
    try:
        return read(message)
    except ValueError as error:
        raise LocalProtocolError(f"The message cannot be sent: {error}.") from None


def _require_queue(mq: object) -> None:
    if mq is not None and not (isinstance(mq, MessageQueue) and mq.queue_id >= 0):
        raise UsageError(f"Invalid mq {mq!r}: use a MessageQueue.")


def _require_size(size_bytes: int) -> None:
    if size_bytes > sends.MAX_BODY_BYTES:
        raise LocalProtocolError(
            f"The message is too large: {size_bytes} bytes, at most {sends.MAX_BODY_BYTES} are allowed."
        )


def master_of(route: TopicRoute, broker_name: str) -> str:
    """Return the address of a broker's master. Raises UnreachableError where none is registered."""
    for broker in route.brokers:
        if broker.broker_name == broker_name and broker.master_address is not None:
            return broker.master_address
    raise UnreachableError(broker_name, _NO_MASTER)


def _results(mq: MessageQueue, messages: Sequence[OutgoingMessage], response: Command) -> list[SendResult]:
    answer = sends.decode_send(response)
    # A topic of inner batches stores one record for the whole batch, with one id.
    ids = answer.offset_ids if len(answer.offset_ids) == len(messages) else (None,) * len(messages)
    return [
        SendResult(
            MessageQueue(mq.topic, mq.broker_name, answer.queue_id), answer.status, answer.queue_offset + index,
            message.properties[UNIQ_KEY], offset_id, answer.region_id, answer.is_traced, answer.transaction_id,
            answer.recall_handle,
        )
        for index, (message, offset_id) in enumerate(zip(messages, ids, strict=True))
    ]  # fmt: skip


def _failure(errors: Sequence[RmqctlError]) -> RmqctlError:
    """Return the last attempt's error with the number of attempts, and whether one may have been stored."""
    last = errors[-1]
    tried = f" All {len(errors)} attempts failed." if len(errors) > 1 else ""
    if not any(may_be_stored(error) for error in errors):
        return last.reworded(f"{last.sentence}{tried}")
    sentence = f"{last.sentence}{tried} The message may have been stored."
    return last.reworded(sentence, hint="Check before you send it again.")


def may_be_stored(error: RmqctlError) -> bool:
    """Return whether a broker may have stored the message although the send ended with an error."""
    if isinstance(error, UnreachableError):
        return error.reason not in _NEVER_SENT
    return isinstance(error, RemoteProtocolError)
