"""Offsets that groups stored on a broker (ConsumerOffsetManager)."""

from __future__ import annotations

from collections.abc import Callable

from .data_version import DataVersion
from .state import StateStore, decode, encode

_TABLE = "offsets"
# BrokerConfig.consumerOffsetUpdateVersionStep: the table counts as another one only so often.
_VERSION_STEP = 500
_Key = tuple[str, str]


class OffsetTable:
    """Stored offsets by (topic, group) and queue id.

    `pulled` are the furthest positions that were given out since the start; `resets` are offsets that a server-side
    reset wants the next pull to be told of.
    """

    def __init__(self, now_ms: Callable[[], int], state: StateStore) -> None:
        self.version = DataVersion(now_ms)
        self.stored: dict[_Key, dict[int, int]] = {}
        self.pulled: dict[_Key, dict[int, int]] = {}
        self.resets: dict[_Key, dict[int, int]] = {}
        self._state = state
        self._change_count = 0
        for key, value in state.load(_TABLE).items():
            topic, group, queue_id = decode(key)
            self.stored.setdefault((topic, group), {})[queue_id] = int(value)

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a stored offset, None when there is none."""
        return self.stored.get((topic, group), {}).get(queue_id)

    def store(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store an offset, forwards or backwards."""
        if self.find(group, topic, queue_id) == offset:
            return
        self._state.put(_TABLE, _state_key(topic, group, queue_id), offset)
        self.stored.setdefault((topic, group), {})[queue_id] = offset
        self._change_count += 1
        if self._change_count % _VERSION_STEP == 0:
            self.version.next()

    def clone(self, source: str, target: str, topic: str) -> None:
        """Replace a group's offsets of a topic by another's; where that has none, nothing changes (cloneOffset)."""
        offsets = self.stored.get((topic, source))
        if offsets is None:
            return
        for queue_id in self.stored.get((topic, target), {}).keys() - offsets.keys():
            self._state.delete(_TABLE, _state_key(topic, target, queue_id))
            del self.stored[topic, target][queue_id]
        for queue_id, offset in list(offsets.items()):
            self.store(target, topic, queue_id, offset)

    def note_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember how far messages were given out."""
        self.pulled.setdefault((topic, group), {})[queue_id] = offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return how far messages were given out, None when none were since the start."""
        return self.pulled.get((topic, group), {}).get(queue_id)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store an offset, and mark it for the next pull to be told of (assignResetOffset)."""
        self.store(group, topic, queue_id, offset)
        self.resets.setdefault((topic, group), {})[queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Tell whether a reset waits for the next pull."""
        return queue_id in self.resets.get((topic, group), {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a reset that waits, and forget it (queryThenEraseResetOffset)."""
        return self.resets.get((topic, group), {}).pop(queue_id, None)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics that a group has stored offsets of, sorted."""
        return sorted(topic for topic, stored_group in self.stored if stored_group == group)

    def topics_by_group(self) -> dict[str, list[str]]:
        """Return the topics that each group has stored offsets of."""
        topics: dict[str, list[str]] = {}
        for topic, group in self.stored:
            topics.setdefault(group, []).append(topic)
        return topics

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have stored offsets of a topic, sorted."""
        return sorted(group for stored_topic, group in self.stored if stored_topic == topic)

    def delete(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget the offsets of a group, of a topic, or of a pair."""
        for key in list(self.stored):
            if group in (None, key[1]) and topic in (None, key[0]):
                for queue_id in self.stored[key]:
                    self._state.delete(_TABLE, _state_key(*key, queue_id))
                del self.stored[key]
                self.pulled.pop(key, None)
                self.resets.pop(key, None)
                self.version.next()

    def forget_memory(self) -> None:
        """Forget what no restart keeps: pull positions, and the marks of resets."""
        self.pulled.clear()
        self.resets.clear()


def _state_key(topic: str, group: str, queue_id: int) -> str:
    """Return a text that tells the three apart whatever stands in them: 4.9 checks no names."""
    return encode([topic, group, queue_id]).decode()
