"""Which dead letters died again: a replay sent the message, and a later dead letter carries the mark of that replay.

A mark proves that the dead letter it names was replayed, whatever ledger has it. Several replays of one dead letter can
each die again, so a message can have several last dead letters: only the one that is read last is left to send.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct, field

# Hashes, sorted: 8 bytes each, where a set takes 60. Two of a million are equal with a probability below 1 in 10^7.
_NONE: array[int] = array("q")


class _Rank(IntEnum):
    """Which of a message's dead letters remains: the one of the highest rank that is read last."""

    COPY = -1  # another dead letter of the same delivery has a later one
    HAS_LATER = 0  # remains only where marks form a cycle
    SENT = 1  # its message was sent by this ledger, and did not die again
    LAST = 2
    KNOWN = 3  # this ledger sent it, or may have


_ENDS = (_Rank.SENT, _Rank.LAST, _Rank.KNOWN)


class _Marked(Struct):
    """The dead letters with a mark, in the order of reading. All but `is_own` are hashes."""

    positions: array[int] = field(default_factory=lambda: array("q"))
    named: array[int] = field(default_factory=lambda: array("q"))
    messages: array[int] = field(default_factory=lambda: array("q"))
    deliveries: array[int] = field(default_factory=lambda: array("q"))
    is_own: array[int] = field(default_factory=lambda: array("b"))


class ReplayChains:
    """The chains of a group's dead letters, by message id, position and mark.

    Positions are texts as in marks. Add all dead letters with a mark, and what the ledger with this id sent of their
    messages, and link() them; then add the deliveries of all dead letters and settle() them. Only replayed messages
    take memory.
    """

    def __init__(self, ledger_id: str = "") -> None:
        self._ledger_id = ledger_id
        self._marked = _Marked()
        self._sent = array("q")
        self._in_doubt: set[int] = set()
        self._replaced = _NONE
        self._superseded = _NONE
        self._closed = _NONE
        self._deliveries = array("q")
        self._settled = _NONE

    @property
    def has_replaced(self) -> bool:
        """Whether any dead letter is not sent because of another one."""
        return bool(self._replaced or self._superseded or self._closed)

    def is_foreign(self, mark: str) -> bool:
        """Return whether a mark is one of another ledger."""
        return mark.partition(" ")[0] != self._ledger_id

    def add_marked(self, message_id: str, position: str, mark: str) -> None:
        """Add a dead letter of a message that a replay sent."""
        marked = self._marked
        marked.positions.append(hash((message_id, position)))
        marked.named.append(hash((message_id, mark.partition(" ")[2])))
        marked.messages.append(hash(message_id))
        marked.deliveries.append(hash((message_id, mark)))
        marked.is_own.append(not self.is_foreign(mark))

    def add_sent(self, message_id: str, position: str, *, is_in_doubt: bool = False) -> None:
        """Add a dead letter of which the ledger stored a copy on the target, or may have."""
        if is_in_doubt:
            self._in_doubt.add(hash((message_id, position)))
        else:
            self._sent.append(hash((message_id, position)))

    def link(self) -> None:
        """Conclude which dead letter of each message remains, and which messages the ledger has sent already."""
        marked, self._marked = self._marked, _Marked()
        named = set(marked.named)
        # Most messages have one marked dead letter: only the others take more memory.
        several = _repeated(marked.messages)
        ranks = self._ranks(marked, named, several)
        best: dict[int, int] = {}
        for index, (message, rank) in enumerate(zip(marked.messages, ranks, strict=True)):
            if (message in several or rank == _Rank.HAS_LATER) and rank >= ranks[best.get(message, index)]:
                best[message] = index
        closed, superseded = set(), set()
        for index, (message, position) in enumerate(zip(marked.messages, marked.positions, strict=True)):
            remaining = best.get(message, index)
            if ranks[index] in _ENDS and ranks[remaining] == _Rank.SENT:
                closed.add(position)
            elif ranks[index] in _ENDS and position != marked.positions[remaining]:
                superseded.add(position)
        named.difference_update(marked.positions[each] for each in best.values() if ranks[each] == _Rank.HAS_LATER)
        self._replaced, self._superseded, self._closed = _sorted(named), _sorted(superseded), _sorted(closed)
        self._sent = array("q")

    def add_delivery(self, message_id: str, position: str, mark: str) -> None:
        """Add a dead letter. If it has a later one, or its message was sent, so is it for all of the same delivery."""
        if self.has_later(message_id, position) or _has(self._closed, hash((message_id, position))):
            self._deliveries.append(hash((message_id, mark)))

    def settle(self) -> None:
        """Conclude which deliveries are not sent: they have a later dead letter, or the ledger sent their message."""
        self._settled, self._deliveries = _sorted(self._deliveries), array("q")

    def has_later(self, message_id: str, position: str) -> bool:
        """Return whether a mark names the dead letter at a position, which proves that a replay sent it."""
        return _has(self._replaced, hash((message_id, position)))

    def is_replaced(self, message_id: str, position: str) -> bool:
        """Return whether another dead letter of the message remains instead of the one at a position."""
        return self.has_later(message_id, position) or _has(self._superseded, hash((message_id, position)))

    def is_settled(self, message_id: str, mark: str) -> bool:
        """Return whether a dead letter of the same delivery has a later one, or the ledger sent its message."""
        return bool(self._settled) and _has(self._settled, hash((message_id, mark)))

    def _ranks(self, marked: _Marked, named: set[int], several: set[int]) -> array[int]:
        """Return the rank of each."""
        ranks = array("b")
        pairs = zip(marked.positions, marked.deliveries, strict=True)
        settled = {delivery for position, delivery in pairs if position in named}
        open_copies = self._open_copies(marked, several)
        for position, earlier, delivery, is_own in zip(
            marked.positions, marked.named, marked.deliveries, marked.is_own, strict=True
        ):
            if position in named:
                rank = _Rank.HAS_LATER
            elif delivery in settled:
                rank = _Rank.COPY
            elif position in open_copies.sent or position in self._in_doubt:
                rank = _Rank.KNOWN
            elif not is_own and open_copies.leads_to(earlier):
                rank = _Rank.SENT
            else:
                rank = _Rank.LAST
            ranks.append(rank)
        return ranks

    def _open_copies(self, marked: _Marked, several: set[int]) -> _OpenCopies:
        """Return what the ledger sent that did not die again."""
        sent = set(self._sent)
        sent.difference_update(earlier for earlier, is_own in zip(marked.named, marked.is_own, strict=True) if is_own)
        if not sent:
            return _OpenCopies(sent, {})
        parents = {
            position: earlier
            for position, earlier, message, is_own in zip(
                marked.positions, marked.named, marked.messages, marked.is_own, strict=True
            )
            if message in several and not is_own
        }
        return _OpenCopies(sent, parents)


class _OpenCopies(Struct):
    """The dead letters that the ledger sent and that did not die again. `parents`: what foreign marks name."""

    sent: set[int]
    parents: dict[int, int]

    def leads_to(self, position: int) -> bool:
        """Return whether this dead letter, or one that it goes back to by foreign marks alone, is one of them.

        Other ledgers sent the same message again. A mark of this ledger ends the search: it has seen this death.
        """
        passed: set[int] = set()
        while position not in self.sent:
            if position in passed or position not in self.parents:
                return False
            passed.add(position)
            position = self.parents[position]
        return True


def _repeated(hashes: Iterable[int]) -> set[int]:
    """Return those that occur more than once."""
    ordered = _sorted(hashes)
    return {each for at, each in enumerate(ordered[1:]) if each == ordered[at]}


def _sorted(hashes: Iterable[int]) -> array[int]:
    return array("q", sorted(hashes))


def _has(hashes: array[int], wanted: int) -> bool:
    at = bisect_left(hashes, wanted)
    return at < len(hashes) and hashes[at] == wanted
