"""The table of strategies: their names here and in RocketMQ, and the options of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.queue import MessageQueue
from rmqctl.text.names import hint_for

from .averagely import allocate_averagely, allocate_by_circle
from .base import Allocate, AllocationError, Assignment, require_ids
from .configured import allocate_by_config
from .consistent_hash import VIRTUAL_NODES, allocate_by_consistent_hash
from .lag_weighted import allocate_by_lag
from .machine_room import SiteOf, allocate_by_machine_room, allocate_nearby, site_before
from .pop_share import allocate_for_pop
from .sticky import allocate_sticky

# A plugin's strategy: like Allocate, plus the options as given.
CustomStrategy = Callable[[Sequence[MessageQueue], Sequence[str], Mapping[str, Any]], Assignment]


class Options(Struct, frozen=True):
    """The options of strategies apart from queues and clients; each strategy uses its own.

    `configured` are ByConfig's queues, `inner` is the strategy within machine-room-nearby and pop-share, `weights` the
    work in each queue, `previous` the queues that each client had. `custom` is for plugins' strategies.
    """

    virtual_nodes: int = VIRTUAL_NODES
    rooms: Collection[str] = ()
    configured: Sequence[MessageQueue] | Mapping[str, Sequence[MessageQueue]] | None = None
    broker_site: SiteOf = site_before("-")
    client_site: SiteOf = site_before("-")
    inner: str = "averagely"
    share_count: int = 0
    previous: Mapping[str, Sequence[MessageQueue]] = {}
    weights: Mapping[MessageQueue, float] = {}
    custom: Mapping[str, Any] = {}


class Strategy(Struct, frozen=True):
    """A strategy that can be run. `may_repeat`: by design, a queue can have several owners, or no owner."""

    name: str
    allocate: Allocate
    may_repeat: bool = False


def _nearby(options: Options) -> Allocate:
    return partial(
        allocate_nearby, inner=_inner(options), broker_site=options.broker_site, client_site=options.client_site
    )


def _for_pop(options: Options) -> Allocate:
    return partial(allocate_for_pop, inner=_inner(options), share_count=options.share_count)


def _inner(options: Options) -> Allocate:
    name = _plain(options.inner)
    if name not in _INNER:
        sentence = f"Strategy {options.inner!r} cannot be used within another strategy."
        raise AllocationError(sentence, hint=hint_for(options.inner, sorted(_INNER)))
    return _BUILT_IN[name](options)


def _configured(options: Options) -> Allocate:
    if not options.configured:
        raise AllocationError(
            "The strategy config needs the queues of each client.", hint='Use --spec with "options": {"queues": [...]}.'
        )
    return partial(allocate_by_config, configured=options.configured)


def _machine_room(options: Options) -> Allocate:
    if not options.rooms:
        raise AllocationError(
            "The strategy machine-room needs the rooms.", hint="Add --room ROOM; its brokers are named ROOM@NAME."
        )
    return partial(allocate_by_machine_room, rooms=options.rooms)


_BUILT_IN: dict[str, Callable[[Options], Allocate]] = {
    "averagely": lambda _: allocate_averagely,
    "circle": lambda _: allocate_by_circle,
    "consistent-hash": lambda options: partial(
        allocate_by_consistent_hash, virtual_nodes=options.virtual_nodes
    ),
    "config": _configured,
    "machine-room": _machine_room,
    "machine-room-nearby": _nearby,
    "sticky": lambda options: partial(allocate_sticky, previous=options.previous),
    "lag-weighted": lambda options: partial(allocate_by_lag, weights=options.weights),
    "pop-share": _for_pop,
}  # fmt: skip
_INNER = frozenset({"averagely", "circle", "consistent-hash", "sticky", "lag-weighted"})
_MAY_REPEAT = frozenset({"config", "machine-room", "pop-share"})
_NEARBY = "machine-room-nearby"

# AllocateMessageQueueStrategy.getName().
_WIRE_NAMES = {
    "AVG": "averagely",
    "AVG_BY_CIRCLE": "circle",
    "CONSISTENT_HASH": "consistent-hash",
    "CONFIG": "config",
    "MACHINE_ROOM": "machine-room",
    "MACHINE_ROOM_NEARBY": _NEARBY,
    "POP_SHARE": "pop-share",
}
_CLASSES = {
    "AllocateMessageQueueAveragely": "averagely",
    "AllocateMessageQueueAveragelyByCircle": "circle",
    "AllocateMessageQueueConsistentHash": "consistent-hash",
    "AllocateMessageQueueByConfig": "config",
    "AllocateMessageQueueByMachineRoom": "machine-room",
    "AllocateMachineRoomNearby": _NEARBY,
}


def strategy_words() -> tuple[str, ...]:
    """Return the names of the built-in strategies."""
    return tuple(_BUILT_IN)


def canonical_name(name: str) -> str:
    """Return rmqctl's name of a strategy from any of its names; an unknown name is returned unchanged."""
    return _canonical(name)[0]


def strategy_of_class(class_name: str) -> str | None:
    """Return the strategy of a RocketMQ class, by the class name without the package; None for other classes."""
    return _CLASSES.get(class_name)


def class_of_strategy(name: str) -> str:
    """Return the RocketMQ class of a strategy; the strategy's own name when RocketMQ does not have it."""
    return next((class_name for class_name, known in _CLASSES.items() if known == name), name)


def find_strategy(
    name: str, options: Options | None = None, custom: Mapping[str, CustomStrategy] | None = None
) -> Strategy:
    """Return a strategy by its name here, its name in RocketMQ (AVG, MACHINE_ROOM_NEARBY-AVG), or its class name.

    `custom` are plugins' strategies, which precede ours. Raises AllocationError for an unknown name, and for missing
    options.
    """
    options, custom = options or Options(), custom or {}
    if name in custom:
        return Strategy(name, partial(_run_custom, custom[name], options.custom), may_repeat=True)
    canonical, inner = _canonical(name)
    if canonical not in _BUILT_IN:
        known = [*_BUILT_IN, *custom]
        raise AllocationError(f"Unknown strategy {name!r}.", hint=hint_for(name, known))
    if inner is not None:
        options = replace(options, inner=inner)
    allocate = _BUILT_IN[canonical](options)
    if canonical != "config":  # which checks nothing
        allocate = partial(_allocate_to_named, allocate)
    return Strategy(canonical, allocate, may_repeat=canonical in _MAY_REPEAT)


def _allocate_to_named(allocate: Allocate, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> Assignment:
    require_ids(client_ids)
    return allocate(queues, client_ids)


def _run_custom(
    strategy: CustomStrategy, options: Mapping[str, Any], queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> Assignment:
    return strategy(queues, client_ids, options)


def _canonical(name: str) -> tuple[str, str | None]:
    """Return our name, and the inner strategy where RocketMQ's name contains it."""
    outer, dash, inner = name.partition("-")
    if dash and outer == "MACHINE_ROOM_NEARBY":
        return _NEARBY, inner
    return _plain(name), None


def _plain(name: str) -> str:
    return _WIRE_NAMES.get(name) or _CLASSES.get(name.rpartition(".")[2]) or name
