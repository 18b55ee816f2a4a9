"""Whether a group itself has applied a reset: one queue, judged by samples that were taken after the write.

The offset that a broker reports is not proof. On 5.x it reports the target from the moment of the write, as a mark for
the next pull. The pull that applies the mark briefly overwrites the target with the member's old position. A member
that never learned of the reset commits its own position every 5 s. Proof is the member's own position, or that the
member has restarted the queue since, if that agrees with the stored offset for a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rmqctl.model.group import GroupState
from rmqctl.model.plan import Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import WAITS_FOR_MEMBER
from rmqctl.model.sample import GroupSample, OwnerSample, QueueSample

from .written_offsets import (
    HELD_MORE_S,
    PUSH_S,
    ResetOutcome,
    WriteVerdict,
    WrittenOffset,
    describe_unheld,
    is_free,
    is_on_side,
    must_consume,
    still_blocked,
)

# Two samples this far apart must agree: by then, an offset that a pull stored over the target is corrected.
_AGREE_S = 1.0
# Longer than the 5 s after which members commit their positions; used where only brokers answer.
_STORED_S = 6.0
# After this long at another offset the reset is lost; clients before 5.2 need 10 s to follow a pull's correction.
_LOST_S = {Route.SERVER_SIDE: 12.0, Route.CLIENT_PUSH: 6.0, Route.BROKER_WRITE: 6.0}
# How long a group may be offline for a restart, and a queue without an owner: members rebalance every 20 s.
_AWAY_S = 5.0
_UNOWNED_S = 25.0
# Until then no client can have applied a push, however late the first sample was.
_SURELY_STILL_S = 8.0


class _Look(NamedTuple):
    """One sample of the queue. `owner` is the member that holds it, None unless exactly one does."""

    at_s: float
    stored: int | None
    queue: QueueSample
    sample: GroupSample
    owner: OwnerSample | None
    owner_count: int


def _pending(reason: str, is_final: bool = False) -> WriteVerdict:
    return WriteVerdict(ResetOutcome.PENDING, reason, is_final)


def _confirmed(reason: str) -> WriteVerdict:
    return WriteVerdict(ResetOutcome.CONFIRMED, reason, True)


def judge(
    written: WrittenOffset, samples: Sequence[GroupSample], *, was_online: bool, baseline: GroupSample | None = None,
    quiet_s: float = PUSH_S,
) -> WriteVerdict:  # fmt: skip
    """Return the result for one queue, from all samples since the write in order; samples without it are skipped.

    `was_online`: whether the group had members at the write. `baseline` is a sample from just before it. Without one, a
    member that quickly returned to its old offset cannot be distinguished from one that never moved. `quiet_s` is what
    push_quiet_s() returns for everything that was written.

    A target at or past the previous offset is confirmed once the group has got that far in any way.
    """
    looks = [look for sample in samples if (look := _look(written.mq, sample)) is not None]
    if not looks:
        return WriteVerdict(ResetOutcome.UNKNOWN, "it was not sampled since")
    last, first = looks[-1], _look(written.mq, baseline) if baseline is not None else None
    if first is not None and first.owner is not None and not first.owner.may_forget:
        written = written._replace(position=first.owner.commit_offset)
    if last.stored is None:
        reason = last.queue.reasons.get("consumerOffset", "")
        return WriteVerdict(ResetOutcome.UNKNOWN, f"its broker does not report the offset ({reason})")
    if not last.sample.client_ids and last.sample.state is GroupState.EMPTY:
        return _without_members(written, looks, was_online=was_online)
    if last.queue.is_popped:
        return _by_pops(written, looks)
    if any(look.owner is not None for look in looks):
        return _ByOwner(written, looks, first, quiet_s).verdict()
    return _by_broker(written, looks, quiet_s)


def _look(mq: MessageQueue, sample: GroupSample) -> _Look | None:
    queue = sample.queues.get(mq)
    if queue is None:
        return None
    owners = [owner for owner in queue.owners if not owner.is_dropped]
    owner = owners[0] if len(owners) == 1 else None
    return _Look(sample.monotonic_s, queue.consumer_offset, queue, sample, owner, len(owners))


def _without_members(written: WrittenOffset, looks: Sequence[_Look], *, was_online: bool) -> WriteVerdict:
    """Judge a group without members: no client overwrites the offset, and the next member starts from it."""
    stored = looks[-1].stored
    away_s = _steady_s(looks, lambda look: not look.sample.client_ids)
    is_final = away_s >= (_AWAY_S if was_online else _AGREE_S)
    if was_online and away_s == 0 and written.route is not Route.SERVER_SIDE:
        # Offsets are read before the members: a member that has just left can have committed one in between.
        return _pending(f"{stored} is stored, and the last member has just left")
    if stored == written.target:
        if written.route is Route.SERVER_SIDE:
            return _pending(WAITS_FOR_MEMBER, is_final or not was_online)
        return _confirmed("stored, and the group has no members that could overwrite it")
    if stored is not None and is_on_side(written, stored):
        return _confirmed("the group had continued from there before its members left")
    if not is_final:
        return _pending(f"{stored} is stored, and the group has no members")
    if was_online and written.before is not None and stored is not None and written.target < written.before <= stored:
        reason = f"{stored} is stored: its members moved and got that far before they left, or never moved"
        return WriteVerdict(ResetOutcome.UNKNOWN, reason, True)
    return WriteVerdict(ResetOutcome.LOST, f"{stored} is stored, and the group has no members", True)


def _steady_s(looks: Sequence[_Look], holds: Callable[[_Look], bool]) -> float:
    """Return how long a condition has held without a break up to the last sample."""
    since_s = looks[-1].at_s
    for look in reversed(looks):
        if not holds(look):
            break
        since_s = look.at_s
    return looks[-1].at_s - since_s


def _unowned_s(looks: Sequence[_Look], quiet_s: float) -> float:
    """Return how long no member has held the queue, without the time in which clients pause for a push."""
    steady_s = _steady_s(looks, lambda look: look.owner_count == 0)
    return min(steady_s, looks[-1].at_s - looks[0].at_s - quiet_s)


def _by_pops(written: WrittenOffset, looks: Sequence[_Look]) -> WriteVerdict:
    """Judge a popped queue: the broker keeps its position, and the pop that applies a mark stores it."""
    last, target = looks[-1], written.target
    stored = last.stored if last.stored is not None else -1
    has_marked = any(look.stored == target for look in looks)

    def is_past(look: _Look) -> bool:
        return look.stored is not None and look.stored > target

    if is_past(last) and (has_marked or is_on_side(written, stored)):
        if _steady_s(looks, is_past) >= _AGREE_S:
            return _confirmed("popping continued from there")
        return _pending("popping continues from there")
    if stored == target:
        is_at_end = last.queue.max_offset is not None and target >= last.queue.max_offset
        if is_at_end and _steady_s(looks, lambda look: look.stored == target) >= _AGREE_S:
            return _confirmed("stored, and no message is left to pop")
        return _pending("stored; the next pop starts there, but a waiting pop can be held for 20 s")
    is_lost = _steady_s(looks, lambda look: look.stored != target) >= _LOST_S[Route.SERVER_SIDE]
    outcome = ResetOutcome.LOST if is_lost else ResetOutcome.PENDING
    return WriteVerdict(outcome, f"popping continues at {stored}", is_lost)


def _by_broker(written: WrittenOffset, looks: Sequence[_Look], quiet_s: float) -> WriteVerdict:
    """Judge by the stored offset alone, where no member reports the queue: it must have moved and then stay."""
    target, is_push, last = written.target, written.route is Route.CLIENT_PUSH, looks[-1]
    settles_s = looks[0].at_s + (quiet_s + HELD_MORE_S if is_push else 0.0)
    # Only a member stores another offset than the target, but where a write was not answered, it may come late.
    stored_at_s = next((look.at_s for look in looks if look.stored == target or not written.is_unanswered), last.at_s)
    moved_at_s = next((look.at_s for look in looks if look.stored != target and look.at_s >= stored_at_s), None)

    def is_there(look: _Look) -> bool:
        if look.stored is None or look.at_s < settles_s:
            return False
        if moved_at_s is None or look.at_s < moved_at_s:
            # The target can be a mark. A member that does not answer, and holds the queue, can still overwrite it.
            return look.stored == target and is_free(look.queue) and written.route is not Route.SERVER_SIDE
        return look.stored == target or is_on_side(written, look.stored)

    unheld = describe_unheld(last.queue, last.sample.silent_ids)
    is_proof = (last.stored or 0) > target or not must_consume(written, last.queue.max_offset)
    if is_there(last) and _steady_s(looks, is_there) >= _STORED_S and is_proof:
        return _confirmed(f"the stored offset {'stays' if last.stored == target else 'continues from'} there")
    if is_push and last.at_s < settles_s:
        return _pending(_STANDING_STILL if last.at_s - looks[0].at_s < quiet_s else _HELD_PULL)
    if last.stored == target and not is_free(last.queue) and written.route is not Route.SERVER_SIDE:
        return WriteVerdict(ResetOutcome.UNKNOWN, f"stored, but {unheld}")
    if last.stored == target:
        unowned_s = _unowned_s(looks, quiet_s if is_push else 0.0)
        return _pending(f"stored; {unheld}", is_free(last.queue) and unowned_s >= _UNOWNED_S)
    if is_there(last):
        return _pending("the offset has just moved on from there")
    return WriteVerdict(ResetOutcome.UNKNOWN, f"{last.stored} is stored, and {unheld}")


def _done_at(first: _Look | None) -> int | None:
    if first is None or first.owner is None or first.queue.max_offset is None:
        return None
    is_done = first.stored == first.owner.commit_offset == first.queue.max_offset
    return first.queue.max_offset if is_done else None


def _has_consumed(owner: OwnerSample) -> bool | None:
    """Tell whether a member has consumed a message since it was assigned the queue; None where it does not report."""
    if owner.begun_at_ms is None or owner.consumed_at_ms is None:
        return None
    return owner.consumed_at_ms > owner.begun_at_ms


_STANDING_STILL = "sent to the clients, which pause for 10 s before they move there"
_HELD_PULL = "a pull that the broker has held since before can still move the offset, for up to 26 s"


class _ByOwner:
    """Judges by what the member that holds the queue reports, sample by sample."""

    def __init__(self, written: WrittenOffset, looks: Sequence[_Look], first: _Look | None, quiet_s: float) -> None:
        self._written = written
        self._looks = looks
        self._start_s = looks[0].at_s
        self._quiet_until_s = self._start_s + (quiet_s if written.route is Route.CLIENT_PUSH else 0.0)
        self._settles_at_s = self._quiet_until_s + (HELD_MORE_S if written.route is Route.CLIENT_PUSH else 0.0)
        # The end of the queue, where the group had consumed and stored all of it before the write.
        self._done_at = _done_at(first)
        # When each member was assigned the queue: by its first report, and by its reports before it can have moved.
        self._begun_at_ms: dict[str, int] = {}
        self._unmoved_at_ms: dict[str, int] = {}
        self._dropped_by: set[str] = set()
        self._members: set[tuple[str, ...]] = set()
        self._owner_ids: set[str] = set()
        # The members, and times, that started the queue at its old position: they did not consume their way there.
        self._begun_past: set[tuple[str, int | None]] = set()
        # The first start of the queue since, and its position where nothing had been consumed by then.
        self._first_start: tuple[str, int | None, int | None] | None = None
        # The first sample with the mark stored: the owner was still at its old position.
        self._marked: _Look | None = None
        if first is not None:
            self._note(first)

    def verdict(self) -> WriteVerdict:
        """Return the result from all samples together."""
        is_gone, is_kept = False, False
        is_blocked = has_skipped = False
        owner_id: str | None = None
        settled_s: float | None = None
        elsewhere_s: float | None = None
        for look in self._looks:
            owner = look.owner
            self._note(look)
            if owner is None or owner.commit_offset is None or look.stored is None:
                settled_s = elsewhere_s = None
                has_skipped = False
                continue
            if owner.client_id != owner_id:
                # A new owner resumes from the stored offset: from the target only if that was stored by then.
                owner_id, is_gone = owner.client_id, is_gone and is_kept
                settled_s = elsewhere_s = None
            # Only an offset stored after the owner moved counts: an earlier one can be the mark that it just applied.
            is_kept = is_kept or (is_gone and self._is_side(look.stored))
            is_gone = is_gone or self._went_there(look, owner, owner.commit_offset)
            is_blocked = is_gone and not self._consumes(look, owner, owner.commit_offset)
            has_skipped = self._has_skipped(owner)
            if is_gone and not is_blocked and not has_skipped and self._is_settled(look, owner.commit_offset):
                settled_s = look.at_s if settled_s is None else settled_s
                if look.at_s - settled_s >= _AGREE_S:
                    return _confirmed(f"{owner_id} continued from there, and has committed it")
            else:
                settled_s = None
            if is_gone or not self._is_elsewhere(look):
                elsewhere_s = None
                continue
            elsewhere_s = look.at_s if elsewhere_s is None else elsewhere_s
            if look.at_s - elsewhere_s >= _LOST_S[self._written.route]:
                return self._elsewhere(owner, owner.commit_offset)
        if has_skipped:
            reason = f"{owner_id} restarted the queue past the target, and has consumed nothing before"
            return WriteVerdict(ResetOutcome.LOST, reason, self._looks[-1].at_s >= self._settles_at_s)
        if is_blocked and owner_id is not None:
            return _pending(still_blocked(owner_id, self._written.target, self._looks[-1].stored))
        return self._open(is_gone=is_gone)

    def _note(self, look: _Look) -> None:
        """Remember since when each member held the queue, and whether it can have moved by then."""
        is_baseline = look.at_s < self._start_s
        is_still = self._written.route is Route.CLIENT_PUSH and look.at_s - self._start_s <= _SURELY_STILL_S
        self._members.add(look.sample.client_ids)
        for owner in look.queue.owners:
            if not owner.is_dropped:
                self._owner_ids.add(owner.client_id)
            elif not is_baseline:
                self._dropped_by.add(owner.client_id)
            if owner.begun_at_ms is not None:
                self._begun_at_ms.setdefault(owner.client_id, owner.begun_at_ms)
                position = owner.commit_offset
                if position is not None and not self._is_side(position) and _has_consumed(owner) is False:
                    self._begun_past.add((owner.client_id, owner.begun_at_ms))
                if is_baseline or is_still:
                    self._unmoved_at_ms[owner.client_id] = owner.begun_at_ms
                elif self._first_start is None and self._has_begun_again(owner):
                    start = position if _has_consumed(owner) is False else None
                    self._first_start = owner.client_id, owner.begun_at_ms, start
        if self._written.route is Route.SERVER_SIDE and look.stored == self._written.target and look.owner is not None:
            self._marked = self._marked or look

    def _went_there(self, look: _Look, owner: OwnerSample, position: int) -> bool:
        """Tell whether the owner has moved to the target: it is on that side, or has restarted the queue since."""
        if owner.may_forget and position == self._written.target and not self._has_begun_again(owner):
            # A client that forgot its position reports the stored one, which can be the mark.
            return False
        if self._is_side(position):
            return True
        # Past the old position: it may have moved there and quickly returned. Other owners make that uncertain.
        route, target = self._written.route, self._written.target
        if route is Route.BROKER_WRITE or position < target or look.at_s < self._quiet_until_s:
            return False
        if len(self._members) > 1 or self._owner_ids | self._dropped_by != {owner.client_id}:
            return False
        if owner.may_forget:
            has_done_again = self._has_begun_again(owner) and _has_consumed(owner) is True
            return has_done_again and self._done_at is not None and look.queue.max_offset == self._done_at
        if route is Route.SERVER_SIDE and look.stored == target:
            return False
        if owner.begun_at_ms is not None or owner.client_id in self._dropped_by:
            # A Java client commits the target and immediately queries where to resume: the query can overtake.
            return self._has_begun_again(owner) and (owner.client_id, owner.begun_at_ms) not in self._begun_past
        # When it was assigned the queue is unknown, but its pull has applied the mark, and it has consumed since.
        before_ms = self._marked.owner.consumed_at_ms if self._marked is not None and self._marked.owner else None
        return before_ms is not None and owner.consumed_at_ms not in (None, before_ms)

    def _has_skipped(self, owner: OwnerSample) -> bool:
        """Tell whether a pushed reset was overtaken: the first start of the queue since is past the target."""
        if self._written.route is not Route.CLIENT_PUSH or self._first_start is None:
            return False
        client_id, begun_at_ms, position = self._first_start
        is_same = (owner.client_id, owner.begun_at_ms) == (client_id, begun_at_ms)
        return is_same and position is not None and position > self._written.target

    def _has_begun_again(self, owner: OwnerSample) -> bool:
        """Tell whether a member has visibly restarted the queue since."""
        if owner.begun_at_ms is not None:
            return self._begun_at_ms.get(owner.client_id) != owner.begun_at_ms
        return owner.client_id in self._dropped_by

    def _consumes(self, look: _Look, owner: OwnerSample, position: int) -> bool:
        """Tell whether the owner, which has moved, also consumes from there: anyone but a blocked client does."""
        written = self._written
        if written.blocked_by is None or owner.client_id != written.blocker:
            return True
        if owner.is_listening or _has_consumed(owner):
            return True
        if position > written.target:
            # An empty answer to a pull from before a pushed reset also moves the position (correctTagsOffset).
            return not owner.cached_count or owner.cached_min_offset > written.target
        return not must_consume(written, look.queue.max_offset)

    def _is_side(self, offset: int) -> bool:
        return is_on_side(self._written, offset)

    def _is_settled(self, look: _Look, position: int) -> bool:
        """Tell whether the stored offset fits the member's position, given that members are asked after brokers."""
        stored = look.stored
        return stored is not None and look.at_s >= self._settles_at_s and self._written.target <= stored <= position

    def _is_elsewhere(self, look: _Look) -> bool:
        if self._written.route is Route.CLIENT_PUSH:
            return look.at_s >= self._quiet_until_s
        return look.stored != self._written.target

    def _elsewhere(self, owner: OwnerSample, position: int) -> WriteVerdict:
        has_stayed = owner.begun_at_ms is not None and self._unmoved_at_ms.get(owner.client_id) == owner.begun_at_ms
        if owner.may_forget and self._has_begun_again(owner) and _has_consumed(owner) is False:
            reason = f"{owner.client_id} forgot the target, and restarted the queue at {position}"
            return WriteVerdict(ResetOutcome.LOST, reason, True)
        if position < self._written.target or has_stayed:
            reason = f"{owner.client_id} continues from {position}, not from the target"
            return WriteVerdict(ResetOutcome.LOST, reason, True)
        reason = f"{owner.client_id} is at {position}: it moved to the target and got that far again, or never moved"
        return WriteVerdict(ResetOutcome.UNKNOWN, reason, True)

    def _open(self, *, is_gone: bool) -> WriteVerdict:
        """Return what the reset is still waiting for."""
        last = self._looks[-1]
        if last.at_s < self._quiet_until_s:
            return _pending(_STANDING_STILL)
        if last.at_s < self._settles_at_s:
            return _pending(_HELD_PULL)
        if last.owner_count > 1:
            return _pending(f"{last.owner_count} members hold the queue: they are rebalancing")
        if last.owner is None:
            unowned_s = _unowned_s(self._looks, self._quiet_until_s - self._start_s)
            is_final = last.stored == self._written.target and is_free(last.queue) and unowned_s >= _UNOWNED_S
            return _pending(
                f"{last.stored} is stored, and {describe_unheld(last.queue, last.sample.silent_ids)}", is_final
            )
        name, position = last.owner.client_id, last.owner.commit_offset
        if last.stored == self._written.target and not is_gone:
            return _pending(f"stored; {name} has not pulled since, and a pull can be held for 20 s")
        return _pending(f"{name} is at {position}, {last.stored} is stored")
