"""The allocation of queues after a change: the shares of one strategy compared with the present ones."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import (
    AllocationError,
    Assignment,
    CustomStrategy,
    Options,
    find_strategy,
    sort_client_ids,
    sort_queues,
)
from rmqctl.rules.group_state import agreed

from .changes import FIRST, TrialChanges, apply_changes
from .concerns import Concern, find_concerns, find_weight_concerns
from .group_snapshot import GroupSnapshot, consumed_part, share_all
from .outcome import TrialOutcome, UnknownWork, Work, compute_outcome, count_moved
from .room_concerns import find_room_concerns
from .strategy_match import StrategyMatch, compare_with_real

DEFAULT = "averagely"
_POP = "pop-share"


class Trial(Struct, frozen=True):
    """One strategy tried on one group; `match` has a value only for a running group.

    New clients and brokers without a name are simulated both as sorting last and as sorting first: `most_moved_count`
    is the larger number of queues that move, None when all names are known. Names in between can give other numbers.
    """

    snapshot: GroupSnapshot
    outcome: TrialOutcome
    match: StrategyMatch | None
    concerns: tuple[Concern, ...]
    most_moved_count: int | None


def current_strategy(snapshot: GroupSnapshot) -> str | None:
    """Return the strategy of a running group's members, None when they differ or do not report it."""
    live = snapshot.live
    if live is None:
        return None
    if live.is_popping:
        return _POP
    return agreed(live.strategies)


def try_strategy(
    snapshot: GroupSnapshot, changes: TrialChanges, strategy: str | None, options: Options, *, current: str | None,
    work: Work, custom: Mapping[str, CustomStrategy] | None = None,
) -> Trial:  # fmt: skip
    """Allocate a group's queues with a strategy after a change; `strategy` defaults to `current`, else averagely.

    Raises AllocationError when the strategy refuses, NotFoundError and UsageError for impossible changes.
    """
    wanted = strategy if strategy is not None else current if current is not None else DEFAULT
    later = apply_changes(snapshot, changes)
    own = current if current is not None else _stand_in(snapshot, wanted)
    own_error = None
    try:
        before = _before(snapshot, own, options, custom)
    except AllocationError as error:
        # For a running group, users can try strategies other than its own, which may be known only to its clients.
        if snapshot.live is None or own == wanted:
            raise
        own_error, before = str(error), _before(snapshot, wanted, options, custom)
    real = _real(snapshot, before)
    known = _with_work(options, real or before, work)
    chosen = find_strategy(wanted, _for_those_who_stay(known, snapshot, later), custom)
    after = consumed_part(later, share_all(later, chosen))
    outcome = compute_outcome(
        chosen.name, real or before, after, later.queues, snapshot.queues, _with_new_queues(work, later, snapshot)
    )
    is_one = own_error is None and (snapshot.live is None or len(snapshot.live.strategies) < 2)
    match = compare_with_real(snapshot, before if is_one else None, options)
    most = None
    if changes.has_unnamed:
        other = apply_changes(snapshot, _sorted_first(changes))
        other_after = consumed_part(other, share_all(other, chosen))
        other_count = count_moved(real or before, other_after, other.queues, snapshot.queues)
        most = max(other_count, len(outcome.moved))
    concerns = (
        *find_concerns(snapshot, later, changes, outcome, match, most_moved_count=most, own_error=own_error),
        *(find_room_concerns(later, chosen.name, options) if chosen.name not in (custom or {}) else ()),
        *(find_weight_concerns(snapshot, known.weights) if chosen.name == "lag-weighted" else ()),
    )
    return Trial(later, outcome, match, concerns, most)


def _stand_in(snapshot: GroupSnapshot, wanted: str) -> str:
    """Return the strategy assumed for a group: RocketMQ's default when it has members, else the one that is tried.

    So all strategies are tried from the same starting point.
    """
    return DEFAULT if snapshot.live is not None and snapshot.live.members else wanted


def _sorted_first(changes: TrialChanges) -> TrialChanges:
    return replace(changes, new_prefix=FIRST)


def _before(
    snapshot: GroupSnapshot, strategy: str, options: Options, custom: Mapping[str, CustomStrategy] | None
) -> Assignment:
    """Return the strategy's allocation before the change, empty without clients or queues."""
    if not snapshot.client_ids or not snapshot.queues:
        return {}
    # Sticky needs a previous allocation, which does not exist at the start: RocketMQ's default replaces it.
    name = DEFAULT if strategy == "sticky" and not options.previous else strategy
    return consumed_part(snapshot, share_all(snapshot, find_strategy(name, options, custom)))


def _real(snapshot: GroupSnapshot, computed: Assignment) -> Assignment | None:
    """Return the queues that clients report to hold, None unless every client has reported.

    For topics without a subscription it is the computed allocation: no client holds those queues, so that none of them
    seem to move from no owner.
    """
    live = snapshot.live
    if live is None:
        return None
    ids = sort_client_ids(set(snapshot.client_ids))
    if not ids or live.silent or live.members.keys() != set(ids):
        return None
    topics = {topic for topic in snapshot.topics if live.is_wanted(topic)}
    return {
        client_id: sort_queues(
            (
                *(mq for mq in live.members[client_id].held if mq.topic in topics),
                *(mq for mq in computed.get(client_id, ()) if mq.topic not in topics),
            )
        )
        for client_id in ids
    }


def _with_work(options: Options, before: Assignment, work: Work) -> Options:
    weights = dict(options.weights) or {mq: float(lag) for mq, lag in work.lag.items() if lag is not None}
    return replace(options, previous=options.previous or before, weights=weights)


def _for_those_who_stay(options: Options, snapshot: GroupSnapshot, later: GroupSnapshot) -> Options:
    """Return the options without the queues that are configured for clients that leave."""
    gone = set(snapshot.client_ids) - set(later.client_ids)
    if not isinstance(options.configured, Mapping) or not gone:
        return options
    left = {client_id: queues for client_id, queues in options.configured.items() if client_id not in gone}
    return replace(options, configured=left)


def _with_new_queues(work: Work, later: GroupSnapshot, snapshot: GroupSnapshot) -> Work:
    """Return the work, extended by new queues: their lag is 0 and their rate unknown."""
    new: set[MessageQueue] = set(later.queues) - set(snapshot.queues)
    if snapshot.live is None or not new:
        return work
    return replace(
        work,
        lag={**work.lag, **dict.fromkeys(new, 0)},
        reasons={**work.reasons, **{mq: {"rate": UnknownWork.NEW_QUEUE} for mq in new}},
    )
