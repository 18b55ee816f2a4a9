"""The result of a change: owners before and after, moves, and their cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Assignment, sort_client_ids, sort_queues
from rmqctl.rules.allocate.pop_share import ALL_QUEUES


class UnknownWork(StrEnum):
    """Why the work in a queue is unknown, in addition to the reasons for a running group's unknown progress."""

    NEW_QUEUE = "NEW_QUEUE"
    NOT_SAMPLED = "NOT_SAMPLED"


Reason = Unknown | UnknownWork


class Spread(Struct, frozen=True):
    """How evenly something is distributed: the least and most that a client has, and the standard deviation."""

    least: float
    most: float
    deviation: float


class Balance(Struct, frozen=True):
    """How evenly a group is loaded, by number of queues, by their lag, and by the messages per second that arrive.

    A value of None means that a queue's number is unknown; `reasons` says why, by name.
    """

    queues: Spread
    lag: Spread | None
    rate: Spread | None
    reasons: Mapping[str, Reason]


class Move(Struct, frozen=True):
    """A queue with other owners than before. `duplicate_risk` is the most messages that could be consumed twice.

    An unknown risk has the value None and a reason; a queue without an owner before has the risk 0.
    """

    mq: MessageQueue
    before: tuple[str, ...]
    after: tuple[str, ...]
    duplicate_risk: int | None
    reason: Reason | None = None


class ClientShare(Struct, frozen=True):
    """One client: the number of its queues before and after, those that it gains and loses, and the work in its queues.

    Unknown work has the value None; `reasons` says why, by name.
    """

    client_id: str
    queue_count_before: int
    queue_count: int
    gained: tuple[MessageQueue, ...]
    lost: tuple[MessageQueue, ...]
    lag: int | None
    rate: float | None
    reasons: Mapping[str, Reason] = {}


class TrialOutcome(Struct, frozen=True):
    """One strategy's result for one change. `added` and `removed` are queues that the change adds and removes.

    `moved` does not include those. `unowned` queues have no owner, `shared` queues have several.
    """

    strategy: str
    before: Assignment
    after: Assignment
    clients: tuple[ClientShare, ...]
    moved: tuple[Move, ...]
    added: tuple[MessageQueue, ...]
    removed: tuple[MessageQueue, ...]
    unowned: tuple[MessageQueue, ...]
    shared: tuple[MessageQueue, ...]
    idle: tuple[str, ...]
    balance_before: Balance
    balance: Balance


class Work(Struct, frozen=True):
    """The known work in the queues: lag and messages per second by queue, with a reason when either is unknown.

    `missing` says, by name, why a value is unknown for all queues.
    """

    lag: Mapping[MessageQueue, int | None] = {}
    rate: Mapping[MessageQueue, float] = {}
    duplicate_risk: Mapping[MessageQueue, int | None] = {}
    reasons: Mapping[MessageQueue, Mapping[str, Reason]] = {}
    missing: Mapping[str, Reason] = {}


def compute_outcome(
    strategy: str, before: Assignment, after: Assignment, queues: Sequence[MessageQueue],
    queues_before: Sequence[MessageQueue], work: Work,
) -> TrialOutcome:  # fmt: skip
    """Compare two assignments."""
    sizes_before, sizes = _broker_sizes(queues_before), _broker_sizes(queues)
    old, new = _owners(before), _owners(after)
    wanted, had = set(queues), set(queues_before)
    moved = tuple(
        _move(queue, _owners_of(queue, old), _owners_of(queue, new), work)
        for queue in sort_queues(_moved(old, new, wanted & had))
    )
    return TrialOutcome(
        strategy=strategy,
        before=before,
        after=after,
        clients=tuple(
            _share(
                client_id, before.get(client_id, []), after.get(client_id, []), work,
                count_before=_count(before.get(client_id, ()), sizes_before),
                count=_count(after.get(client_id, ()), sizes),
            )
            for client_id in sort_client_ids({*before, *after})
        ),
        moved=moved,
        added=tuple(sort_queues(wanted - had)),
        removed=tuple(sort_queues(had - wanted)),
        unowned=tuple(queue for queue in sort_queues(wanted) if not _owners_of(queue, new)),
        shared=tuple(queue for queue in sort_queues(new) if len(set(new[queue])) > 1),
        idle=tuple(client_id for client_id, share in after.items() if not share),
        balance_before=compute_balance(before, queues_before, work),
        balance=compute_balance(after, queues, work),
    )  # fmt: skip


def count_moved(
    before: Assignment, after: Assignment, queues: Sequence[MessageQueue], queues_before: Sequence[MessageQueue]
) -> int:
    """Return how many queues have other owners than before."""
    return len(_moved(_owners(before), _owners(after), set(queues) & set(queues_before)))


def _moved(
    old: Mapping[MessageQueue, tuple[str, ...]], new: Mapping[MessageQueue, tuple[str, ...]],
    queues: Iterable[MessageQueue],
) -> list[MessageQueue]:  # fmt: skip
    return [
        queue
        for queue in queues
        if old.get(queue) != new.get(queue) or queue not in old
        # A client that pops from all queues of a broker, as others do, takes no queue from them.
        if not (_is_popped(queue, old) and _is_popped(queue, new))
        and set(_owners_of(queue, old)) != set(_owners_of(queue, new))
    ]


def compute_balance(assignment: Assignment, queues: Iterable[MessageQueue], work: Work) -> Balance:
    """Return how evenly the clients of an assignment of these queues are loaded."""
    reasons: dict[str, Reason] = {}
    sizes = _broker_sizes(queues)
    shares = list(assignment.values())
    return Balance(
        queues=_spread(_count(share, sizes) for share in shares),
        lag=_weighted("lag", shares, work.lag, work, reasons),
        rate=_weighted("rate", shares, work.rate, work, reasons),
        reasons=reasons,
    )


def _broker_sizes(queues: Iterable[MessageQueue]) -> Mapping[MessageQueue, int]:
    """Return how many queues of a topic each broker has, by the entry that means all of them."""
    return Counter(map(_all_beside, queues))


def _count(share: Sequence[MessageQueue], sizes: Mapping[MessageQueue, int]) -> int:
    """Return the number of queues in a share, in which one entry can mean all queues of a broker."""
    if not any(queue.queue_id == ALL_QUEUES for queue in share):
        return len(share)
    return sum(sizes.get(queue, 0) if queue.queue_id == ALL_QUEUES else 1 for queue in share)


def _weighted(
    name: str, shares: Sequence[Sequence[MessageQueue]], weights: Mapping[MessageQueue, float | None], work: Work,
    reasons: dict[str, Reason],
) -> Spread | None:  # fmt: skip
    sums = []
    for share in shares:
        total = _sum(name, share, weights, work, reasons)
        if total is None:
            return None
        sums.append(total)
    return _spread(sums)


def _sum(
    name: str, share: Sequence[MessageQueue], weights: Mapping[MessageQueue, float | None], work: Work,
    reasons: dict[str, Reason],
) -> float | None:  # fmt: skip
    """Return the work in all queues of a share, None when that of one queue is unknown."""
    found: list[float] = []
    for queue in share:
        weight = weights.get(queue)
        if weight is None:
            reasons[name] = _reason(name, queue, work)
            return None
        found.append(weight)
    return math.fsum(found)


def _reason(name: str, queue: MessageQueue, work: Work) -> Reason:
    if queue.queue_id < 0:
        return Unknown.POP  # an entry for all queues of a broker has no work of its own
    return work.reasons.get(queue, {}).get(name, work.missing.get(name, Unknown.NOT_REPORTED))


def _spread(values: Iterable[float]) -> Spread:
    every = list(values) or [0]
    mean = math.fsum(every) / len(every)
    return Spread(min(every), max(every), math.sqrt(math.fsum((value - mean) ** 2 for value in every) / len(every)))


def _owners(assignment: Assignment) -> dict[MessageQueue, tuple[str, ...]]:
    owners: dict[MessageQueue, list[str]] = {}
    for client_id, share in assignment.items():
        for queue in share:
            owners.setdefault(queue, []).append(client_id)
    return {queue: tuple(client_ids) for queue, client_ids in owners.items()}


def _owners_of(queue: MessageQueue, owners: Mapping[MessageQueue, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the owners of a queue, directly or with all queues of the broker."""
    return owners.get(queue) or owners.get(_all_beside(queue), ())


def _is_popped(queue: MessageQueue, owners: Mapping[MessageQueue, object]) -> bool:
    return queue not in owners and _all_beside(queue) in owners


def _all_beside(queue: MessageQueue) -> MessageQueue:
    return MessageQueue(queue.topic, queue.broker_name, ALL_QUEUES)


def _move(queue: MessageQueue, before: tuple[str, ...], after: tuple[str, ...], work: Work) -> Move:
    if not before:
        return Move(queue, before, after, 0)
    risk = work.duplicate_risk.get(queue)
    reason = None if risk is not None else _reason("duplicateRisk", queue, work)
    return Move(queue, before, after, risk, reason)


def _share(
    client_id: str, old: Sequence[MessageQueue], new: Sequence[MessageQueue], work: Work, *, count_before: int,
    count: int,
) -> ClientShare:  # fmt: skip
    held, had = set(new), set(old)
    reasons: dict[str, Reason] = {}
    lag = _sum("lag", new, work.lag, work, reasons)
    return ClientShare(
        client_id=client_id,
        queue_count_before=count_before,
        queue_count=count,
        gained=tuple(queue for queue in new if queue not in had),
        lost=tuple(queue for queue in old if queue not in held),
        lag=None if lag is None else int(lag),
        rate=_sum("rate", new, work.rate, work, reasons),
        reasons=reasons,
    )
