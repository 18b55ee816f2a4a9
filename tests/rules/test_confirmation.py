from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rmqctl.model.group import GroupState
from rmqctl.model.plan import ListenerBlock, Route
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, OwnerSample, QueueSample
from rmqctl.rules.confirmation import judge
from rmqctl.rules.written_offsets import ResetOutcome, WriteVerdict, WrittenOffset, push_quiet_s

from .reset_simulation import MQ, Case, Simulation

SERVER, PUSH, WRITE = Route.SERVER_SIDE, Route.CLIENT_PUSH, Route.BROKER_WRITE


def _watch(
    case: Case, *, interval_s: float = 0.5, latency_s: float = 0.02, first_s: float = 0.02, with_baseline: bool = True,
    limit_s: float = 60.0,
) -> tuple[WriteVerdict, Simulation, float]:  # fmt: skip
    """Write a reset and sample until the verdict is final; return it, the world 10 s after that, and when it was."""
    world = Simulation(case)
    baseline = world.sample() if with_baseline else None
    world.advance(world.now_s + 0.05)
    world.write()
    start_s = world.now_s
    world.advance(start_s + first_s)
    samples: list[GroupSample] = []
    verdict, final_s = WriteVerdict(ResetOutcome.UNKNOWN, ""), limit_s
    while world.now_s < start_s + limit_s:
        next_s = world.now_s + interval_s
        samples.append(world.sample(latency_s))
        verdict = judge(world.written(), samples, was_online=True, baseline=baseline)
        if verdict.is_final:
            final_s = world.now_s - start_s
            break
        world.advance(next_s)
        interval_s = min(interval_s * 1.2, 2.0)
    world.advance(world.now_s + 10)
    return verdict, world, final_s


ONLINE = [
    pytest.param(Case(SERVER, 5000, 100, backlog=20000, arriving_per_s=500), 4.0, id="busy, backward"),
    pytest.param(Case(SERVER, 5000, 9000, backlog=20000, arriving_per_s=500), 4.0, id="busy, forward"),
    pytest.param(Case(SERVER, 5000, 4990, backlog=20000, arriving_per_s=500), 4.0, id="busy, a few backward"),
    pytest.param(Case(SERVER, 5000, 100, consuming_per_s=1e6), 22.0, id="idle, done at once"),
    pytest.param(Case(SERVER, 5000, 100, consuming_per_s=1e6, is_orderly=True), 22.0, id="idle, in order"),
    pytest.param(Case(SERVER, 5000, 100, moving_s=10.0), 32.0, id="idle, client before 5.2"),
    pytest.param(Case(SERVER, 5000, 100, backlog=9000, moving_s=10.0), 20.0, id="busy, client before 5.2"),
    pytest.param(Case(SERVER, 5000, 5000), 3.0, id="where it is"),
    pytest.param(Case(SERVER, 0, 0), 3.0, id="empty queue"),
    pytest.param(Case(SERVER, 5000, 100, backlog=1000, joins_at_s=0.3), 6.0, id="a member joins meanwhile"),
    pytest.param(Case(PUSH, 5000, 100, backlog=3000), 30.0, id="push, backward"),
    pytest.param(Case(PUSH, 5000, 7000, backlog=3000, ahead=10), 30.0, id="push, forward"),
    pytest.param(Case(PUSH, 5000, 4000, consuming_per_s=1e6), 30.0, id="push, done at once"),
    pytest.param(Case(PUSH, 5000, 4000, consuming_per_s=1e6, is_orderly=True), 30.0, id="push, in order"),
]


@pytest.mark.parametrize(("case", "within_s"), ONLINE)
def test_what_a_group_takes_up_is_confirmed_in_time(case: Case, within_s: float) -> None:
    verdict, world, final_s = _watch(case)

    assert not world.is_lost
    assert verdict.outcome is ResetOutcome.CONFIRMED, verdict.reason
    assert final_s <= within_s


LOST = [
    pytest.param(
        Case(SERVER, 5000, 9000, backlog=20000, consuming_per_s=10, dies_after_mark_s=0.05), ResetOutcome.LOST,
        id="the member dies between the pull and the target",
    ),
    pytest.param(
        Case(SERVER, 5000, 100, backlog=20000, dies_after_mark_s=0.05), ResetOutcome.UNKNOWN,
        id="... and the next one goes on past the old position",
    ),
    pytest.param(
        Case(SERVER, 5000, 100, backlog=20000, stranger_pulls_at_s=0.06), ResetOutcome.LOST,
        id="a stranger took the mark",
    ),
    pytest.param(
        Case(PUSH, 5000, 100, backlog=20000, joins_at_s=4.0), ResetOutcome.LOST, id="a member joins in the 10 s"
    ),
    pytest.param(Case(PUSH, 5000, 100, is_push_lost=True), ResetOutcome.LOST, id="the push did not arrive"),
    pytest.param(
        Case(PUSH, 5000, 6000, backlog=2000, is_push_lost=True, consuming_per_s=1), ResetOutcome.LOST, id="... forward"
    ),
    pytest.param(
        Case(PUSH, 5000, 100, is_store_overtaken=True), ResetOutcome.UNKNOWN,
        id="the member takes the queue anew where it was",
    ),
    pytest.param(
        Case(PUSH, 5000, 100, is_store_overtaken=True, arriving_per_s=1, held_s=2), ResetOutcome.UNKNOWN,
        id="... and goes on from there",
    ),
    pytest.param(
        Case(SERVER, 5000, 100, is_store_overtaken=True, moving_s=10.0), ResetOutcome.UNKNOWN, id="... sent by its pull"
    ),
    pytest.param(Case(WRITE, 5000, 100, backlog=20000), ResetOutcome.LOST, id="a plain offset under a running member"),
    pytest.param(Case(WRITE, 5000, 9000, consuming_per_s=1), ResetOutcome.LOST, id="... forward"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "outcome"), LOST)
def test_what_a_group_stores_over_is_told(case: Case, outcome: ResetOutcome) -> None:
    verdict, world, _ = _watch(case)

    assert world.is_lost
    assert verdict.outcome is outcome, verdict.reason
    assert verdict.is_final


def _owner(
    name: str, position: int | None, *, begun_at_ms: int | None = 1, consumed_at_ms: int = 1, dropped: bool = False
) -> OwnerSample:
    return OwnerSample(name, position, 0, 0, dropped, begun_at_ms, consumed_at_ms)


def _at(
    at_s: float,
    stored: int | None,
    *owners: OwnerSample,
    members: tuple[str, ...] | None = None,
    silent: tuple[str, ...] = (),
    is_popped: bool = False,
    max_offset: int = 20_000,
    state: GroupState | None = None,
    is_listed: bool = True,
) -> GroupSample:
    """Return a sample; who owns is a member unless others are named."""
    names = tuple(sorted({owner.client_id for owner in owners} | set(silent))) if members is None else members
    reasons = {} if stored is not None else {"consumerOffset": Unknown.BROKER_UNREACHABLE}
    if not owners:
        is_unseen = state is GroupState.UNKNOWN or not is_listed
        reasons["clientId"] = (
            Unknown.BROKER_UNREACHABLE if is_unseen else Unknown.CLIENT_SILENT if silent else Unknown.NOT_ASSIGNED
        )
    queue = QueueSample(MQ, stored, max_offset, owners, is_popped, reasons)
    seen = GroupState.ONLINE if names else GroupState.EMPTY
    return GroupSample(round(at_s * 1000), at_s, "G", state or seen, names, {MQ: queue}, silent)


def _judge(
    route: Route,
    before: int | None,
    target: int,
    *samples: GroupSample,
    was_online: bool = True,
    baseline: GroupSample | None = None,
) -> tuple[ResetOutcome, bool]:
    written = WrittenOffset(MQ, route, before, target)
    verdict = judge(written, samples, was_online=was_online, baseline=baseline)
    assert verdict.reason
    return verdict.outcome, verdict.is_final


def test_an_offline_write_is_confirmed_at_once_by_what_is_read() -> None:
    assert _judge(WRITE, 50, 10, _at(0, 10), was_online=False) == (ResetOutcome.CONFIRMED, True)
    assert _judge(WRITE, None, 0, _at(0, 0), was_online=False) == (ResetOutcome.CONFIRMED, True)
    assert _judge(WRITE, 50, 10, _at(0, 50), was_online=False) == (ResetOutcome.PENDING, False)
    assert _judge(WRITE, 50, 10, _at(0, 50), _at(1, 50), was_online=False) == (ResetOutcome.LOST, True)


def test_nobody_seen_is_not_nobody_there() -> None:
    hidden = [_at(at_s, 10, state=GroupState.UNKNOWN) for at_s in (0, 3, 6)]

    assert _judge(WRITE, 50, 10, *hidden, was_online=False) == (ResetOutcome.UNKNOWN, False)
    assert _judge(WRITE, 50, 10, *hidden[:2], _at(6, 50, state=GroupState.UNKNOWN))[0] is ResetOutcome.UNKNOWN


def test_a_mark_in_an_offline_group_stays_pending() -> None:
    assert _judge(SERVER, 50, 10, _at(0, 10), was_online=False) == (ResetOutcome.PENDING, True)
    running = _at(0, 10, _owner("c", 50))
    assert _judge(SERVER, 50, 10, running, _at(2, 10)) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, running, _at(2, 10), _at(7, 10)) == (ResetOutcome.PENDING, True)


def test_a_group_that_went_offline_is_judged_by_what_it_stored() -> None:
    assert _judge(SERVER, 50, 10, _at(0, 10, _owner("c", 50)), _at(2, 30)) == (ResetOutcome.CONFIRMED, True)
    assert _judge(SERVER, 50, 90, _at(0, 90, _owner("c", 50)), _at(2, 60), _at(8, 60)) == (ResetOutcome.LOST, True)
    assert _judge(SERVER, 50, 10, _at(0, 10, _owner("c", 50)), _at(2, 60), _at(8, 60)) == (ResetOutcome.UNKNOWN, True)


def test_a_member_that_has_just_left_can_have_stored_its_offset() -> None:
    assert _judge(WRITE, 50, 10, _at(0, 10)) == (ResetOutcome.PENDING, False)
    assert _judge(WRITE, 50, 10, _at(0, 10), _at(1, 10)) == (ResetOutcome.CONFIRMED, True)


def test_what_the_broker_does_not_tell_is_unknown() -> None:
    assert _judge(SERVER, 50, 10, _at(0, 10, _owner("c", 10)), _at(2, None)) == (ResetOutcome.UNKNOWN, False)
    assert _judge(SERVER, 50, 10) == (ResetOutcome.UNKNOWN, False)


def test_a_mark_and_the_flicker_after_it_confirm_nothing() -> None:
    mark, flicker = _at(0, 10, _owner("c", 60)), _at(1, 60, _owner("c", 10, begun_at_ms=2))
    there = [_at(at_s, 10, _owner("c", 10, begun_at_ms=2)) for at_s in (2, 2.9, 3)]

    assert _judge(SERVER, 50, 10, mark, _at(20, 10, _owner("c", 60))) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, mark, flicker, *there[:2]) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, mark, flicker, *there) == (ResetOutcome.CONFIRMED, True)


def test_two_owners_and_none_are_waited_out() -> None:
    both = [_at(at_s, 20, _owner("c", 20), _owner("d", 20)) for at_s in (0, 5)]
    nobody = [_at(at_s, 10, members=("c",)) for at_s in (0, 24, 25)]

    assert _judge(SERVER, 50, 10, *both) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, *both, _at(6, 20, _owner("c", 20)), _at(7, 30, _owner("c", 30))) == (
        ResetOutcome.CONFIRMED, True,
    )  # fmt: skip
    # Sharing comes every 20 s; a queue that nobody wants stays as it is.
    assert _judge(SERVER, 50, 10, *nobody[:2]) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, *nobody) == (ResetOutcome.PENDING, True)


def test_nothing_stored_before_is_confirmed_at_the_target_only() -> None:
    def at(position: int) -> list[GroupSample]:
        return [_at(at_s, position, _owner("c", position)) for at_s in (0, 1, 20)]

    assert _judge(SERVER, None, 10, *at(10)) == (ResetOutcome.CONFIRMED, True)
    assert _judge(SERVER, None, 10, *at(500)) == (ResetOutcome.UNKNOWN, True)
    assert _judge(SERVER, None, 10, *at(500), baseline=_at(-1, 0, _owner("c", 700))) == (ResetOutcome.CONFIRMED, True)


@pytest.mark.parametrize(
    ("blocked_by", "owner", "max_offset", "is_confirmed"),
    [
        # The client moved to 10, and has consumed nothing from there.
        (None, _owner("c", 10), 100, True),
        (ListenerBlock.IN_ORDER, _owner("c", 10, begun_at_ms=None), 100, False),
        (ListenerBlock.ALL_THREADS, _owner("c", 10), 100, False),
        (ListenerBlock.UNKNOWN, _owner("c", 10), 100, False),
        # There is nothing to consume: one that is blocked stays so.
        (ListenerBlock.IN_ORDER, _owner("c", 10, begun_at_ms=None), 10, False),
        (ListenerBlock.UNKNOWN, _owner("c", 10), 10, True),
        # It has consumed, by its position or by its times; in order, its listener was called.
        (ListenerBlock.ALL_THREADS, _owner("c", 11), 100, True),
        (ListenerBlock.IN_ORDER, replace(_owner("c", 12), cached_count=1, cached_min_offset=11), 100, True),
        # Its position passed a message that it still has in flight.
        (ListenerBlock.IN_ORDER, replace(_owner("c", 12), cached_count=2, cached_min_offset=10), 100, False),
        (ListenerBlock.ALL_THREADS, _owner("c", 10, consumed_at_ms=2), 100, True),
        (ListenerBlock.IN_ORDER, replace(_owner("c", 10, begun_at_ms=None), is_listening=True), 100, True),
        # Another client has taken over the queue.
        (ListenerBlock.IN_ORDER, _owner("d", 10, begun_at_ms=None), 100, True),
    ],
)  # fmt: skip
def test_a_client_whose_listener_blocks_must_be_seen_to_consume(
    blocked_by: ListenerBlock | None, owner: OwnerSample, max_offset: int, is_confirmed: bool
) -> None:
    written = WrittenOffset(MQ, SERVER, 3, 10, blocked_by, "c")
    samples = [_at(at_s, 10, owner, max_offset=max_offset) for at_s in range(3)]
    outcome = judge(written, samples, was_online=True, baseline=_at(-1, 3, _owner("c", 3))).outcome
    assert outcome is (ResetOutcome.CONFIRMED if is_confirmed else ResetOutcome.PENDING)


def test_a_stored_offset_alone_does_not_show_that_a_blocked_client_consumes() -> None:
    def silent(stored: int) -> WriteVerdict:
        samples = [_at(at_s * 3.0, stored if at_s else 3, silent=("c",), max_offset=100) for at_s in range(4)]
        return judge(WrittenOffset(MQ, SERVER, 3, 10, ListenerBlock.IN_ORDER, "c"), samples, was_online=True)

    assert silent(10).outcome is ResetOutcome.PENDING
    assert silent(12).outcome is ResetOutcome.CONFIRMED


def test_silent_members_are_judged_by_what_they_store() -> None:
    def silent(*stored: int) -> list[GroupSample]:
        return [_at(at_s * 3.0, offset, silent=("c",)) for at_s, offset in enumerate(stored)]

    assert _judge(SERVER, 50, 10, *silent(10, 10, 10, 10)) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, *silent(10, 12, 20)) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, *silent(10, 12, 20, 30)) == (ResetOutcome.CONFIRMED, True)
    assert _judge(SERVER, 50, 10, *silent(10, 60, 10, 10, 10)) == (ResetOutcome.CONFIRMED, True)
    assert _judge(SERVER, 50, 10, *silent(10, 60, 70, 80)) == (ResetOutcome.UNKNOWN, False)
    assert _judge(SERVER, 50, 90, *silent(90, 60, 70, 80)) == (ResetOutcome.UNKNOWN, False)
    assert _judge(PUSH, 50, 10, *silent(50, 50, 50)) == (ResetOutcome.PENDING, False)
    assert _judge(PUSH, 50, 10, *silent(50, 50, 50, 50, 10, 10, 10)) == (ResetOutcome.PENDING, False)
    assert _judge(PUSH, 50, 10, *silent(50, 50, 50, 50, *[10] * 8)) == (ResetOutcome.CONFIRMED, True)


def test_what_is_written_under_a_member_that_does_not_answer_is_not_confirmed() -> None:
    """It may hold the queue, and commits its old offset once it continues; only a member stores another offset."""

    def judge_at(*stored: int, route: Route = PUSH, is_unanswered: bool = False, **settings: Any) -> WriteVerdict:
        written = WrittenOffset(MQ, route, 50, 10, is_unanswered=is_unanswered)
        samples = [_at(at_s * 3.0, offset, members=("c", "d"), **settings) for at_s, offset in enumerate(stored)]
        return judge(written, samples, was_online=True)

    for route in (PUSH, WRITE):
        verdict = judge_at(*[10] * 24, route=route, silent=("c",))
        assert (verdict.outcome, verdict.is_final) == (ResetOutcome.UNKNOWN, False)
        assert "c did not report" in verdict.reason
        assert judge_at(*[10] * 24, route=route, is_listed=False).outcome is ResetOutcome.UNKNOWN
        # All answered, and none holds it: nobody can overwrite it.
        assert judge_at(*[10] * 24, route=route).outcome is ResetOutcome.CONFIRMED
        # It was overwritten and came back, or went on from there.
        assert judge_at(50, *[10] * 24, route=route, silent=("c",)).outcome is ResetOutcome.CONFIRMED
        assert judge_at(*[10] * 12, *[12] * 4, route=route, silent=("c",)).outcome is ResetOutcome.CONFIRMED
    # What arrives late was not stored by a member.
    for route, outcome in ((PUSH, ResetOutcome.UNKNOWN), (SERVER, ResetOutcome.PENDING)):
        assert judge_at(50, *[10] * 24, route=route, silent=("c",), is_unanswered=True).outcome is outcome
    # It held the queue, and then stopped answering.
    held = _at(0, 50, _owner("c", 50), members=("c", "d"))
    verdict = judge(WrittenOffset(MQ, PUSH, 50, 10), [held, _at(60, 10, silent=("c",))], was_online=True)
    assert (verdict.outcome, "c did not report" in verdict.reason) == (ResetOutcome.PENDING, True)


def test_a_popped_queue_is_judged_by_its_broker() -> None:
    def popped(*stored: int, max_offset: int = 100) -> list[GroupSample]:
        return [_at(n * 1.0, offset, members=("c",), is_popped=True, max_offset=max_offset)
                for n, offset in enumerate(stored)]  # fmt: skip

    assert _judge(SERVER, 50, 10, *popped(10, 10, 10)) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, *popped(10, 42)) == (ResetOutcome.PENDING, False)
    assert _judge(SERVER, 50, 10, *popped(10, 42, 100)) == (ResetOutcome.CONFIRMED, True)
    assert _judge(SERVER, 50, 100, *popped(100, 100)) == (ResetOutcome.CONFIRMED, True)
    assert _judge(SERVER, 50, 90, *popped(*[60] * 13)) == (ResetOutcome.LOST, True)


def test_each_push_makes_clients_stand_still() -> None:
    topics = [MessageQueue(topic, name, 0) for topic in "TU" for name in ("broker-a", "broker-b")]
    pushed = [WrittenOffset(mq, PUSH, 5, 1) for mq in topics]

    assert push_quiet_s([WrittenOffset(MQ, SERVER, 5, 1)]) == 0
    assert push_quiet_s([pushed[0], pushed[0]._replace(mq=topics[0]._replace(queue_id=1))]) == 10.5
    assert push_quiet_s(pushed) == 60
    still = [_at(at_s, 1, _owner("c", 1)) for at_s in (0, 10)]
    assert _judge(PUSH, 5, 1, *still) == (ResetOutcome.PENDING, False)
    assert _judge(PUSH, 5, 1, *still, _at(26, 1, _owner("c", 1)), _at(27, 2, _owner("c", 2))) == (
        ResetOutcome.CONFIRMED, True,
    )  # fmt: skip


def test_a_pushed_reset_that_a_held_pull_overtakes_is_not_confirmed() -> None:
    """The stored offset jumps to the end; then the client restarts the queue there, and skips all messages."""
    moved = [_at(at_s, 6, _owner("c", 6, begun_at_ms=2)) for at_s in (11.0, 12.0, 15.0)]
    jumped = [_at(at_s, 51, _owner("c", 6, begun_at_ms=2)) for at_s in (18.0, 24.0, 30.0)]
    before = _at(0.0, 5, _owner("c", 5))
    assert _judge(PUSH, 5, 6, before, *moved, *jumped)[0] is ResetOutcome.PENDING
    anew = [_at(at_s, 51, _owner("c", 51, begun_at_ms=2)) for at_s in (20.0, 27.0, 30.0)]
    assert _judge(PUSH, 5, 6, before, *anew) == (ResetOutcome.LOST, True)
    # Whoever has consumed the messages is there as well.
    done = [_at(at_s, 51, _owner("c", 51, begun_at_ms=2, consumed_at_ms=3)) for at_s in (20.0, 27.0, 30.0)]
    assert _judge(PUSH, 5, 6, before, *done) == (ResetOutcome.CONFIRMED, True)


_ROUTES = st.sampled_from([SERVER, SERVER, PUSH, WRITE])


@st.composite
def cases(draw: st.DrawFn, *, disturbed: bool) -> Case:
    before = draw(st.integers(0, 20_000))
    rewind = draw(st.sampled_from([1, 10, 300, 5000, 20_000]))
    target = draw(st.sampled_from([max(0, before - rewind), before, before + 3, before + rewind]))
    ahead = draw(st.sampled_from([0, 0, 5, 700]))
    # A target past the end would never be reached.
    backlog = max(draw(st.sampled_from([0, 0, 50, 5000])), target - before - ahead)
    case = Case(
        route=draw(_ROUTES) if disturbed else draw(st.sampled_from([SERVER, PUSH])),
        before=before,
        target=target,
        ahead=ahead,
        backlog=backlog,
        arriving_per_s=draw(st.sampled_from([0.0, 0.0, 3.0, 900.0])),
        consuming_per_s=draw(st.sampled_from([20.0, 1000.0, 1e6])),
        moving_s=draw(st.sampled_from([0.02, 0.1, 10.0])),
        storing_s=draw(st.sampled_from([0.0, 0.1, 0.4])),
        held_s=draw(st.floats(1.0, 20.0)),
        is_orderly=draw(st.booleans()),
    )
    if disturbed:
        times = st.none() | st.floats(0.0, 25.0)
        case.dies_at_s, case.joins_at_s = draw(times), draw(times)
        case.dies_after_mark_s = draw(st.none() | st.floats(0.0, 0.2))
        case.dies_after_moving_s = draw(st.none() | st.floats(0.0, 0.6))
        case.is_push_lost = draw(st.booleans())
        case.is_silent = draw(st.sampled_from([False, False, True]))
        case.sharing_s = draw(st.sampled_from([0.02, 0.5, 8.0]))
        if not case.is_orderly:
            # Of a busy member that consumes in order it can't be told that it was a stranger's pull.
            case.stranger_pulls_at_s = draw(st.none() | st.floats(0.05, 3.0))
    return case


_PACES = st.sampled_from([0.2, 0.5, 1.0, 2.0])
_LATENCIES = st.sampled_from([0.0, 0.02, 0.3])


@settings(max_examples=200, deadline=None)
@given(cases(disturbed=True), _PACES, _LATENCIES, st.booleans())
def test_nothing_is_confirmed_that_is_lost_nor_the_other_way_round(
    case: Case, pace_s: float, latency_s: float, with_baseline: bool
) -> None:
    verdict, world, _ = _watch(case, interval_s=pace_s, latency_s=latency_s, with_baseline=with_baseline)

    # A member that was ahead of the stored offset unseen is not distinguishable from one that got that far since.
    is_forward_by_store = (case.is_silent or not with_baseline) and case.target > case.before
    if verdict.outcome is ResetOutcome.CONFIRMED and not is_forward_by_store:
        assert not world.is_lost, verdict.reason
    # A group that reads on without having been sent forward gets there as well, later.
    if verdict.outcome is ResetOutcome.LOST and not world.is_forward:
        assert world.is_lost, verdict.reason


@settings(max_examples=100, deadline=None)
@given(cases(disturbed=False), _PACES, _LATENCIES)
def test_what_is_taken_up_is_confirmed_in_the_end(case: Case, pace_s: float, latency_s: float) -> None:
    verdict, world, _ = _watch(case, interval_s=pace_s, latency_s=latency_s)

    assert not world.is_lost
    assert verdict.outcome is ResetOutcome.CONFIRMED, verdict.reason


def test_a_queue_that_nobody_holds_during_two_pushes_is_waited_for_after_them() -> None:
    """A client drops a queue for a push, and takes it again only when it is through with the other one."""
    other = WrittenOffset(MessageQueue("U", "broker-b", 0), PUSH, 1024, 250)
    written = WrittenOffset(MQ, PUSH, 664, 100)
    quiet_s = push_quiet_s([written, other])

    def sample(at_s: float, *owners: OwnerSample) -> GroupSample:
        queue = QueueSample(MQ, 100, 8000, owners)
        return GroupSample(round(at_s * 1000), at_s, "G", GroupState.ONLINE, ("c",), {MQ: queue})

    baseline = sample(-1, OwnerSample("c", 664, 1, 664, begun_at_ms=-9000))
    samples: list[GroupSample] = []
    for second in range(50):
        there = (OwnerSample("c", 100 + 50 * (second - 34), 10, 100, begun_at_ms=34_000),) if second >= 34 else ()
        samples.append(sample(second, *there))
        verdict = judge(written, samples, was_online=True, baseline=baseline, quiet_s=quiet_s)
        assert not verdict.is_final or second >= quiet_s + 6, verdict
        if verdict.is_final:
            break
    assert verdict.outcome is ResetOutcome.CONFIRMED


def _forgetful(position: int, *, begun_at_ms: int = 1, consumed_at_ms: int = 1) -> OwnerSample:
    return OwnerSample("go", position, 0, 0, False, begun_at_ms, consumed_at_ms, may_forget=True)


@pytest.mark.parametrize(
    ("owner", "max_offset", "outcome"),
    [
        # All that it has finished since lay before its old position.
        (_forgetful(500, begun_at_ms=9, consumed_at_ms=12), 500, (ResetOutcome.CONFIRMED, True)),
        (_forgetful(500, begun_at_ms=9, consumed_at_ms=9), 500, (ResetOutcome.LOST, True)),
        # What it has finished can be what has come since.
        (_forgetful(501, begun_at_ms=9, consumed_at_ms=12), 501, (ResetOutcome.UNKNOWN, True)),
        (_forgetful(450, begun_at_ms=9, consumed_at_ms=12), 501, (ResetOutcome.CONFIRMED, True)),
        (_forgetful(450), 500, (ResetOutcome.CONFIRMED, True)),
        (_forgetful(500, consumed_at_ms=12), 500, (ResetOutcome.PENDING, False)),
    ],
)
def test_a_member_that_may_forget_must_be_seen_there_or_have_read_again(
    owner: OwnerSample, max_offset: int, outcome: tuple[ResetOutcome, bool]
) -> None:
    baseline = _at(-0.1, 500, _forgetful(500), max_offset=500)
    stored = 400 if owner.commit_offset == 500 and owner.begun_at_ms == 1 else owner.commit_offset
    looks = [_at(20 + step, stored, owner, max_offset=max_offset) for step in range(15)]
    assert _judge(SERVER, 500, 400, *looks, baseline=baseline) == outcome


def test_the_mark_that_a_forgetful_member_tells_is_no_position() -> None:
    baseline = _at(-0.1, 500, _forgetful(500), max_offset=500)
    looks = [_at(step, 400, _forgetful(400), max_offset=500) for step in range(4)]
    assert _judge(SERVER, 500, 400, *looks, baseline=baseline) == (ResetOutcome.PENDING, False)
