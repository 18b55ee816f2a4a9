"""A client's rebalance: its share of a topic's queues, and the queues that it adds and drops (RebalanceImpl)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from msgspec import Struct

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Allocate

# Strategies where only the places of clients in the list decide their shares.
BY_PLACE = frozenset({"averagely", "circle"})


class UnchangedReason(StrEnum):
    """Why a client keeps its queues of a topic unchanged."""

    NO_ROUTE = "NO_ROUTE"
    NO_QUEUES = "NO_QUEUES"
    NO_CLIENTS = "NO_CLIENTS"
    STRATEGY_FAILED = "STRATEGY_FAILED"


class Share(Struct, frozen=True):
    """A client's share of a topic, or why it cannot be computed; `detail` describes a failure."""

    queues: frozenset[MessageQueue] = frozenset()
    kept: UnchangedReason | None = None
    detail: str | None = None


class QueueMoves(Struct, frozen=True):
    """The queues that a client drops and then adds, in this order; a queue that is restarted is in both."""

    drop: tuple[MessageQueue, ...] = ()
    take: tuple[MessageQueue, ...] = ()


def compute_share(
    queues: Sequence[MessageQueue],
    client_ids: Sequence[str],
    own_id: str,
    allocate: Allocate,
    *,
    by_place: bool = False,
    known: frozenset[MessageQueue] | None = None,
) -> Share:
    """Return a client's share. Queues and ids are sorted; ids may be duplicated, as brokers list them.

    A broker that has not noticed a lost connection (for up to 120 s) lists its client twice. RocketMQ's clients then
    leave one share without an owner. Where places decide (`by_place`), this client counts itself once. That gives it
    its whole share among members that asked another broker, and no queue of those that asked the same one.

    On any failure the client keeps its queues: an empty list can come from a broker that has just started. A client
    that is not among the ids has no share, because the others have assigned its queues to themselves. Queues of other
    topics in a strategy's result are ignored: a configuration lists the queues of all topics together. `known` are the
    queues as a set, if the caller has it.
    """
    if not queues:
        return Share(kept=UnchangedReason.NO_QUEUES)
    if not client_ids:
        return Share(kept=UnchangedReason.NO_CLIENTS)
    if own_id not in client_ids:
        return Share()
    try:
        own_place = client_ids.index(own_id)
        if by_place:
            client_ids = [each for at, each in enumerate(client_ids) if each != own_id or at == own_place]
        known = frozenset(queues) if known is None else known
        return Share(known.intersection(allocate(queues, client_ids).get(own_id, ())))
    except Exception as error:  # noqa: BLE001 - strategies may come from plugins
        return Share(kept=UnchangedReason.STRATEGY_FAILED, detail=str(error) or type(error).__name__)


def share_of_all(queues: Sequence[MessageQueue]) -> Share:
    """Return the share of a broadcasting client: all queues."""
    return Share(frozenset(queues)) if queues else Share(kept=UnchangedReason.NO_QUEUES)


def compute_moves(held: Collection[MessageQueue], share: Share, expired: Collection[MessageQueue] = ()) -> QueueMoves:
    """Return the moves for one topic's queues. An expired queue is dropped and added again."""
    if share.kept is not None:
        return QueueMoves()
    drop = sorted(mq for mq in held if mq not in share.queues or mq in expired)
    staying = set(held).difference(drop)
    return QueueMoves(tuple(drop), tuple(sorted(share.queues - staying)))


def find_unsubscribed(held: Collection[MessageQueue], topics: Collection[str]) -> tuple[MessageQueue, ...]:
    """Return the held queues of topics without a subscription (RebalanceImpl.truncateMessageQueueNotMyTopic)."""
    return tuple(sorted(mq for mq in held if mq.topic not in topics))
