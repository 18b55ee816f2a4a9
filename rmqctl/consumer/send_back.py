"""Send back messages that could not be consumed, so that they are redelivered later (DefaultMQPushConsumerImpl)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Protocol

from rmqctl.client.core import Client
from rmqctl.consumer.rules.retry_locks import PossibleLocker
from rmqctl.errors import DeadlineError, RefusedError, RmqctlError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.net.clock import wait_for
from rmqctl.producer.producer import Producer
from rmqctl.protocol import sends
from rmqctl.protocol.message import StoredMessage
from rmqctl.rules.send_queues import writable_queues

from .guards.retry_guard import RetryGuard, explain


class RetrySender(Protocol):
    """Sends a message back to its broker for a later retry."""

    async def __call__(self, message: StoredMessage, level: int, *, broker_name: str | None = None) -> None:
        """Send it with a delay level to the broker that delivered it. Raises RmqctlError when no broker accepts it."""


class SendBackRequests:
    """Sends messages of a group back, each by its own request: to the broker that stored it, else as a new message.

    `fallback_count` counts the new messages. `guard` finds the brokers that would make a new message a dead letter;
    without it, none is checked for that. When an answer does not arrive in time, both ways may store a message twice,
    and it is then delivered twice.
    """

    def __init__(
        self, client: Client, group: str, producer: Producer, *, max_reconsume_times: int = 16, timeout_s: float = 5.0,
        fallback_timeout_s: float = 3.0, guard: RetryGuard | None = None,
    ) -> None:  # fmt: skip
        self.fallback_count = 0
        self._guard = guard
        self._client = client
        self._group = group
        self._producer = producer
        self._limit = max_reconsume_times
        self._timeout_s = timeout_s
        self._fallback_timeout_s = fallback_timeout_s

    async def __call__(self, message: StoredMessage, level: int, *, broker_name: str | None = None) -> None:
        """Send a message back with a delay level: 0 leaves it to the broker, a negative one makes it a dead letter.

        `broker_name` is the broker that delivered it, if known. Raises RmqctlError when no broker accepts it: the error
        of the second way, with the reason of the first one.
        """
        try:
            if message.inner_index is None:
                await self._by_offset(message, level, broker_name)
                return
            # Its offset in the log is that of the whole batch: the broker would redeliver all of its messages.
            first_error = None
        except RmqctlError as error:
            first_error = error
        try:
            await self._as_new_message(message, level)
        except RmqctlError as error:
            if first_error is None:
                raise
            raise error.reworded(f"{error.sentence} The first attempt failed: {first_error.sentence}") from None
        self.fallback_count += 1

    async def _by_offset(self, message: StoredMessage, level: int, broker_name: str | None) -> None:
        broker_name, address = await self._master(message, broker_name)
        command = sends.send_back(
            self._group, message.commit_log_offset, delay_level=level, max_reconsume_times=self._limit,
            origin_message_id=message.message_id, origin_topic=_topic(message), broker_name=broker_name,
        )  # fmt: skip
        try:
            asking = self._client.ask(address, command, timeout_s=self._timeout_s, may_repeat=False)
            await wait_for(self._client.clock, asking, self._timeout_s)
        except TimeoutError:
            raise DeadlineError(address, self._timeout_s) from None

    async def _master(self, message: StoredMessage, broker_name: str | None) -> tuple[str | None, str]:
        """Return the broker that stored a message, and the address of its master, which may have changed.

        A broker that is not in the topic's route is asked at its old address. Only masters accept messages back.
        """
        try:
            route = await self._producer.routes.route(message.topic)
        except RmqctlError:
            return broker_name, message.store_host
        for broker in route.brokers:
            is_its = message.store_host in broker.addresses.values()
            if broker.master_address is not None and (
                is_its if broker_name is None else broker.broker_name == broker_name
            ):
                return broker.broker_name, broker.master_address
        return broker_name, message.store_host

    async def _as_new_message(self, message: StoredMessage, level: int) -> None:
        """Send it to the group's retry topic, at a broker without locks of the group: it is then retried as usual."""
        # The delay is always that of the next attempt.
        made = sends.retry_message(message, _topic(message), delay_level=min(level, 0), max_reconsume_times=self._limit)
        topic = f"{RETRY_PREFIX}{self._group}"
        is_dead = level < 0 or message.reconsume_times >= self._limit
        hindered = {} if is_dead else await self._find_hindrances(topic)
        if not hindered:
            await self._producer.send_message(topic, made, timeout_s=self._fallback_timeout_s)
            return
        route = await self._producer.routes.route(topic)
        free = [mq for mq in writable_queues(route) if mq.broker_name not in hindered]
        if not free:
            hint = "Make all members of a group consume in the same way."
            raise RefusedError(explain(hindered.items(), self._group), hint=hint)
        # Any of them, and no other broker when it fails: the next attempt chooses again.
        chosen = random.choice(free)  # noqa: S311
        await self._producer.send_message(topic, made, mq=chosen, timeout_s=self._fallback_timeout_s)

    async def _find_hindrances(self, topic: str) -> Mapping[str, PossibleLocker]:
        """Return the brokers of the retry topic that would make this a dead letter, each with the hindering member."""
        if self._guard is None:
            return {}
        route = await self._producer.routes.route(topic)
        names = {mq.broker_name for mq in writable_queues(route)}
        return await self._guard.find_hindrances([each for each in route.brokers if each.broker_name in names])


def _topic(message: StoredMessage) -> str:
    """Return the topic that a message, or a retry, was first sent to."""
    return message.properties.get(sends.RETRY_TOPIC) or message.topic
