from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rmqctl.model.group import GroupState, ProcessQueueInfo, RunningInfo
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.flow_control import FlowControl, FlowLimits, flow_limits
from rmqctl.rules.head_notes import Head, head_for_ms, note_of_head
from rmqctl.rules.health.positions import Motion, Position, PositionPair
from rmqctl.rules.holder_report import Holder
from rmqctl.rules.stuck_queues import AgeSource, StuckFacts, StuckReason, StuckVerdict, client_now_ms, judge

NOW_MS = 1_000_000_000
MINUTE_MS = 60_000


def held(count: int = 1, head: int = 10, **more: Any) -> ProcessQueueInfo:
    values: dict[str, Any] = {
        "cached_count": count, "cached_min_offset": head if count else 0, "cached_max_offset": head + count - 1,
        "commit_offset": head, "dropped": False, "last_pull_at_ms": NOW_MS, "last_consume_at_ms": NOW_MS - 1000,
        "locked_at_ms": NOW_MS - 3_600_000,
    }  # fmt: skip
    return ProcessQueueInfo(**{**values, **more})


def in_order(head: int = 10, **more: Any) -> ProcessQueueInfo:
    """A queue whose head is in an orderly listener: it is not among the cached messages."""
    return held(2, head + 1, commit_offset=head, in_order_count=1, in_order_min_offset=head, **more)


def position(queue: ProcessQueueInfo | None, stored: int | None = 10, end: int | None = 100) -> Position:
    return Position(stored, end, queue)


def watched(first: Position, last: Position, *, for_ms: int = 10_000, is_orderly: bool | None = False) -> PositionPair:
    return PositionPair(first, last, for_ms, is_orderly)


EMPTY = Position(None, 7, held(0, commit_offset=None), 7)
AT_REST = watched(position(held()), position(held()))


@pytest.mark.parametrize(
    ("looks", "motion"),
    [
        pytest.param(watched(position(held()), position(held())), Motion.RESTS, id="the-same-message-in-hand"),
        pytest.param(watched(position(held()), position(held(head=11))), Motion.MOVES, id="another-one"),
        pytest.param(watched(position(None), position(held())), Motion.MOVES, id="taken-by-another-member"),
        pytest.param(
            watched(position(held(locked_at_ms=1)), position(held(locked_at_ms=2))), Motion.MOVES, id="taken-anew"
        ),
        pytest.param(
            watched(position(in_order(locked_at_ms=1)), position(in_order(locked_at_ms=2)), is_orderly=True),
            Motion.RESTS, id="a-lock-that-was-renewed",
        ),
        pytest.param(
            watched(position(in_order()), position(held(3, 10)), is_orderly=True), Motion.RESTS, id="between-attempts"
        ),
        pytest.param(watched(position(held(0)), position(held(0))), Motion.IDLES, id="nothing-in-hand"),
        pytest.param(
            watched(position(held(0), end=10), position(held(0))), Motion.MOVES, id="messages-that-came-just-now"
        ),
        pytest.param(
            watched(position(held(0)), position(held(0, commit_offset=12))), Motion.MOVES, id="not-stored-yet"
        ),
        pytest.param(watched(position(held(0), 100), position(held(0), 100)), Motion.DONE, id="all-is-read"),
        pytest.param(watched(position(None), position(None)), Motion.UNHELD, id="no-member-holds-it"),
        pytest.param(watched(position(None), position(None, 20)), Motion.MOVES, id="somebody-moves-it"),
        pytest.param(watched(position(None, 100), position(None, 100)), Motion.DONE, id="unheld-and-read"),
        pytest.param(watched(position(None, None), position(None, None)), Motion.UNHELD, id="no-offset-known"),
        pytest.param(watched(EMPTY, EMPTY), Motion.DONE, id="empty-and-nothing-stored"),
    ],
)  # fmt: skip
def test_what_became_of_a_queue(looks: PositionPair, motion: Motion) -> None:
    assert looks.motion is motion


HELD, OTHER, EMPTIED = position(held()), position(held(head=8), 8), position(held(0))
NOT_HELD, SILENT = position(None), replace(position(None), is_heard=False)
UNREAD = Position(None, None, held(0))
AT_FIRST = {
    "same-message": HELD, "other-message": OTHER, "nothing-in-hand": EMPTIED, "not-held": NOT_HELD, "silent": SILENT,
    "end-unread": UNREAD,
}  # fmt: skip


@pytest.mark.parametrize(
    ("last", "motions"),
    [
        (HELD, [Motion.RESTS, Motion.MOVES, Motion.MOVES, Motion.MOVES, Motion.UNKNOWN, Motion.MOVES]),
        (EMPTIED, [Motion.MOVES, Motion.MOVES, Motion.IDLES, Motion.MOVES, Motion.UNKNOWN, Motion.UNKNOWN]),
        # Only the offsets that brokers store count where no member reports the queue at the end.
        (NOT_HELD, [Motion.UNHELD, Motion.MOVES, Motion.UNHELD, Motion.UNHELD, Motion.UNHELD, Motion.UNHELD]),
        # The group committed 11.
        (position(held(head=11), 11), [Motion.MOVES] * 6),
        # It was reset to 5 between the samples: that is no progress.
        (position(None, 5), [Motion.UNHELD] * 6),
        # All is read, whatever was not answered.
        (position(held(0), 100), [Motion.DONE] * 6),
    ],
    ids=["in-hand", "nothing-in-hand", "not-held", "committed", "reset", "all-read"],
)  # fmt: skip
def test_what_was_not_answered_is_no_answer(last: Position, motions: list[Motion]) -> None:
    found = {name: watched(first, last).motion for name, first in AT_FIRST.items()}
    assert found == dict(zip(AT_FIRST, motions, strict=True))


HOLDER = Holder("c1", now_ms=NOW_MS, is_orderly=False, thread_count=20, busy_count=1)


def facts(looks: PositionPair = AT_REST, **more: Any) -> StuckFacts:
    values: dict[str, Any] = {"state": GroupState.ONLINE, "holder": HOLDER, "head_age_ms": 3_600_000}
    return StuckFacts(watched=looks, **{**values, **more})


def quiet(quiet_ms: int, make: Any = held, **more: Any) -> PositionPair:
    """A queue that has finished nothing for so long."""
    queue = make(last_consume_at_ms=NOW_MS - quiet_ms)
    return watched(position(queue), position(queue), **more)


def judged(looks: PositionPair, older_than_ms: int | None = None, **more: Any) -> StuckVerdict:
    verdict = judge(facts(looks, **more), older_than_ms)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("looks", "head_age_ms", "age_ms", "source"),
    [
        # Nothing else of the queue was finished for two minutes.
        (quiet(120_000), 3_600_000, 120_000, AgeSource.LAST_CONSUMED),
        # It was stored only a minute ago: nothing was in hand before.
        (quiet(120_000), 60_000, 60_000, AgeSource.LAST_CONSUMED),
        # Messages behind it are finished all the time: only what was watched is certain.
        (quiet(100, for_ms=30_000), 3_600_000, 30_000, AgeSource.WATCHED),
        # An orderly client notes when it calls the listener, and calls it again every second.
        (quiet(120_000, in_order, is_orderly=True), 3_600_000, 120_000, AgeSource.LAST_CONSUMED),
        (quiet(120_000, lambda **more: held(3, **more), is_orderly=True), 3_600_000, 10_000, AgeSource.WATCHED),
    ],
)
def test_how_long_a_message_has_been_in_hand(
    looks: PositionPair, head_age_ms: int, age_ms: int, source: AgeSource
) -> None:
    holder = replace(HOLDER, is_orderly=looks.is_orderly)
    verdict = judged(looks, holder=holder, head_age_ms=head_age_ms)
    assert (verdict.at_least_ms, verdict.source) == (age_ms, source)
    assert verdict.at_most_ms == head_age_ms


@pytest.mark.parametrize(
    ("quiet_ms", "head_age_ms", "older_than_ms", "is_stuck"),
    [
        (MINUTE_MS, 3_600_000, None, True),
        (MINUTE_MS - 1, 3_600_000, None, None),
        (MINUTE_MS - 1, MINUTE_MS - 1, None, False),
        (MINUTE_MS, 3_600_000, 15 * MINUTE_MS, None),
        (15 * MINUTE_MS, 3_600_000, 15 * MINUTE_MS, True),
        (MINUTE_MS, 14 * MINUTE_MS, 15 * MINUTE_MS, False),
        (MINUTE_MS, None, None, None),
        (10_000, 3_600_000, 5_000, True),
    ],
)
def test_what_counts_as_stuck(
    quiet_ms: int, head_age_ms: int | None, older_than_ms: int | None, is_stuck: bool | None
) -> None:
    verdict = judged(quiet(quiet_ms), older_than_ms, head_age_ms=head_age_ms)
    assert (verdict.is_stuck, verdict.needs_time) == (is_stuck, is_stuck is None)
    assert (verdict.why is StuckReason.SLOW) == (is_stuck is False)


@pytest.mark.parametrize(
    ("change", "older_than_ms", "is_stuck"),
    [
        # Messages take 30 s each as a rule.
        ({"average_ms": 30_000.0}, None, None),
        ({"average_ms": 30_000.0}, 60_000, True),
        # All threads are busy, and there is work for minutes: the message only waits for one.
        ({"average_ms": 1_000.0, "busy_count": 20, "in_hand_count": 1_000}, None, None),
        ({"average_ms": 1_000.0, "busy_count": 20, "in_hand_count": 1_000}, 60_000, None),
        ({"average_ms": 10.0, "busy_count": 20, "in_hand_count": 1_000}, None, True),
        # Whether all threads are busy is unknown.
        ({"average_ms": 1_000.0, "busy_count": None, "in_hand_count": 1_000}, None, None),
        ({"average_ms": 10.0, "busy_count": None, "in_hand_count": 1_000}, None, True),
        # All hang.
        ({"average_ms": 0.0, "busy_count": 20, "in_hand_count": 1_000}, None, True),
    ],
)
def test_what_is_usual_is_not_stuck(change: dict[str, Any], older_than_ms: int | None, is_stuck: bool | None) -> None:
    assert judged(quiet(80_000), older_than_ms, holder=replace(HOLDER, **change)).is_stuck is is_stuck


@pytest.mark.parametrize(
    ("batch_size", "busy_count", "is_stuck"),
    [(1, 20, False), (1, 19, None), (1_000, 20, None), (None, 20, None), (1, None, None)],
)
def test_a_message_waits_for_calls_of_the_listener(
    batch_size: int | None, busy_count: int | None, is_stuck: bool | None
) -> None:
    """It is young enough only if the calls before it take that long: 1,000 of one message, or one of all."""
    holder = replace(HOLDER, average_ms=1_000.0, busy_count=busy_count, batch_size=batch_size, in_hand_count=1_000)
    assert judged(quiet(50_000), holder=holder, head_age_ms=100_000).is_stuck is is_stuck


@pytest.mark.parametrize(
    ("busy_count", "batch_size", "most"), [(1, 16, 16), (3, 1, 3), (0, 16, 0), (None, 16, None), (1, None, None)]
)
def test_how_many_messages_are_in_the_listener(
    busy_count: int | None, batch_size: int | None, most: int | None
) -> None:
    assert replace(HOLDER, busy_count=busy_count, batch_size=batch_size).listening_max == most


@pytest.mark.parametrize(
    ("last", "is_stuck", "why"),
    [
        # The last answer alone shows it: nothing else was finished for two minutes.
        (position(held(last_consume_at_ms=NOW_MS - 120_000)), True, StuckReason.IN_CONSUMPTION),
        # So it does if older messages were committed late.
        (position(held(head=12, last_consume_at_ms=NOW_MS - 120_000), 12), True, StuckReason.IN_CONSUMPTION),
        # A reset went past it, which the client does not know yet.
        (position(held(), 50), None, StuckReason.IN_CONSUMPTION),
        (position(held()), None, StuckReason.IN_CONSUMPTION),
        (position(held(0)), None, StuckReason.MEMBER_SILENT),
    ],
)
def test_a_member_that_answers_only_at_the_end(last: Position, is_stuck: bool | None, why: StuckReason) -> None:
    verdict = judged(watched(SILENT, last))
    assert (verdict.is_stuck, verdict.why, verdict.needs_time) == (is_stuck, why, is_stuck is None)


def test_a_member_that_answers_only_at_the_end_and_has_committed() -> None:
    assert judge(facts(watched(SILENT, position(held(head=30), 30))), None) is None
    assert judge(facts(watched(SILENT, position(held(0), 30))), None) is None


def test_what_the_client_reports_is_certain() -> None:
    holder = replace(HOLDER, head_for_ms=5_000, now_ms=None, busy_count=None)
    verdict = judged(quiet(3_600_000), holder=holder)
    assert (verdict.is_stuck, verdict.at_least_ms, verdict.at_most_ms) == (False, 5_000, 5_000)
    assert verdict.source is AgeSource.REPORTED
    assert judged(quiet(3_600_000), 4_000, holder=holder).why is StuckReason.IN_CONSUMPTION


@pytest.mark.parametrize(
    ("change", "hindrance", "why"),
    [
        ({}, None, StuckReason.IN_CONSUMPTION),
        ({"is_orderly": True}, None, StuckReason.BLOCKED_IN_ORDER),
        ({"busy_count": None, "thread_count": None}, None, StuckReason.IN_HAND),
        ({"busy_count": 0}, None, StuckReason.IN_HAND),
        ({"busy_count": 0, "failed_tps": 0.2}, None, StuckReason.LOCAL_RETRY),
        ({"busy_count": 1, "failed_tps": 0.2}, None, StuckReason.IN_CONSUMPTION),
        ({"busy_count": 1, "failed_tps": 0.2}, "BROKER_NOT_WRITABLE", StuckReason.LOCAL_RETRY),
        ({"busy_count": 1}, "BROKER_NOT_WRITABLE", StuckReason.IN_CONSUMPTION),
    ],
)
def test_why_a_message_is_stuck(change: dict[str, Any], hindrance: str | None, why: StuckReason) -> None:
    verdict = judged(quiet(120_000), 5_000, holder=replace(HOLDER, **change), retry_hindrance=hindrance)
    assert (verdict.why, verdict.is_stuck) == (why, True)


UNHELD = watched(position(None), position(None))
IDLE = watched(position(held(0)), position(held(0)))
OVERDUE = watched(position(held(0)), position(held(0, last_pull_at_ms=NOW_MS - 31_000)))


def long_idle(quiet_ms: int, *, for_ms: int = 10_000, pulled: int | None = None, **more: Any) -> PositionPair:
    """A queue of which the member has finished nothing for so long; the broker has answered pulls up to `pulled`."""
    one = replace(position(held(0, last_consume_at_ms=NOW_MS - quiet_ms, **more)), pull_offset=pulled)
    return watched(one, one, for_ms=for_ms)


@pytest.mark.parametrize(
    ("looks", "more", "why", "is_stuck"),
    [
        (UNHELD, {"state": GroupState.EMPTY}, StuckReason.NO_MEMBERS, False),
        (UNHELD, {"state": GroupState.UNKNOWN}, StuckReason.MEMBERS_UNKNOWN, None),
        (UNHELD, {"has_silent": True}, StuckReason.MEMBER_SILENT, None),
        (UNHELD, {"reports_queues": False}, StuckReason.NOT_REPORTED, None),
        (UNHELD, {}, StuckReason.NOT_ASSIGNED, False),
        (UNHELD, {"is_pop": True}, StuckReason.POP, False),
        (UNHELD, {"is_pop": True, "hides_pops": True}, StuckReason.POP, None),
        # A retry topic of a popping group is pulled.
        (IDLE, {"is_pop": True, "hides_pops": True}, StuckReason.PAUSED, False),
        (IDLE, {}, StuckReason.PAUSED, False),
        (IDLE, {"can_pull": False}, StuckReason.PULLS_REFUSED, False),
        (IDLE, {"is_wanted": True}, StuckReason.PAUSED, False),
        (OVERDUE, {}, StuckReason.NOT_PULLED, False),
        # A pull passes a message that the filter leaves out within 20 s, and most clients commit that.
        (IDLE, {"is_wanted": False}, StuckReason.FILTERED, False),
        (IDLE, {"is_wanted": False, "can_pull": False}, StuckReason.PULLS_REFUSED, False),
        (OVERDUE, {"is_wanted": False}, StuckReason.NOT_PULLED, False),
        (long_idle(30_000), {"is_wanted": False}, StuckReason.FILTERED, False),
        (long_idle(30_001), {"is_wanted": False}, StuckReason.PAUSED, False),
        (long_idle(30_001), {"is_wanted": False, "head_age_ms": 30_000}, StuckReason.FILTERED, False),
        (long_idle(30_001), {"is_wanted": False, "head_age_ms": None}, StuckReason.FILTERED, False),
        # It pulled past the message, and its next pulls were refused before it committed that.
        (long_idle(30_001, pulled=11), {"is_wanted": False}, StuckReason.PAUSED, False),
        (long_idle(30_001), {"is_wanted": False, "commits_filtered": False}, StuckReason.FILTERED, False),
        (long_idle(30_001, pulled=11), {"is_wanted": False, "commits_filtered": False}, StuckReason.FILTERED, False),
        (long_idle(30_001, pulled=10), {"is_wanted": False, "commits_filtered": False}, StuckReason.PAUSED, False),
        (OVERDUE, {"is_wanted": False, "commits_filtered": False}, StuckReason.NOT_PULLED, False),
        (long_idle(0, for_ms=30_001), {"is_wanted": False}, StuckReason.PAUSED, False),
        (long_idle(30_001, last_pull_at_ms=None), {"is_wanted": False}, StuckReason.NOT_PULLED, False),
    ],
)
def test_queues_that_stand_still_without_a_stuck_message(
    looks: PositionPair, more: dict[str, Any], why: StuckReason, is_stuck: bool | None
) -> None:
    holder = {"holder": None} if looks is UNHELD else {}
    verdict = judged(looks, **{**holder, **more})
    assert (verdict.why, verdict.is_stuck) == (why, is_stuck)


def test_lag_says_nothing_of_what_is_popped() -> None:
    done = watched(position(None, 100, 100), position(None, 100, 100))
    assert judge(facts(done, is_pop=True), None) is None
    assert judge(facts(done, is_pop=True, hides_pops=True), None) == StuckVerdict(StuckReason.POP, None)


@pytest.mark.parametrize(
    ("went_on", "end", "is_slow"),
    [(3, 100, True), (9, 1_000, True), (10, 1_000, False), (3, 13, False), (3, 16, False)],
)
def test_slow_is_less_than_one_a_second_with_more_to_do(went_on: int, end: int, is_slow: bool) -> None:
    looks = watched(position(held(), end=end), position(held(head=10 + went_on), 10 + went_on, end))
    verdict = judge(facts(looks), None)
    assert (verdict is not None and verdict.why is StuckReason.SLOW and verdict.is_stuck is False) == is_slow


@pytest.mark.parametrize(
    ("queue", "hold"),
    [
        (held(1000), None),
        (held(1001), FlowControl.QUEUE_COUNT),
        (held(2, cached_max_offset=10 + 2001), FlowControl.SPAN),
        (held(2, cached_size_mib=101), FlowControl.QUEUE_SIZE),
    ],
)
def test_flow_control_behind_a_stuck_message(queue: ProcessQueueInfo, hold: FlowControl | None) -> None:
    looks = watched(position(queue, end=5_000), position(queue, end=5_000))
    assert judged(looks, 5_000).flow_control is hold


def test_limits_are_the_clients_own() -> None:
    given = {"pullThresholdForQueue": "7", "consumeConcurrentlyMaxSpan": "x", "pullThresholdForTopic": "-1"}
    assert flow_limits(given) == FlowLimits(queue_count=7)


def test_a_clients_clock_is_at_least_what_it_tells_of() -> None:
    one, two = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
    queues = {one: held(last_pull_at_ms=5, last_consume_at_ms=9, locked_at_ms=1), two: held(last_pull_at_ms=None)}
    assert client_now_ms(RunningInfo({}, {one: queues[one]}, {})) == 9
    assert client_now_ms(RunningInfo({}, {}, {})) is None
    name, text = note_of_head(one, Head(10, 7))
    assert head_for_ms({name: text}, one, 10) == 7
    others = ({}, {name: text.replace("10", "11")}, {name: text.replace("7", "x")}, {name: "10"})
    assert [head_for_ms(notes, one, 10) for notes in others] == [None] * 4
