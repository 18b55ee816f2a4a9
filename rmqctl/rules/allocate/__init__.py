"""Allocation of queues to clients: RocketMQ's strategies and two of our own, each for a whole group in one pass.

All accept sorted queues and sorted client ids, because clients sort them before they allocate.
"""

from __future__ import annotations

from .base import Allocate, AllocationError, Assignment, sort_client_ids, sort_queues
from .pop_share import ALL_QUEUES
from .strategies import (
    CustomStrategy,
    Options,
    Strategy,
    class_of_strategy,
    find_strategy,
    strategy_of_class,
    strategy_words,
)

__all__ = [
    "ALL_QUEUES",
    "Allocate",
    "AllocationError",
    "Assignment",
    "CustomStrategy",
    "Options",
    "Strategy",
    "class_of_strategy",
    "find_strategy",
    "sort_client_ids",
    "sort_queues",
    "strategy_of_class",
    "strategy_words",
]
