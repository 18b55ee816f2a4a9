"""Find messages by key, with each broker's index of KEYS and unique keys."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import BrokerError
from rmqctl.model.failure import Failure
from rmqctl.model.names import DELAY_TOPIC, HALF_TOPICS, TIMER_TOPIC
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData, TopicRoute
from rmqctl.protocol import headers
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage, iter_messages

from .filter import MessageFilter
from .pull import FoundMessage

# More than brokers return in one answer (maxMsgsNumBatch is 64), so that a full answer is recognised by its size.
_PAGE_COUNT = 256
_END_OF_TIME_MS = 2**63 - 1
# The index stores seconds since the first entry of its file, rounded down.
_INDEX_STEP_MS = 1000
_FULL_ANSWER_COUNT = 32
_HIDDEN = (
    f" The message may be waiting in {DELAY_TOPIC}, {TIMER_TOPIC} or {HALF_TOPICS[0]}; this account is not allowed to "
    "read all of them."
)


class IndexedMessages(Struct, frozen=True):
    """Messages of all brokers, oldest first, and the failures.

    `is_cut`: there may be older ones, beyond the limit. `crowded` names brokers whose index has more entries for one
    second than an answer can contain. `hides_waiting`: the account is not allowed to search for waiting messages.
    """

    found: tuple[FoundMessage, ...]
    failures: tuple[Failure, ...]
    is_cut: bool
    crowded: tuple[str, ...] = ()
    hides_waiting: bool = False

    @property
    def waiting_hint(self) -> str:
        """A sentence about what could not be searched, empty when everything was."""
        return _HIDDEN if self.hides_waiting else ""


async def find_indexed(
    client: Client, route: TopicRoute, wanted: MessageFilter, *, limit: int | None
) -> IndexedMessages:
    """Return the newest messages of a topic with a key (wanted.key), at most `limit`."""
    key = wanted.key
    if key is None:
        raise AssertionError("the index is asked for a key")
    answers = await ask_all(route.brokers, lambda broker: _ask_broker(client, broker, route.topic, wanted, key, limit))
    found = [item for page in answers.ok.values() for item in page.found]
    found.sort(key=lambda item: (item.message.stored_at_ms if item.message else 0, item.mq, item.queue_offset))
    is_cut = any(page.is_cut for page in answers.ok.values())
    if limit is not None and len(found) > limit:
        found, is_cut = found[-limit:], True
    return IndexedMessages(
        found=tuple(found),
        failures=tuple(Failure(broker.broker_name, "index of keys", error) for broker, error in answers.failed.items()),
        is_cut=is_cut,
        crowded=tuple(sorted(name for page in answers.ok.values() for name in page.crowded)),
    )


async def _ask_broker(
    client: Client, broker: BrokerData, topic: str, wanted: MessageFilter, key: str, limit: int | None
) -> IndexedMessages:
    """Read the index backwards, one answer at a time: each contains the newest entries up to a time."""
    begin_ms = max(0, (wanted.since_ms or 0) - _INDEX_STEP_MS)
    end_ms = _END_OF_TIME_MS if wanted.until_ms is None else wanted.until_ms
    seen: set[tuple[int, int]] = set()
    found: list[FoundMessage] = []
    is_crowded = False
    largest_count = 0
    while end_ms >= begin_ms:
        request = headers.query_message(topic, key, max_count=_PAGE_COUNT, begin_ms=begin_ms, end_ms=end_ms)
        try:
            answer = await client.ask_broker(broker, request)
        except BrokerError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                break
            raise
        page = list(iter_messages(answer.command.body))
        largest_count = max(largest_count, len(page))
        # The index has an entry per key: a message whose business key is its unique key appears twice.
        new = [message for place, message in {_place(each): each for each in page}.items() if place not in seen]
        seen.update(_place(message) for message in new)
        found += [_found(broker, topic, message) for message in wanted.select_with_unreadable(new)]
        if not page or (not new and len(page) < max(largest_count, _FULL_ANSWER_COUNT)):
            break
        if limit is not None and len(found) >= limit:
            return IndexedMessages(tuple(found), (), is_cut=True)
        if new:
            end_ms = min(end_ms, min(message.stored_at_ms for message in page))
        else:
            # This second has more entries than an answer can contain: the others cannot be read.
            is_crowded = True
            end_ms = min(message.stored_at_ms for message in page) - _INDEX_STEP_MS
    return IndexedMessages(tuple(found), (), is_cut=is_crowded, crowded=(broker.broker_name,) if is_crowded else ())


def _found(broker: BrokerData, topic: str, message: StoredMessage) -> FoundMessage:
    return FoundMessage(MessageQueue(topic, broker.broker_name, message.queue_id), message.queue_offset, message)


def _place(message: StoredMessage) -> tuple[int, int]:
    """Return what identifies a message on its broker; messages of an inner batch share one record."""
    return message.commit_log_offset, message.queue_offset
