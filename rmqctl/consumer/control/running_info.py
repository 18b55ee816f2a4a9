"""A consumer's answer to a request for its running info (ConsumerRunningInfo), from given values, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from rmqctl.consumer.orderly_line import QueueLine
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.model.group import CONSUME_PASSIVELY, Subscription, TopicConsumeStatus
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.consumer_requests import subscription_data
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.versions import OUR_VERSION, version_name
from rmqctl.rules.flow_control import FlowControl
from rmqctl.rules.head_notes import Head, note_of_head

# Java's client shows this for a limit that is off.
_NO_LIMIT = "-1"
_HALF_AN_HOUR_MS = 30 * 60 * 1000
_MIB_BYTES = 1 << 20


class HeldQueue(Struct, frozen=True):
    """A held queue, and the position of its consumer. `line` is for orderly consumers only."""

    process_queue: ProcessQueue
    commit_offset: int
    is_locked: bool = True
    line: QueueLine | None = None


class ConsumerState(Struct, frozen=True, kw_only=True):
    """The values that the answer is built from.

    `strategy` and `listener` are names for people; `holds` counts how often each limit of flow control applied; `heads`
    has the first messages that the listener is processing; `stacks` is None if they were not requested.
    """

    settings: ConsumerSettings
    client_id: str
    started_at_ms: int
    name_servers: tuple[str, ...]
    strategy: str
    listener: str
    subscriptions: Iterable[Subscription]
    queues: Mapping[MessageQueue, HeldQueue]
    statuses: Mapping[str, TopicConsumeStatus]
    holds: Mapping[FlowControl, int]
    heads: Mapping[MessageQueue, Head] = {}
    stacks: str | None = None


def encode_running_info(running: ConsumerState) -> bytes:
    """Return the body. Clients of 4.9 write the same, except for `mqPopTable` and `userConsumerInfo` of 5.x."""
    return dumps(
        {
            "jstack": running.stacks,
            "mqPopTable": {},
            "mqTable": {mq: _process_queue_info(held) for mq, held in running.queues.items()},
            "properties": properties(running),
            "statusTable": {topic: _consume_status(status) for topic, status in running.statuses.items()},
            "subscriptionSet": [
                subscription_data(each) for each in sorted(running.subscriptions, key=lambda each: each.topic)
            ],
            # mqadmin prints the additions of applications here. Java only logs how often flow control applied, and does
            # not report since when its listener has had a message.
            "userConsumerInfo": {
                **{f"flowControl.{hold}": str(count) for hold, count in running.holds.items()},
                **dict(note_of_head(mq, head) for mq, head in running.heads.items()),
            },
        }
    )


def properties(running: ConsumerState) -> dict[str, str]:
    """Return the settings under the names of DefaultMQPushConsumer's fields, where they exist here."""
    settings = running.settings
    since_ms = settings.consume_timestamp_ms
    if since_ms is None:
        since_ms = running.started_at_ms - _HALF_AN_HOUR_MS
    named = {
        "PROP_CLIENT_VERSION": version_name(OUR_VERSION),
        "PROP_CONSUMEORDERLY": "true" if settings.is_orderly else "false",
        "PROP_CONSUMER_START_TIMESTAMP": str(running.started_at_ms),
        "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in running.name_servers),
        "PROP_THREADPOOL_CORE_SIZE": str(settings.worker_count),
        "allocateMessageQueueStrategy": running.strategy,
        "clientIP": running.client_id.partition("@")[0],
        "clientRebalance": "true",
        "consumeConcurrentlyMaxSpan": _limit(settings.span_limit),
        "consumeFromWhere": settings.consume_from.value,
        "consumeMessageBatchMaxSize": str(settings.batch_size),
        "consumeThreadMax": str(settings.worker_count),
        "consumeThreadMin": str(settings.worker_count),
        # In minutes; ours may have a fraction.
        "consumeTimeout": f"{settings.consume_timeout_s / 60:g}",
        "consumeTimestamp": _local_time(since_ms),
        "consumerGroup": settings.group,
        "heartbeatBrokerInterval": _ms(settings.heartbeat_s),
        "instanceName": running.client_id.partition("@")[2].partition("@")[0],
        "language": "PYTHON",
        "maxReconsumeTimes": str(settings.max_reconsume_times),
        "messageListener": running.listener,
        "messageModel": settings.message_model,
        "namesrvAddr": ";".join(running.name_servers),
        "persistConsumerOffsetInterval": _ms(settings.persist_s),
        "pollNameServerInterval": _ms(settings.route_refresh_s),
        "pullBatchSize": str(settings.pull_batch_size),
        "pullInterval": _ms(settings.pull_interval_s),
        "pullThresholdForQueue": _limit(settings.queue_count_limit),
        "pullThresholdForTopic": _limit(settings.topic_count_limit),
        "pullThresholdSizeForQueue": _limit(settings.queue_mib_limit),
        "pullThresholdSizeForTopic": _limit(settings.topic_mib_limit),
        "pullTimeDelayMillsWhenException": _ms(settings.error_delay_s),
        "unitMode": "false",
    }
    if settings.unit_name is not None:
        named["unitName"] = settings.unit_name
    return named


def _process_queue_info(held: HeldQueue) -> dict[str, Any]:
    queue, line = held.process_queue, held.line
    # Java shows the first and last offset of an empty queue as 0, and does not count what an orderly listener has.
    count, first, last = queue.count, queue.first_offset or 0, queue.last_offset or 0
    in_work: list[StoredMessage] = []
    if line is not None:
        count, (first, last) = len(line.waiting), _ends(line.waiting)
        in_work = [*line.uncommitted, *line.in_work]
    work_first, work_last = _ends(in_work)
    return {
        "cachedMsgCount": count,
        "cachedMsgMaxOffset": last,
        "cachedMsgMinOffset": first,
        "cachedMsgSizeInMiB": queue.size_bytes // _MIB_BYTES,
        "commitOffset": held.commit_offset,
        # Java drops an orderly queue before it waits for the batch that runs.
        "droped": queue.dropped or queue.unlock_tries > 0,
        "lastConsumeTimestamp": queue.last_consume_at_ms,
        # Concurrent consumption locks nothing. Java reports each of its queues as locked since it was taken, and
        # programs that wait for a queue to be taken again read that time.
        "lastLockTimestamp": queue.taken_at_ms if line is None else queue.locked_at_ms,
        "lastPullTimestamp": queue.last_pull_at_ms,
        "locked": held.is_locked,
        "transactionMsgCount": len(in_work),
        "transactionMsgMaxOffset": work_last,
        "transactionMsgMinOffset": work_first,
        "tryUnlockTimes": queue.unlock_tries,
        # Java's clients do not tell these from what the listener has.
        **({"uncommittedMsgCount": len(line.uncommitted)} if line is not None and line.uncommitted else {}),
    }


def _ends(messages: Sequence[StoredMessage]) -> tuple[int, int]:
    return (messages[0].queue_offset, messages[-1].queue_offset) if messages else (0, 0)


def _consume_status(status: TopicConsumeStatus) -> dict[str, float]:
    return {
        "consumeFailedMsgs": status.consume_failed_count,
        "consumeFailedTPS": status.consume_failed_tps,
        "consumeOKTPS": status.consume_ok_tps,
        "consumeRT": status.consume_rt_ms,
        "pullRT": status.pull_rt_ms,
        "pullTPS": status.pull_tps,
    }


def _limit(value: int | None) -> str:
    return _NO_LIMIT if value is None else str(value)


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _local_time(at_ms: int) -> str:
    """Return a time as Java writes it here: in the machine's time zone (UtilAll.timeMillisToHumanString3)."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC).astimezone():%Y%m%d%H%M%S}"
