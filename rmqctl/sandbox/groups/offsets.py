"""The offsets that groups committed to a broker (ConsumerOffsetManager)."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.sandbox.data_version import DataVersion
from rmqctl.sandbox.storage.state import StateStore, decode, encode

_TABLE = "offsets"
# BrokerConfig.consumerOffsetUpdateVersionStep: the table gets a new version after this many commits.
_VERSION_STEP = 500
_Key = tuple[str, str]


class OffsetTable:
    """Stored offsets by (topic, group) and queue id.

    `pulled` are the positions up to which messages were delivered since the start; `resets` are the offsets of
    server-side resets that the next pull is to receive.
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
        """Return a stored offset, or None."""
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
        """Replace a group's offsets of a topic with those of `source`; do nothing when it has none (cloneOffset)."""
        offsets = self.stored.get((topic, source))
        if offsets is None:
            return
        for queue_id in self.stored.get((topic, target), {}).keys() - offsets.keys():
            self._state.delete(_TABLE, _state_key(topic, target, queue_id))
            del self.stored[topic, target][queue_id]
        for queue_id, offset in list(offsets.items()):
            self.store(target, topic, queue_id, offset)

    def note_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember how far messages were delivered."""
        self.pulled.setdefault((topic, group), {})[queue_id] = offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return how far messages were delivered since the start, or None when none were."""
        return self.pulled.get((topic, group), {}).get(queue_id)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store an offset, and mark it as a reset for the next pull (assignResetOffset)."""
        self.store(group, topic, queue_id, offset)
        self.resets.setdefault((topic, group), {})[queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether a reset is pending for the next pull."""
        return queue_id in self.resets.get((topic, group), {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a pending reset, or None, and forget it (queryThenEraseResetOffset)."""
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
        """Delete the offsets of a group, of a topic, or of a group's topic."""
        for key in list(self.stored):
            if group in (None, key[1]) and topic in (None, key[0]):
                for queue_id in self.stored[key]:
                    self._state.delete(_TABLE, _state_key(*key, queue_id))
                del self.stored[key]
                self.pulled.pop(key, None)
                self.resets.pop(key, None)
                self.version.next()

    def forget_memory(self) -> None:
        """Forget what does not survive a restart: pull positions and pending resets."""
        self.pulled.clear()
        self.resets.clear()


def _state_key(topic: str, group: str, queue_id: int) -> str:
    """Return a key that is unambiguous whatever the names contain: 4.9 does not validate names."""
    return encode([topic, group, queue_id]).decode()
