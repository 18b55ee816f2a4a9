"""Where a reset leads each queue, and what it costs: every kind of target on every kind of queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.changes.offsets.rules.reset import (
    NONE_STORED,
    CountRange,
    MemberLead,
    ResetEffects,
    ResetFacts,
    TargetKind,
    TargetOffset,
    TargetSpec,
    choose_target,
    find_effects,
)
from rmqctl.model.queue import MessageQueue

_MQ = MessageQueue("T", "broker-a", 0)
_OFFSETS = st.integers(0, 2**63 - 1)
_STORED = st.none() | st.integers(-(2**63), 2**63 - 1)


def _facts(
    min_offset: int, max_offset: int, current: int | None, *, found: int | None = None, given: int | None = None
) -> ResetFacts:
    return ResetFacts(_MQ, min_offset, max_offset, current, found=found, given=given)


# A queue that never held a message, one that is empty since all was deleted, one with some deleted, a whole one.
_NEW, _EXPIRED, _CUT, _WHOLE = (0, 0), (70, 70), (70, 100), (0, 100)


@pytest.mark.parametrize(
    ("spec", "bounds", "current", "target"),
    [
        (TargetSpec(TargetKind.EARLIEST), _NEW, None, 0),
        (TargetSpec(TargetKind.EARLIEST), _EXPIRED, 40, 70),
        (TargetSpec(TargetKind.EARLIEST), _CUT, 90, 70),
        (TargetSpec(TargetKind.EARLIEST), _WHOLE, 90, 0),
        (TargetSpec(TargetKind.LATEST), _NEW, None, 0),
        (TargetSpec(TargetKind.LATEST), _EXPIRED, 40, 70),
        (TargetSpec(TargetKind.LATEST), _CUT, None, 100),
        (TargetSpec(TargetKind.OFFSET, 80), _CUT, 90, 80),
        (TargetSpec(TargetKind.OFFSET, 80), _CUT, None, 80),
        (TargetSpec(TargetKind.OFFSET, 0), _NEW, None, 0),
        (TargetSpec(TargetKind.SHIFT, -10), _CUT, 90, 80),
        (TargetSpec(TargetKind.SHIFT, 10), _CUT, 90, 100),
        (TargetSpec(TargetKind.SHIFT, 0), _CUT, 90, 90),
        (TargetSpec(TargetKind.CURRENT), _CUT, 90, 90),
        (TargetSpec(TargetKind.CURRENT), _NEW, 0, 0),
        # Nothing was stored at the time or later.
        (TargetSpec(TargetKind.TIME, 5), _CUT, 90, 100),
        (TargetSpec(TargetKind.TIME, 5), _NEW, None, 0),
        (TargetSpec(TargetKind.TIME, 5), _EXPIRED, None, 70),
    ],
)
def test_targets_that_are_in_the_queue(
    spec: TargetSpec, bounds: tuple[int, int], current: int | None, target: int
) -> None:
    assert choose_target(spec, _facts(*bounds, current)) == TargetOffset(target)


@pytest.mark.parametrize(("found", "target"), [(70, 70), (85, 85), (99, 99), (None, 100)])
def test_a_time_leads_to_the_message_that_was_found(found: int | None, target: int) -> None:
    assert choose_target(TargetSpec(TargetKind.TIME, 5), _facts(70, 100, 90, found=found)) == TargetOffset(target)


@pytest.mark.parametrize(
    ("spec", "bounds", "current", "wanted", "target"),
    [
        (TargetSpec(TargetKind.OFFSET, 69), _CUT, 90, 69, 70),
        (TargetSpec(TargetKind.OFFSET, 0), _EXPIRED, None, 0, 70),
        (TargetSpec(TargetKind.OFFSET, 101), _CUT, 90, 101, 100),
        (TargetSpec(TargetKind.OFFSET, 2**63 - 1), _WHOLE, 90, 2**63 - 1, 100),
        (TargetSpec(TargetKind.OFFSET, 1), _NEW, None, 1, 0),
        (TargetSpec(TargetKind.SHIFT, -(2**63 - 1)), _CUT, 90, 90 - (2**63 - 1), 70),
        (TargetSpec(TargetKind.SHIFT, 2**63 - 1), _CUT, 90, 90 + 2**63 - 1, 100),
        # From an offset whose messages are deleted, and from one that was stored too far.
        (TargetSpec(TargetKind.SHIFT, 10), _CUT, 5, 15, 70),
        (TargetSpec(TargetKind.CURRENT), _CUT, 5, 5, 70),
        (TargetSpec(TargetKind.CURRENT), _CUT, 999, 999, 100),
        (TargetSpec(TargetKind.CURRENT), _EXPIRED, 40, 40, 70),
    ],
)
def test_what_is_not_there_leads_to_the_nearer_end_and_says_so(
    spec: TargetSpec, bounds: tuple[int, int], current: int | None, wanted: int, target: int
) -> None:
    choice = choose_target(spec, _facts(*bounds, current))
    assert choice.target == target
    is_before = wanted < 0 or bounds[0] == 0
    told = (
        f"limited to the first message, {target}"
        if is_before
        else f"{wanted} is deleted: {target} is the first one left"
    )
    assert choice.note == (told if wanted < bounds[0] else f"{wanted} is not written yet: {target} is the end")


@pytest.mark.parametrize(
    "spec", [TargetSpec(TargetKind.SHIFT, 5), TargetSpec(TargetKind.SHIFT, -5), TargetSpec(TargetKind.CURRENT)]
)
@pytest.mark.parametrize("bounds", [_NEW, _EXPIRED, _CUT, _WHOLE])
def test_where_nothing_is_stored_what_is_counted_from_there_leaves_it(
    spec: TargetSpec, bounds: tuple[int, int]
) -> None:
    choice = choose_target(spec, _facts(*bounds, None))
    assert choice == TargetOffset(None, "no offset is stored")
    assert choice.is_left


@pytest.mark.parametrize("current", [None, 0, 90])
def test_given_offsets(current: int | None) -> None:
    assert choose_target(TargetSpec(TargetKind.GIVEN), _facts(70, 100, current, given=80)) == TargetOffset(80)
    assert choose_target(TargetSpec(TargetKind.GIVEN), _facts(70, 100, current, given=5)).target == 70
    assert choose_target(TargetSpec(TargetKind.GIVEN), _facts(70, 100, current, given=500)).target == 100
    left = choose_target(TargetSpec(TargetKind.GIVEN), _facts(70, 100, current))
    assert left == TargetOffset(None, "no offset was given")
    assert left.is_left


def test_back_to_before() -> None:
    spec = TargetSpec(TargetKind.BEFORE)
    assert choose_target(spec, _facts(70, 100, 90, given=80)) == TargetOffset(80)
    assert choose_target(spec, _facts(70, 100, None, given=80)) == TargetOffset(80)
    assert choose_target(spec, _facts(70, 100, 90, given=60)).target == 70
    none = choose_target(spec, _facts(70, 100, 90))
    assert none == TargetOffset(None, NONE_STORED, is_removed=True)
    assert not none.is_left
    assert choose_target(spec, _facts(70, 100, None)).is_left


@given(
    st.sampled_from(TargetKind),
    _OFFSETS, st.integers(0, 2**20), _STORED, _STORED, st.integers(-(2**63), 2**63 - 1), st.floats(0, 1),
)  # fmt: skip
def test_a_target_is_always_a_message_that_is_there_or_the_end(
    kind: TargetKind,
    min_offset: int,
    count: int,
    current: int | None,
    given_offset: int | None,
    value: int,
    place: float,
) -> None:
    max_offset = min_offset + count
    found = min_offset + round(place * (count - 1)) if count else None
    facts = _facts(min_offset, max_offset, current, found=found, given=given_offset)
    choice = choose_target(TargetSpec(kind, value), facts)
    assert choice.is_left == (choice.target is None and not choice.is_removed)
    if choice.target is None:
        assert choice.note
        assert kind in (TargetKind.SHIFT, TargetKind.CURRENT, TargetKind.GIVEN, TargetKind.BEFORE)
    else:
        assert min_offset <= choice.target <= max_offset


@pytest.mark.parametrize(
    ("before", "target", "bounds", "effects"),
    [
        (90, 80, _CUT, (10, 0, 0)),
        (80, 90, _CUT, (0, 10, 0)),
        (90, 90, _CUT, (0, 0, 0)),
        # 30 messages were deleted before they were read: going back can't bring them again.
        (40, 70, _CUT, (0, 0, 30)),
        (40, 80, _CUT, (0, 10, 30)),
        (40, 70, _EXPIRED, (0, 0, 30)),
        # Stored beyond the end: a client is sent to the end, and consumes what comes.
        (999, 80, _CUT, (20, 0, 0)),
        (999, 100, _CUT, (0, 0, 0)),
        (0, 0, _NEW, (0, 0, 0)),
        # Where a group without an offset begins is its clients' affair.
        (None, 80, _CUT, (None, None, None)),
        # Taken away.
        (90, None, _CUT, (None, None, 0)),
        (40, None, _CUT, (None, None, 30)),
        (None, None, _CUT, (None, None, None)),
    ],
)
def test_effects(
    before: int | None, target: int | None, bounds: tuple[int, int], effects: tuple[int | None, ...]
) -> None:
    found = find_effects(before, target, *bounds)
    exact = [None if span is None else (span.low, span.high) for span in (found.reconsumed, found.skipped)]
    assert exact == [None if count is None else (count, count) for count in effects[:2]]
    assert found.lost == effects[2]


@given(st.integers(-5, 300), st.integers(-5, 300), st.integers(0, 200), st.integers(0, 100))
def test_effects_count_messages_one_by_one(before: int, target: int, min_offset: int, count: int) -> None:
    there = range(min_offset, min_offset + count)
    effects = find_effects(before, target, there.start, there.stop)
    # Messages that would have come from `before` on, and those that come from `target` on.
    had, gets = {at for at in there if at >= before}, {at for at in there if at >= target}
    assert effects.reconsumed is not None
    assert effects.skipped is not None
    assert (effects.reconsumed.exact, effects.skipped.exact) == (len(gets - had), len(had - gets))
    assert effects.lost == len(range(before, min_offset))


def _bounds(effects: ResetEffects) -> tuple[CountRange | None, CountRange | None]:
    return effects.reconsumed, effects.skipped


# Of 500 messages 10 are committed, and members have pulled up to 410: all but the stuck one are consumed.
_STUCK = MemberLead(410, 399, first_unfinished=10)


@pytest.mark.parametrize(
    ("target", "reconsumed", "skipped"),
    [
        (0, (10, 409), (0, 0)),
        (5, (5, 404), (0, 0)),
        # Members are sent back to what is stored.
        (10, (0, 399), (0, 0)),
        (11, (0, 399), (1, 1)),
        (60, (0, 350), (1, 50)),
        (409, (0, 1), (1, 399)),
        (410, (0, 0), (1, 400)),
        (450, (0, 0), (41, 440)),
        (500, (0, 0), (91, 490)),
    ],
)
def test_what_members_consumed_past_the_stored_offset_makes_ranges(
    target: int, reconsumed: tuple[int, int], skipped: tuple[int, int]
) -> None:
    assert _bounds(find_effects(10, target, 0, 500, _STUCK)) == (reconsumed, skipped)


@pytest.mark.parametrize(
    ("ahead", "target", "reconsumed", "skipped"),
    [
        # Members hold nothing: all is committed.
        (MemberLead(50, 0), 20, (30, 30), (0, 0)),
        (MemberLead(50, 0), 80, (0, 0), (30, 30)),
        # All that was pulled is still being worked on.
        (MemberLead(70, 0, first_unfinished=50), 60, (0, 0), (10, 10)),
        # A position that is older than what is stored.
        (MemberLead(30, 0), 20, (30, 30), (0, 0)),
        # Fewer than were pulled.
        (MemberLead(90, 30), 20, (30, 60), (0, 0)),
        # It is not known how far they are: as far as there are messages.
        (MemberLead(100, 100), 20, (30, 80), (0, 0)),
        (MemberLead(100, 100), 80, (0, 20), (0, 30)),
    ],
)
def test_bounds_of_other_groups(
    ahead: MemberLead, target: int, reconsumed: tuple[int, int], skipped: tuple[int, int]
) -> None:
    assert _bounds(find_effects(50, target, 0, 100, ahead)) == (reconsumed, skipped)


@given(st.data())
def test_the_truth_is_always_within_the_bounds(data: st.DataObject) -> None:
    min_offset, count = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 40))
    max_offset = min_offset + count
    before, target = data.draw(st.integers(0, 70)), data.draw(st.integers(min_offset, max_offset))
    pulled_to = data.draw(st.integers(0, max_offset + 5))
    past = range(max(before, min_offset), min(pulled_to, max_offset))
    done = {at for at in past if data.draw(st.booleans())}
    # Members may have consumed fewer than is taken as the most, and tell of one that they are not through with.
    consumed_count = len(done) + data.draw(st.integers(0, 3))
    unfinished = [at for at in past if at not in done]
    first = data.draw(st.sampled_from(unfinished)) if unfinished and data.draw(st.booleans()) else None
    effects = find_effects(before, target, min_offset, max_offset, MemberLead(pulled_to, consumed_count, first))
    consumed = {at for at in range(min_offset, max_offset) if at < before} | done
    if before == target:
        return
    again = [at for at in range(target, max_offset) if at in consumed]
    never = [at for at in range(min_offset, target) if at not in consumed]
    assert effects.reconsumed is not None
    assert effects.skipped is not None
    assert effects.reconsumed.low <= len(again) <= effects.reconsumed.high
    assert effects.skipped.low <= len(never) <= effects.skipped.high
