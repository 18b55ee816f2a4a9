"""Checks that pops share, some of them with pulls, and where a pop starts to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import Permission
from rmqctl.rules.pop_handles import pop_retry_topic
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.delivery.held_requests import HeldRequest
from rmqctl.sandbox.groups.filters import EVERYTHING, EntryFilter, build_filter
from rmqctl.sandbox.groups.subscription import parse_subscription
from rmqctl.sandbox.pop.state import PollingRequests, WaitKey
from rmqctl.sandbox.request import RefusalError, Request
from rmqctl.sandbox.topics.table import Topic

# ConsumeInitMode
MIN, MAX = 0, 1

NO_FIELDS: Mapping[str, object] = {}

_EXPRESSION_TYPES = ("", "TAG", "SQL92")


class ReadTarget(Struct, frozen=True):
    """The group, topic and queue of a request; a negative queue id means all queues."""

    group: str
    topic: str
    queue_id: int

    @classmethod
    def of(cls, request: Request) -> ReadTarget:
        """Read it from a request; a missing queue id is 0, like a Java int."""
        return cls(request.text("consumerGroup"), request.text("topic"), request.number("queueId", 0))

    def queue_ids(self, topic: Topic, turn: int, *, is_descending: bool = True) -> list[int]:
        """Return the queues to read, in the order of this turn."""
        if self.queue_id >= 0:
            return [self.queue_id]
        return rotated(topic.read_queue_count, turn, is_descending=is_descending)


def rotated(count: int, turn: int, *, is_descending: bool = True) -> list[int]:
    """Return all queue ids in order, starting at a different one each turn (popMsgFromTopic)."""
    ids = [(turn + step) % count for step in range(count)]
    return [count - 1 - queue_id for queue_id in ids] if is_descending else ids


def require_readable_broker(broker: Broker, what: str, fields: dict[str, object]) -> None:
    """Raise RefusalError when the broker is not readable."""
    if not broker.permission & Permission.READ:
        remark = f"the broker[{broker.store_host_text}] {what} message is forbidden"
        raise RefusalError(ResponseCode.NO_PERMISSION, remark, **fields)


def require_topic(broker: Broker, request: Request, target: ReadTarget, fields: dict[str, object]) -> Topic:
    """Return the target's topic. Raises RefusalError unless it is readable and has the queue."""
    topic = find_topic(broker, target.topic, fields)
    if not topic.perm & Permission.READ:
        remark = f"the topic[{target.topic}] peeking message is forbidden"
        raise RefusalError(ResponseCode.NO_PERMISSION, remark, **fields)
    if target.queue_id >= topic.read_queue_count:
        raise RefusalError(ResponseCode.INVALID_PARAMETER, illegal_queue(request, topic, target.queue_id), **fields)
    return topic


def find_topic(broker: Broker, name: str, fields: Mapping[str, object] = NO_FIELDS) -> Topic:
    """Return a topic. Raises RefusalError with TOPIC_NOT_EXIST."""
    topic = broker.topics.find(name)
    if topic is None:
        remark = f"topic[{name}] not exist, apply first please! {broker.profile.advice}"
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, remark, **fields)
    return topic


def illegal_queue(request: Request, topic: Topic, queue_id: int) -> str:
    """Return a broker's remark on a queue id that does not exist."""
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_count}] consumer:[/{request.channel.address}]"
    )


def require_group(broker: Broker, group: str, fields: dict[str, object]) -> None:
    """Raise RefusalError for a group that is disabled, or does not exist and cannot be created."""
    config = broker.groups.find_or_create(group)
    if config is None:
        remark = f"subscription group [{group}] does not exist, {broker.profile.advice}"
        raise RefusalError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark, **fields)
    if not config["consumeEnable"]:
        remark = f"subscription group no permission, {group}"
        raise RefusalError(ResponseCode.NO_PERMISSION, remark, **fields)


def read_filter(request: Request, topic: str, fields: dict[str, object]) -> EntryFilter:
    """Return the filter of the request's expression. Raises RefusalError with SUBSCRIPTION_PARSE_FAILED."""
    expression, kind = request.text("exp", ""), request.text("expType", "")
    if not expression:
        return EVERYTHING
    try:
        if kind not in _EXPRESSION_TYPES:
            raise ValueError(f"no expression type: {kind}")
        return build_filter(parse_subscription(topic, expression, kind or "TAG"))
    except ValueError:
        remark = "parse the consumer's subscription failed"
        raise RefusalError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark, **fields) from None


def retry_topics(broker: Broker, target: ReadTarget) -> list[str]:
    """Return the pop retry topics that a pop of this target may read, those named by the current release first."""
    is_v2 = broker.settings.flag("enableRetryTopicV2")
    names = [pop_retry_topic(target.group, target.topic, is_v2=is_v2)]
    if is_v2 and broker.settings.flag("retrieveMessageFromPopRetryTopicV1"):
        names.append(pop_retry_topic(target.group, target.topic, is_v2=False))
    return names


def waited_for(broker: Broker, target: ReadTarget, topic: Topic, retry_names: list[str]) -> list[tuple[str, int]]:
    """Return the queues whose messages end a wait."""
    # With queues of its own for each queue, a retry topic is yet to get some of them.
    retry_count = topic.write_queue_count if broker.settings.flag("useSeparateRetryQueue") else 1
    retries = [(name, queue_id) for name in retry_names for queue_id in range(retry_count)]
    return [(target.topic, queue_id) for queue_id in target.queue_ids(topic, 0)] + retries


def look_offset(broker: Broker, group: str, topic: str, queue_id: int) -> int:
    """Return a group's offset, or the queue's smallest offset when it has none. Stores nothing."""
    offset = broker.offsets.find(group, topic, queue_id)
    return broker.store.min_offset(topic, queue_id) if offset is None else offset


def begin_offset(broker: Broker, group: str, topic: str, queue_id: int, init_mode: int) -> int:
    """Return the offset where a pop starts; store it when the group is new there (getPopOffset).

    A pending reset is applied first, and frees an orderly queue.
    """
    reset = broker.offsets.take_reset(group, topic, queue_id)
    if reset is not None:
        broker.pop.orders.clear(topic, group, queue_id)
        broker.offsets.store(group, topic, queue_id, reset)
        return reset
    offset = broker.offsets.find(group, topic, queue_id)
    if offset is None:
        offset = _first_offset(broker, topic, queue_id, init_mode)
        broker.offsets.store(group, topic, queue_id, offset)
    return offset


def _first_offset(broker: Broker, topic: str, queue_id: int, init_mode: int) -> int:
    low, high = broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)
    if init_mode == MIN or topic.startswith(RETRY_PREFIX):
        return low
    # A queue that still has its first message is new enough to be read from there.
    if low <= 0 and broker.settings.flag("initPopOffsetByCheckMsgInMem"):
        return 0
    return max(0, high - 1)


def hold_request(
    broker: Broker, waiting: PollingRequests, key: WaitKey, queues: list[tuple[str, int]], wait_ms: int,
    request: Request, run: Callable[[], Command | None], *, passing: EntryFilter = EVERYTHING,
) -> None:  # fmt: skip
    """Hold a request until a message passes the filter or the time is over; then `run` resumes it once."""
    hold: HeldRequest

    def wake(_: bool) -> None:
        waiting.remove(key, hold)
        broker.server.resume(request, run)

    hold = broker.holds.hold(
        queues, wait_ms / 1000, wake, owner=request.channel,
        accepts_code=passing.accepts_code, accepts_properties=passing.accepts_properties,
    )  # fmt: skip
    waiting.add(key, hold)
