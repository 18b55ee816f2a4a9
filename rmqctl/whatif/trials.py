"""Run every requested strategy on every group, with the options combined from all sources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.consumer.rules.strategies import NOT_ALONE
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.rules.allocate import Allocate, AllocationError, CustomStrategy, Options, find_strategy
from rmqctl.rules.allocate.strategies import canonical_name
from rmqctl.text.names import hint_for
from rmqctl.text.words import listed

from .allocation import DEFAULT, Trial, current_strategy, try_strategy
from .changes import TrialChanges
from .group_snapshot import GroupSnapshot
from .live_snapshot import work_of
from .room_concerns import is_in_room

# A plugin's resolver: accepts "broker" or "client" and a name, returns the room.
SiteResolver = Callable[[str, str], str | None]


# A ring of this many nodes needs a gigabyte.
_MOST_NODES = 10_000_000


class TrialRequest(Struct, frozen=True):
    """One group to try, with the strategy and options of its description, if it has one.

    `site_of` is the character that ends the room in names, a plugin's resolver, or a mapping of names to rooms.
    """

    snapshot: GroupSnapshot
    strategy: str | None = None
    options: Options = Options()
    site_of: str | Mapping[str, str] = "-"


def try_all(
    requests: Sequence[TrialRequest], changes: TrialChanges, strategies: Sequence[str], given: Mapping[str, Any], *,
    custom: Mapping[str, CustomStrategy], resolvers: Mapping[str, SiteResolver],
) -> list[Trial]:  # fmt: skip
    """Return a trial for each strategy on each group, in order; without a strategy, the group's own.

    `given` are options that override those of descriptions. Raises UsageError for input that a strategy refuses (with
    the number of the group if there are several), and for given options that no strategy uses; NotFoundError for a
    given room without queues.
    """
    trials = []
    for number, request in enumerate(requests, 1):
        options = _options(request, given, resolvers)
        current = current_strategy(request.snapshot)
        current = request.strategy if current is None else current
        work = work_of(request.snapshot)
        for strategy in strategies or (None,):
            try:
                trials.append(
                    try_strategy(
                        request.snapshot, changes, strategy, options, current=current, work=work, custom=custom
                    )
                )
            except AllocationError as error:
                where = f"Group {number}: " if len(requests) > 1 else ""
                if request.snapshot.live is not None and strategy is None and current is not None:
                    where = f"The members use the strategy {current}. "
                raise UsageError(f"{where}{error}", hint=error.hint) from None
    _require_taken(given, requests, trials)
    _require_rooms(given.get("rooms", ()), trials)
    return trials


# The command-line option, and the strategies that use it, by the name of the field.
TAKERS = {
    "virtual_nodes": ("--virtual-nodes", ("consistent-hash", "machine-room-nearby", "pop-share")),
    "rooms": ("--room", ("machine-room",)),
    "site_of": ("--site-of", ("machine-room-nearby",)),
    "inner": ("--inner", ("machine-room-nearby", "pop-share")),
    "share_count": ("--pop-share", ("pop-share",)),
}
# A running group's shares are also compared with strategies that use these, whichever is tried.
_COMPARED = frozenset({"virtual_nodes", "site_of", "inner"})


def _require_taken(given: Mapping[str, Any], requests: Sequence[TrialRequest], trials: Sequence[Trial]) -> None:
    """Raise UsageError for an option that no strategy uses: the user expects that it changes the result."""
    used = {trial.outcome.strategy for trial in trials}
    used |= {canonical_name(own_strategy(request)) for request in requests}
    is_live = any(request.snapshot.live is not None for request in requests)
    for name in given:
        option, takers = TAKERS[name]
        if used.isdisjoint(takers) and not (is_live and name in _COMPARED):
            tried = ", ".join(dict.fromkeys(trial.outcome.strategy for trial in trials))
            raise UsageError(f"{option} is for {' and '.join(takers)}, not for {tried}.", hint="Add --strategy.")


def _require_rooms(rooms: Sequence[str], trials: Sequence[Trial]) -> None:
    """Raise NotFoundError for a given room without queues, when they would be allocated.

    RocketMQ silently allocates the other rooms. For rooms of a description this is a concern (find_room_concerns).
    """
    for trial in trials:
        if trial.outcome.strategy == "machine-room":
            require_rooms(rooms, {mq.broker_name for mq in trial.snapshot.queues})


def require_rooms(rooms: Sequence[str], broker_names: Collection[str]) -> None:
    """Raise NotFoundError for a room that has no brokers by the rule of machine-room."""
    for room in rooms:
        if not any(is_in_room(name, room) for name in broker_names):
            sentence = f"Room {room} has no queues: no broker is named {room}@NAME."
            raise NotFoundError("Room", room).reworded(sentence, hint=f"Brokers: {listed(sorted(broker_names))}.")


def require_known(strategies: Sequence[str], custom: Mapping[str, CustomStrategy]) -> None:
    """Raise UsageError for a strategy that does not exist, before any server is asked."""
    for name in strategies:
        try:
            find_strategy(name, Options(configured={"any": ()}, rooms=("any",)), custom)
        except AllocationError as error:
            raise UsageError(str(error), hint=error.hint) from None


def own_strategy(request: TrialRequest) -> str:
    """Return a group's strategy: its members', its description's, else RocketMQ's default."""
    current = current_strategy(request.snapshot)
    return next(name for name in (current, request.strategy, DEFAULT) if name is not None)


def member_strategy_of(request: TrialRequest, strategy: str) -> Allocate:
    """Return the function of a strategy that members can use, with the request's options. Raises UsageError."""
    canonical = canonical_name(strategy)
    if canonical in NOT_ALONE:
        raise UsageError(f"The strategy {strategy} cannot be simulated: {NOT_ALONE[canonical]}.")
    try:
        found = find_strategy(strategy, _options(request, {}, {}))
    except AllocationError as error:
        raise UsageError(str(error), hint=error.hint) from None
    if found.may_repeat:
        text = "a queue may have several owners, or no owner: moves cannot be counted."
        raise UsageError(f"With the strategy {strategy} {text}")
    return found.allocate


def _options(request: TrialRequest, given: Mapping[str, Any], resolvers: Mapping[str, SiteResolver]) -> Options:
    options = {**given}
    live = request.snapshot.live
    if live is not None and live.pop_share_count is not None:
        options.setdefault("share_count", live.pop_share_count)
    virtual_nodes = options.get("virtual_nodes", request.options.virtual_nodes)
    if virtual_nodes * len(request.snapshot.client_ids) > _MOST_NODES:
        raise UsageError(f"virtualNodes {virtual_nodes} is too large: all clients together can have {_MOST_NODES}.")
    site_of: str | Mapping[str, str] = options.pop("site_of", request.site_of)
    return replace(
        request.options,
        broker_site=resolve_site("broker", site_of, resolvers),
        client_site=resolve_site("client", site_of, resolvers),
        **options,
    )


def resolve_site(
    kind: str, site_of: str | Mapping[str, str], resolvers: Mapping[str, SiteResolver]
) -> Callable[[str], str | None]:
    """Return a function that resolves the rooms of brokers, or of clients. Raises UsageError."""
    if not isinstance(site_of, str):
        return site_of.get
    if site_of in resolvers:
        return partial(resolvers[site_of], kind)
    if len(site_of) == 1 and not site_of.isalnum():
        return lambda name: name.partition(site_of)[0]
    raise UsageError(
        f"siteOf {site_of!r} is neither a separator nor a plugin's site resolver.",
        hint=hint_for(site_of, resolvers, otherwise="Use for example -, for rooms as in IDC1-broker-a."),
    )
