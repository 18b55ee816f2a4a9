from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health import (
    WORST_FIRST,
    Cause,
    GroupVerdict,
    Health,
    HealthSettings,
    Observation,
    QueueFacts,
    QueueVerdict,
    Stuck,
    Trend,
    compute_trend,
    facts_of,
    find_stuck,
    judge,
    judge_group,
    worst_of,
)
from rmqctl.rules.health.verdict import is_stuck

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000
Pair = tuple[int | None, int | None]


def _looks(*offsets: Pair, step_ms: int = MINUTE_MS, **every: Any) -> list[Observation]:
    """Return a sample a minute, each of (consumer offset, max offset)."""
    return [
        Observation(START_MS + index * step_ms, consumer_offset, max_offset, **every)
        for index, (consumer_offset, max_offset) in enumerate(offsets)
    ]


def _judge(looks: Sequence[Observation], until_ms: int | None = None, **settings: Any) -> QueueVerdict:
    return judge(facts_of(looks, until_ms=until_ms), HealthSettings(**settings))


def _cause(looks: Sequence[Observation], until_ms: int | None = None, **settings: Any) -> Cause:
    return _judge(looks, until_ms, **settings).cause


# Each verdict reached, and missed by one value

UNMOVED: tuple[Pair, ...] = ((10, 20), (10, 20), (10, 30))


@pytest.mark.parametrize(
    ("offsets", "cause", "changed", "other"),
    [
        (((10, 10), (10, 20), (10, 30)), Cause.CAUGHT_UP, (0, (10, 11)), Cause.STANDS_STILL),
        (((10, 30), (20, 45), (19, 60)), Cause.WENT_BACK, (2, (20, 60)), Cause.LAG_GROWS),
        (((20, 30), (19, 40), (19, 50)), Cause.WENT_BACK, (2, (20, 50)), Cause.LAG_GROWS),
        (UNMOVED, Cause.STANDS_STILL, (2, (11, 31)), Cause.LAG_GROWS),
        (UNMOVED, Cause.STANDS_STILL, (0, (0, 20)), Cause.LAG_GROWS),
        (((10, 20), (11, 22), (12, 24), (13, 26)), Cause.LAG_GROWS, (3, (15, 26)), Cause.LAG_STEADY),
        (((10, 20), (11, 21), (12, 22), (13, 23)), Cause.LAG_STEADY, (3, (15, 23)), Cause.LAG_FALLS),
    ],
)
def test_one_value_decides(offsets: tuple[Pair, ...], cause: Cause, changed: tuple[int, Pair], other: Cause) -> None:
    assert _cause(_looks(*offsets)) is cause
    index, pair = changed
    assert _cause(_looks(*offsets[:index], pair, *offsets[index + 1 :])) is other


def test_each_cause_has_its_health_and_a_sentence_with_numbers() -> None:
    def told(*offsets: Pair, **every: Any) -> tuple[Health, str]:
        verdict = _judge(_looks(*offsets, **every))
        return verdict.health, verdict.reason

    behind = "it is 20 messages behind"
    assert told((5, 10), (10, 10), (10, 30)) == (
        Health.OK,
        "the lag was 0 messages at its lowest in this window; it is 20 messages behind",
    )
    since = f"it was caught up, but {{}}; {behind} (+6 per minute)"
    assert told((10, 10), *((10, 10 + 4 * number) for number in range(1, 6))) == (
        Health.WARN, since.format("its offset 10 has not moved for 4m00s"),
    )  # fmt: skip
    assert told((10, 10), *((10 + number, 10 + 5 * number) for number in range(1, 6))) == (
        Health.WARN, since.format("the lag has grown for 4m00s"),
    )  # fmt: skip
    assert told((10, 25), (5, 25)) == (Health.REWIND, f"its offset went back from 10 to 5; {behind}")
    stands = f"its offset 10 did not move in 2m00s; {behind}"
    assert told(*UNMOVED) == (Health.STALL, stands)
    assert told(*UNMOVED, is_held=False) == (Health.STOP, f"no member held the queue, and {stands}")
    grows = f"its offset moves, but the lag grows; {behind} (+8 per minute)"
    assert told((8, 20), (9, 25), (10, 30)) == (Health.WARN, grows)
    steady = f"at its lowest, the lag is about the same in both halves of the time; {behind} (+0 per minute)"
    assert told((0, 20), (1, 21), (9, 29), (10, 30)) == (Health.OK, steady)
    assert told((0, 28), (2, 28), (8, 28), (10, 30)) == (Health.OK, f"the lag falls; {behind} (-4 per minute)")


def test_unknown_has_a_sentence_for_each_cause() -> None:
    few = "it is 10 messages behind, and 2 samples in 1m00s do not show more"
    for looks, cause, reason in (
        ([], Cause.NO_SAMPLES, "it has no samples"),
        (_looks((9, 9), (11, 10)), Cause.OFFSET_BEYOND_MAX, "the stored offset is beyond the end of the queue"),
        (_looks((None, 9), is_none_stored=True), Cause.NONE_STORED, "no offset is stored"),
        (_looks((None, 9)), Cause.OFFSET_UNKNOWN, "no sample shows the stored offset"),
        (_looks((9, None)), Cause.MAX_UNKNOWN, "no sample shows both the stored offset and the end of the queue"),
        (_looks((10, 20), (10, 20)), Cause.TOO_FEW_SAMPLES, few),
    ):
        assert _judge(looks) == QueueVerdict(Health.UNKNOWN, cause, reason)
    silent = "nothing is known about the last 2m01s, after 3 samples in 2m00s"
    verdict = _judge(_looks(*UNMOVED), START_MS + 4 * MINUTE_MS + 1000)
    assert verdict == QueueVerdict(Health.UNKNOWN, Cause.NOT_SEEN_LATELY, silent)


def test_no_samples_are_no_facts() -> None:
    facts = facts_of([], until_ms=START_MS)
    assert facts == QueueFacts(sample_count=0, known_count=0, until_ms=START_MS)
    assert (facts.held_count, facts.unheld_count, facts.span_ms, facts.has_gone_back) == (0, 0, 0, False)


# 1. The allowance


def test_the_allowance_is_still_fine() -> None:
    assert _cause(_looks((10, 15), (10, 20), (10, 30)), lag_allowance=5) is Cause.CAUGHT_UP
    assert _cause(_looks((10, 15), (10, 20), (10, 30)), lag_allowance=4) is Cause.STANDS_STILL


def test_one_sample_is_enough_to_have_caught_up_and_a_skip_to_the_end_is_one() -> None:
    assert _cause(_looks((10, 10))) is Cause.CAUGHT_UP
    assert _cause(_looks((10, 1000), (10, 1000), (10, 1000), (1000, 1000))) is Cause.CAUGHT_UP


@pytest.mark.parametrize(
    ("offsets", "cause"),
    [
        # It was caught up, and does not move; or moves, and the lag only grows.
        (((10, 10), (10, 15), (10, 20), (10, 25), (10, 30), (10, 35)), Cause.FALLS_BEHIND),
        (((10, 10), (12, 22), (14, 34), (16, 46), (18, 58), (20, 70)), Cause.FALLS_BEHIND),
        # Less than 4 minutes, too few samples, a lag that falls or stays, one that was caught up later.
        (((10, 10), (10, 15), (10, 20), (10, 25), (10, 30)), Cause.CAUGHT_UP),
        (((10, 10), (10, 15), (None, 20), (None, 25), (None, 30), (10, 35)), Cause.CAUGHT_UP),
        (((10, 10), (10, 15), (11, 20), (17, 25), (24, 30), (31, 35)), Cause.CAUGHT_UP),
        (((10, 10), (10, 15), (15, 20), (20, 25), (25, 30), (30, 35)), Cause.CAUGHT_UP),
        (((10, 10), (10, 15), (20, 20), (20, 25), (20, 30), (20, 35)), Cause.CAUGHT_UP),
    ],
)
def test_a_queue_that_was_caught_up_and_falls_behind_is_not_fine(offsets: tuple[Pair, ...], cause: Cause) -> None:
    assert _cause(_looks(*offsets)) is cause


def test_a_queue_that_was_caught_up_and_is_stuck_is_not_fine() -> None:
    # No message arrives, so its lag does not grow.
    looks = _looks((10, 10), (10, 13), (10, 13), (10, 13), (10, 13), step_ms=5 * MINUTE_MS)
    verdict = _judge(looks)
    assert (verdict.health, verdict.cause) == (Health.WARN, Cause.FALLS_BEHIND)
    assert "its offset 10 has not moved for 15m00s" in verdict.reason
    # It has moved since it was caught up, and its lag does not grow any more.
    moved = _looks((10, 10), (11, 14), *((12, 15),) * 4, step_ms=5 * MINUTE_MS)
    assert "its offset 12 has not moved for 15m00s" in _judge(moved).reason
    assert _cause(looks[:4]) is Cause.CAUGHT_UP
    assert _cause(looks, lag_allowance=3) is Cause.CAUGHT_UP


def test_an_empty_queue_is_nothing_to_catch_up_with_even_before_an_offset_is_stored() -> None:
    assert _cause(_looks((None, 7), min_offset=7, is_none_stored=True)) is Cause.CAUGHT_UP
    assert _cause(_looks((None, 7), min_offset=6, is_none_stored=True)) is Cause.NONE_STORED
    # Not to know the offset is something else than that none is stored.
    assert _cause(_looks((None, 7), min_offset=7)) is Cause.OFFSET_UNKNOWN
    assert _cause(_looks((None, None), is_none_stored=True)) is Cause.NONE_STORED


# 2. Going back


def test_what_was_made_up_for_is_no_rewind() -> None:
    assert _cause(_looks((20, 30), (10, 40), (20, 50), (21, 60))) is Cause.LAG_GROWS
    assert _cause(_looks((20, 30), (10, 40), (19, 50))) is Cause.WENT_BACK


def test_two_samples_prove_a_rewind_however_close_they_are() -> None:
    assert _cause(_looks((11, 30), (10, 30), step_ms=1)) is Cause.WENT_BACK


def test_a_group_that_was_caught_up_and_is_sent_back_is_reported_at_once() -> None:
    assert _cause(_looks((30, 30), (10, 30), step_ms=1)) is Cause.WENT_BACK
    # The broker briefly reports the offset before a reset, and an orderly group may step back.
    assert _cause(_looks((30, 30), (29, 30), (30, 30))) is Cause.CAUGHT_UP
    assert _cause(_looks((30, 30), (29, 30)), lag_allowance=1) is Cause.CAUGHT_UP


# 3. Nobody there


@pytest.mark.parametrize(
    ("held", "cause"),
    [
        ((False, False, False), Cause.NOBODY_COMMITS),
        ((True, False, False), Cause.STANDS_STILL),
        ((False, False, True), Cause.STANDS_STILL),
        ((False, False, None), Cause.STANDS_STILL),
        ((None, None, None), Cause.STANDS_STILL),
        ((None, False, False, False), Cause.NOBODY_COMMITS),
        ((True, False, False, False), Cause.STANDS_STILL),
    ],
)
def test_nobody_commits_only_where_nobody_was_seen(held: tuple[bool | None, ...], cause: Cause) -> None:
    looks = _looks(*((10, 20) for _ in held))
    looks = [structs.replace(look, is_held=is_held) for look, is_held in zip(looks, held, strict=True)]
    assert _cause(looks) is cause


def test_an_offset_that_moved_was_committed_by_somebody_between_the_samples() -> None:
    assert _cause(_looks((10, 20), (10, 20), (12, 22), is_held=False)) is Cause.TOO_FEW_SAMPLES


# How much must be seen


def test_three_samples_over_thirty_seconds_are_enough_and_no_fewer() -> None:
    assert _cause(_looks(*UNMOVED, step_ms=15_000)) is Cause.STANDS_STILL
    short = _looks(*UNMOVED, step_ms=15_000)
    short[2] = structs.replace(short[2], at_ms=short[2].at_ms - 1)
    assert _cause(short) is Cause.TOO_FEW_SAMPLES
    assert _cause(short, least_span_ms=29_999) is Cause.STANDS_STILL
    assert _cause(_looks(*UNMOVED[:2])) is Cause.TOO_FEW_SAMPLES
    assert _cause(_looks(*UNMOVED[:2]), least_count=2) is Cause.STANDS_STILL
    # A fall of the lag is no proof of health either with so few.
    assert _cause(_looks((10, 20), (15, 20))) is Cause.TOO_FEW_SAMPLES


def test_one_sample_behind_tells_nothing() -> None:
    assert _cause(_looks((10, 20)), least_span_ms=0) is Cause.TOO_FEW_SAMPLES


def test_silence_longer_than_what_was_seen_makes_it_unknown() -> None:
    looks = _looks((10, 10), (10, 20), (10, 30))
    assert _cause(looks, START_MS + 4 * MINUTE_MS) is Cause.CAUGHT_UP
    assert _cause(looks, START_MS + 4 * MINUTE_MS + 1) is Cause.NOT_SEEN_LATELY
    # Where little was seen the shortest look counts.
    assert _cause(looks[:1], START_MS + 30_000) is Cause.CAUGHT_UP
    assert _cause(looks[:1], START_MS + 30_001) is Cause.NOT_SEEN_LATELY
    assert _cause([*looks, Observation(START_MS + 5 * MINUTE_MS, None, None)]) is Cause.NOT_SEEN_LATELY


def test_samples_that_tell_nothing_in_the_middle_change_nothing() -> None:
    for gap in ((None, None), (None, 20), (10, None)):
        assert _cause(_looks((10, 20), (10, 20), gap, (10, 30))) is Cause.STANDS_STILL
        assert _cause(_looks((10, 20), gap, (11, 30), (12, 40))) is Cause.LAG_GROWS
    # They don't count as samples either.
    assert _cause(_looks((10, 20), (None, 20), (10, 20))) is Cause.TOO_FEW_SAMPLES


def test_the_last_sample_that_tells_something_decides_whether_it_is_known() -> None:
    caught_up, beyond = Observation(START_MS, 10, 10), Observation(START_MS + 1000, 11, 10)
    deleted = Observation(START_MS + 1000, None, 20, 0, is_none_stored=True)
    later = Observation(START_MS + 2000, 20, 20)
    unread = Observation(START_MS + 2000, None, 30)
    for look, cause in ((beyond, Cause.OFFSET_BEYOND_MAX), (deleted, Cause.NONE_STORED)):
        assert _cause([caught_up, look]) is cause
        assert _cause([caught_up, look, unread]) is cause
        assert _cause([caught_up, look, later]) is Cause.CAUGHT_UP


# Deleted messages, topics made anew


def test_deleted_messages_are_told_and_are_no_progress() -> None:
    looks = _looks((10, 90), (10, 90), (10, 90))
    looks[1:] = [structs.replace(looks[1], min_offset=90), structs.replace(looks[2], min_offset=85)]
    verdict = _judge(looks)
    assert verdict.cause is Cause.STANDS_STILL
    assert verdict.reason.endswith("80 messages behind; up to 80 messages had been deleted unread")
    assert facts_of(looks).lost_highest == 80


def test_nothing_lost_is_not_the_same_as_not_knowing() -> None:
    assert facts_of(_looks((10, 90), min_offset=10)).lost_highest == 0
    assert facts_of(_looks((10, 90), min_offset=5)).lost_highest == 0
    assert facts_of(_looks((10, 90))).lost_highest is None
    assert facts_of(_looks((100, 90), min_offset=101)).lost_highest is None
    assert "deleted" not in _judge(_looks(*UNMOVED, min_offset=10)).reason
    assert "; up to 1 message had been deleted" in _judge(_looks(*UNMOVED, min_offset=11)).reason


def test_a_topic_made_anew_is_judged_by_what_is_since() -> None:
    before: tuple[Pair, ...] = ((1000, 1000), (1000, 1010))
    since: tuple[Pair, ...] = ((2, 5), (2, 6), (2, 7))
    verdict = _judge(_looks(*before, *since))
    assert (verdict.health, verdict.cause) == (Health.STALL, Cause.STANDS_STILL)
    assert verdict.reason.endswith("; only samples since the end of the queue went back count")
    assert _cause(_looks(*before, *since[:2])) is Cause.TOO_FEW_SAMPLES
    # The old offset stays until a client is corrected; then the new one is no rewind.
    assert _cause(_looks(*before, (1000, 5))) is Cause.OFFSET_BEYOND_MAX
    assert _cause(_looks(*before, (1000, 5), (3, 6), (3, 7), (3, 8))) is Cause.STANDS_STILL
    # Twice anew, and samples without an end in between.
    assert _cause(_looks(*before, (5, 5), (None, None), (0, 3), (0, 3), (0, 3))) is Cause.STANDS_STILL
    assert not facts_of(_looks((1, 5), (1, 5))).has_max_gone_back


# Time


def test_gaps_and_uneven_steps_do_not_matter_to_the_rules() -> None:
    looks = _looks(*UNMOVED)
    looks = [
        looks[0],
        structs.replace(looks[1], at_ms=START_MS + 7),
        structs.replace(looks[2], at_ms=START_MS + 86_400_000),
    ]
    assert _judge(looks).reason.startswith("its offset 10 did not move in 1d0h")


def test_two_answers_at_one_moment_are_one_sample_and_no_step_back() -> None:
    twice = Observation(START_MS + MINUTE_MS, 9, 20)
    looks = _looks(*UNMOVED)
    assert facts_of([*looks, twice]) == facts_of([twice, *looks]) == facts_of(looks)
    assert facts_of([*looks, *looks]) == facts_of(looks)
    unread = Observation(START_MS + MINUTE_MS, None, 99)
    assert facts_of([*looks, unread]) == facts_of([unread, *looks]) == facts_of(looks)


def test_a_clock_that_was_set_back_mixes_the_samples_which_can_look_like_a_rewind() -> None:
    # 10, 12, 14, 15 in truth, set back after the second: the last sample of all is not the one with the latest time.
    for set_back_ms, cause in ((60_000, Cause.LAG_FALLS), (120_000, Cause.WENT_BACK)):
        looks = _looks((10, 99), (12, 99), (14, 99), (15, 99))
        looks[2:] = [structs.replace(look, at_ms=look.at_ms - set_back_ms - 1) for look in looks[2:]]
        assert _cause(looks) is cause
    # Where the queue grew meanwhile its end seems to go back, and only what comes after counts.
    looks = _looks((10, 50), (12, 60), (14, 70), (15, 80))
    looks[2:] = [structs.replace(look, at_ms=look.at_ms - 120_001) for look in looks[2:]]
    assert _cause(looks) is Cause.TOO_FEW_SAMPLES


# Facts by window functions

_SQL = """
WITH samples AS (
  SELECT *, coalesce(max_offset < (SELECT b.max_offset FROM look b WHERE b.at_ms < a.at_ms AND b.max_offset IS NOT NULL
                                   ORDER BY b.at_ms DESC LIMIT 1), 0) AS is_anew FROM look a),
same AS (SELECT * FROM samples WHERE at_ms >= coalesce((SELECT max(at_ms) FROM samples WHERE is_anew), at_ms)),
judged AS (
  SELECT *, consumer_offset IS NOT NULL AND max_offset IS NOT NULL AND consumer_offset > max_offset AS beyond,
    CASE WHEN consumer_offset <= max_offset THEN max_offset - consumer_offset
         WHEN consumer_offset IS NULL AND is_none_stored AND min_offset = max_offset THEN 0 END AS behind FROM same),
known AS (
  SELECT *, first_value(consumer_offset) OVER d AS at_end, first_value(behind) OVER d AS behind_end
  FROM judged WHERE behind IS NOT NULL WINDOW d AS (ORDER BY at_ms DESC)),
later AS (SELECT * FROM known WHERE at_ms > coalesce((SELECT max(at_ms) FROM known WHERE behind = 0), at_ms - 1)),
enough AS (SELECT count(*) >= 3 AND max(at_ms) - min(at_ms) >= 240000 AS is_enough FROM later),
compared AS (
  SELECT *, first_value(max_offset) OVER d - first_value(max_offset) OVER a AS produced,
    8 * (at_ms - min(at_ms) OVER ()) AS passed_ms, max(at_ms) OVER () - min(at_ms) OVER () AS span_ms
  FROM known WHERE NOT (SELECT is_enough FROM enough) OR at_ms >= (SELECT min(at_ms) FROM later)
  WINDOW a AS (ORDER BY at_ms), d AS (ORDER BY at_ms DESC)),
parts AS (
  SELECT behind, CASE WHEN span_ms = 0 THEN 0 ELSE max(0, (passed_ms + span_ms - 1) / span_ms - 1) END AS part
  FROM compared),
eighths AS (SELECT value AS part FROM json_each('[0, 1, 2, 3, 4, 5, 6, 7]')),
moved AS (SELECT max(at_ms) AS moved_at_ms FROM known WHERE behind = 0 OR consumer_offset IS NOT at_end),
telling AS (SELECT * FROM judged WHERE behind IS NOT NULL OR beyond OR is_none_stored ORDER BY at_ms DESC LIMIT 1)
SELECT (SELECT count(*) FROM judged) AS sample_count, count(*) AS known_count,
  (SELECT max(at_ms) FROM judged) AS until_ms, min(at_ms) AS first_ms, max(at_ms) AS last_ms,
  min(behind) AS behind_lowest, max(behind_end) AS behind_last,
  (SELECT min(at_ms) FROM compared) AS lag_from_ms,
  (SELECT json_group_array((SELECT min(behind) FROM parts WHERE parts.part = eighths.part)) FROM eighths) AS lows,
  (SELECT count(*) FROM parts WHERE part < 4) AS early_count,
  (SELECT count(*) FROM parts WHERE part > 3) AS later_count,
  (SELECT coalesce(max(produced), 0) FROM compared) AS produced,
  (SELECT consumer_offset FROM known WHERE consumer_offset IS NOT NULL ORDER BY at_ms DESC LIMIT 1) AS offset_last,
  max(consumer_offset) AS offset_highest, coalesce(min(consumer_offset) <> max(consumer_offset), 0) AS has_moved,
  (SELECT max(max(0, min_offset - consumer_offset)) FROM judged WHERE NOT beyond) AS lost_highest,
  (SELECT coalesce(sum(is_held), 0) FROM judged) AS held_count,
  (SELECT coalesce(sum(NOT is_held), 0) FROM judged) AS unheld_count, (SELECT moved_at_ms FROM moved) AS moved_at_ms,
  (SELECT min(at_ms) FROM known WHERE at_ms > coalesce((SELECT moved_at_ms FROM moved), at_ms - 1)) AS still_from_ms,
  (SELECT last_timestamp_ms FROM judged WHERE last_timestamp_ms IS NOT NULL ORDER BY at_ms DESC LIMIT 1)
    AS last_timestamp_ms,
  (SELECT count(consumer_offset) > 0 FROM judged) AS has_stored,
  coalesce((SELECT beyond FROM telling), 0) AS is_beyond_max,
  coalesce((SELECT is_none_stored AND behind IS NULL FROM telling), 0) AS is_none_stored,
  (SELECT coalesce(max(is_anew), 0) FROM samples) AS has_max_gone_back
FROM known
"""


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


@st.composite
def _windows(draw: st.DrawFn) -> list[Observation]:
    """Return samples of a few small numbers, so that all of them meet; at each moment one."""
    looks = []
    every_ms = draw(st.sampled_from((1, 3_000)))
    for at_ms in draw(st.lists(st.integers(0, 200).map(lambda number: number * every_ms), unique=True, max_size=8)):
        offset = draw(_maybe(st.integers(0, 6)))
        # Mostly an end that grows with time, as in a queue that lives.
        max_offset = draw(_maybe(st.one_of(st.just(6 + at_ms), st.integers(0, 8))))
        is_none_stored = offset is None and draw(st.booleans())
        min_offset = draw(_maybe(st.one_of(st.integers(0, 4), st.just(max_offset))))
        rest = draw(_maybe(st.booleans())), draw(_maybe(st.integers(0, 300)))
        looks.append(Observation(START_MS + at_ms, offset, max_offset, min_offset, *rest, is_none_stored))
    return looks


@given(_windows().filter(bool))
def test_window_functions_give_the_same_facts(looks: list[Observation]) -> None:
    with sqlite3.connect(":memory:") as database:
        database.row_factory = sqlite3.Row
        database.execute(f"CREATE TABLE look ({', '.join(Observation.__struct_fields__)})")
        database.executemany("INSERT INTO look VALUES (?, ?, ?, ?, ?, ?, ?)", [structs.astuple(look) for look in looks])
        row = dict(database.execute(_SQL).fetchone())
    database.close()
    assert tuple(row) == QueueFacts.__struct_fields__
    row["lows"] = tuple(json.loads(row["lows"]))
    assert row == structs.asdict(facts_of(looks))


@given(_windows(), st.randoms(use_true_random=False))
def test_the_order_in_which_samples_come_does_not_matter(looks: list[Observation], random: Any) -> None:
    # Also with several at one moment.
    looks = [structs.replace(look, at_ms=look.at_ms // 50) for look in looks]
    mixed = list(looks)
    random.shuffle(mixed)
    assert facts_of(mixed) == facts_of(looks)
    assert compute_trend(mixed) == compute_trend(looks)


@given(_windows())
def test_a_sample_at_the_end_of_the_queue_makes_it_ok(looks: list[Observation]) -> None:
    end = max((look.max_offset for look in looks if look.max_offset is not None), default=0)
    looks.append(Observation(max((look.at_ms for look in looks), default=0) + 1, end, end))
    assert _judge(looks).health is Health.OK


@given(_windows())
def test_nothing_is_ok_but_what_was_seen_to_catch_up_or_to_gain(looks: list[Observation]) -> None:
    facts = facts_of(looks)
    verdict = judge(facts, HealthSettings(least_span_ms=50))
    if verdict.health is Health.OK:
        assert facts.behind_lowest == 0 or (facts.rise is not None and facts.has_moved)
        assert not is_stuck(facts, HealthSettings())
    if facts.known_count == 0:
        assert verdict.health is Health.UNKNOWN
    assert (verdict.health is Health.REWIND) <= (facts.has_gone_back and facts.behind_last != 0)


@given(_windows(), st.integers(0, 10**12), st.integers(0, 10**12))
def test_where_times_and_offsets_begin_does_not_matter(looks: list[Observation], ms: int, offsets: int) -> None:
    def moved(number: int | None, by: int) -> int | None:
        return None if number is None else number + by

    others = [
        Observation(
            look.at_ms + ms, moved(look.consumer_offset, offsets), moved(look.max_offset, offsets),
            moved(look.min_offset, offsets), look.is_held, moved(look.last_timestamp_ms, ms), look.is_none_stored,
        )
        for look in looks
    ]  # fmt: skip
    assert _cause(others) is _cause(looks)
    assert compute_trend(others) == compute_trend(looks)


# The growth of the lag


def _history(
    rates: tuple[float, float], lag: int, commit_s: int, every_s: int, for_s: int, phase_s: float = 1.3
) -> list[Observation]:
    """Return the samples of a queue into which `rates` messages per second arrive, and are consumed."""
    produced, consumed = rates
    looks = []
    for at_s in range(100, 100 + for_s + 1, every_s):
        committed_s = (at_s - phase_s) // commit_s * commit_s + phase_s
        end = lag + int(consumed * 100) + int(produced * (at_s - 100))
        looks.append(Observation(START_MS + at_s * 1000, min(int(consumed * committed_s), end), end, 0))
    return looks


def _healths(looks: Sequence[Observation], judge_every_s: int = 30) -> list[Health]:
    """Return the verdicts every so often, as of a watch with a window of 5 minutes."""
    every_ms = looks[1].at_ms - looks[0].at_ms
    return [
        _judge(looks[max(0, index + 1 - 300_000 // every_ms) : index + 1]).health
        for index, last in enumerate(looks)
        if (last.at_ms - looks[0].at_ms) % (judge_every_s * 1000) == 0
    ]


@pytest.mark.parametrize("commit_s", [1, 5, 10])
@pytest.mark.parametrize(
    ("rates", "lag", "health"),
    [
        ((100, 95), 1000, Health.WARN), ((100, 98), 20_000, Health.WARN), ((10, 9), 50, Health.WARN),
        ((1, 0.9), 20, Health.WARN), ((100, 99), 500, Health.WARN),
        ((100, 100), 1000, Health.OK), ((10, 10), 70, Health.OK), ((1, 1), 20, Health.OK),
        ((100, 110), 90_000, Health.OK), ((0, 5), 9_000, Health.OK),
    ],
)  # fmt: skip
def test_a_history_has_one_verdict_however_often_it_is_sampled(
    commit_s: int, rates: tuple[float, float], lag: int, health: Health
) -> None:
    for every_s in (2, 5, 15):
        healths = _healths(_history(rates, lag, commit_s, every_s, 900))
        assert set(healths[10:]) == {health}, every_s
        # Before, there may be too few samples, but no other verdict.
        assert set(healths) <= {health, Health.UNKNOWN}, every_s


@pytest.mark.parametrize("every_s", [2, 3, 5, 15, 60])
def test_an_hour_in_which_less_is_consumed_than_arrives_is_never_ok(every_s: int) -> None:
    for commit_s, phase_s in ((1, 0.4), (5, 0.0), (5, 4.9), (10, 3.0)):
        healths = _healths(_history((100, 95), 120, commit_s, every_s, 3600, phase_s), 60)
        assert Health.OK not in healths
        assert healths[-1] is Health.WARN


def test_a_burst_that_is_being_consumed_is_no_growth() -> None:
    looks = _history((100, 100), 300, 5, 5, 150)
    last = looks[-1]
    offset, end = last.consumer_offset or 0, (last.max_offset or 0) + 50_000
    for number in range(1, 30):
        at_ms = last.at_ms + number * 5000
        looks.append(Observation(at_ms, offset + number * 700, end + number * 500, 0))
    assert set(_healths(looks, 5)[15:]) == {Health.OK}
    # It falls, and is higher than before the burst: a growth beside that would contradict it.
    verdict = _judge(looks[20:])
    assert verdict.cause is Cause.LAG_FALLS
    assert "per minute" not in verdict.reason


@pytest.mark.parametrize(
    ("lags", "cause", "per_minute"),
    [
        # The producer paused, and both halves have the same lowest lag; or the second half has a lower one.
        ((200, 170, 140, 110, 110, 180, 250, 310), Cause.LAG_GROWS, 14),
        ((200, 190, 160, 130, 100, 150, 230, 300), Cause.LAG_GROWS, 12),
        # It was lower before the pause.
        ((200, 260, 230, 210, 215, 250, 290, 330), Cause.LAG_GROWS, 16),
        # It is not above its start, or only as a queue that is filled at random can be.
        ((400, 300, 200, 110, 110, 180, 250, 310), Cause.LAG_STEADY, 0),
        ((200, 170, 140, 110, 110, 150, 190, 230), Cause.LAG_STEADY, 4),
        # It has not risen in each eighth, or not for half of the time.
        ((200, 170, 140, 110, 110, 180, 170, 290), Cause.LAG_STEADY, 0),
        ((200, 170, 150, 110, 180, 110, 210, 310), Cause.LAG_STEADY, 0),
    ],
)
def test_a_lag_that_has_risen_since_a_fall_beyond_its_start_grows(
    lags: tuple[int, ...], cause: Cause, per_minute: int
) -> None:
    # 120 messages arrive per minute, and each sample is one of an eighth of the time.
    looks = _looks(*((1000 + 120 * at - lag, 1000 + 120 * at) for at, lag in enumerate((lags[0], *lags))))
    verdict = _judge(looks)
    assert verdict.cause is cause
    assert verdict.reason.endswith(f"it is {lags[-1]} messages behind ({per_minute:+} per minute)")
    # In less than 4 minutes, commits could look like it.
    short = _looks(
        *((1000 + 120 * at - lag, 1000 + 120 * at) for at, lag in enumerate((lags[0], *lags))), step_ms=29_000
    )
    assert _cause(short) is not Cause.LAG_GROWS


# A group


def test_a_group_is_as_its_worst_queue() -> None:
    queues = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(4)]
    caught_up, unknown = _judge(_looks((1, 1))), _judge([])
    stall, warn = _judge(_looks(*UNMOVED)), _judge(_looks((8, 20), (9, 25), (10, 30)))
    counts = dict.fromkeys(WORST_FIRST, 0)
    verdicts = dict(zip(queues, (unknown, warn, caught_up, warn), strict=True))
    assert judge_group(verdicts) == GroupVerdict(
        Health.WARN, {**counts, Health.WARN: 2, Health.UNKNOWN: 1, Health.OK: 1}, (queues[1], queues[3])
    )
    assert judge_group({queues[1]: stall, queues[0]: stall}).worst == (queues[0], queues[1])
    assert judge_group({queues[0]: caught_up, queues[1]: unknown}).health is Health.UNKNOWN
    assert judge_group({queues[0]: caught_up}).health is Health.OK
    assert judge_group({}) == GroupVerdict(Health.UNKNOWN, counts, ())


def test_the_order_of_health_is_burrows_with_unknown_between_bad_and_good() -> None:
    assert WORST_FIRST == (Health.REWIND, Health.STOP, Health.STALL, Health.WARN, Health.UNKNOWN, Health.OK)
    for index, health in enumerate(WORST_FIRST):
        assert worst_of(reversed(WORST_FIRST[index:])) is health
    assert worst_of([]) is Health.UNKNOWN


# Stuck queues


def _stuck(looks: Sequence[Observation], until_ms: int | None = None, stuck_ms: int = 2 * MINUTE_MS) -> Stuck | None:
    return find_stuck(facts_of(looks, until_ms=until_ms), HealthSettings(stuck_ms=stuck_ms))


def test_a_queue_is_stuck_since_it_stood_still_with_something_to_read() -> None:
    looks = _looks((9, 20), (10, 20), (10, 25), (10, 30))
    since_ms = START_MS + MINUTE_MS
    assert _stuck(looks) == Stuck(10, 20, since_ms, 2 * MINUTE_MS, START_MS)
    assert _stuck(looks, stuck_ms=2 * MINUTE_MS + 1) is None
    idle = _looks((10, 10), (10, 10), (10, 25), (10, 30), (10, 30))
    assert _stuck(idle) == Stuck(10, 20, START_MS + 2 * MINUTE_MS, 2 * MINUTE_MS, START_MS + MINUTE_MS)
    assert _stuck(_looks(*UNMOVED)) == Stuck(10, 20, START_MS, 2 * MINUTE_MS, None)
    assert find_stuck(facts_of(_looks(*UNMOVED, step_ms=450_000))) is not None
    assert find_stuck(facts_of(_looks(*UNMOVED, step_ms=449_999))) is None


def test_a_queue_that_moves_or_has_nothing_to_read_is_not_stuck() -> None:
    for offsets in (((10, 20), (10, 20), (11, 30)), ((10, 10), (10, 10), (10, 10)), ((10, 20), (10, 20), (20, 20))):
        assert _stuck(_looks(*offsets), stuck_ms=0) is None
    assert _stuck(_looks((10, 20)), stuck_ms=0) is None
    assert _stuck([], stuck_ms=0) is None
    assert _stuck(_looks((10, 20), (10, 20)), stuck_ms=0) is not None


def test_what_is_not_known_now_is_not_called_stuck() -> None:
    assert _stuck(_looks(*UNMOVED, (31, 30))) is None
    assert _stuck(_looks(*UNMOVED), START_MS + 4 * MINUTE_MS) is not None
    assert _stuck(_looks(*UNMOVED), START_MS + 4 * MINUTE_MS + 1) is None


@pytest.mark.parametrize(
    ("stored_ms", "after_ms"), [(-1, 0), (1, 1), (MINUTE_MS, MINUTE_MS), (MINUTE_MS + 1, 0), (None, 0)]
)
def test_the_store_time_of_the_last_consumed_message_bounds_when_it_got_stuck(
    stored_ms: int | None, after_ms: int
) -> None:
    stored_at_ms = None if stored_ms is None else START_MS + stored_ms
    looks = _looks((9, 20), (10, 20), (10, 25), (10, 30))
    # The last that is known counts: 0 on the wire, where the message is gone, is None.
    looks[2] = structs.replace(looks[2], last_timestamp_ms=stored_at_ms)
    looks[0] = structs.replace(looks[0], last_timestamp_ms=START_MS - 5)
    stuck = _stuck(looks)
    assert stuck is not None
    assert stuck.after_ms == START_MS + after_ms


# The trend


def test_rates_of_an_even_stream() -> None:
    # 600 in and 660 out each minute.
    looks = _looks((0, 900), (660, 1500), (1320, 2100))
    assert compute_trend(looks) == Trend(-1.0, 10.0, 11.0, 780.0)


def test_uneven_steps_weigh_by_time() -> None:
    times_ms = (0, 1_000, 1_500, 10_000, 60_000)
    looks = [Observation(START_MS + at, at // 500, 10**15 + at // 100) for at in times_ms]
    assert compute_trend(looks) == Trend(8.0, 10.0, 2.0, None)


def test_the_line_is_the_one_of_least_squares() -> None:
    looks = [Observation(START_MS + 1000 * at, offset, 100) for at, offset in ((0, 0), (1, 6), (3, 6))]
    trend = compute_trend(looks)
    # Mean of times 4/3, of offsets 4: (16/3 - 2/3 + 10/3) / (16/9 + 1/9 + 25/9).
    assert trend.consume_msgs_per_s == pytest.approx(8 / (42 / 9), rel=1e-15)
    assert trend.produce_msgs_per_s == 0
    assert trend.slope_msgs_per_s == -trend.consume_msgs_per_s
    assert trend.eta_s == pytest.approx(94 / (8 / (42 / 9)), rel=1e-15)


def test_there_is_a_time_to_catch_up_only_while_the_lag_falls() -> None:
    assert compute_trend(_looks((0, 10), (0, 10))) == Trend(0.0, 0.0, 0.0, None)
    assert compute_trend(_looks((0, 10), (0, 70))) == Trend(1.0, 1.0, 0.0, None)
    assert compute_trend(_looks((0, 10), (10, 70), (70, 70))).eta_s == 0.0
    assert compute_trend(_looks((10, 10), (70, 70))).eta_s == 0.0
    assert compute_trend(_looks((9, 11), (10, 11))).eta_s == 60.0
    rewound = compute_trend(_looks((70, 100), (10, 100)))
    assert (rewound.consume_msgs_per_s, rewound.eta_s) == (-1.0, None)


def test_too_little_for_a_line() -> None:
    nothing = Trend(None, None, None, None)
    for looks in ([], _looks((1, 5)), _looks((1, 5), (1, 5), step_ms=0), _looks((None, 5), (1, None), (9, 5))):
        assert compute_trend(looks) == nothing
    assert compute_trend(_looks((5, 5))) == Trend(None, None, None, 0.0)


def test_a_line_does_not_lead_across_a_topic_made_anew_or_samples_beyond_the_end() -> None:
    assert compute_trend(_looks((900, 1000), (0, 60), (60, 120))) == Trend(0.0, 1.0, 1.0, None)
    assert compute_trend(_looks((0, 60), (200, 90), (120, 180))) == Trend(0.0, 1.0, 1.0, None)
