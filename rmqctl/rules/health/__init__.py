"""How a queue and a group are doing, judged by samples of their offsets over a window of time.

Samples become facts (`facts_of`), and facts a verdict (`judge`). Facts are plain numbers that window functions compute
as well: who has millions of samples in tables makes the same facts there, and takes only the verdict from here. All
times are epoch ms of one clock; where it is set back the samples interleave, and a step back can be taken for one
ahead, or the other way round.

The rules are those of Burrow (linkedin/Burrow, core/internal/evaluator/caching.go); `judge` says where they differ for
RocketMQ.
"""

from __future__ import annotations

from .facts import QueueFacts, facts_of
from .group import WORST_FIRST, GroupVerdict, judge_group, worst_of
from .observation import Observation, in_order, of_one_log
from .stuck import Stuck, find_stuck
from .trend import Trend, compute_trend
from .verdict import Cause, Health, Settings, Verdict, judge

__all__ = [
    "WORST_FIRST",
    "Cause",
    "GroupVerdict",
    "Health",
    "Observation",
    "QueueFacts",
    "Settings",
    "Stuck",
    "Trend",
    "Verdict",
    "compute_trend",
    "facts_of",
    "find_stuck",
    "in_order",
    "judge",
    "judge_group",
    "of_one_log",
    "worst_of",
]
