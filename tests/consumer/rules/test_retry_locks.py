"""Mission 7.12: who may hold a queue lock at a broker, by what members have told."""

from __future__ import annotations

import pytest

from rmqctl.consumer.rules.retry_locks import LOCK_S, SETTLED_S, MemberReport, PossibleLocker, judge

LONG_AGO = -1000.0
ORDERLY, SILENT = PossibleLocker("c", is_orderly=True), PossibleLocker("c", is_orderly=False)


def _judge(
    told: MemberReport | None, *, there_s: float = 0.0, now_s: float = 0.0, changed_s: float = LONG_AGO
) -> object:
    verdict = judge("a", {"c": there_s}, {} if told is None else {"c": told}, now_s=now_s, changed_s=changed_s)
    return verdict.hindrance or (verdict.doubtful or None)


def test_a_concurrent_member_locks_nothing() -> None:
    assert _judge(MemberReport(0.0, False), changed_s=0.0) is None
    assert judge("a", {}, {}, now_s=0.0, changed_s=0.0).hindrance is None


def test_an_orderly_member_may_lock_where_it_holds_queues() -> None:
    assert _judge(MemberReport(0.0, True, {"a": 0.0, "b": 0.0})) == ORDERLY
    assert _judge(MemberReport(0.0, True, {"b": 0.0})) is None


@pytest.mark.parametrize(("after_s", "expected"), [(SETTLED_S, ORDERLY), (SETTLED_S + 0.1, None)])
def test_while_shares_move_an_orderly_member_may_lock_anywhere(after_s: float, expected: object) -> None:
    assert (
        _judge(MemberReport(after_s, True, {"b": after_s}), there_s=after_s, now_s=after_s, changed_s=0.0) == expected
    )


@pytest.mark.parametrize(("after_s", "expected"), [(LOCK_S, ORDERLY), (LOCK_S + 0.1, None)])
def test_a_lock_outlives_its_holder_by_a_minute(after_s: float, expected: object) -> None:
    # It went 40 s after it was asked, and has renewed its locks until then.
    assert _judge(MemberReport(0.0, True, {"a": 0.0}), there_s=40.0, now_s=40.0 + after_s) == expected


@pytest.mark.parametrize(("after_s", "expected"), [(LOCK_S, ORDERLY), (LOCK_S + 0.1, None)])
def test_a_queue_that_was_given_up_may_be_locked_for_a_minute(after_s: float, expected: object) -> None:
    given_up = MemberReport(after_s, True, {"a": 0.0, "b": after_s})
    assert _judge(given_up, there_s=after_s, now_s=after_s) == expected


@pytest.mark.parametrize(("after_s", "expected"), [(LOCK_S, SILENT), (LOCK_S + 0.1, ("c",))])
def test_who_does_not_tell_is_waited_for_as_long_as_a_lock_lives(after_s: float, expected: object) -> None:
    assert _judge(MemberReport(after_s, None, silent_since_s=0.0), there_s=after_s, now_s=after_s) == expected


@pytest.mark.parametrize(("after_s", "expected"), [(LOCK_S, SILENT), (LOCK_S + 0.1, None)])
def test_who_left_unasked_is_forgotten_after_a_minute(after_s: float, expected: object) -> None:
    assert _judge(None, there_s=0.0, now_s=after_s) == expected


def test_who_is_orderly_is_named_before_who_does_not_tell() -> None:
    told = {"b": MemberReport(0.0, None, silent_since_s=0.0), "c": MemberReport(0.0, True, {"a": 0.0})}
    assert judge("a", {"b": 0.0, "c": 0.0}, told, now_s=0.0, changed_s=LONG_AGO).hindrance == ORDERLY
