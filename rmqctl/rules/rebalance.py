"""What a client does at a rebalance: its share of a topic's queues, and what it takes and drops for it.

(RebalanceImpl.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from rmqctl.model.queue import MessageQueue

from .allocate import Allocate

# Strategies by which the places of clients in the list alone decide who gets what.
BY_PLACE = frozenset({"averagely", "circle"})


class Kept(StrEnum):
    """Why a client keeps what it holds of a topic, and takes nothing."""

    NO_ROUTE = "NO_ROUTE"
    NO_QUEUES = "NO_QUEUES"
    NO_CLIENTS = "NO_CLIENTS"
    STRATEGY_FAILED = "STRATEGY_FAILED"


class Share(Struct, frozen=True):
    """A client's share of a topic, or why there is none to be had; `detail` says more of what failed."""

    queues: frozenset[MessageQueue] = frozenset()
    kept: Kept | None = None
    detail: str | None = None


class Moves(Struct, frozen=True):
    """What a client drops and then takes, in this order; a queue that it takes anew is in both."""

    drop: tuple[MessageQueue, ...] = ()
    take: tuple[MessageQueue, ...] = ()


def compute_share(
    queues: Sequence[MessageQueue],
    client_ids: Sequence[str],
    own_id: str,
    allocate: Allocate,
    *,
    by_place: bool = False,
) -> Share:
    """Return a client's share. Queues and ids are sorted; ids may stand twice, as brokers list them.

    A broker that has not noticed for up to 120 s that a connection is gone lists its client twice. RocketMQ's clients
    then leave a share to nobody. Where places decide (`by_place`) this client counts itself once: that is its whole
    share among members that asked another broker, and takes no queue of those that asked the same one.

    Whatever goes wrong keeps what is held: an empty list tells of a broker that has just started.
    A client that is not among the ids has no share: the others have given its queues to themselves. What a strategy
    gives beside the queues of the topic is left out: by configuration a client is told all of its topics' at once.
    """
    if not queues:
        return Share(kept=Kept.NO_QUEUES)
    if not client_ids:
        return Share(kept=Kept.NO_CLIENTS)
    if own_id not in client_ids:
        return Share()
    try:
        own_place = client_ids.index(own_id)
        if by_place:
            client_ids = [each for at, each in enumerate(client_ids) if each != own_id or at == own_place]
        return Share(frozenset(queues).intersection(allocate(queues, client_ids).get(own_id, ())))
    except Exception as error:  # noqa: BLE001 - strategies may be other people's
        return Share(kept=Kept.STRATEGY_FAILED, detail=str(error) or type(error).__name__)


def share_of_all(queues: Sequence[MessageQueue]) -> Share:
    """Return the share of a broadcasting client: all there is."""
    return Share(frozenset(queues)) if queues else Share(kept=Kept.NO_QUEUES)


def find_expired(held: Mapping[MessageQueue, int], now_ms: int, expired_ms: int) -> frozenset[MessageQueue]:
    """Return the queues that nothing was done about for too long, by when each was last pulled or waited with."""
    return frozenset(mq for mq, last_pull_at_ms in held.items() if now_ms - last_pull_at_ms > expired_ms)


def compute_moves(held: Collection[MessageQueue], share: Share, expired: Collection[MessageQueue] = ()) -> Moves:
    """Return what to do about one topic's queues. A queue whose pulling has died is dropped and taken anew."""
    if share.kept is not None:
        return Moves()
    drop = sorted(mq for mq in held if mq not in share.queues or mq in expired)
    staying = set(held).difference(drop)
    return Moves(tuple(drop), tuple(sorted(share.queues - staying)))


def find_unsubscribed(held: Collection[MessageQueue], topics: Collection[str]) -> tuple[MessageQueue, ...]:
    """Return the queues of topics that are no longer subscribed to (RebalanceImpl.truncateMessageQueueNotMyTopic)."""
    return tuple(sorted(mq for mq in held if mq.topic not in topics))
