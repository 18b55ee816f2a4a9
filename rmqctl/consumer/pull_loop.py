"""Pull the messages of queues: one request per queue at a time; its answer starts the next (PullMessageService)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.consumer.rules.pull_progress import offset_to_commit
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.group import CLUSTERING, Subscription
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import MASTER_ID
from rmqctl.net.clock import pause, wait_for
from rmqctl.protocol import consumer_requests, headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.rules.flow_control import FlowControl
from rmqctl.rules.message_filters.tags import has_tag

from .process_queue import ProcessQueue
from .settings import ConsumerSettings

# The valid answers to a pull (PullMessageProcessor); everything else is an error.
_ANSWERS = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.FLOW_CONTROL,
    }
)

_SUGGESTED = "suggestWhichBrokerId"


class PullOwner(Protocol):
    """The consumer that pulls, as the pulling needs it."""

    client: Client
    settings: ConsumerSettings
    is_running: bool

    def is_paused(self, process_queue: ProcessQueue) -> bool:
        """Return whether a queue is paused."""

    def subscription(self, topic: str) -> Subscription | None:
        """Return the subscription to a topic, in the version that brokers know."""

    def address(self, mq: MessageQueue, broker_id: int) -> str | None:
        """Return the address of a replica of a queue's broker, from the routes."""

    def hold(self, process_queue: ProcessQueue) -> FlowControl | None:
        """Return the limit that forbids pulling more, and count it."""

    def committed(self, mq: MessageQueue) -> int | None:
        """Return the offset in memory, None for none."""

    def pulled(self, process_queue: ProcessQueue, pulled: PullBatch) -> None:
        """Accept pulled messages, or the fact that this group has none up to an offset."""

    async def make_sure(self, process_queue: ProcessQueue) -> bool:
        """Return whether a doubtful queue is still this member's; otherwise give it up. Raises RmqctlError."""

    def look(self) -> None:
        """Find out whether this process has just been stopped, which makes its queues doubtful."""

    async def illegal_offset(self, process_queue: ProcessQueue, next_offset: int, *, is_reset: bool) -> None:
        """Give up a queue that was reset at its broker, or whose offset the broker lacks; continue where it says."""

    async def pull_failed(self, mq: MessageQueue, error: RmqctlError) -> None:
        """Note an error; send a heartbeat to a broker that does not know this client."""


class PullBatch(Struct, frozen=True):
    """An answer to a pull: the wanted messages, and the next offset to pull; `max_offset` is the queue's end."""

    asked_offset: int
    next_offset: int
    max_offset: int | None
    messages: Sequence[StoredMessage]
    spent_ms: float
    # Defects of some of them, in words.
    faults: Sequence[str] = ()


async def pull_queue(owner: PullOwner, process_queue: ProcessQueue) -> None:
    """Pull a queue from its next offset on until it is dropped. Raises only CancelledError."""
    settings, clock, mq = owner.settings, owner.client.clock, process_queue.mq
    broker_id = MASTER_ID
    while not process_queue.dropped:
        now_s = clock.monotonic_s()
        if now_s - process_queue.last_pull_s > settings.pull_expired_s:
            process_queue.is_doubtful = True  # the broker may have dropped this member
        process_queue.last_pull_s, process_queue.last_pull_at_ms = now_s, clock.now_ms()
        if not owner.is_running:
            await pause(clock, settings.not_running_s)
            continue
        if owner.is_paused(process_queue):
            await pause(clock, settings.paused_s)
            continue
        if owner.hold(process_queue) is not None:
            await _wait_for_room(owner, process_queue)
            continue
        subscription = owner.subscription(mq.topic)
        if subscription is None:
            await pause(clock, settings.error_delay_s)
            continue
        offset = process_queue.next_offset
        try:
            if not await owner.make_sure(process_queue):
                return
            answer, spent_ms = await _ask(owner, mq, offset, subscription, broker_id)
            owner.look()
            if clock.monotonic_s() - now_s > settings.pull_expired_s:
                process_queue.is_doubtful = True  # so late an answer may have been read by another member since
            if not await owner.make_sure(process_queue):
                return
            process_queue.last_pull_s = clock.monotonic_s()
            faults: list[str] = []
            next_offset, max_offset, messages = _read(answer, faults)
            is_reset = answer.code == ResponseCode.PULL_OFFSET_MOVED and _has(answer, offset)
            next_broker_id = headers.int_field(answer, _SUGGESTED) if answer.ext_fields.get(_SUGGESTED) else MASTER_ID
        except RmqctlError as error:
            broker_id = MASTER_ID
            process_queue.is_doubtful |= isinstance(error, UnreachableError)
            await owner.pull_failed(mq, error)
            await pause(clock, settings.error_delay_s)
            continue
        if _is_over(process_queue):
            return
        if owner.is_paused(process_queue):
            continue  # it was paused meanwhile, and these messages are pulled again later
        if answer.code == ResponseCode.FLOW_CONTROL:
            await pause(clock, settings.broker_busy_s)
            continue
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            await owner.illegal_offset(process_queue, next_offset, is_reset=is_reset)
            return
        broker_id = next_broker_id
        wanted = with_tags(messages, subscription.tags) if subscription.tags else messages
        owner.pulled(process_queue, PullBatch(offset, next_offset, max_offset, wanted, spent_ms, faults))
        process_queue.next_offset = next_offset
        if messages and settings.pull_interval_s:
            await pause(clock, settings.pull_interval_s)


def _is_over(process_queue: ProcessQueue) -> bool:
    return process_queue.dropped  # it may have been dropped meanwhile


def _has(answer: Command, offset: int) -> bool:
    """Return whether a queue has an offset, by the beginning and end that its broker answered. Raises RmqctlError."""
    if not {"minOffset", "maxOffset"} <= answer.ext_fields.keys():
        return False
    return headers.int_field(answer, "minOffset") <= offset <= headers.int_field(answer, "maxOffset")


def _read(answer: Command, faults: list[str]) -> tuple[int, int | None, list[StoredMessage]]:
    """Return the next offset to pull, the end of the queue, and the messages. Raises RemoteProtocolError.

    An inner batch that cannot be read becomes one message, which fails alone; `faults` has the reason.
    """
    if answer.code == ResponseCode.FLOW_CONTROL:
        return 0, None, []
    next_offset = headers.int_field(answer, "nextBeginOffset")
    max_offset = headers.int_field(answer, "maxOffset") if "maxOffset" in answer.ext_fields else None
    if answer.code != ResponseCode.SUCCESS:
        return next_offset, max_offset, []

    def note(message: StoredMessage, error: RmqctlError) -> None:
        faults.append(f"{message.queue_offset} is a batch that cannot be split and stays whole: {error.sentence}")

    return next_offset, max_offset, list(iter_messages(answer.body, note))


async def _ask(
    owner: PullOwner, mq: MessageQueue, offset: int, subscription: Subscription, broker_id: int
) -> tuple[Command, float]:
    """Return the answer to a pull, and how long it took in ms. Raises RmqctlError."""
    settings, client = owner.settings, owner.client
    address = owner.address(mq, broker_id)
    if address is None:
        raise UnreachableError(mq.broker_name, "the name server does not list its address")
    committed = offset_to_commit(
        owner.committed(mq), is_clustering=settings.message_model == CLUSTERING, is_slave=broker_id != MASTER_ID
    )
    request = consumer_requests.pull(
        settings.group, mq, offset, subscription, max_count=settings.pull_batch_size, committed=committed or 0,
        hold_ms=int(settings.hold_s * 1000),
    )  # fmt: skip
    began_s = client.clock.monotonic_s()
    held_s = max(settings.hold_s, settings.pull_timeout_s - client.deadline.attempt_s())
    answer = await client.ask(address, request, accept=_ANSWERS, held_s=held_s)
    return answer, (client.clock.monotonic_s() - began_s) * 1000


async def _wait_for_room(owner: PullOwner, process_queue: ProcessQueue) -> None:
    """Wait until a message is acknowledged, at most as long as RocketMQ waits each time."""
    try:
        await wait_for(owner.client.clock, process_queue.room.wait(), owner.settings.flow_control_s)
    except TimeoutError:
        pass


def with_tags(messages: Sequence[StoredMessage], tags: frozenset[str]) -> list[StoredMessage]:
    """Return the messages with one of these tags: brokers compare only hashes, which other tags can share.

    A message whose properties cannot be read is kept, so that it fails alone in the listener.
    """
    return [message for message in messages if _may_have_tag(message, tags)]


def _may_have_tag(message: StoredMessage, tags: frozenset[str]) -> bool:
    try:
        return has_tag(tags, message.tags)
    except RmqctlError:
        return True
