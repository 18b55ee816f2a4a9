"""Who pulls each queue, which messages are delivered twice, and how long queues have no owner or two.

Messages are not simulated one by one: those of a queue arrive at equal intervals, so a division gives the number that
arrived, completed or was committed until any time. An owner starts each message when it arrives; what waited before its
first pull, it consumes with all its threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, inf

from rmqctl.model.queue import MessageQueue

from .track import Span, Track


class PullSession:
    """One member's pulls of a queue without a break.

    `start` is the first offset, `begun_ms` the time of the first pull. The member `client_id` commits regularly every
    `commit_every_ms`, at `commit_phase_ms` and later.
    """

    __slots__ = ("begun_ms", "client_id", "commit_phase_ms", "queue", "start")

    def __init__(
        self, queue: QueueLedger, start: int, begun_ms: float, commit_phase_ms: float, client_id: str = ""
    ) -> None:
        self.queue = queue
        self.client_id = client_id
        self.start = start
        self.begun_ms = begun_ms
        self.commit_phase_ms = commit_phase_ms


class QueueLedger:
    """One queue's messages, its committed offset and the sessions that pull it.

    `delivered` counts deliveries, `high` is the offset after the last message that was delivered. `last_owner` is the
    client that took the queue last.
    """

    __slots__ = (
        "committed",
        "delivered",
        "gap_ms",
        "high",
        "is_up",
        "last_owner",
        "on_the_way",
        "phase_ms",
        "sessions",
    )

    def __init__(self, rate: float, phase: float) -> None:
        self.gap_ms = 1000 / rate if rate > 0 else inf
        self.phase_ms = phase * self.gap_ms if rate > 0 else inf
        self.committed = self.high = self.delivered = 0
        self.is_up = True
        self.last_owner = ""
        self.sessions: list[PullSession] = []
        # Commits that have not reached the broker yet: when they will, and the offset.
        self.on_the_way: list[tuple[float, int]] = []

    @property
    def owner_count(self) -> int:
        """Return the number of owners; without its broker, a queue cannot have one, and counts as in order."""
        return len(self.sessions) if self.is_up else 1

    def arrived(self, at_ms: float) -> int:
        """Return the number of messages that have arrived."""
        return 0 if at_ms < self.phase_ms else floor((at_ms - self.phase_ms) / self.gap_ms) + 1


class MessageLedger:
    """All queues of a group.

    `consume_ms` is the time of one message in the listener, which `thread_count` threads call for each queue. `track`
    gets what a timeline shows.
    """

    def __init__(
        self, queues: Mapping[MessageQueue, QueueLedger], *, consume_ms: float, commit_every_ms: float,
        thread_count: int, track: Track | None = None,
    ) -> None:  # fmt: skip
        self.queues = queues
        self._track = track
        self._consume_ms = consume_ms
        self._thread_count = thread_count
        self._commit_every_ms = commit_every_ms
        self._now_ms = 0.0
        self._unowned_count, self._shared_count = len(queues), 0
        self.unowned_ms = self.shared_ms = 0.0
        self.settled_at_ms: float | None = None
        """Since when each queue has exactly one owner; None while one has not."""

    @property
    def duplicate_count(self) -> int:
        """How many deliveries were not the first one of their message."""
        return sum(queue.delivered - queue.high for queue in self.queues.values())

    def begin(self, session: PullSession) -> None:
        """Begin a session, at its first pull."""
        queue = session.queue
        before = queue.owner_count
        queue.sessions.append(session)
        self._count(session.begun_ms, before, queue.owner_count)

    def end(self, session: PullSession, at_ms: float) -> int:
        """End a session without a commit; what it has committed before remains. Return its position."""
        queue = session.queue
        queue.committed = max(queue.committed, self._committed(session, at_ms))
        position = self._position(session, at_ms)
        queue.delivered += position - session.start
        queue.high = max(queue.high, position)
        before = queue.owner_count
        queue.sessions.remove(session)
        if self._track is not None:
            self._track.pulled.setdefault(session.client_id, []).append(Span(session.begun_ms, at_ms))
        self._count(at_ms, before, queue.owner_count)
        return position

    def end_committed(self, session: PullSession, at_ms: float, arrives_ms: float, *, with_last: bool = False) -> int:
        """End a session, and commit what it has completed; the broker has that from `arrives_ms` on.

        `with_last`, the messages in the listener are completed before that. Returns the session's position.
        """
        completed = self._completed(session, at_ms)
        position = self.end(session, at_ms)
        session.queue.on_the_way.append((arrives_ms, position if with_last else completed))
        return position

    def rest_ms(self, session: PullSession, at_ms: float) -> float:
        """Return how long the listener still takes for the messages that it has."""
        queue, count = session.queue, session.queue.arrived(at_ms)
        if count <= session.start:
            return 0.0
        if self._position(session, at_ms) < count:
            return self._consume_ms - (at_ms - session.begun_ms) % self._consume_ms
        return max(0.0, queue.phase_ms + (count - 1) * queue.gap_ms + self._consume_ms - at_ms)

    def set_up(self, queue: QueueLedger, at_ms: float, *, is_up: bool) -> None:
        """Count a queue only while its broker is up: without the broker, it cannot have an owner."""
        before = queue.owner_count
        queue.is_up = is_up
        self._count(at_ms, before, queue.owner_count)

    def read_committed(self, queue: QueueLedger, at_ms: float) -> int:
        """Return the committed offset that a broker answers."""
        later: list[tuple[float, int]] = []
        for commit in queue.on_the_way:
            if commit[0] > at_ms:
                later.append(commit)
            elif commit[1] > queue.committed:
                queue.committed = commit[1]
        queue.on_the_way = later
        if not queue.sessions:
            return queue.committed
        return max(queue.committed, *(self._committed(session, at_ms) for session in queue.sessions))

    def finish(self, at_ms: float) -> None:
        """End all sessions, when the simulation is over."""
        for queue in self.queues.values():
            for session in list(queue.sessions):
                self.end(session, at_ms)
        self._pass(at_ms)

    def _position(self, session: PullSession, at_ms: float) -> int:
        """Return the offset after the last message that a session has started."""
        arrived = session.queue.arrived(at_ms)
        if arrived <= session.start:
            return session.start
        return min(arrived, self._worked(session, at_ms) + self._thread_count)

    def _completed(self, session: PullSession, at_ms: float) -> int:
        """Return the offset before which a session has completed all messages."""
        arrived = session.queue.arrived(at_ms - self._consume_ms)
        if arrived <= session.start:
            return session.start
        return min(arrived, self._worked(session, at_ms))

    def _worked(self, session: PullSession, at_ms: float) -> int:
        """Return the offset up to which its threads can have completed all messages."""
        if self._consume_ms == 0:
            return session.queue.arrived(at_ms)
        return session.start + floor((at_ms - session.begun_ms) / self._consume_ms) * self._thread_count

    def _committed(self, session: PullSession, at_ms: float) -> int:
        """Return the offset that a session has committed: with its last pull, or at its last regular commit.

        A pull carries the offset completed so far; one is sent after each message that arrives (PullMessageService).
        """
        queue, offset = session.queue, session.start
        count = queue.arrived(at_ms)
        if count:
            pulled_ms = queue.phase_ms + (count - 1) * queue.gap_ms
            if pulled_ms >= session.begun_ms:
                offset = self._completed(session, pulled_ms)
        since_ms = at_ms - session.commit_phase_ms
        if since_ms >= 0:
            regular_ms = at_ms - since_ms % self._commit_every_ms
            offset = max(offset, self._completed(session, regular_ms))
        return offset

    def _count(self, at_ms: float, before: int, after: int) -> None:
        """Add up the time since the last change, and count the queue whose number of owners has changed."""
        self._pass(at_ms)
        self._unowned_count += (after == 0) - (before == 0)
        self._shared_count += (after > 1) - (before > 1)
        if self._unowned_count or self._shared_count:
            self.settled_at_ms = None
        elif self.settled_at_ms is None:
            self.settled_at_ms = at_ms

    def _pass(self, at_ms: float) -> None:
        """Add up the time since the last change."""
        passed_ms = at_ms - self._now_ms
        if not passed_ms:
            return
        self.unowned_ms += self._unowned_count * passed_ms
        self.shared_ms += self._shared_count * passed_ms
        if self._track is not None:
            self._track.unowned.append(Span(self._now_ms, at_ms, self._unowned_count))
            self._track.shared.append(Span(self._now_ms, at_ms, self._shared_count))
        self._now_ms = at_ms
