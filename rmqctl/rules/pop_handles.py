"""Text formats of pop: receipt handles, offset lists and retry topics (ExtraInfoUtil, KeyBuilder)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rmqctl.model.names import RETRY_PREFIX

# KeyBuilder.POP_ORDER_REVIVE_QUEUE: the revive queue in the handle of an orderly pop.
ORDERLY_REVIVE_QUEUE = 999
# The property of messages from a retry topic that contains their handle, set by the broker.
POP_CK = "POP_CK"

_V2_SEPARATOR = "+"
_BROKER_NAME_AT = 5
_FIELD_COUNT = 8


class Handle(Struct, frozen=True):
    """The handle by which a client acknowledges a message: its pop's check point and the pop's first offset."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    broker_name: str

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Parse the handle in a request (extraInfo). Raises ValueError."""
        words = text.split(" ")
        if len(words) <= _BROKER_NAME_AT:
            raise ValueError(f"getBrokerName fail, extraInfoStrs length {len(words)}")
        return cls(int(words[0]), int(words[1]), int(words[2]), int(words[3]), words[_BROKER_NAME_AT])

    @property
    def is_orderly(self) -> bool:
        """Tell whether the handle is from an orderly pop."""
        return self.revive_queue_id == ORDERLY_REVIVE_QUEUE

    def to_text(self, topic: str, queue_id: int, queue_offset: int) -> str:
        """Return the complete handle of one message; `topic` is the topic in which it is stored."""
        return (
            f"{self.start_offset} {self.pop_time_ms} {self.invisible_ms} {self.revive_queue_id} {retry_flag(topic)} "
            f"{self.broker_name} {queue_id} {queue_offset}"
        )


def is_handle(text: str | None) -> bool:
    """Tell whether a text is a complete handle of a message."""
    try:
        return text is not None and len(text.split(" ")) == _FIELD_COUNT and not Handle.parse(text).is_orderly
    except ValueError:
        return False


class OffsetInfo:
    """The queues and offsets that a pop returns messages from, in the format of its answer."""

    def __init__(self) -> None:
        self._starts: list[str] = []
        self._offsets: list[str] = []
        self._counts: list[str] = []

    def add(self, topic: str, queue_id: int, start_offset: int, offsets: Sequence[int]) -> None:
        """Add the offsets popped from a queue."""
        flag = retry_flag(topic)
        self._starts.append(f"{flag} {queue_id} {start_offset}")
        self._offsets.append(f"{flag} {queue_id} {','.join(map(str, offsets))}")

    def add_counts(self, topic: str, queue_id: int, counts: dict[int, int], offsets: Sequence[int]) -> None:
        """Add how often an orderly queue's messages were delivered before, by queue offset."""
        flag = retry_flag(topic)
        self._counts += [f"{flag} qo{queue_id}%{offset} {counts[offset]}" for offset in sorted(counts)]
        # For old clients, one number per queue; a message that is delivered for the first time makes it 0.
        least = min(counts.values()) if counts and len(counts) == len(offsets) else 0
        self._counts.append(f"{flag} {queue_id} {least}")

    @property
    def starts(self) -> str:
        """Return the field startOffsetInfo."""
        return ";".join(self._starts)

    @property
    def offsets(self) -> str:
        """Return the field msgOffsetInfo."""
        return ";".join(self._offsets)

    @property
    def counts(self) -> str:
        """Return the field orderCountInfo."""
        return ";".join(self._counts)


def retry_flag(topic: str) -> str:
    """Return the flag for a topic in handles and offset lists: 0, or 1 and 2 for retry topics."""
    if not topic.startswith(RETRY_PREFIX):
        return "0"
    return "2" if _V2_SEPARATOR in topic else "1"


def pop_retry_topic(group: str, topic: str, *, is_v2: bool) -> str:
    """Return the topic that stores messages of a topic that were popped but not acknowledged."""
    return f"{RETRY_PREFIX}{group}{_V2_SEPARATOR if is_v2 else '_'}{topic}"


def real_topic(group: str, topic: str, flag: str) -> str:
    """Return the topic in which a message is stored, from the flag in its handle."""
    return topic if flag not in ("1", "2") else pop_retry_topic(group, topic, is_v2=flag == "2")


def normal_topic(group: str, topic: str) -> str:
    """Return the topic that a group's pop retry topic belongs to; other topics are returned unchanged."""
    for separator in (_V2_SEPARATOR, "_"):
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return topic
