"""What members report about themselves: their settings, and whether they pop, pull or broadcast.

Their settings override the group's configuration on the brokers. Their modes can be mixed, and a broker keeps only that
of the last heartbeat. A member pops if it leaves the allocation to the brokers (clientRebalance=false), from the topics
that setConsumeMode has set to POP; one that consumes in order or broadcasts never pops
(DefaultMQPushConsumerImpl.clientRebalance). Members that pop still pull the group's retry topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from rmqctl.model.group import BROADCASTING, CONSUME_ACTIVELY, CONSUME_POP, RunningInfo
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue

# Integer.MAX_VALUE: the default retry limit of orderly members.
NO_LIMIT = 2**31 - 1
# DefaultMQPushConsumerImpl.getMaxReconsumeTimes.
DEFAULT_RETRIES = 16


class MemberSettings(Struct, frozen=True):
    """Settings that a client reports, None where it does not; `max_reconsume_times` is -1 by default.

    `batch_size` is the largest number of messages that one call of the listener gets.
    """

    consume_from_where: str | None
    max_reconsume_times: int | None
    consume_timeout_ms: int | None
    is_orderly: bool | None
    thread_count: int | None = None
    started_at_ms: int | None = None
    pull_interval_ms: int | None = None
    batch_size: int | None = None


def member_settings(info: RunningInfo) -> MemberSettings:
    """Return the settings that a client reports."""
    properties = info.properties
    batch_size = _integer(properties.get("consumeMessageBatchMaxSize"))
    return MemberSettings(
        consume_from_where=properties.get("consumeFromWhere") or None,
        max_reconsume_times=_integer(properties.get("maxReconsumeTimes")),
        consume_timeout_ms=_minutes_ms(properties.get("consumeTimeout")),
        is_orderly=consumes_orderly(info),
        thread_count=_integer(properties.get("PROP_THREADPOOL_CORE_SIZE")),
        started_at_ms=_integer(properties.get("PROP_CONSUMER_START_TIMESTAMP")),
        pull_interval_ms=_integer(properties.get("pullInterval")),
        batch_size=batch_size if batch_size is not None and batch_size > 0 else None,
    )


def consumes_orderly(info: RunningInfo) -> bool | None:
    """Return whether a client consumes in order; None if it does not report that, as pull clients do not."""
    return {"true": True, "false": False}.get(info.properties.get("PROP_CONSUMEORDERLY", "").lower())


def retry_limit(max_reconsume_times: int | None, *, is_orderly: bool | None) -> int | None:
    """Return how often a push consumer has a message redelivered, None when that is unknown.

    Clients send their own limit with every failed message, and the broker uses it instead of the group's
    retryMaxTimes (SendMessageProcessor.consumerSendMsgBack). -1 means 16 for concurrent members, and no limit for
    orderly ones (ConsumeMessageOrderlyService.getMaxReconsumeTimes).
    """
    if max_reconsume_times is None or (max_reconsume_times < 0 and is_orderly is None):
        return None
    if max_reconsume_times < 0:
        return NO_LIMIT if is_orderly else DEFAULT_RETRIES
    return max_reconsume_times


def limit_words(limit: int) -> str:
    """Return a retry limit in words."""
    return "no limit" if limit == NO_LIMIT else str(limit)


def _integer(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _minutes_ms(text: str | None) -> int | None:
    """Return consumeTimeout in ms. Java's is a whole number of minutes; rmqctl's own consumer has fractions."""
    try:
        minutes = float(text or "")
    except ValueError:
        return None
    return round(minutes * 60_000) if 0 <= minutes < 1e9 else None


def pulled_queues(info: RunningInfo) -> frozenset[MessageQueue]:
    """Return the queues that a member pulls, without those that it is giving up."""
    return frozenset(mq for mq, held in info.process_queues.items() if not held.dropped)


def pops_from(info: RunningInfo, mq: MessageQueue) -> bool:
    """Return whether a member reports that it pops from a queue."""
    return is_among(mq, info.pop_unacked)


def is_among(mq: MessageQueue, popped: Collection[MessageQueue]) -> bool:
    """Return whether a queue is among those that members pop from."""
    return bool(popped) and (mq in popped or shared_queue(mq) in popped)


def shared_queue(mq: MessageQueue) -> MessageQueue:
    """Return the queue -1, as which brokers assign all queues together that they have of a topic."""
    return MessageQueue(mq.topic, mq.broker_name, -1)


def pulls_by_itself(info: RunningInfo) -> bool:
    """Return whether a member's application pulls or polls (DefaultMQPullConsumer, DefaultLitePullConsumer)."""
    return info.properties.get("PROP_CONSUME_TYPE") == CONSUME_ACTIVELY


def is_only_pulled(running: Collection[RunningInfo], mq: MessageQueue) -> bool:
    """Return whether a member reports that it pulls a queue, and none that it pops from it."""
    held = (info.process_queues.get(mq) for info in running)
    return any(each is not None and not each.dropped for each in held) and not any(
        pops_from(info, mq) for info in running
    )


def pops(info: RunningInfo, at_brokers: str | None = None) -> bool:
    """Return whether a member pops from any queue.

    `at_brokers` is the type that brokers report for the group: it counts only for a member that reports none.
    """
    is_pop = (info.properties.get("PROP_CONSUME_TYPE") or at_brokers) == CONSUME_POP
    return bool(info.pop_unacked) or (is_pop and not _holds_topics(info))


def pulls(info: RunningInfo, at_brokers: str | None = None) -> bool:
    """Return whether a member pulls queues of any topic but the retry topic, or would if it had a share.

    One that leaves the allocation to the brokers and has no queue does neither: its mode is not known yet.
    `at_brokers` as for pops().
    """
    if _holds_topics(info):
        return True
    is_assigned = (
        info.properties.get("clientRebalance", "").lower() == "false"
        and not broadcasts(info)
        and consumes_orderly(info) is not True
    )
    return not is_assigned and not pops(info, at_brokers)


def _holds_topics(info: RunningInfo) -> bool:
    return any(not mq.topic.startswith(RETRY_PREFIX) for mq in pulled_queues(info))


def broadcasts(info: RunningInfo) -> bool:
    """Return whether a member broadcasts, by its own report."""
    return info.properties.get("messageModel") == BROADCASTING


def is_broadcasting_group(running: Iterable[RunningInfo], at_brokers: Iterable[str]) -> bool:
    """Return whether all members that report their message model broadcast; if none does, whether a broker says so."""
    reported = {model for info in running if (model := info.properties.get("messageModel"))}
    return reported == {BROADCASTING} if reported else BROADCASTING in at_brokers


class BothWays(NamedTuple):
    """The members that pull a queue, and those that pop from it, in order."""

    pulling: tuple[str, ...]
    popping: tuple[str, ...]


def both_ways(running: Mapping[str, RunningInfo], queues: Iterable[MessageQueue]) -> dict[MessageQueue, BothWays]:
    """Return the queues that one member pulls and another one pops.

    A broker delivers each message of such a queue both ways, and keeps a single offset, which both overwrite.
    Broadcasting members do not count: they get every message anyway, and commit nothing.
    """
    pulled = {client_id: pulled_queues(info) for client_id, info in sorted(running.items()) if not broadcasts(info)}
    popping = {client_id: info for client_id, info in sorted(running.items()) if info.pop_unacked}
    found = {}
    for mq in queues if popping else ():
        way = BothWays(
            tuple(client_id for client_id, held in pulled.items() if mq in held),
            tuple(client_id for client_id, info in popping.items() if pops_from(info, mq)),
        )
        if all(way) and len({*way.pulling, *way.popping}) > 1:
            found[mq] = way
    return found
