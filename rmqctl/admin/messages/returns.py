"""Send messages back to their broker, and find the copies that it stores."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.admin.brokers.rules.runtime_table import read_runtime
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, RemoteProtocolError, RmqctlError
from rmqctl.model.names import DELAY_TOPIC, DLQ_PREFIX, RETRY_PREFIX, dead_letter_topic
from rmqctl.model.plan import ReturnedMessage
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.protocol import bodies, headers, sends
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.rules.message_wait import REAL_TOPIC

_MOST_COPIES = 64
_LOOK_EVERY_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_END_OF_TIME_MS = 2**63 - 1
# A unique key that no message has.
_NO_KEY = "0" * 32


async def send_back(
    client: Client, address: str, broker_name: str, group: str, message: ReturnedMessage, *, delay_level: int,
    max_reconsume_times: int, timeout_s: float,
) -> None:  # fmt: skip
    """Send a message back to the master that stores it, for a retry; a negative delay level makes it a dead letter.

    Raises the errors of Client.ask(): a refusal stored nothing; after other errors it may have been stored.
    """
    command = sends.send_back(
        group, message.commit_log_offset, delay_level=delay_level, max_reconsume_times=max_reconsume_times,
        origin_message_id=message.message_id, origin_topic=message.origin_topic, broker_name=broker_name,
    )  # fmt: skip
    await client.ask(address, command, timeout_s=timeout_s, may_repeat=False)


async def send_copy(
    client: Client, address: str, group: str, message: StoredMessage, origin_topic: str, *, broker_name: str,
    delay_level: int, max_reconsume_times: int, timeout_s: float,
) -> None:  # fmt: skip
    """Store a new copy of a message in the group's retry topic, with `origin_topic` as its origin.

    send_back() of a message in a pop retry topic would keep that topic as its origin. Raises the errors of send_back().
    """
    retried = sends.retry_message(
        message, origin_topic, delay_level=delay_level, max_reconsume_times=max_reconsume_times
    )
    mq = MessageQueue(f"{RETRY_PREFIX}{group}", broker_name, 0)
    command = sends.send_message(group, mq, retried, message.born_at_ms)
    await client.ask(address, command, timeout_s=timeout_s, accept=frozenset(sends.STORED), may_repeat=False)


async def fetch_log_end(client: Client, address: str) -> int:
    """Return the end of a master's commit log. Messages stored from now on are at or after it.

    Raises RemoteProtocolError for a broker that does not report it.
    """
    answer = await client.ask(address, headers.get_broker_runtime())
    end = read_runtime(bodies.decode_key_values(answer.body)).commit_log_max_offset
    if end is None:
        raise RemoteProtocolError(f"{address} did not report the end of its commit log.")
    return end


async def find_copy(
    client: Client, address: str, group: str, message: ReturnedMessage, known_before: int, *, level: int | None = None
) -> str | None:
    """Return the topic in which a master stored a copy of a message after `known_before`, None if none so far.

    The copy is recognised by the unique key, which a message keeps, and by its number of retries. With `level`, only a
    copy that waits, or waited, for this delay level counts: others are retries of members. Brokers index a message a
    moment after they store it.
    """
    for topic in _topics(group):
        for copy in await _indexed(client, address, topic, message.message_id):
            is_later = copy.commit_log_offset >= known_before and copy.reconsume_times > message.reconsume_times
            is_own = level is None or _has_level(copy, message, level)
            if is_later and is_own and copy.message_id == message.message_id and _is_of(group, copy):
                return topic
    return None


async def see_copy(
    client: Client, address: str, group: str, message: ReturnedMessage, known_before: int, *, within_s: float,
    level: int | None = None,
) -> tuple[str | None, str]:  # fmt: skip
    """Wait for a copy as find_copy() finds it. Returns its topic, None if it is not seen in time, and why, if known."""
    until_s = client.clock.monotonic_s() + within_s
    turn = 0
    while True:
        topic, note = None, ""
        try:
            topic = await find_copy(client, address, group, message, known_before, level=level)
        except RmqctlError as error:
            note = error.sentence
        left_s = until_s - client.clock.monotonic_s()
        if topic is not None or left_s <= 0:
            return topic, note
        await pause(client.clock, min(left_s, _LOOK_EVERY_S[min(turn, len(_LOOK_EVERY_S) - 1)]))
        turn += 1


async def require_copies_readable(client: Client, address: str, group: str) -> None:
    """Raise NotAuthorisedError if this account may not look for copies on a broker."""
    for topic in _topics(group):
        await _indexed(client, address, topic, _NO_KEY)


def _topics(group: str) -> tuple[str, str, str]:
    """Return where copies are: those that wait, those to be consumed again, and dead letters."""
    return DELAY_TOPIC, f"{RETRY_PREFIX}{group}", dead_letter_topic(group)


async def _indexed(client: Client, address: str, topic: str, key: str) -> Sequence[StoredMessage]:
    request = headers.query_message(topic, key, max_count=_MOST_COPIES, begin_ms=0, end_ms=_END_OF_TIME_MS)
    try:
        answer = await client.ask(address, request)
    except BrokerError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return ()
        raise
    return list(iter_messages(answer.body))


def _has_level(copy: StoredMessage, message: ReturnedMessage, level: int) -> bool:
    """Return whether a copy is the next retry, after this delay level; its copy in the retry topic keeps no level."""
    if copy.topic != DELAY_TOPIC:
        return copy.topic.startswith(DLQ_PREFIX)
    return copy.queue_id == level - 1 and copy.reconsume_times == message.reconsume_times + 1


def _is_of(group: str, copy: StoredMessage) -> bool:
    """Return whether a copy belongs to the group: all groups share the topic of waiting messages."""
    real = copy.properties.get(REAL_TOPIC, copy.topic)
    return real in (f"{RETRY_PREFIX}{group}", dead_letter_topic(group))
