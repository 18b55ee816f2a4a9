"""Checks of half messages whose producer has not ended the transaction (TransactionalMessageServiceImpl.check).

An open half message is stored again with its number of checks, and its producer group is asked. After
transactionCheckMax checks, it is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import CommandFlag
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.message_id import encode_offset_id
from rmqctl.protocol.properties import UNIQ_KEY, encode_properties
from rmqctl.protocol.record import copy_record
from rmqctl.rules.message_wait import REAL_QUEUE_ID, REAL_TOPIC
from rmqctl.sandbox.groups.offsets import OffsetTable
from rmqctl.sandbox.groups.table import CHECKER
from rmqctl.sandbox.settings import ServerSettings
from rmqctl.sandbox.storage.store import MessageStore, NewMessage, PutMessageResult
from rmqctl.sandbox.topics.table import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC

from .half_messages import again, ended_offsets

CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
_PREPARED_AT = "TRAN_PREPARED_QUEUE_OFFSET"
_WAIT = "WAIT"
IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
# TransactionalMessageServiceImpl.OP_MSG_PULL_NUMS
_PAGE_COUNT = 32
# What one run handles at most, before other work gets a turn (60 s in RocketMQ).
_MOST = 10_000
_HOUR_MS = 3_600_000


# Asks a producer about a half message, with its properties now and its new place.
Ask = Callable[[StoredMessage, dict[str, str], PutMessageResult], object]


class HalfChecks:
    """Checks the half messages of a broker."""

    def __init__(
        self, now_ms: Callable[[], int], settings: ServerSettings, store: MessageStore, offsets: OffsetTable,
        put: Callable[[NewMessage], PutMessageResult], ask: Ask, *, is_5: bool,
    ) -> None:  # fmt: skip
        self._now_ms = now_ms
        self._settings = settings
        self._store = store
        self._offsets = offsets
        self._put = put
        self._ask = ask
        self._is_5 = is_5

    def run(self) -> None:
        """Check the half messages that were stored before, in order, up to the first that is too young.

        Raises RefusalError where a message cannot be stored; the next run continues with that message.
        """
        start_ms = self._now_ms()
        first, op_first = self._next(HALF_TOPIC), self._next(OP_TOPIC)
        ops = _EndedHalves(self._store, op_first, first)
        at = first
        try:
            while at - first < _MOST:
                half = self._store.message_at(HALF_TOPIC, 0, at)
                lowest = self._store.min_offset(HALF_TOPIC, 0)
                if half is None and at >= lowest:
                    break
                if half is not None and not ops.take(at) and not self._settle(half, ops, start_ms):
                    break
                at = max(at + 1, lowest)
        finally:
            if at != first:
                self._offsets.store(CHECKER, HALF_TOPIC, 0, at)
            if (op_at := ops.done_until()) != op_first:
                self._offsets.store(CHECKER, OP_TOPIC, 0, op_at)

    def _next(self, topic: str) -> int:
        stored = self._offsets.find(CHECKER, topic, 0)
        return self._store.min_offset(topic, 0) if stored is None else stored

    def _settle(self, half: StoredMessage, ops: _EndedHalves, start_ms: int) -> bool:
        """Give up, put back or check an open half message. Returns False for one that is too young, as all after it."""
        properties = half.properties
        times = properties.get(CHECK_TIMES)
        age_ms = self._now_ms() - half.born_at_ms
        is_old = age_ms > self._settings.number("fileReservedTime") * _HOUR_MS
        if is_old or (times is not None and _number(times) >= self._settings.number("transactionCheckMax")):
            self._put(again(half, properties, GIVEN_UP_TOPIC))
            return True
        properties[CHECK_TIMES] = "1" if times is None else str(_number(times) + 1)
        if half.stored_at_ms >= start_ms:
            return False
        wait_ms = self._settings.number("transactionTimeOut")
        if (immunity := properties.get(IMMUNITY)) is not None:
            wait_ms = immunity_ms(immunity, wait_ms)
            if age_ms < wait_ms + self._is_5:
                return self._put_back_young(half, properties, ops)
        elif 0 <= age_ms < wait_ms + self._is_5:
            return False
        self._ask(half, properties, self._put(_renewed(half, properties)))
        return True

    def _put_back_young(self, half: StoredMessage, properties: dict[str, str], ops: _EndedHalves) -> bool:
        """Store a half message with a time of its own again, unless its first copy is ended."""
        prepared_at = properties.setdefault(_PREPARED_AT, str(half.queue_offset))
        if not ops.take(_number(prepared_at)):
            self._put(_renewed(half, properties))
        return True


class _EndedHalves:
    """The half messages that OP_TOPIC ends, from an offset on, read page by page."""

    def __init__(self, store: MessageStore, first: int, lowest_half: int) -> None:
        self._store = store
        self._first = self._next = first
        self._lowest_half = lowest_half
        # The op message of each ended half message, and the halves of each op message that are left.
        self._op_of: dict[int, int] = {}
        self._left: dict[int, set[int]] = {}

    def take(self, half_offset: int) -> bool:
        """Return whether a half message is ended, and forget it."""
        while half_offset not in self._op_of and self._read_page():
            pass
        op = self._op_of.pop(half_offset, None)
        if op is None:
            return False
        self._left[op].discard(half_offset)
        return True

    def _read_page(self) -> bool:
        """Read the next page. Returns False at the end."""
        start = self._next = max(self._next, self._store.min_offset(OP_TOPIC, 0))
        while self._next < start + _PAGE_COUNT:
            op = self._store.message_at(OP_TOPIC, 0, self._next)
            if op is None:
                break
            halves = {offset for offset in ended_offsets(op) if offset >= self._lowest_half}
            self._op_of |= dict.fromkeys(halves, self._next)
            self._left[self._next] = halves
            self._next += 1
        return self._next > start

    def done_until(self) -> int:
        """Return the offset up to which no op message is needed any more."""
        at = max(self._first, min(self._left, default=self._first))
        while at in self._left and not self._left[at]:
            at += 1
        return at


def question(
    half: StoredMessage, properties: Mapping[str, str], place: PutMessageResult, broker: str, *, is_5: bool
) -> Command:
    """Return the request that asks a producer about a half message (sendCheckMessage).

    Its body is the message as it was before this check, at its new place.
    """
    unique_key = properties.get(UNIQ_KEY, "")
    fields = {
        "commitLogOffset": str(place.commit_log_offset), "tranStateTableOffset": str(place.queue_offset),
        "offsetMsgId": encode_offset_id(*half.store_address, place.commit_log_offset), "msgId": unique_key,
        "transactionId": unique_key,
    }  # fmt: skip
    if is_5:
        fields |= {"topic": half.topic, "bname": broker}
    record = copy_record(
        half, topic=properties.get(REAL_TOPIC, "").encode(), queue_id=int(properties.get(REAL_QUEUE_ID, "0")),
        queue_offset=place.queue_offset, commit_log_offset=place.commit_log_offset,
        properties=encode_properties({**properties, _WAIT: "false"}).encode(),
    )  # fmt: skip
    return Command(RequestCode.CHECK_TRANSACTION_STATE, fields, record, flag=CommandFlag.ONEWAY)


def immunity_ms(text: str, timeout_ms: int) -> int:
    """Return how long a half message is not checked (TransactionalMessageUtil.getImmunityTime)."""
    seconds = _number(text)
    return timeout_ms if seconds == -1 else seconds * 1000


def _renewed(half: StoredMessage, properties: dict[str, str]) -> NewMessage:
    """Return a half message to wait once more (renewHalfMessageInner): without its flag and reconsume times."""
    message = again(half, properties)
    message.flag = message.reconsume_times = 0
    return message


def _number(text: str) -> int:
    """Return a number, -1 for another text."""
    return int(text) if text.lstrip("-").isdigit() else -1
