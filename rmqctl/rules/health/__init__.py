"""The health of a queue and a group, judged by samples of their offsets over a window of time.

Samples become facts (`facts_of`), and facts a verdict (`judge`). Facts are plain numbers that SQL window functions can
compute as well: with millions of samples in tables, compute the facts there, and only the verdict here. All times are
epoch ms of one clock. If the clock is set back, samples interleave, and steps of offsets can be seen in the wrong
direction.

The rules are those of Burrow (linkedin/Burrow, core/internal/evaluator/caching.go); `judge` describes where they differ
for RocketMQ.
"""

from __future__ import annotations

from .facts import QueueFacts, facts_of
from .group import WORST_FIRST, GroupVerdict, judge_group, worst_of
from .observation import Observation, in_order, of_one_log
from .stuck import Stuck, find_stuck
from .trend import Trend, compute_trend
from .verdict import Cause, Health, HealthSettings, QueueVerdict, judge

__all__ = [
    "WORST_FIRST",
    "Cause",
    "GroupVerdict",
    "Health",
    "HealthSettings",
    "Observation",
    "QueueFacts",
    "QueueVerdict",
    "Stuck",
    "Trend",
    "compute_trend",
    "facts_of",
    "find_stuck",
    "in_order",
    "judge",
    "judge_group",
    "of_one_log",
    "worst_of",
]
