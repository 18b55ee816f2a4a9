"""Whether a queue of a group is stuck, and why, from two reports by brokers and members."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from rmqctl.model.group import GroupState, RunningInfo

from .flow_control import FlowControl, decide
from .health.idle import POLL_OVERDUE_MS, PULL_OVERDUE_MS, idle_for_ms, is_abandoned, is_overdue
from .health.popped import Pops, is_pop_overdue
from .health.positions import Motion, Position, PositionPair
from .holder_report import Holder
from .member_clock import written_times

# A message in consumption for less is not reported, unless --older-than is lower; mqadmin warns from this age on.
DEFAULT_OLDER_THAN_MS = 60_000
# If a client's messages usually take long, one is unusual from this multiple of the average on.
_TIMES_AVERAGE = 3
_MIB_BYTES = 1 << 20


class StuckReason(StrEnum):
    """Why a queue is stuck or slow. The first four concern a message in flight; IN_HAND when no more is known."""

    IN_CONSUMPTION = "IN_CONSUMPTION"
    BLOCKED_IN_ORDER = "BLOCKED_IN_ORDER"
    LOCAL_RETRY = "LOCAL_RETRY"
    IN_HAND = "IN_HAND"
    SLOW = "SLOW"
    PAUSED = "PAUSED"
    PULLS_REFUSED = "PULLS_REFUSED"
    FILTERED = "FILTERED"
    NOT_PULLED = "NOT_PULLED"
    NOT_POLLED = "NOT_POLLED"
    MEMBER_SILENT = "MEMBER_SILENT"
    NOT_ASSIGNED = "NOT_ASSIGNED"
    NO_MEMBERS = "NO_MEMBERS"
    MEMBERS_UNKNOWN = "MEMBERS_UNKNOWN"
    NOT_REPORTED = "NOT_REPORTED"
    POP = "POP"
    POPPED = "POPPED"


class AgeSource(StrEnum):
    """How the least time in consumption is known."""

    REPORTED = "REPORTED"  # the client reports when its listener was called
    LAST_CONSUMED = "LAST_CONSUMED"  # the client has finished nothing else of the queue since then
    WATCHED = "WATCHED"  # it was in flight for as long as it was watched
    POPPED = "POPPED"  # the broker has recorded when it was popped


class StuckFacts(Struct, frozen=True, kw_only=True):
    """Everything that is known about one queue.

    `head_age_ms` is how long ago the head was stored, by its broker's clock; `is_wanted` whether the head matches the
    subscription. `commits_filtered`: the holder commits past messages that do not match; older Go clients and lite pull
    consumers do that only with the next message that matches. `can_pull`: the broker allows pulls (consumeEnable).
    `retry_hindrance` says why failed messages cannot be sent back, None where they can or that was not checked.
    `waits_for_polls`: an application that polls may have served other queues meanwhile.
    `is_pop`: members pop, as `pops` says; `hides_pops`: the messages that the broker has delivered to them cannot be
    seen.
    """

    watched: PositionPair
    state: GroupState
    holder: Holder | None = None
    has_silent: bool = False
    reports_queues: bool = True
    waits_for_polls: bool | None = False
    is_pop: bool = False
    pops: Pops = Pops.UNKNOWN
    hides_pops: bool = False
    head_age_ms: int | None = None
    is_wanted: bool | None = None
    commits_filtered: bool = True
    can_pull: bool = True
    retry_hindrance: str | None = None


class StuckVerdict(Struct, frozen=True):
    """`is_stuck`: a message has been in flight for too long; None when that is unknown. Ages are of the head in flight.

    `needs_time`: watching for longer would decide it. `flow_control` is the limit that blocks pulls of the queue.
    `is_overdue`: nothing of the queue is in consumption, for longer than a member that consumes it needs; None when
    only a longer watch can show it.
    """

    why: StuckReason
    is_stuck: bool | None
    at_least_ms: int | None = None
    at_most_ms: int | None = None
    source: AgeSource | None = None
    flow_control: FlowControl | None = None
    needs_time: bool = False
    is_overdue: bool | None = False


def judge(facts: StuckFacts, older_than_ms: int | None) -> StuckVerdict | None:
    """Judge one queue; None when it is fine. `older_than_ms` defaults to 1 min or, if longer, 3 times the usual."""
    watched, motion = facts.watched, facts.watched.motion
    # Retry topics of a popping group are pulled.
    if facts.is_pop and watched.last.held is None and (facts.hides_pops or motion is not Motion.DONE):
        is_stuck = None if facts.hides_pops else False
        # A member that did not answer may pop.
        idle = False if facts.has_silent else is_pop_overdue(facts.pops, watched)
        return StuckVerdict(StuckReason.POP, is_stuck, is_overdue=idle)
    if motion is Motion.DONE:
        return None
    if facts.holder is not None and facts.holder.is_polled and motion is not Motion.IDLES:
        return _judge_polled(facts, facts.holder)
    if motion is Motion.UNHELD:
        return _judge_unheld(facts)
    if motion is Motion.IDLES:
        return _judge_idle(facts)
    if motion is Motion.RESTS:
        return _judge_head(facts, older_than_ms)
    if needs_head(watched, older_than_ms) and (verdict := _judge_new(facts, older_than_ms)) is not None:
        return verdict
    if motion is Motion.MOVES and _is_slow(watched):
        return StuckVerdict(StuckReason.SLOW, is_stuck=False, flow_control=_flow_control(facts))
    return None


def judge_popped(age_ms: int) -> StuckVerdict:
    """Judge a message that was popped longer ago than the limit, but is not acknowledged."""
    return StuckVerdict(StuckReason.POPPED, True, age_ms, age_ms, AgeSource.POPPED)


def _judge_unheld(facts: StuckFacts) -> StuckVerdict:
    if facts.state is GroupState.EMPTY:
        return StuckVerdict(StuckReason.NO_MEMBERS, is_stuck=False)
    if facts.state is GroupState.UNKNOWN:
        return StuckVerdict(StuckReason.MEMBERS_UNKNOWN, is_stuck=None)
    if facts.has_silent:
        return StuckVerdict(StuckReason.MEMBER_SILENT, is_stuck=None)
    last, pulled = facts.watched.last, facts.watched.first.pull_offset
    # A member that moves on in a backlog without commits, or has passed what its filter leaves out.
    is_pulled = last.pull_offset is not None and pulled is not None and last.pull_offset > pulled
    is_passed = facts.is_wanted is False and _may_be_pulled(last)
    idle = False if is_pulled or is_passed else is_abandoned(facts.head_age_ms, facts.watched.for_ms)
    if idle and facts.waits_for_polls is not False:
        idle = None if facts.waits_for_polls is None else False
    if facts.reports_queues:
        return StuckVerdict(StuckReason.NOT_ASSIGNED, is_stuck=False, is_overdue=idle)
    return StuckVerdict(StuckReason.NOT_REPORTED, None, is_overdue=idle)


def needs_head(watched: PositionPair, older_than_ms: int | None) -> bool:
    """Tell whether a queue is judged by its head message: it rests, or may have since it was assigned to its holder."""
    if watched.motion in (Motion.RESTS, Motion.IDLES):
        return True
    is_long = watched.for_ms >= (DEFAULT_OLDER_THAN_MS if older_than_ms is None else older_than_ms)
    return watched.is_new and (is_long or not watched.first.is_heard)


def _judge_new(facts: StuckFacts, older_than_ms: int | None) -> StuckVerdict | None:
    """Judge a queue whose holder reported it only at the last sample: by that report, and by what was committed."""
    held, has_committed, is_heard = facts.watched.last.held, facts.watched.has_committed, facts.watched.first.is_heard
    if held is None or held.head_offset is None:
        is_fine = is_heard or has_committed
        return None if is_fine else StuckVerdict(StuckReason.MEMBER_SILENT, None, needs_time=True)
    verdict = _judge_head(facts, older_than_ms)
    # Messages that were consumed before the first sample may have been committed after it.
    return verdict if verdict.is_stuck or not has_committed else None


def _judge_idle(facts: StuckFacts) -> StuckVerdict:
    held, holder = facts.watched.last.held, facts.holder
    if not facts.can_pull:
        return StuckVerdict(StuckReason.PULLS_REFUSED, is_stuck=False)
    pulled_ms = None if held is None else held.last_pull_at_ms
    if holder is None or holder.now_ms is None or pulled_ms is None:
        pull_age_ms = None
    else:
        pull_age_ms = holder.now_ms - pulled_ms
    # Between two pulls of a queue, its member waits for its pullInterval.
    limit_ms = PULL_OVERDUE_MS + (0 if holder is None else holder.pull_interval_ms)
    if pull_age_ms is not None and pull_age_ms > limit_ms:
        return StuckVerdict(StuckReason.NOT_PULLED, is_stuck=False, is_overdue=True)
    if holder is not None and holder.is_polled:
        # It has polled all that was delivered, and may commit later.
        idle = False if facts.watched.last.is_delivered else _is_unpolled(facts, holder)
    else:
        idle_ms = None
        if held is not None and holder is not None:
            idle_ms = idle_for_ms(holder.now_ms, held.last_consume_at_ms, facts.head_age_ms)
        idle = is_overdue(idle_ms, facts.watched.for_ms, limit_ms)
    # A member with nothing in flight passes a message that its filter leaves out as soon as its pull returns. The pull
    # may wait at the broker meanwhile: it returns at a new message only if that passes the filter.
    if facts.is_wanted is False and (not idle or (not facts.commits_filtered and _may_be_pulled(facts.watched.last))):
        return StuckVerdict(StuckReason.FILTERED, is_stuck=False)
    why = StuckReason.NOT_PULLED if pull_age_ms is None else StuckReason.PAUSED
    return StuckVerdict(why, is_stuck=False, is_overdue=idle)


def _judge_polled(facts: StuckFacts, holder: Holder) -> StuckVerdict | None:
    """Judge a queue of a member whose application polls: its messages are prefetched, and none is in consumption."""
    is_unpolled = _is_unpolled(facts, holder)
    if facts.watched.motion is Motion.MOVES and not is_unpolled:
        return None
    return StuckVerdict(StuckReason.NOT_POLLED, is_stuck=False, is_overdue=is_unpolled)


def _is_unpolled(facts: StuckFacts, holder: Holder) -> bool | None:
    """Return whether the application has taken messages of no queue for too long; None when that is unknown."""
    limit_ms = POLL_OVERDUE_MS + holder.pull_interval_ms
    if holder.polled_ago_ms is None or holder.polled_ago_ms <= limit_ms:
        return None if holder.polled_ago_ms is None else False
    return is_overdue(facts.head_age_ms, facts.watched.rest_ms, limit_ms)


def _may_be_pulled(last: Position) -> bool:
    """Tell whether a member may have pulled past the next message without a commit. 4.9 reports no pulls."""
    pulled, offset = last.pull_offset, last.next_offset
    return pulled is None or offset is None or pulled > offset


def _is_slow(watched: PositionPair) -> bool:
    """Tell whether a queue advances by less than a message per second, with more left than it consumed."""
    behind, advance = watched.last.behind, watched.advance
    held = watched.last.held
    if behind is None or advance is None or advance < 0 or held is None or held.head_offset is None:
        return False
    return advance * 1000 < watched.for_ms and behind > advance


def _judge_head(facts: StuckFacts, older_than_ms: int | None) -> StuckVerdict:
    least_ms, source = _least_age(facts)
    most_ms = None if facts.head_age_ms is None else max(facts.head_age_ms, least_ms)
    if source is AgeSource.REPORTED:
        most_ms = least_ms
    least_limit_ms, limit_ms = (
        max(DEFAULT_OLDER_THAN_MS if older_than_ms is None else older_than_ms, round(_TIMES_AVERAGE * usual_ms))
        for usual_ms in _usual_ms(facts.holder, is_own_limit=older_than_ms is not None)
    )
    flow_control = _flow_control(facts)
    if least_ms >= limit_ms:
        return StuckVerdict(_why(facts), True, least_ms, most_ms, source, flow_control)
    if most_ms is not None and most_ms < least_limit_ms:
        return StuckVerdict(StuckReason.SLOW, False, least_ms, most_ms, source, flow_control)
    return StuckVerdict(_why(facts), None, least_ms, most_ms, source, flow_control, needs_time=True)


def _usual_ms(holder: Holder | None, *, is_own_limit: bool) -> tuple[float, float]:
    """Return how long the client's messages are usually in flight at least, and at most.

    They wait for a thread, if all are busy, and then are in the listener. With a limit from the user only the waiting
    counts, because it is not consumption. Calls of the listener get a whole batch at best, and one message at worst.
    """
    if holder is None or holder.head_for_ms is not None:
        return 0.0, 0.0
    usual_ms = 0.0 if is_own_limit else holder.average_ms
    if not holder.thread_count or (holder.busy_count is not None and holder.busy_count < holder.thread_count):
        return usual_ms, usual_ms
    most_ms = holder.average_ms * holder.in_hand_count / holder.thread_count
    least_ms = 0.0 if holder.busy_count is None or holder.batch_size is None else most_ms / holder.batch_size
    return usual_ms + least_ms, usual_ms + most_ms


def _least_age(facts: StuckFacts) -> tuple[int, AgeSource]:
    """Return how long the head has been in flight at least.

    Every finished message of a queue sets its last consumption. The same message has been the first in flight since
    then, or since it was stored, if nothing was in flight before. For orderly clients that time is when the listener
    was called.
    """
    holder, held, watched_ms = facts.holder, facts.watched.last.held, facts.watched.rest_ms
    if holder is not None and holder.head_for_ms is not None:
        return holder.head_for_ms, AgeSource.REPORTED
    if holder is None or held is None or holder.now_ms is None:
        return watched_ms, AgeSource.WATCHED
    # Between two attempts of an orderly client no message is in the listener.
    is_in_hand = not holder.is_orderly or held.is_listening
    if is_in_hand and held.last_consume_at_ms is not None and facts.head_age_ms is not None:
        quiet_ms = min(holder.now_ms - held.last_consume_at_ms, facts.head_age_ms)
        if quiet_ms > watched_ms:
            return quiet_ms, AgeSource.LAST_CONSUMED
    return watched_ms, AgeSource.WATCHED


def _why(facts: StuckFacts) -> StuckReason:
    holder = facts.holder
    if holder is None:
        return StuckReason.IN_HAND
    if holder.is_orderly:
        return StuckReason.BLOCKED_IN_ORDER
    if holder.head_for_ms is not None:
        return StuckReason.IN_CONSUMPTION
    # A client retries locally, every 5 s, a message that no broker accepts back. Without a free thread, it may wait.
    if (
        holder.failed_tps > 0
        and not holder.is_exhausted
        and (facts.retry_hindrance is not None or holder.busy_count == 0)
    ):
        return StuckReason.LOCAL_RETRY
    return StuckReason.IN_CONSUMPTION if holder.busy_count else StuckReason.IN_HAND


def _flow_control(facts: StuckFacts) -> FlowControl | None:
    held, holder = facts.watched.last.held, facts.holder
    if held is None or holder is None:
        return None
    head = held.head_offset
    span = None if holder.is_orderly or head is None else held.cached_max_offset - head
    return decide(
        holder.limits, held_queue_count=holder.held_count, count=held.unacked_count,
        size_bytes=held.cached_size_mib * _MIB_BYTES, span=span,
    )  # fmt: skip


def client_now_ms(info: RunningInfo) -> int | None:
    """Return the least time of a client's clock when it answered: the latest time in its answer."""
    return max(written_times(info).values(), default=None)
