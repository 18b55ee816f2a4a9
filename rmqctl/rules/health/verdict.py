"""The verdict on a queue from its facts: one of Burrow's five, or UNKNOWN."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

from .facts import QueueFacts


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
    WENT_BACK = "WENT_BACK"
    NOBODY_COMMITS = "NOBODY_COMMITS"
    STANDS_STILL = "STANDS_STILL"
    LAG_NEVER_FALLS = "LAG_NEVER_FALLS"
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
    Cause.WENT_BACK: Health.REWIND,
    Cause.NOBODY_COMMITS: Health.STOP,
    Cause.STANDS_STILL: Health.STALL,
    Cause.LAG_NEVER_FALLS: Health.WARN,
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


class QueueVerdict(Struct, frozen=True):
    """The health of a queue, the rule that decided, and a short sentence with the numbers."""

    health: Health
    cause: Cause
    reason: str


def judge(facts: QueueFacts, settings: HealthSettings = _DEFAULTS) -> QueueVerdict:
    """Judge a queue by the first rule that applies.

    1. OK: at some moment, no further behind than the allowance. As in Burrow, a group that stops or is sent back right
       after catching up is OK until that moment leaves the window.
    2. REWIND: the offset is below its highest. Burrow calls every step back a rewind. Here a step back that was caught
       up is ignored: orderly groups may step back, and applying a reset briefly shows the old offset.
    3. STOP: no member commits, for the whole window. Burrow compares the time of the last commit with the window, but
       RocketMQ's brokers do not report that time. A member commits the offset of each queue that it holds every 5 s,
       moved or not. So no member commits when no sample saw the queue held, at least `least_count` samples saw it not
       held, and the offset did not move. When it is unknown whether the queue was held, the verdict is STALL, which
       claims less. lastTimestamp cannot show a stop: the last commit is later than that by an unknown time.
    4. STALL: the offset is the same in all samples.
    5. WARN: the offset moves, but the lag never falls from one sample to the next. Else OK.

    The reasons for UNKNOWN precede the first rule, and too few samples precede the third. What Burrow calls OK without
    enough samples is UNKNOWN here, and so is an offset beyond the end, whose lag would be below 0.
    """
    cause = _cause(facts, settings)
    return QueueVerdict(_HEALTH.get(cause, Health.UNKNOWN), cause, _sentence(cause, facts))


def _cause(facts: QueueFacts, settings: HealthSettings) -> Cause:
    if (unknown := why_unknown(facts, settings)) is not None:
        return unknown
    if facts.behind_lowest is not None and facts.behind_lowest <= settings.lag_allowance:
        return Cause.CAUGHT_UP
    if facts.has_gone_back:
        return Cause.WENT_BACK
    if facts.known_count < settings.least_count or facts.span_ms < settings.least_span_ms:
        return Cause.TOO_FEW_SAMPLES
    if not facts.has_moved:
        is_unheld = facts.held_count == 0 and facts.unheld_count >= settings.least_count
        return Cause.NOBODY_COMMITS if is_unheld else Cause.STANDS_STILL
    return Cause.LAG_FALLS if facts.has_lag_fallen else Cause.LAG_NEVER_FALLS


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
    Cause.CAUGHT_UP: "it got down to {lowest} behind in this window, and is {last} behind now",
    Cause.WENT_BACK: "its offset went back from {facts.offset_highest} to {facts.offset_last}",
    Cause.NOBODY_COMMITS: "no member held the queue, and its offset {facts.offset_last} did not move in {span};"
    " it is {last} behind",
    Cause.STANDS_STILL: "its offset {facts.offset_last} did not move in {span}; it is {last} behind",
    Cause.LAG_NEVER_FALLS: "its offset moves, but the lag did not fall in {span}; it is {last} behind",
    Cause.LAG_FALLS: "it consumes, and the lag fell at times; it is {last} behind",
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
    )
    if facts.lost_highest:
        sentence += f"; up to {_messages(facts.lost_highest)} had been deleted unread"
    return sentence + ("; only samples since the end of the queue went back count" if facts.has_max_gone_back else "")


def _messages(count: int | None) -> str:
    return "unknown" if count is None else counted(count, "message")
