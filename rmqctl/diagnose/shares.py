"""The shares of queues that members should hold, where they can be computed. Pure."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.rules.allocate import AllocationError, Assignment, Options, find_strategy
from rmqctl.whatif.scene import Scene, share_all

from .facts import GroupFacts

# Those that need no options, which members do not report.
_COMPUTABLE = frozenset({"averagely", "circle"})


class ComputedShares(Struct, frozen=True):
    """What the one strategy of a group's members gives each of them."""

    scene: Scene
    strategy: str
    shares: Assignment


def compute_shares(facts: GroupFacts) -> ComputedShares | None:
    """Return the shares of a group's queues, None where its members do not share, or by what is not computable."""
    scene = facts.scene
    if scene is None or scene.live is None or facts.is_popping or facts.is_broadcasting or not facts.is_online:
        return None
    (strategy, *others) = sorted(scene.live.strategies) or [""]
    if others or strategy not in _COMPUTABLE:
        return None  # ALO001, or a strategy whose options are unknown
    try:
        return ComputedShares(scene, strategy, share_all(scene, find_strategy(strategy, Options())))
    except AllocationError:
        return None
