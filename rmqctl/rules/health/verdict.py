"""The verdict on a queue from its facts: one of Burrow's five, or UNKNOWN."""

from __future__ import annotations

from enum import StrEnum
from math import sqrt
from operator import ge

from msgspec import Struct

from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

from .facts import FLUCTUATION_MS, LEAST_LATER_COUNT, QueueFacts


class Health(StrEnum):
    """The health of a queue, worst first, in the order of Burrow's rules. UNKNOWN ranks between WARN and OK."""

    REWIND = "REWIND"
    STOP = "STOP"
    STALL = "STALL"
    WARN = "WARN"
    UNKNOWN = "UNKNOWN"
    OK = "OK"


class Cause(StrEnum):
    """The rule that decided. The last seven explain UNKNOWN."""

    CAUGHT_UP = "CAUGHT_UP"
    FALLS_BEHIND = "FALLS_BEHIND"
    WENT_BACK = "WENT_BACK"
    NOBODY_COMMITS = "NOBODY_COMMITS"
    STANDS_STILL = "STANDS_STILL"
    LAG_GROWS = "LAG_GROWS"
    LAG_STEADY = "LAG_STEADY"
    LAG_FALLS = "LAG_FALLS"
    NO_SAMPLES = "NO_SAMPLES"
    OFFSET_BEYOND_MAX = "OFFSET_BEYOND_MAX"
    NONE_STORED = "NONE_STORED"
    OFFSET_UNKNOWN = "OFFSET_UNKNOWN"
    MAX_UNKNOWN = "MAX_UNKNOWN"
    NOT_SEEN_LATELY = "NOT_SEEN_LATELY"
    TOO_FEW_SAMPLES = "TOO_FEW_SAMPLES"


_HEALTH = {
    Cause.CAUGHT_UP: Health.OK,
    Cause.FALLS_BEHIND: Health.WARN,
    Cause.WENT_BACK: Health.REWIND,
    Cause.NOBODY_COMMITS: Health.STOP,
    Cause.STANDS_STILL: Health.STALL,
    Cause.LAG_GROWS: Health.WARN,
    Cause.LAG_STEADY: Health.OK,
    Cause.LAG_FALLS: Health.OK,
}


class HealthSettings(Struct, frozen=True, kw_only=True):
    """The limits of what is fine, and the least samples needed.

    `lag_allowance`: up to this many messages behind count as caught up. Members commit their offsets every 5 s, and a
    queue that moves between members can be unowned for 20 s. A window shorter than `least_span_ms` therefore cannot
    distinguish "does not move" from "not committed yet". `stuck_ms` is the default of consumeTimeout.
    """

    lag_allowance: int = 0
    least_count: int = 3
    least_span_ms: int = 30_000
    stuck_ms: int = 900_000


_DEFAULTS = HealthSettings()
# The lag grows if more than 1 in this many arrivals is not consumed.
LEAST_GROWTH = 150
# persistConsumerOffsetInterval of RocketMQ's clients.
COMMIT_MS = 5_000


class QueueVerdict(Struct, frozen=True):
    """The health of a queue, the rule that decided, and a short sentence with the numbers."""

    health: Health
    cause: Cause
    reason: str


def judge(facts: QueueFacts, settings: HealthSettings = _DEFAULTS) -> QueueVerdict:
    """Judge a queue by the first rule that applies.

    1. REWIND: the offset is below its highest. For Burrow, every step back is a rewind. Here a step back is ignored
       once the offset has passed its highest again, and while the lag is within the allowance: orderly groups may step
       back, and applying a reset briefly shows the old offset.
    2. OK: at some moment, the lag was within the allowance. WARN if it has only grown since, or the offset has not
       moved for `stuck_ms`. For Burrow, a group that stops right after catching up is OK until that moment leaves the
       window. In an hour, that hides a dead group.
    3. STOP: no member commits, for the whole window. Burrow compares the time of the last commit with the window, but
       RocketMQ's brokers do not report that time. A member commits the offset of each queue that it holds every 5 s,
       moved or not. So no member commits when no sample saw the queue held, at least `least_count` samples saw it not
       held, and the offset did not move. When it is unknown whether the queue was held, the verdict is STALL, which
       claims less. lastTimestamp cannot show a stop: the last commit is later than that by an unknown time.
    4. STALL: the offset is the same in all samples.
    5. WARN: the offset moves, but the lag grows (see `lag_growth`). Else OK.

    The reasons for UNKNOWN precede the first rule, and too few samples precede the third. What Burrow calls OK without
    enough samples is UNKNOWN here, and so is an offset beyond the end, whose lag would be below 0.
    """
    cause = _cause(facts, settings)
    return QueueVerdict(_HEALTH.get(cause, Health.UNKNOWN), cause, _sentence(cause, facts))


def _cause(facts: QueueFacts, settings: HealthSettings) -> Cause:
    if (unknown := why_unknown(facts, settings)) is not None:
        return unknown
    if facts.has_gone_back and (facts.behind_last or 0) > settings.lag_allowance:
        return Cause.WENT_BACK
    if facts.behind_lowest is not None and facts.behind_lowest <= settings.lag_allowance:
        return Cause.FALLS_BEHIND if _falls_behind(facts, settings) else Cause.CAUGHT_UP
    if facts.known_count < settings.least_count or facts.span_ms < settings.least_span_ms:
        return Cause.TOO_FEW_SAMPLES
    if not facts.has_moved:
        is_unheld = facts.held_count == 0 and facts.unheld_count >= settings.least_count
        return Cause.NOBODY_COMMITS if is_unheld else Cause.STANDS_STILL
    return lag_growth(facts)


def _falls_behind(facts: QueueFacts, settings: HealthSettings) -> bool:
    """Return whether a queue that was caught up has a lag now that has only grown since, or does not move any more."""
    if (facts.behind_last or 0) <= settings.lag_allowance:
        return False
    # With a low of 0, too little is known of the time since then.
    is_seen = facts.early_count + facts.later_count >= LEAST_LATER_COUNT and facts.lag_span_ms >= FLUCTUATION_MS
    is_seen = is_seen and facts.lowest_in(0, len(facts.lows)) != 0
    return is_stuck(facts, settings) or (is_seen and lag_growth(facts) is Cause.LAG_GROWS)


def is_stuck(facts: QueueFacts, settings: HealthSettings) -> bool:
    """Return whether the queue has unread messages and did not move for `stuck_ms`, up to its last known sample.

    A single sample never proves it, whatever `stuck_ms` is.
    """
    since_ms, last_ms = facts.still_from_ms, facts.last_ms
    return since_ms is not None and last_ms is not None and 0 < last_ms - since_ms >= settings.stuck_ms


def lag_growth(facts: QueueFacts) -> Cause:
    """Return whether the lag of a queue that moves grows, is steady or falls, or that the samples do not show it.

    Burrow compares the lags at all commits. Samples are not taken at commits, and between two of them the offset rests
    while messages arrive: the lag is a sawtooth, and seems to fall at each commit. So its lowest values are compared,
    which are those right after a commit: those of the second half of the time with those of the first.

    - A rise by more than 1 in 150 of the arrivals counts: in 5 minutes, by more than arrive in a second.
    - It is uncertain by the time from the last commit to the lowest sample, which is less with more samples.
    - A lag that does not rise from each eighth of the time to the next fluctuates. Then it must rise by more than a
      queue that is filled at random does.
    - A lag that falls again in the last quarter was a burst.
    - A lag that has risen in each eighth since a fall, at least half of all, rises by what it is above its start: both
      halves can have the same lowest value.
    """
    rise = facts.rise
    if rise is None:
        return Cause.TOO_FEW_SAMPLES
    fewest = min(facts.early_count, facts.later_count)
    least = max(1.0, facts.produced / 2 / LEAST_GROWTH)
    per_commit = facts.produced * COMMIT_MS / facts.lag_span_ms
    uncertain = max(least, per_commit * 3 / (fewest + 1))
    third, fourth = facts.lowest_in(4, 6), facts.lowest_in(6, 8)
    turn = max(least, per_commit * 12 / (fewest + 2))
    if rise < -uncertain or (third is not None and fourth is not None and fourth < third - turn):
        return Cause.LAG_FALLS
    if rise <= least:
        return Cause.LAG_STEADY if fewest > 1 else Cause.TOO_FEW_SAMPLES
    lows = [low for low in facts.lows if low is not None]
    if any(map(ge, lows, lows[1:])) and rise <= max(per_commit, 4 * sqrt(min(max(lows), facts.produced / 2))):
        return Cause.LAG_STEADY if facts.lag_span_ms >= FLUCTUATION_MS else Cause.TOO_FEW_SAMPLES
    return Cause.LAG_GROWS if rise > uncertain else Cause.TOO_FEW_SAMPLES


def why_unknown(facts: QueueFacts, settings: HealthSettings) -> Cause | None:
    """Return why the queue's present state is unknown, None when it is known."""
    if facts.sample_count == 0:
        return Cause.NO_SAMPLES
    if facts.is_beyond_max:
        return Cause.OFFSET_BEYOND_MAX
    if facts.is_none_stored:
        return Cause.NONE_STORED
    if facts.known_count == 0:
        return Cause.MAX_UNKNOWN if facts.has_stored else Cause.OFFSET_UNKNOWN
    # Without a known sample for longer than the known ones span, they are out of date.
    if _silent_ms(facts) > max(facts.span_ms, settings.least_span_ms):
        return Cause.NOT_SEEN_LATELY
    return None


def _silent_ms(facts: QueueFacts) -> int:
    return 0 if facts.until_ms is None or facts.last_ms is None else facts.until_ms - facts.last_ms


_SENTENCES = {
    Cause.CAUGHT_UP: "the lag was {lowest} at its lowest in this window; it is {last} behind",
    Cause.FALLS_BEHIND: "it was caught up, but {since}; it is {last} behind{growth}",
    Cause.WENT_BACK: "its offset went back from {facts.offset_highest} to {facts.offset_last}; it is {last} behind",
    Cause.NOBODY_COMMITS: "no member held the queue, and its offset {facts.offset_last} did not move in {span};"
    " it is {last} behind",
    Cause.STANDS_STILL: "its offset {facts.offset_last} did not move in {span}; it is {last} behind",
    Cause.LAG_GROWS: "its offset moves, but the lag grows; it is {last} behind{growth}",
    Cause.LAG_STEADY: "at its lowest, the lag is about the same in both halves of the time;"
    " it is {last} behind{growth}",
    Cause.LAG_FALLS: "the lag falls; it is {last} behind{growth}",
    Cause.NO_SAMPLES: "it has no samples",
    Cause.OFFSET_BEYOND_MAX: "the stored offset is beyond the end of the queue",
    Cause.NONE_STORED: "no offset is stored",
    Cause.OFFSET_UNKNOWN: "no sample shows the stored offset",
    Cause.MAX_UNKNOWN: "no sample shows both the stored offset and the end of the queue",
    Cause.NOT_SEEN_LATELY: "nothing is known about the last {silent}, after {samples} in {span}",
    Cause.TOO_FEW_SAMPLES: "it is {last} behind, and {samples} in {span} do not show more",
}


def _sentence(cause: Cause, facts: QueueFacts) -> str:
    sentence = _SENTENCES[cause].format(
        facts=facts,
        lowest=_messages(facts.behind_lowest),
        last=_messages(facts.behind_last),
        samples=counted(facts.known_count, "sample"),
        span=short_duration(facts.span_ms),
        silent=short_duration(_silent_ms(facts)),
        since=_since(facts),
        growth=_growth(cause, facts),
    )
    if facts.lost_highest:
        sentence += f"; up to {_messages(facts.lost_highest)} had been deleted unread"
    return sentence + ("; only samples since the end of the queue went back count" if facts.has_max_gone_back else "")


def _since(facts: QueueFacts) -> str:
    """Return what a queue that falls behind does since it was caught up."""
    still_ms = 0 if facts.still_from_ms is None or facts.last_ms is None else facts.last_ms - facts.still_from_ms
    # A lag that does not grow is not what decided.
    if still_ms and (still_ms >= facts.lag_span_ms or lag_growth(facts) is not Cause.LAG_GROWS):
        return f"its offset {facts.offset_last} has not moved for {short_duration(still_ms)}"
    return f"the lag has grown for {short_duration(facts.lag_span_ms)}"


def _growth(cause: Cause, facts: QueueFacts) -> str:
    per_minute = facts.growth_per_minute
    # After a burst, the lag falls although it is higher than before.
    if per_minute is None or (cause is Cause.LAG_FALLS and per_minute >= 0):
        return ""
    return f" ({per_minute:+,d} per minute)"


def _messages(count: int | None) -> str:
    return "unknown" if count is None else counted(count, "message")
